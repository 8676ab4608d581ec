//! What each CPU counted, for each class.

use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use leaky_core::abi::{CLASS_SLOTS, Counters, Tally, reason_index};
use leaky_core::bucket::Refusal;
use leaky_core::size::OnWire;
use leaky_core::time::Span;
use leaky_core::wire::Headers;

use crate::opaque::opaque;

#[map]
static COUNTERS: PerCpuArray<Counters> = PerCpuArray::with_max_entries(CLASS_SLOTS, 0);

/// The counters of this CPU for a class, and the packet that they are about to count.
pub struct Count {
    counters: &'static mut Counters,
    wire: OnWire,
    length: u64,
}

impl Count {
    /// The counters of this CPU for class `id`, and a buffer of `length` bytes that leaves as `wire`.
    #[inline(always)]
    pub fn of(id: u32, wire: OnWire, length: u32) -> Option<Count> {
        let counters = COUNTERS.get_ptr_mut(id)?;
        // SAFETY: a value of a per-CPU array lives as long as its map, and a TC program is not
        // interrupted on its CPU by another run of itself, so nobody else holds a reference.
        let counters = unsafe { &mut *counters };
        Some(Count {
            counters,
            wire,
            length: length as u64,
        })
    }

    #[inline(always)]
    fn add(tally: &mut Tally, wire: OnWire, length: u64) {
        tally.packets += wire.packets;
        tally.bytes += wire.bytes;
        tally.buffers += 1;
        tally.buffer_bytes += length;
    }

    /// Let through without a bucket.
    #[inline(always)]
    pub fn passed(&mut self) {
        Self::add(&mut self.counters.passed, self.wire, self.length);
    }

    /// It comes to a bucket.
    #[inline(always)]
    pub fn offered(&mut self) {
        Self::add(&mut self.counters.offered, self.wire, self.length);
    }

    /// It could not be read as IP.
    #[inline(always)]
    pub fn unreadable(&mut self) {
        self.counters.unreadable += 1;
    }

    /// Its key is new and got a place.
    #[inline(always)]
    pub fn key_made(&mut self) {
        self.counters.keys_made += 1;
    }

    /// It found no place of its own and shares the overflow bucket.
    #[inline(always)]
    pub fn beyond_table(&mut self) {
        self.counters.keys_beyond_table += 1;
    }

    /// It carried a departure time that was ignored.
    #[inline(always)]
    pub fn stamp_ignored(&mut self) {
        self.counters.stamps_ignored += 1;
    }

    /// It is marked as having met congestion.
    #[inline(always)]
    pub fn marked(&mut self) {
        Self::add(&mut self.counters.marked, self.wire, self.length);
    }

    /// Whether one source sends most of the bytes: the vote of Boyer and Moore, with bytes as votes. A
    /// source with the share `p` ends up with a lead of at least `2p - 1` of all bytes.
    #[inline(always)]
    pub fn source(&mut self, headers: &Headers) {
        let [a, b, c, d] = headers.source;
        let source = ((a ^ c.rotate_left(16)) as u64) << 32 | (b ^ d.rotate_left(16)) as u64;
        let bytes = self.wire.bytes;
        if self.counters.main_source == source {
            self.counters.main_lead += bytes;
        } else if self.counters.main_lead < bytes {
            self.counters.main_source = source;
            self.counters.main_lead = bytes - self.counters.main_lead;
        } else {
            self.counters.main_lead -= bytes;
        }
    }

    /// The bucket took it.
    #[inline(always)]
    pub fn accepted(&mut self, wait: Span) {
        Self::add(&mut self.counters.accepted, self.wire, self.length);
        if self.wire.bytes > self.counters.largest_bytes {
            self.counters.largest_bytes = self.wire.bytes;
            self.counters.largest_packets = self.wire.packets;
        }
        if wait > Span::ZERO {
            Self::add(&mut self.counters.delayed, self.wire, self.length);
            let ns = wait.ns_ceil();
            self.counters.wait_sum_ns += ns;
            if ns > self.counters.wait_max_ns {
                self.counters.wait_max_ns = ns;
            }
        }
    }

    /// It is dropped.
    #[inline(always)]
    pub fn dropped(&mut self, why: Refusal) {
        let place = opaque(reason_index(why));
        if let Some(tally) = self.counters.dropped.get_mut(place) {
            Self::add(tally, self.wire, self.length);
        }
    }
}
