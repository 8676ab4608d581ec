//! What is known of the packet at hand, kept in a map while the program decides on it.
//!
//! On the stack the verifier would remember what each way through the parser and each attempt of the
//! compare-exchange loop left there (version 4 or 6, ports or none, how long the wait can be), and walk
//! the rest of the program again for each of them: more than a million instructions, its limit. What is
//! read back from a map can be anything, so the ways meet again.

use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use leaky_core::abi::{REASONS, reason_index};
use leaky_core::bucket::Refusal;
use leaky_core::time::Span;
use leaky_core::wire::Headers;

#[map]
static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);

/// What is known of one packet.
#[repr(C)]
pub struct Scratch {
    /// What its headers say.
    pub headers: Headers,
    reserved: u32,
    said: Said,
}

/// What its own bucket says to a packet.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Said {
    /// Its wait.
    pub wait: Span,
    /// The part of the wait that its sender asked for itself.
    pub not_before: Span,
    /// The wait beyond which it is marked.
    pub mark_above: Span,
    /// The hold's queue for it.
    pub queue: u32,
    /// 0 if it is accepted, else one more than the place of the reason in [`REASONS`].
    refused: u32,
}

impl Said {
    /// Without a bucket of its own: it may leave at once.
    pub const FREE: Said = Said {
        wait: Span::ZERO,
        not_before: Span::ZERO,
        mark_above: Span::MAX,
        queue: 0,
        refused: 0,
    };

    /// What the bucket said.
    #[inline(always)]
    pub fn new(
        outcome: Result<Span, Refusal>,
        not_before: Span,
        mark_above: Span,
        queue: u32,
    ) -> Said {
        let (wait, refused) = match outcome {
            Ok(wait) => (wait, 0),
            Err(why) => (Span::ZERO, reason_index(why) as u32 + 1),
        };
        Said {
            wait,
            not_before,
            mark_above,
            queue,
            refused,
        }
    }

    /// Why it is dropped, if it is.
    #[inline(always)]
    pub fn refusal(&self) -> Option<Refusal> {
        match self.refused {
            0 => None,
            place => Some(
                REASONS
                    .get(place as usize - 1)
                    .copied()
                    .unwrap_or(Refusal::Contention),
            ),
        }
    }
}

impl Scratch {
    /// The same, as the verifier has never seen it.
    #[inline(always)]
    pub fn forget(&mut self, said: Said) -> Said {
        let place = &raw mut self.said;
        // SAFETY: `place` is a field of `self`. Volatile, so that what is read is not taken from what
        // was written.
        unsafe {
            place.write_volatile(said);
            place.read_volatile()
        }
    }
}

/// The place for what is known of one packet.
#[inline(always)]
pub fn get() -> Option<&'static mut Scratch> {
    let scratch = SCRATCH.get_ptr_mut(0)?;
    // SAFETY: a value of a per-CPU array lives as long as its map. A program at a TC hook runs with
    // soft interrupts off, so no other packet comes in between on this CPU.
    Some(unsafe { &mut *scratch })
}
