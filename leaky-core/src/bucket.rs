//! The decision: when may this packet start to leave, or why is it dropped?
//!
//! Pure arithmetic on `free_at`; `now` always comes from the caller.

use crate::branchless::{less, max};
use crate::rate::Rate;
use crate::time::{Moment, Span};

/// The limits of a bucket. Laid out for the map that the kernel program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Limits {
    /// The drain.
    pub rate: Rate,
    /// What the bucket holds, as time at the rate.
    pub capacity: Span,
    /// The longest wait accepted.
    pub max_wait: Span,
    /// How much earlier than its start a packet may leave. 0 is a leaky bucket; more makes it a
    /// token bucket.
    pub burst: Span,
    /// A `free_at` further ahead than this is not backlog but a value from before a long idle
    /// time (the clock is modulo 78 h), and counts as an empty bucket. At least
    /// [`Limits::furthest`]; larger while a backlog accepted under older limits drains.
    pub stale_after: Span,
}

/// Room in `stale_after` for CPUs that read the clock before one another: a packet's `now` can be
/// older than the `now` of the packet that last changed the bucket. 1 s is more than any delay
/// between reading the clock and the compare-exchange that is not a stopped machine.
const CLOCK_MARGIN: Span = Span::from_ns(1_000_000_000);

impl Limits {
    /// The furthest ahead of now that `free_at` can be under these limits, given the largest
    /// charge that is possible.
    pub fn furthest(&self) -> Span {
        let largest = self.rate.cost(u64::MAX);
        let held = if self.capacity > largest {
            self.capacity
        } else {
            largest
        };
        held.plus(self.max_wait).plus(self.burst).plus(CLOCK_MARGIN)
    }
}

/// Why a bucket refuses a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bucket is full.
    Overflow,
    /// It would wait longer than accepted.
    TooLate,
    /// The compare-exchange loop ran out of attempts ([`crate::slot`]).
    Contention,
    /// Its own bucket took it, that of the link did not.
    Link,
    /// Its class says so.
    Denied,
}

/// What the bucket says to one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may leave `wait` after now; the bucket is then `free_at`.
    Accept {
        /// Start minus now.
        wait: Span,
        /// The new state of the bucket.
        free_at: Moment,
    },
    /// It is dropped and the bucket stays as it is.
    Refuse(Refusal),
}

/// How long what a bucket holds takes to drain. In the past, or stale: it is empty. Idle time earns no
/// credit.
#[inline(always)]
pub fn content(free_at: Moment, limits: &Limits, now: Moment) -> Span {
    let ahead = free_at.since(now).0;
    Span(ahead & !less(limits.stale_after.0, ahead))
}

/// Decides on a packet of `cost` that arrives at `now`.
///
/// `not_before` is the earliest departure that the sender itself asked for, from now; 0 if none.
/// It moves the start, never the other way round: the next packet still comes a full cost later.
///
/// The sums do not wrap: every [`Span`] here is shorter than a quarter of the window, which whoever
/// makes the [`Limits`] sees to. Up to the two refusals there is no branch, for the sake of the
/// kernel's verifier: see branchless.rs.
#[inline(always)]
pub fn decide(
    free_at: Moment,
    limits: &Limits,
    cost: Span,
    not_before: Span,
    now: Moment,
) -> Decision {
    let content = content(free_at, limits, now).0;
    let queued = content.wrapping_sub(limits.burst.0) & less(limits.burst.0, content);
    // An empty bucket takes any packet: it must slow down, never black-hole.
    let after = queued.wrapping_add(cost.0) & less(0, queued);
    if after > limits.capacity.0 {
        return Decision::Refuse(Refusal::Overflow);
    }
    let wait = Span(max(queued, not_before.0));
    if wait > limits.max_wait {
        return Decision::Refuse(Refusal::TooLate);
    }
    let start = Span(max(content, not_before.0));
    Decision::Accept {
        wait,
        free_at: now.after(start).after(cost),
    }
}
