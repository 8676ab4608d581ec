//! htb: a tree of classes with rates of their own.

use super::difference::{Difference, close, mpu, same};
use super::rate::{PerPacket, RATE_SPEC, rate_spec, read_rate, ticks};
use super::{Attributes, find, u32_at};

/// Limits of an HTB class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HtbClassConfig {
    /// What it gets whatever its parent has left, in bytes per second.
    pub rate: u64,
    /// Bytes that may leave at once at `rate`.
    pub burst: u64,
    /// The most that it gets, in bytes per second.
    pub ceil: u64,
    /// Bytes that may leave at once at `ceil`.
    pub ceil_burst: u64,
    /// Bytes served before the next class has its turn.
    pub quantum: u32,
    /// What is charged for a packet besides its bytes.
    pub per_packet: PerPacket,
}

const PARAMETERS: u16 = 1;
const INIT: u16 = 2;
const DIRECT_QLEN: u16 = 5;
const RATE64: u16 = 6;
const CEIL64: u16 = 7;
/// The version of the interface, and bytes of rate for each byte of quantum (unused: every
/// class of leaky says its quantum).
const VERSION: u32 = 3;
const RATE_TO_QUANTUM: u32 = 10;
/// Offsets in `struct tc_htb_opt`.
const CEIL_AT: usize = RATE_SPEC;
const BUFFER_AT: usize = 24;
const CEIL_BUFFER_AT: usize = 28;
const QUANTUM_AT: usize = 32;

pub(super) fn encode_htb(default: u32, direct_packets: u32) -> Vec<u8> {
    let mut init = Vec::with_capacity(20);
    for word in [VERSION, RATE_TO_QUANTUM, default, 0, 0] {
        init.extend_from_slice(&word.to_ne_bytes());
    }
    let mut options = Attributes::new();
    options.0.append_attr(INIT, &init);
    options.0.append_attr_u32(DIRECT_QLEN, direct_packets);
    options.finish()
}

/// The default class and the direct queue length of a dumped HTB root.
fn decode_htb(options: &[u8]) -> Option<(u32, u32)> {
    let default = u32_at(find(options, INIT)?, 8)?;
    let direct = u32_at(find(options, DIRECT_QLEN)?, 0)?;
    Some((default, direct))
}

/// Compares a dumped HTB root with what it was told.
pub(crate) fn compare_htb(
    default: u32,
    direct_packets: u32,
    options: &[u8],
) -> Result<(), Difference> {
    let (read_default, read_direct) = decode_htb(options).ok_or_else(Difference::unreadable)?;
    same("default", default, read_default)?;
    same("direct_qlen", direct_packets, read_direct)
}

/// A dumped HTB root says its version with the minor version in the low half; asked for is the
/// major one alone.
pub(super) fn htb_put_back(dumped: &[u8]) -> Vec<u8> {
    match decode_htb(dumped) {
        Some((default, direct_packets)) => encode_htb(default, direct_packets),
        None => dumped.to_vec(),
    }
}

impl HtbClassConfig {
    /// The raw options.
    pub fn encode(&self) -> Vec<u8> {
        let mut parameters = Vec::with_capacity(44);
        rate_spec(&mut parameters, self.rate, self.per_packet);
        rate_spec(&mut parameters, self.ceil, self.per_packet);
        for word in [self.buffer(), self.ceil_buffer(), self.quantum, 0, 0] {
            parameters.extend_from_slice(&word.to_ne_bytes());
        }
        let mut options = Attributes::new();
        options.0.append_attr(PARAMETERS, &parameters);
        for (attribute, rate) in [(RATE64, self.rate), (CEIL64, self.ceil)] {
            if rate > u64::from(u32::MAX) {
                options.0.append_attr_u64(attribute, rate);
            }
        }
        options.finish()
    }

    /// Compares with dumped options: rates, quantum and overhead to the unit, bursts to the tick.
    /// An `mpu` that the kernel does not know is no difference, see [`HtbClassConfig::lacks_mpu`].
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, options: &[u8]) -> Result<(), Difference> {
        let Some(read) = Read::from(options) else {
            return Err(Difference::unreadable());
        };
        let [(rate, at_rate), (ceil, at_ceil)] = read.rates;
        same("rate in B/s", self.rate, rate)?;
        same("ceil in B/s", self.ceil, ceil)?;
        close("burst", self.buffer(), read.buffer, 1)?;
        close("cburst", self.ceil_buffer(), read.ceil_buffer, 1)?;
        same("quantum", self.quantum, read.quantum)?;
        for per_packet in [at_rate, at_ceil] {
            same("overhead", self.per_packet.overhead, per_packet.overhead)?;
            mpu(self.per_packet.mpu, per_packet.mpu)?;
        }
        Ok(())
    }

    /// Whether dumped options say that the kernel does not know the least charge.
    pub fn lacks_mpu(&self, options: &[u8]) -> bool {
        self.per_packet.mpu > 0
            && Read::from(options).is_some_and(|read| read.rates.iter().any(|(_, p)| p.mpu == 0))
    }

    fn buffer(&self) -> u32 {
        ticks(self.burst, self.rate).unwrap_or(u32::MAX)
    }

    fn ceil_buffer(&self) -> u32 {
        ticks(self.ceil_burst, self.ceil).unwrap_or(u32::MAX)
    }
}

/// Dumped options of a class.
struct Read {
    /// Rate and ceiling.
    rates: [(u64, PerPacket); 2],
    buffer: u32,
    ceil_buffer: u32,
    quantum: u32,
}

impl Read {
    fn from(options: &[u8]) -> Option<Read> {
        let parameters = find(options, PARAMETERS)?;
        Some(Read {
            rates: [
                read_rate(options, parameters, 0, RATE64)?,
                read_rate(options, parameters, CEIL_AT, CEIL64)?,
            ],
            buffer: u32_at(parameters, BUFFER_AT)?,
            ceil_buffer: u32_at(parameters, CEIL_BUFFER_AT)?,
            quantum: u32_at(parameters, QUANTUM_AT)?,
        })
    }
}
