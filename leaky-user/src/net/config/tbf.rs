//! tbf: a token bucket over one queue. It cuts GSO packets.

use super::difference::{Difference, close, mpu, same};
use super::rate::{PerPacket, TICK_NS, rate_spec, read_rate, ticks};
use super::{Attributes, find, u32_at};

/// Options of tbf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TbfConfig {
    /// Bytes per second.
    pub rate: u64,
    /// Bytes that may leave at once, and the longest packet that passes: a GSO packet above it is
    /// cut, any other dropped. The overhead comes on top, so that a packet of this size passes.
    pub burst: u32,
    /// Bytes that may wait in the queue that tbf makes by itself; another one has its own limit.
    pub limit: u32,
    /// What is charged for a packet besides its bytes.
    pub per_packet: PerPacket,
}

const PARAMETERS: u16 = 1;
const RATE64: u16 = 4;
const BURST: u16 = 6;
/// Offsets in `struct tc_tbf_qopt`.
const LIMIT_AT: usize = 24;
const BUFFER_AT: usize = 28;

impl TbfConfig {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut parameters = Vec::with_capacity(36);
        rate_spec(&mut parameters, self.rate, self.per_packet);
        // No second, faster bucket.
        parameters.extend_from_slice(&[0; 12]);
        for word in [self.limit, self.buffer(), 0] {
            parameters.extend_from_slice(&word.to_ne_bytes());
        }
        let mut options = Attributes::new();
        options.0.append_attr(PARAMETERS, &parameters);
        // Said in bytes, it is also the longest packet; from ticks alone the kernel computes a
        // longest packet that can be less than a frame.
        options.0.append_attr_u32(BURST, self.burst);
        if self.rate > u64::from(u32::MAX) {
            options.0.append_attr_u64(RATE64, self.rate);
        }
        options.finish()
    }

    /// Compares with dumped options: rate, limit and overhead to the byte, the burst to the two
    /// ticks that the kernel's arithmetic can be off. An `mpu` that the kernel does not know is no
    /// difference, see [`TbfConfig::lacks_mpu`].
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, options: &[u8]) -> Result<(), Difference> {
        let read = Read::from(options).ok_or_else(Difference::unreadable)?;
        same("rate in B/s", self.rate, read.rate)?;
        close("burst", self.buffer(), read.buffer, 2)?;
        same("limit", self.limit, read.limit)?;
        same(
            "overhead",
            self.per_packet.overhead,
            read.per_packet.overhead,
        )?;
        mpu(self.per_packet.mpu, read.per_packet.mpu)
    }

    /// Whether dumped options say that the kernel does not know the least charge.
    pub fn lacks_mpu(&self, options: &[u8]) -> bool {
        self.per_packet.mpu > 0 && Read::from(options).is_some_and(|read| read.per_packet.mpu == 0)
    }

    fn buffer(&self) -> u32 {
        let charge = self.per_packet.charge(u64::from(self.burst));
        ticks(charge, self.rate).unwrap_or(u32::MAX)
    }
}

/// Dumped options.
struct Read {
    rate: u64,
    per_packet: PerPacket,
    limit: u32,
    /// In ticks.
    buffer: u32,
}

impl Read {
    fn from(options: &[u8]) -> Option<Read> {
        let parameters = find(options, PARAMETERS)?;
        let (rate, per_packet) = read_rate(options, parameters, 0, RATE64)?;
        Some(Read {
            rate,
            per_packet,
            limit: u32_at(parameters, LIMIT_AT)?,
            buffer: u32_at(parameters, BUFFER_AT)?,
        })
    }
}

/// A dumped tbf says its burst only as time in whole ticks, which at high rates is less than it
/// has (3,100 B at 100 Gbit/s read back as 2,400). Adds the largest burst that reads back the
/// same, so that a qdisc put back never drops what the old one passed.
pub(super) fn tbf_put_back(dumped: &[u8]) -> Vec<u8> {
    let mut options = dumped.to_vec();
    let Some(read) = Read::from(dumped) else {
        return options;
    };
    if find(dumped, BURST).is_some() {
        return options;
    }
    let next_tick = (u128::from(read.buffer) + 1) * u128::from(TICK_NS);
    let first_beyond = (next_tick * u128::from(read.rate)).div_ceil(1_000_000_000);
    let charge = first_beyond.saturating_sub(1);
    let burst = charge.saturating_sub(u128::from(read.per_packet.overhead));
    let burst = u32::try_from(burst).unwrap_or(u32::MAX);
    let mut more = Attributes::new();
    more.0.append_attr_u32(BURST, burst);
    options.extend_from_slice(&more.finish());
    options
}
