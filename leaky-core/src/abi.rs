//! Values that the kernel program and user space share through maps. Their layout is part of the
//! contract between the two; sizes are asserted below.

use crate::bucket::Refusal;
use crate::policy;

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

/// Classes with state and counters of their own: those of the policy and the rest.
pub const CLASS_SLOTS: u32 = 65;

/// Buckets that no key has to be looked up for: two for each class, and that of the link.
pub const SHARED_BUCKETS: u32 = 2 * CLASS_SLOTS + 1;

/// A bucket in the array of shared buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedBucket {
    /// The one bucket of a class, by its id.
    Class(u32),
    /// The bucket that all keys of a class share which found the table of keys full.
    Overflow(u32),
    /// The bucket of the link.
    Link,
}

impl SharedBucket {
    /// Where it stands in the array.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        match self {
            SharedBucket::Class(id) => 2 * id,
            SharedBucket::Overflow(id) => 2 * id + 1,
            SharedBucket::Link => SHARED_BUCKETS - 1,
        }
    }
}

/// Keys that the table of keys holds, over all classes. At 72 B of key, value and link each it takes 9
/// to 16 MiB.
pub const KEY_TABLE: u32 = 131_072;
/// Clients that the table of clients holds.
pub const CLIENT_TABLE: u32 = 131_072;
/// Room for the clients before and after a change.
pub const CLIENT_PREFIXES: u32 = 2 * CLIENT_TABLE;
/// Prefixes that classes can ask for, over both sides and both banks.
pub const PREFIX_TABLE: u32 = 65_536;
/// Marks that classes can ask for, over both banks.
pub const MARK_TABLE: u32 = 4_096;
/// cgroups that classes can ask for, over both banks.
pub const CGROUP_TABLE: u32 = 4_096;
/// VLAN numbers, and the size of a table by them for one bank.
pub const VLANS: u32 = 4_096;
/// Ports, and the size of a table by them for one side of one bank.
pub const PORTS: u32 = 65_536;
/// Levels below the root at which a class can ask for a cgroup: 0 to 7.
pub const CGROUP_LEVELS: u32 = 8;

/// An address in a table by prefix, behind what it belongs to. The first word is always compared in
/// full, so that one table holds both sides, both versions and both banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct AddressKey {
    /// The bank, the side (0 source, 1 destination) and the IP version, each in a byte.
    pub table: u32,
    /// The address as it stands in the packet.
    pub address: [u32; 4],
}

/// Bits of [`AddressKey`] before the address.
pub const ADDRESS_AT: u32 = 32;

impl AddressKey {
    /// Puts a key together.
    #[inline(always)]
    pub const fn new(bank: u32, side: u32, version: u8, address: &[u32; 4]) -> AddressKey {
        AddressKey {
            table: bank << 16 | side << 8 | version as u32,
            address: *address,
        }
    }

    /// The prefix length with which a whole address of this version is looked up.
    #[inline(always)]
    pub const fn whole(version: u8) -> u32 {
        if version == 6 {
            ADDRESS_AT + 128
        } else {
            ADDRESS_AT + 32
        }
    }
}

/// A mark or a cgroup in a table by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct BankKey {
    /// The mark, or the cgroup's id.
    pub value: u64,
    /// The bank.
    pub bank: u64,
}

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
    /// Takes away what was counted before.
    pub fn take(&mut self, before: &Tally) {
        self.packets -= before.packets;
        self.bytes -= before.bytes;
        self.buffers -= before.buffers;
        self.buffer_bytes -= before.buffer_bytes;
    }

    /// Adds another tally, as when the tallies of all CPUs are summed.
    pub fn add(&mut self, other: &Tally) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.buffers += other.buffers;
        self.buffer_bytes += other.buffer_bytes;
    }
}

/// Why a packet was dropped by the program, in the order of [`Counters::dropped`].
pub const REASONS: [Refusal; 5] = [
    Refusal::Overflow,
    Refusal::TooLate,
    Refusal::Contention,
    Refusal::Link,
    Refusal::Denied,
];

/// Where a reason stands in [`Counters::dropped`].
#[inline(always)]
pub const fn reason_index(reason: Refusal) -> usize {
    match reason {
        Refusal::Overflow => 0,
        Refusal::TooLate => 1,
        Refusal::Contention => 2,
        Refusal::Link => 3,
        Refusal::Denied => 4,
    }
}

/// What one CPU counted for one class since the program was loaded.
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
    pub dropped: [Tally; 5],
    /// Let through without a bucket: control traffic, and classes that pass.
    pub passed: Tally,
    /// The part of what was accepted that was marked as having met congestion (ECN).
    pub marked: Tally,
    /// Sum of the waits of accepted buffers, ns, modulo 2^64 (584 years).
    pub wait_sum_ns: u64,
    /// The longest wait of an accepted buffer, ns.
    pub wait_max_ns: u64,
    /// Departure times found on packets and ignored: of another clock, or beyond the max wait.
    pub stamps_ignored: u64,
    /// Buffers that shared the overflow bucket because the table of keys or the hold's queues
    /// were used up.
    pub keys_beyond_table: u64,
    /// Keys that got a place in the table.
    pub keys_made: u64,
    /// Buffers that could not be read as IP: other protocols, more tags than are followed, broken
    /// headers; and those with more extension headers than are followed.
    pub unreadable: u64,
    /// The source address, folded into one word, that leads the vote for the one that sends most (Boyer
    /// and Moore, with bytes as votes).
    pub main_source: u64,
    /// By how many bytes it leads: if it has sent the share `p` of all bytes, at least `2p - 1` of them. A
    /// lead of nine tenths therefore means that it has sent at least nine tenths.
    pub main_lead: u64,
    /// Frames in the largest buffer accepted.
    pub largest_packets: u64,
    /// Bytes on the wire of the largest buffer accepted.
    pub largest_bytes: u64,
}

impl Counters {
    /// What has happened to a class that is only watched: it passed, or the link refused it. What a limit
    /// would have done is left out.
    #[must_use]
    pub fn without_limit(&self) -> Counters {
        let link = reason_index(Refusal::Link);
        let mut dropped = [Tally::default(); REASONS.len()];
        dropped[link] = self.dropped[link];
        Counters {
            offered: self.dropped[link],
            dropped,
            passed: self.passed,
            unreadable: self.unreadable,
            ..Counters::default()
        }
    }

    /// Takes away what was counted before. What is not a sum (the longest wait, the largest buffer, the
    /// main source) stays.
    pub fn take(&mut self, before: &Counters) {
        self.offered.take(&before.offered);
        self.accepted.take(&before.accepted);
        self.delayed.take(&before.delayed);
        for (mine, theirs) in self.dropped.iter_mut().zip(&before.dropped) {
            mine.take(theirs);
        }
        self.passed.take(&before.passed);
        self.marked.take(&before.marked);
        self.wait_sum_ns = self.wait_sum_ns.wrapping_sub(before.wait_sum_ns);
        self.stamps_ignored -= before.stamps_ignored;
        self.keys_beyond_table -= before.keys_beyond_table;
        self.keys_made -= before.keys_made;
        self.unreadable -= before.unreadable;
    }

    /// Adds what another CPU counted.
    pub fn add(&mut self, other: &Counters) {
        self.offered.add(&other.offered);
        self.accepted.add(&other.accepted);
        self.delayed.add(&other.delayed);
        for (mine, theirs) in self.dropped.iter_mut().zip(&other.dropped) {
            mine.add(theirs);
        }
        self.passed.add(&other.passed);
        self.marked.add(&other.marked);
        self.wait_sum_ns = self.wait_sum_ns.wrapping_add(other.wait_sum_ns);
        self.wait_max_ns = self.wait_max_ns.max(other.wait_max_ns);
        self.stamps_ignored += other.stamps_ignored;
        self.keys_beyond_table += other.keys_beyond_table;
        self.keys_made += other.keys_made;
        self.unreadable += other.unreadable;
        if self.main_source == other.main_source {
            self.main_lead += other.main_lead;
        } else if other.main_lead > self.main_lead {
            self.main_source = other.main_source;
            self.main_lead = other.main_lead - self.main_lead;
        } else {
            self.main_lead -= other.main_lead;
        }
        self.largest_packets = self.largest_packets.max(other.largest_packets);
        self.largest_bytes = self.largest_bytes.max(other.largest_bytes);
    }
}

const _: () = {
    assert!(CLASS_SLOTS as usize == policy::MAX_CLASSES + 1);
    assert!(size_of::<Bucket>() == 16);
    assert!(size_of::<crate::key::Key>() == 44);
    assert!(size_of::<crate::key::KeyMask>() == 88);
    assert!(size_of::<AddressKey>() == 20);
    assert!(size_of::<BankKey>() == 16);
    assert!(size_of::<Tally>() == 32);
    assert!(size_of::<Counters>() == 10 * 32 + 10 * 8);
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
    fn no_two_shared_buckets_are_one() {
        let mut places: Vec<u32> = (0..CLASS_SLOTS)
            .flat_map(|id| [SharedBucket::Class(id), SharedBucket::Overflow(id)])
            .chain([SharedBucket::Link])
            .map(SharedBucket::index)
            .collect();
        places.sort_unstable();
        assert_eq!(places, (0..SHARED_BUCKETS).collect::<Vec<_>>());
    }

    #[test]
    fn of_what_is_only_watched_the_links_drops_are_real() {
        let tally = |packets| Tally {
            packets,
            ..Tally::default()
        };
        let mut counted = Counters {
            offered: tally(10),
            accepted: tally(5),
            passed: tally(8),
            ..Counters::default()
        };
        counted.dropped[reason_index(Refusal::Overflow)] = tally(3);
        counted.dropped[reason_index(Refusal::Link)] = tally(2);
        let real = counted.without_limit();
        let dropped: u64 = real.dropped.iter().map(|tally| tally.packets).sum();
        assert_eq!((real.offered.packets, real.accepted.packets), (2, 0));
        assert_eq!((dropped, real.passed.packets), (2, 8));
    }

    #[test]
    fn the_lead_of_the_main_source_adds_up() {
        let counters = |main_source, main_lead| Counters {
            main_source,
            main_lead,
            ..Counters::default()
        };
        let sum = |a: Counters, b: Counters| {
            let mut sum = a;
            sum.add(&b);
            (sum.main_source, sum.main_lead)
        };
        assert_eq!(sum(counters(1, 100), counters(1, 50)), (1, 150));
        assert_eq!(sum(counters(1, 100), counters(2, 40)), (1, 60));
        assert_eq!(sum(counters(1, 40), counters(2, 100)), (2, 60));
        assert_eq!(sum(Counters::default(), counters(2, 100)), (2, 100));
    }
}
