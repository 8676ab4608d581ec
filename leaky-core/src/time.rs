//! Moments and spans in 2^-16 ns, the unit in which buckets count.
//!
//! Whole nanoseconds are too coarse: a 64 B frame at 25 Gbit/s costs 20.48 ns, and cutting the
//! fraction off makes the output 2.3 % too fast.

/// Fraction bits below one nanosecond.
pub const FRACTION_BITS: u32 = 16;

/// A moment on the monotonic clock in 2^-16 ns, modulo 2^64: the window is 78 hours.
///
/// Only the distance between two moments that are less than a window apart means anything, so
/// there is no ordering on this type; see [`Moment::since`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Moment(pub u64);

/// A length of time in 2^-16 ns, up to 78 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct Span(pub u64);

impl Moment {
    /// The moment that the monotonic clock shows as `ns` nanoseconds.
    #[inline(always)]
    pub const fn from_ns(ns: u64) -> Self {
        Moment(ns << FRACTION_BITS)
    }

    /// How far this moment lies after `earlier`, modulo the window. A moment in the past of
    /// `earlier` therefore shows as a very long span.
    #[inline(always)]
    pub const fn since(self, earlier: Moment) -> Span {
        Span(self.0.wrapping_sub(earlier.0))
    }

    /// The moment `span` later.
    #[inline(always)]
    #[must_use]
    pub const fn after(self, span: Span) -> Moment {
        Moment(self.0.wrapping_add(span.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// The longest span: 78 hours.
    pub const MAX: Span = Span(u64::MAX);

    /// `ns` nanoseconds, or [`Span::MAX`] where that is longer.
    #[inline(always)]
    pub const fn from_ns(ns: u64) -> Self {
        if ns > u64::MAX >> FRACTION_BITS {
            Span::MAX
        } else {
            Span(ns << FRACTION_BITS)
        }
    }

    /// Whole nanoseconds, rounded up: a packet never leaves before its start.
    #[inline(always)]
    pub const fn ns_ceil(self) -> u64 {
        let whole = self.0 >> FRACTION_BITS;
        if self.0 & ((1 << FRACTION_BITS) - 1) == 0 {
            whole
        } else {
            whole + 1
        }
    }

    /// The sum, or [`Span::MAX`].
    #[inline(always)]
    #[must_use]
    pub const fn plus(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    #[inline(always)]
    #[must_use]
    pub const fn minus(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_round_up() {
        assert_eq!(Span(0).ns_ceil(), 0);
        assert_eq!(Span(1).ns_ceil(), 1);
        assert_eq!(Span(1 << 16).ns_ceil(), 1);
        assert_eq!(Span((1 << 16) + 1).ns_ceil(), 2);
        assert_eq!(Span::MAX.ns_ceil(), 1 << 48);
    }

    #[test]
    fn a_span_too_long_for_the_window_saturates() {
        assert_eq!(Span::from_ns(1 << 48), Span::MAX);
        assert_eq!(Span::from_ns((1 << 48) - 1).0, ((1 << 48) - 1) << 16);
    }

    #[test]
    fn distances_survive_the_wrap_of_the_window() {
        let before = Moment(u64::MAX - 10);
        let after = before.after(Span(30));
        assert_eq!(after.since(before), Span(30));
    }
}
