//! Values that the kernel program and user space share through maps. Their layout is part of the
//! contract between the two; sizes are asserted below.

use crate::bucket::{Limits, Refusal};
use crate::wire::Layer;

/// Whose bucket a packet falls into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// One bucket for the whole interface.
    Class,
    /// One bucket for each flow.
    Flow,
}

/// What the program does to the packets of an interface.
///
/// It stands in an array of two banks with the index of the active one beside it, so that a
/// packet sees the old policy or the new one and never half of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Policy {
    /// The limits of each bucket.
    pub limits: Limits,
    key: u32,
    layer: u32,
}

impl Policy {
    /// Puts a policy together.
    pub const fn new(limits: Limits, key: Key, layer: Layer) -> Policy {
        let key = match key {
            Key::Class => 0,
            Key::Flow => 1,
        };
        let layer = match layer {
            Layer::Ethernet => 0,
            Layer::Ip => 1,
        };
        Policy { limits, key, layer }
    }

    /// Whose bucket a packet falls into.
    #[inline(always)]
    pub const fn key(&self) -> Key {
        if self.key == 0 { Key::Class } else { Key::Flow }
    }

    /// Whether the interface's frames have a link header.
    #[inline(always)]
    pub const fn layer(&self) -> Layer {
        if self.layer == 0 {
            Layer::Ethernet
        } else {
            Layer::Ip
        }
    }
}

/// Banks of the policy.
pub const POLICY_BANKS: u32 = 2;

/// The bucket of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Bucket {
    /// See [`crate::slot`]; a [`crate::time::Moment`].
    pub free_at: u64,
    /// The `skb->priority` that names the hold's queue for this key (htb), or 0 (fq: the
    /// departure time is all the hold needs).
    pub queue: u64,
}

/// Buckets that no key has to be looked up for: see [`SharedBucket`].
pub const SHARED_BUCKETS: u32 = 2;

/// The buckets in the array of shared buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedBucket {
    /// The bucket of the whole class.
    Class = 0,
    /// The one bucket for all keys that found the table of keys full.
    Overflow = 1,
}

/// Keys the table of flows holds. At 64 B of key, value and link each it takes 8 to 16 MiB.
pub const FLOW_TABLE: u32 = 131_072;

/// The most queues a hold can have (htb; see `hold` in leaky-user).
pub const MAX_QUEUES: u32 = 4_096;

/// A count of packets, twice: as the interface's frames and as the kernel's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Tally {
    /// Frames on the wire: every segment of a GSO packet counts.
    pub packets: u64,
    /// Bytes on the wire, headers counted for every segment: what the limit charges.
    pub bytes: u64,
    /// Kernel buffers: what qdiscs count as packets.
    pub buffers: u64,
    /// Bytes of kernel buffers: what a virtual interface counts as bytes.
    pub buffer_bytes: u64,
}

impl Tally {
    /// Adds another tally, as when the tallies of all CPUs are summed.
    pub fn add(&mut self, other: &Tally) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.buffers += other.buffers;
        self.buffer_bytes += other.buffer_bytes;
    }
}

/// Why a packet was dropped by the program, in the order of [`Counters::dropped`].
pub const REASONS: [Refusal; 3] = [Refusal::Overflow, Refusal::TooLate, Refusal::Contention];

/// Where a reason stands in [`Counters::dropped`].
#[inline(always)]
pub const fn reason_index(reason: Refusal) -> usize {
    match reason {
        Refusal::Overflow => 0,
        Refusal::TooLate => 1,
        Refusal::Contention => 2,
    }
}

/// What one CPU counted since the program was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Counters {
    /// Traffic that came to a bucket.
    pub offered: Tally,
    /// Traffic that the bucket took.
    pub accepted: Tally,
    /// The part of it that had to wait.
    pub delayed: Tally,
    /// What the bucket refused, by [`REASONS`].
    pub dropped: [Tally; 3],
    /// Control traffic, let through.
    pub passed: Tally,
    /// Sum of the waits of accepted buffers, ns, modulo 2^64 (584 years).
    pub wait_sum_ns: u64,
    /// The longest wait of an accepted buffer, ns.
    pub wait_max_ns: u64,
    /// Departure times found on packets and ignored: of another clock, or beyond the max wait.
    pub stamps_ignored: u64,
    /// Buffers that shared the overflow bucket because the table of keys or the hold's queues
    /// were used up.
    pub keys_beyond_table: u64,
    /// Frames in the largest buffer accepted.
    pub largest_packets: u64,
    /// Bytes on the wire of the largest buffer accepted.
    pub largest_bytes: u64,
}

impl Counters {
    /// Adds what another CPU counted.
    pub fn add(&mut self, other: &Counters) {
        self.offered.add(&other.offered);
        self.accepted.add(&other.accepted);
        self.delayed.add(&other.delayed);
        for (mine, theirs) in self.dropped.iter_mut().zip(&other.dropped) {
            mine.add(theirs);
        }
        self.passed.add(&other.passed);
        self.wait_sum_ns = self.wait_sum_ns.wrapping_add(other.wait_sum_ns);
        self.wait_max_ns = self.wait_max_ns.max(other.wait_max_ns);
        self.stamps_ignored += other.stamps_ignored;
        self.keys_beyond_table += other.keys_beyond_table;
        self.largest_packets = self.largest_packets.max(other.largest_packets);
        self.largest_bytes = self.largest_bytes.max(other.largest_bytes);
    }
}

const _: () = {
    assert!(size_of::<Policy>() == 56);
    assert!(size_of::<Bucket>() == 16);
    assert!(size_of::<crate::wire::FlowKey>() == 40);
    assert!(size_of::<Tally>() == 32);
    assert!(size_of::<Counters>() == 7 * 32 + 6 * 8);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_place() {
        for (at, reason) in REASONS.into_iter().enumerate() {
            assert_eq!(reason_index(reason), at);
        }
    }

    #[test]
    fn a_policy_gives_back_what_was_put_in() {
        for key in [Key::Class, Key::Flow] {
            for layer in [Layer::Ethernet, Layer::Ip] {
                let policy = Policy::new(Limits::default(), key, layer);
                assert_eq!((policy.key(), policy.layer()), (key, layer));
            }
        }
    }
}
