//! What each CPU counted.

use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use leaky_core::abi::{Counters, Tally, reason_index};
use leaky_core::bucket::Refusal;
use leaky_core::time::Span;
use leaky_core::wire::OnWire;

#[map]
static COUNTERS: PerCpuArray<Counters> = PerCpuArray::with_max_entries(1, 0);

/// The counters of this CPU, and the packet that they are about to count.
pub struct Count {
    counters: &'static mut Counters,
    wire: OnWire,
    length: u64,
}

impl Count {
    /// The counters of this CPU, for a buffer of `length` bytes that leaves as `wire`.
    #[inline(always)]
    pub fn of(wire: OnWire, length: u32) -> Option<Count> {
        let counters = COUNTERS.get_ptr_mut(0)?;
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

    /// Control traffic that is let through.
    #[inline(always)]
    pub fn passed(self) {
        Self::add(&mut self.counters.passed, self.wire, self.length);
    }

    /// It comes to a bucket.
    #[inline(always)]
    pub fn offered(&mut self) {
        Self::add(&mut self.counters.offered, self.wire, self.length);
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

    /// The bucket took it.
    #[inline(always)]
    pub fn accepted(self, wait: Span) {
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

    /// The bucket refused it.
    #[inline(always)]
    pub fn dropped(self, why: Refusal) {
        Self::add(
            &mut self.counters.dropped[reason_index(why)],
            self.wire,
            self.length,
        );
    }
}
