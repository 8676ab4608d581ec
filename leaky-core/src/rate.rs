//! A rate as a fixed-point factor: what one packet costs in time, without a division.
//!
//! `cost = (amount * mantissa + half) >> shift`, rounded to the nearest 2^-16 ns. The mantissa is as
//! wide as the product allows (43 bits for bytes, 47 for packets), so that its own error stays
//! below 2.3e-13: at 1 kbit/s a 64 KiB packet takes 524 s and is off by less than a nanosecond.
//! With a 32-bit mantissa the same packet would be off by 122 ns.

use crate::time::{FRACTION_BITS, Span};

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of the frame as sent, headers counted for every GSO segment.
    Bytes,
    /// Packets as sent: a GSO packet counts as its segments.
    Packets,
}

/// The lowest rate in bytes per second: 1 kbit/s.
pub const MIN_BYTES_PER_SECOND: u64 = 125;
/// The highest rate in bytes per second: 400 Gbit/s.
pub const MAX_BYTES_PER_SECOND: u64 = 50_000_000_000;
/// The lowest rate in packets per second.
pub const MIN_PACKETS_PER_SECOND: u64 = 1;
/// The highest rate in packets per second.
pub const MAX_PACKETS_PER_SECOND: u64 = 1_000_000_000;

/// The largest amount that one call can charge: 2 MiB of bytes (the largest GSO packet is 512 KiB).
pub const MAX_BYTES: u64 = (1 << 21) - 1;
/// The most packets that one call can charge (a GSO packet has at most 65,535 segments).
pub const MAX_PACKETS: u64 = (1 << 17) - 1;

const SECOND: u128 = 1_000_000_000 << FRACTION_BITS;

/// A rate, ready to price packets. Laid out for the map that the kernel program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Rate {
    mantissa: u64,
    shift: u32,
    /// 0 bytes, 1 packets.
    packets: u32,
}

impl Rate {
    /// No rate: where there is no bucket.
    pub const NONE: Rate = Rate {
        mantissa: 0,
        shift: 0,
        packets: 0,
    };

    /// A rate in bytes per second, or `None` outside [`MIN_BYTES_PER_SECOND`] to
    /// [`MAX_BYTES_PER_SECOND`].
    pub fn bytes_per_second(rate: u64) -> Option<Rate> {
        (MIN_BYTES_PER_SECOND..=MAX_BYTES_PER_SECOND)
            .contains(&rate)
            .then(|| Rate::new(rate, MAX_BYTES, 0))
    }

    /// A rate in packets per second, or `None` outside [`MIN_PACKETS_PER_SECOND`] to
    /// [`MAX_PACKETS_PER_SECOND`].
    pub fn packets_per_second(rate: u64) -> Option<Rate> {
        (MIN_PACKETS_PER_SECOND..=MAX_PACKETS_PER_SECOND)
            .contains(&rate)
            .then(|| Rate::new(rate, MAX_PACKETS, 1))
    }

    fn new(rate: u64, largest: u64, packets: u32) -> Rate {
        // The widest shift at which the largest amount plus the rounding half still fits 64 bits.
        let mantissa = |shift: u32| {
            let scaled = SECOND << shift;
            let rate = u128::from(rate);
            (scaled + rate / 2) / rate
        };
        let fits = |shift: u32| {
            u128::from(largest) * mantissa(shift) + (1u128 << shift) / 2 <= u128::from(u64::MAX)
        };
        let mut shift = 0;
        while shift < 63 && fits(shift + 1) {
            shift += 1;
        }
        // In range of both constructors the mantissa fits: `fits(0)` holds for the lowest rates.
        Rate {
            mantissa: u64::try_from(mantissa(shift)).unwrap_or(u64::MAX),
            shift,
            packets,
        }
    }

    /// What this rate counts.
    #[inline(always)]
    pub const fn unit(&self) -> Unit {
        if self.packets == 0 {
            Unit::Bytes
        } else {
            Unit::Packets
        }
    }

    /// How long `amount` (bytes or packets, by [`Rate::unit`]) takes at this rate, rounded to the
    /// nearest 2^-16 ns. Amounts beyond [`MAX_BYTES`] or [`MAX_PACKETS`] cost as much as those.
    #[inline(always)]
    pub const fn cost(&self, amount: u64) -> Span {
        let largest = match self.unit() {
            Unit::Bytes => MAX_BYTES,
            Unit::Packets => MAX_PACKETS,
        };
        let amount = if amount > largest { largest } else { amount };
        let shift = self.shift & 63;
        let half = (1u64 << shift) >> 1;
        Span(amount.wrapping_mul(self.mantissa).wrapping_add(half) >> shift)
    }
}

/// How long `amount` takes at `per_second`, rounded up, plus the most by which the costs of the
/// packets that make it up can exceed it by rounding (each at most one half of 2^-16 ns). This is
/// how a capacity in bytes or packets becomes one in time, so that a bucket of five packets takes
/// five packets whatever the rate. `None` where it exceeds the window of 78 hours, or for rate 0.
///
/// `smallest` is the smallest charge there is: 1 for packets, the shortest frame for bytes.
pub fn span_of(amount: u64, per_second: u64, smallest: u64) -> Option<Span> {
    if per_second == 0 || smallest == 0 {
        return None;
    }
    let exact = (u128::from(amount) * SECOND).div_ceil(u128::from(per_second));
    let packets = u128::from(amount.div_ceil(smallest));
    // The mantissa's own error (2.3e-13 of the sum at most) is smaller than one part in 2^40.
    let slack = packets.div_ceil(2) + (exact >> 40) + 1;
    u64::try_from(exact + slack).ok().map(Span)
}

/// The whole amount that drains in `span` at `per_second`, rounded down.
pub fn amount_in(span: Span, per_second: u64) -> u64 {
    u64::try_from(u128::from(span.0) * u128::from(per_second) / SECOND).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exact(amount: u64, rate: u64) -> u128 {
        // In 2^-48 ns, so that the rounding can be seen.
        ((u128::from(amount) * SECOND) << 32) / u128::from(rate)
    }

    #[test]
    fn rates_out_of_range_are_refused() {
        assert!(Rate::bytes_per_second(124).is_none());
        assert!(Rate::bytes_per_second(125).is_some());
        assert!(Rate::bytes_per_second(50_000_000_001).is_none());
        assert!(Rate::packets_per_second(0).is_none());
        assert!(Rate::packets_per_second(1_000_000_001).is_none());
    }

    #[test]
    fn the_largest_amounts_do_not_overflow() {
        for (rate, unit_max) in [
            (Rate::bytes_per_second(MIN_BYTES_PER_SECOND), MAX_BYTES),
            (Rate::bytes_per_second(MAX_BYTES_PER_SECOND), MAX_BYTES),
            (Rate::packets_per_second(1), MAX_PACKETS),
            (
                Rate::packets_per_second(MAX_PACKETS_PER_SECOND),
                MAX_PACKETS,
            ),
        ] {
            let rate = rate.unwrap();
            assert!(rate.cost(unit_max) > rate.cost(unit_max - 1));
            assert_eq!(rate.cost(unit_max), rate.cost(u64::MAX));
        }
    }

    #[test]
    fn a_frame_at_ten_megabit_takes_833_6_us() {
        let rate = Rate::bytes_per_second(1_250_000).unwrap();
        assert_eq!(rate.cost(1_042), Span(833_600 << 16));
    }

    #[test]
    fn l29_the_sum_over_random_lengths_is_off_by_less_than_2_5_millionths_at_400_gbit() {
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        for bytes_per_second in [
            125,
            1_250_000,
            3_125_000_000,
            12_500_000_000,
            50_000_000_000,
        ] {
            let rate = Rate::bytes_per_second(bytes_per_second).unwrap();
            let (mut sum, mut bytes) = (0u128, 0u64);
            for _ in 0..1_000_000 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                let len = 60 + seed % 1_455;
                bytes += len;
                sum += u128::from(rate.cost(len).0);
            }
            let wanted = exact(bytes, bytes_per_second) >> 32;
            let off = sum.abs_diff(wanted);
            assert!(
                off * 10_000_000 <= wanted * 25,
                "{bytes_per_second} B/s: {off} of {wanted}"
            );
        }
    }

    proptest! {
        #[test]
        fn l29_each_cost_is_within_a_nanosecond_from_1_kbit_to_400_gbit(
            rate in MIN_BYTES_PER_SECOND..=MAX_BYTES_PER_SECOND, len in 1u64..=1 << 20,
        ) {
            let cost = u128::from(Rate::bytes_per_second(rate).unwrap().cost(len).0) << 32;
            prop_assert!(cost.abs_diff(exact(len, rate)) <= 1 << 48);
        }

        #[test]
        fn l29_the_lowest_rates_are_as_exact(rate in MIN_BYTES_PER_SECOND..100_000, len in 1u64..=1 << 20) {
            let cost = u128::from(Rate::bytes_per_second(rate).unwrap().cost(len).0) << 32;
            prop_assert!(cost.abs_diff(exact(len, rate)) <= 1 << 48);
        }

        #[test]
        fn each_cost_is_the_nearest_step_for_ordinary_packets(
            rate in 1_250u64..=MAX_BYTES_PER_SECOND, len in 60u64..=1_522,
        ) {
            // Half a step of rounding, and the mantissa's error.
            let cost = u128::from(Rate::bytes_per_second(rate).unwrap().cost(len).0) << 32;
            let wanted = exact(len, rate);
            prop_assert!(cost.abs_diff(wanted) <= (1 << 31) + (wanted >> 41) + 1);
        }

        #[test]
        fn packets_cost_what_their_rate_says(rate in 1..=MAX_PACKETS_PER_SECOND, n in 1..=65_535u64) {
            let cost = u128::from(Rate::packets_per_second(rate).unwrap().cost(n).0) << 32;
            prop_assert!(cost.abs_diff(exact(n, rate)) <= 1 << 48);
        }

        #[test]
        fn a_capacity_holds_its_packets_whatever_the_rate(
            rate in 1..=1_000_000u64, n in 1..=10_000u64,
        ) {
            let one = Rate::packets_per_second(rate).unwrap().cost(1).0;
            let capacity = span_of(n, rate, 1).unwrap().0;
            prop_assert!(one * n <= capacity && capacity < one * n + one);
        }

        #[test]
        fn amount_and_span_agree(rate in MIN_BYTES_PER_SECOND..=MAX_BYTES_PER_SECOND, bytes in 60u64..=100_000_000) {
            if let Some(span) = span_of(bytes, rate, 60) {
                let back = amount_in(span, rate);
                // Half a step for each 60 B frame is 6.4e-6 of its cost at 400 Gbit/s.
                prop_assert!(back >= bytes && back - bytes <= 1 + bytes / 150_000);
            }
        }
    }
}
