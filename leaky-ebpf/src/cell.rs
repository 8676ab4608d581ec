//! BPF's own compare-exchange as a [`Cell`].

use core::intrinsics::{AtomicOrdering, atomic_cxchg};
use leaky_core::slot::Cell;

/// A cell inside a map value.
pub struct MapCell(*mut u64);

impl MapCell {
    /// # Safety
    /// `cell` points to an aligned u64 inside a map value that lives until the program returns
    /// (the kernel keeps values until the RCU read section of the program ends).
    #[inline(always)]
    pub unsafe fn new(cell: *mut u64) -> MapCell {
        MapCell(cell)
    }
}

impl Cell for MapCell {
    #[inline(always)]
    fn load(&self) -> u64 {
        // SAFETY: valid and aligned by the contract of `new`. Volatile, since LLVM cannot select an
        // atomic load for BPF; an aligned 64-bit load is one instruction and cannot tear.
        unsafe { self.0.read_volatile() }
    }

    #[inline(always)]
    fn compare_exchange(&self, current: u64, new: u64) -> u64 {
        // SAFETY: valid and aligned by the contract of `new`.
        let (was, _) = unsafe {
            atomic_cxchg::<u64, { AtomicOrdering::SeqCst }, { AtomicOrdering::SeqCst }>(
                self.0, current, new,
            )
        };
        was
    }
}
