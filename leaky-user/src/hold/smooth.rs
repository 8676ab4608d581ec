//! Small GSO packets for slow rates. Even a limit of one segment works for local TCP: over veth it
//! sent 4 Gbit/s with cubic and 330 Mbit/s with bbr, far above the rates that ask for it.

use crate::net::Link;
use crate::units::Rate;

/// A GSO packet leaves as one lump; this is how long the lump may be.
const LUMP_NS: u64 = 1_000_000;

/// The `gso_max_segs` that keeps what leaves at once within 1 ms at `rate`, but at least one
/// frame. `None` where a full GSO packet takes 1 ms at most anyway, or the interface already has
/// such a limit.
pub fn smooth(link: &Link, rate: Rate) -> Option<u32> {
    let in_lump = |per_second: u64| u128::from(per_second) * u128::from(LUMP_NS) / 1_000_000_000;
    let (segments, largest_fits) = match rate {
        Rate::BytesPerSecond(rate) => {
            let frame = u128::from(link.full_frame().max(1));
            let fits = u128::from(link.largest_gso_packet()) <= in_lump(rate);
            (in_lump(rate) / frame, fits)
        }
        Rate::PacketsPerSecond(rate) => (
            in_lump(rate),
            u128::from(link.largest_gso_segments()) <= in_lump(rate),
        ),
    };
    let segments = u32::try_from(segments.max(1)).unwrap_or(u32::MAX);
    (!largest_fits && segments < link.gso_max_segs).then_some(segments)
}
