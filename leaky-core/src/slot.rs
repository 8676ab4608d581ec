//! One bucket, many CPUs: the decision is made on what was read and committed by compare-exchange.
//!
//! The loop is written once over [`Cell`]: the kernel program brings BPF atomics, user space
//! `AtomicU64`, the model checker loom's.

use crate::bucket::{Decision, Limits, Refusal, decide};
use crate::time::{Moment, Span};

/// How often a packet tries to commit before it is dropped as [`Refusal::Contention`].
///
/// An attempt fails only because another CPU's succeeded, so a packet that runs out was overtaken
/// by this many others while it held the CPU. Dropping is the safe end: nothing is debited that
/// did not leave, and the output never exceeds the rate.
pub const ATTEMPTS: u32 = 32;

/// A shared 64-bit cell with sequentially consistent compare-exchange.
pub trait Cell {
    /// Reads the value.
    fn load(&self) -> u64;
    /// Stores `new` if the value is `current`. Returns what the value was: success when that
    /// equals `current`.
    fn compare_exchange(&self, current: u64, new: u64) -> u64;
}

/// Offers a packet of `amount` (in the rate's unit) to the bucket in `cell` and commits the decision.
/// Returns the packet's wait.
///
/// # Errors
/// Why the packet must be dropped; the bucket is then as if it had never come.
#[inline(always)]
pub fn offer<C: Cell>(
    cell: &C,
    limits: &Limits,
    amount: u64,
    not_before: Span,
    now: Moment,
) -> Result<Span, Refusal> {
    let cost = limits.rate.cost(amount);
    let mut seen = cell.load();
    for _ in 0..ATTEMPTS {
        match decide(Moment(seen), limits, cost, not_before, now) {
            Decision::Refuse(why) => return Err(why),
            Decision::Accept { wait, free_at } => {
                let was = cell.compare_exchange(seen, free_at.0);
                if was == seen {
                    return Ok(wait);
                }
                seen = was;
            }
        }
    }
    Err(Refusal::Contention)
}

#[cfg(not(target_arch = "bpf"))]
impl Cell for core::sync::atomic::AtomicU64 {
    fn load(&self) -> u64 {
        self.load(core::sync::atomic::Ordering::SeqCst)
    }

    fn compare_exchange(&self, current: u64, new: u64) -> u64 {
        use core::sync::atomic::Ordering::SeqCst;
        match self.compare_exchange(current, new, SeqCst, SeqCst) {
            Ok(was) | Err(was) => was,
        }
    }
}
