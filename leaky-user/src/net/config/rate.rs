//! What the kernel's token buckets charge: bytes at a rate, and more for each packet.

use super::{find, u32_at};

/// Nanoseconds in one tick of the kernel's packet scheduler.
pub const TICK_NS: u64 = 64;

/// `TC_LINKLAYER_ETHERNET`: the kernel then needs no rate table.
const LINKLAYER_ETHERNET: u8 = 1;
/// Offsets in `struct tc_ratespec`.
const OVERHEAD_AT: usize = 2;
const MPU_AT: usize = 6;
const RATE_AT: usize = 8;
/// Its size.
pub(super) const RATE_SPEC: usize = 12;

/// The ticks that `bytes` take at `rate` bytes per second, rounded up, or `None` beyond the
/// kernel's 32 bits (274 s).
pub fn ticks(bytes: u64, rate: u64) -> Option<u32> {
    let ns = u128::from(bytes) * 1_000_000_000;
    let ticks = ns.div_ceil(u128::from(rate.max(1)) * u128::from(TICK_NS));
    u32::try_from(ticks).ok()
}

/// What is charged for a packet besides its own bytes. The kernel takes a GSO packet for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerPacket {
    /// Bytes added to each.
    pub overhead: u16,
    /// The least that one is charged, overhead included. Kernels whose `struct psched_ratecfg` has
    /// no `mpu` yet (before 5.17 or so) ignore it, and then dump 0.
    pub mpu: u16,
}

impl PerPacket {
    /// What a packet of so many bytes is charged.
    pub fn charge(self, bytes: u64) -> u64 {
        bytes
            .saturating_add(u64::from(self.overhead))
            .max(u64::from(self.mpu))
    }
}

/// Appends a `struct tc_ratespec`. Rates beyond its 32 bits go in an attribute of their own.
pub(super) fn rate_spec(to: &mut Vec<u8>, rate: u64, per_packet: PerPacket) {
    let narrow = u32::try_from(rate).unwrap_or(u32::MAX);
    to.extend_from_slice(&[0, LINKLAYER_ETHERNET]);
    to.extend_from_slice(&per_packet.overhead.to_ne_bytes());
    to.extend_from_slice(&[0, 0]);
    to.extend_from_slice(&per_packet.mpu.to_ne_bytes());
    to.extend_from_slice(&narrow.to_ne_bytes());
}

/// Reads the `struct tc_ratespec` at `at`, and its rate from the attribute `wide` if it is there.
pub(super) fn read_rate(
    options: &[u8],
    parameters: &[u8],
    at: usize,
    wide: u16,
) -> Option<(u64, PerPacket)> {
    let spec: &[u8; RATE_SPEC] = parameters.get(at..)?.first_chunk()?;
    let narrow = u64::from(u32_at(spec, RATE_AT)?);
    let wide = find(options, wide).and_then(|v| Some(u64::from_ne_bytes(*v.first_chunk()?)));
    let half = |at: usize| u16::from_ne_bytes([spec[at], spec[at + 1]]);
    let per_packet = PerPacket {
        overhead: half(OVERHEAD_AT),
        mpu: half(MPU_AT),
    };
    Some((wide.unwrap_or(narrow), per_packet))
}
