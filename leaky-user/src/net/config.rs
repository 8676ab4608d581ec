//! The options of qdiscs and classes, to and from the kernel's form.
//!
//! Layouts and attribute numbers: the kernel's `include/uapi/linux/pkt_sched.h`. Times of token
//! buckets go in ticks of 64 ns (`PSCHED_SHIFT` in `include/net/pkt_sched.h`); the kernel drops
//! the rest of a tick.

use nlink::netlink::{AttrIter, MessageBuilder, NLMSG_HDRLEN};

/// Nanoseconds in one tick of the kernel's packet scheduler.
pub const TICK_NS: u64 = 64;

/// `TC_LINKLAYER_ETHERNET`: the kernel then needs no rate table.
const LINKLAYER_ETHERNET: u8 = 1;
/// Bits of an attribute's type that are flags.
const TYPE_MASK: u16 = 0x3fff;

/// The kind and the options of a qdisc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QdiscConfig {
    /// One class for each transmit queue.
    Mq,
    /// Holds each packet until its departure time.
    Fq(FqConfig),
    /// The root of a tree of rate-limited classes.
    Htb {
        /// Minor of the class for packets that name none; 0 lets them pass unshaped.
        default: u32,
        /// How many packets may wait among those that pass unshaped.
        direct_packets: u32,
    },
    /// A token bucket over one queue.
    Tbf(TbfConfig),
    /// Any other, by its raw options.
    Raw {
        /// Its kind.
        kind: String,
        /// Its options as the kernel dumps them.
        options: Option<Vec<u8>>,
    },
}

/// Options of fq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FqConfig {
    /// Packets in the whole qdisc at most (from kernel 6.7 on: in each priority band).
    pub limit: u32,
    /// Packets in one flow at most.
    pub flow_limit: u32,
    /// How far ahead a departure time may be, in microseconds.
    pub horizon_us: u32,
    /// Whether a packet beyond the horizon is dropped (else its departure time is capped).
    pub horizon_drop: bool,
    /// Whether fq paces flows by itself, besides departure times.
    pub pacing: bool,
}

/// Options of tbf. Rates in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TbfConfig {
    /// The rate.
    pub rate: u64,
    /// Bytes that may leave at once; a GSO packet above it is split, any other dropped.
    pub burst: u32,
    /// Bytes that may wait.
    pub limit: u32,
}

/// Limits of an HTB class whose ceiling is its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HtbClassConfig {
    /// Bytes per second.
    pub rate: u64,
    /// Bytes that may leave at once.
    pub burst: u64,
    /// Bytes served before the next class has its turn.
    pub quantum: u32,
}

/// The ticks that `bytes` take at `rate` bytes per second, rounded up, or `None` beyond the
/// kernel's 32 bits (274 s).
pub fn ticks(bytes: u64, rate: u64) -> Option<u32> {
    let ns = u128::from(bytes) * 1_000_000_000;
    let ticks = ns.div_ceil(u128::from(rate.max(1)) * u128::from(TICK_NS));
    u32::try_from(ticks).ok()
}

impl QdiscConfig {
    /// The kernel's name for the kind.
    pub fn kind(&self) -> &str {
        match self {
            QdiscConfig::Mq => "mq",
            QdiscConfig::Fq(_) => "fq",
            QdiscConfig::Htb { .. } => "htb",
            QdiscConfig::Tbf(_) => "tbf",
            QdiscConfig::Raw { kind, .. } => kind,
        }
    }

    /// The raw options.
    pub fn encode(&self) -> Option<Vec<u8>> {
        match self {
            QdiscConfig::Mq => None,
            QdiscConfig::Fq(config) => Some(config.encode()),
            QdiscConfig::Htb {
                default,
                direct_packets,
            } => Some(encode_htb(*default, *direct_packets)),
            QdiscConfig::Tbf(config) => Some(config.encode()),
            QdiscConfig::Raw { options, .. } => options.clone(),
        }
    }

    /// What puts a qdisc back that was dumped with these options.
    pub fn put_back(kind: &str, options: Option<&[u8]>) -> QdiscConfig {
        let options = options.map(|dumped| match kind {
            "tbf" => tbf_put_back(dumped),
            "htb" => htb_put_back(dumped),
            "fq_codel" => codel_put_back(dumped, &FQ_CODEL_TIMES),
            _ => dumped.to_vec(),
        });
        QdiscConfig::Raw {
            kind: kind.to_owned(),
            options,
        }
    }
}

mod fq {
    pub(super) const LIMIT: u16 = 1;
    pub(super) const FLOW_LIMIT: u16 = 2;
    pub(super) const RATE_ENABLE: u16 = 5;
    pub(super) const HORIZON: u16 = 14;
    pub(super) const HORIZON_DROP: u16 = 15;
}

impl FqConfig {
    fn encode(&self) -> Vec<u8> {
        let mut options = Attributes::new();
        options.0.append_attr_u32(fq::LIMIT, self.limit);
        options.0.append_attr_u32(fq::FLOW_LIMIT, self.flow_limit);
        options
            .0
            .append_attr_u32(fq::RATE_ENABLE, u32::from(self.pacing));
        options.0.append_attr_u32(fq::HORIZON, self.horizon_us);
        options
            .0
            .append_attr_u8(fq::HORIZON_DROP, u8::from(self.horizon_drop));
        options.finish()
    }

    /// From dumped options; `None` if one of them is missing.
    pub fn decode(options: &[u8]) -> Option<FqConfig> {
        Some(FqConfig {
            limit: u32_at(find(options, fq::LIMIT)?, 0)?,
            flow_limit: u32_at(find(options, fq::FLOW_LIMIT)?, 0)?,
            horizon_us: u32_at(find(options, fq::HORIZON)?, 0)?,
            horizon_drop: *find(options, fq::HORIZON_DROP)?.first()? != 0,
            pacing: u32_at(find(options, fq::RATE_ENABLE)?, 0)? != 0,
        })
    }
}

mod htb {
    pub(super) const PARAMETERS: u16 = 1;
    pub(super) const INIT: u16 = 2;
    pub(super) const DIRECT_QLEN: u16 = 5;
    pub(super) const RATE64: u16 = 6;
    pub(super) const CEIL64: u16 = 7;
    /// The version of the interface, and bytes of rate for each byte of quantum (unused: every
    /// class of leaky says its quantum).
    pub(super) const VERSION: u32 = 3;
    pub(super) const RATE_TO_QUANTUM: u32 = 10;
}

fn encode_htb(default: u32, direct_packets: u32) -> Vec<u8> {
    let mut init = Vec::with_capacity(20);
    for word in [htb::VERSION, htb::RATE_TO_QUANTUM, default, 0, 0] {
        init.extend_from_slice(&word.to_ne_bytes());
    }
    let mut options = Attributes::new();
    options.0.append_attr(htb::INIT, &init);
    options.0.append_attr_u32(htb::DIRECT_QLEN, direct_packets);
    options.finish()
}

/// The default class and the direct queue length of a dumped HTB root.
pub(crate) fn decode_htb(options: &[u8]) -> Option<(u32, u32)> {
    let default = u32_at(find(options, htb::INIT)?, 8)?;
    let direct = u32_at(find(options, htb::DIRECT_QLEN)?, 0)?;
    Some((default, direct))
}

/// A dumped HTB root says its version with the minor version in the low half; asked for is the
/// major one alone.
fn htb_put_back(dumped: &[u8]) -> Vec<u8> {
    match decode_htb(dumped) {
        Some((default, direct_packets)) => encode_htb(default, direct_packets),
        None => dumped.to_vec(),
    }
}

impl HtbClassConfig {
    /// The raw options.
    pub fn encode(&self) -> Vec<u8> {
        let buffer = ticks(self.burst, self.rate).unwrap_or(u32::MAX);
        let mut parameters = Vec::with_capacity(44);
        rate_spec(&mut parameters, self.rate);
        rate_spec(&mut parameters, self.rate);
        for word in [buffer, buffer, self.quantum, 0, 0] {
            parameters.extend_from_slice(&word.to_ne_bytes());
        }
        let mut options = Attributes::new();
        options.0.append_attr(htb::PARAMETERS, &parameters);
        if self.rate > u64::from(u32::MAX) {
            options.0.append_attr_u64(htb::RATE64, self.rate);
            options.0.append_attr_u64(htb::CEIL64, self.rate);
        }
        options.finish()
    }

    /// Whether dumped options say the same, rate and quantum to the unit, burst to the tick.
    pub fn reads_back(&self, options: &[u8]) -> bool {
        let read = || {
            let parameters = find(options, htb::PARAMETERS)?;
            let wide = |attribute| {
                find(options, attribute).and_then(|v| Some(u64::from_ne_bytes(*v.first_chunk()?)))
            };
            let rate = wide(htb::RATE64).unwrap_or(u64::from(u32_at(parameters, 8)?));
            let ceil = wide(htb::CEIL64).unwrap_or(u64::from(u32_at(parameters, 20)?));
            let quantum = u32_at(parameters, 32)?;
            Some((
                rate,
                ceil,
                u32_at(parameters, 24)?,
                u32_at(parameters, 28)?,
                quantum,
            ))
        };
        let Some((rate, ceil, buffer, cbuffer, quantum)) = read() else {
            return false;
        };
        let asked = ticks(self.burst, self.rate).unwrap_or(u32::MAX);
        (rate, ceil, quantum) == (self.rate, self.rate, self.quantum)
            && buffer.abs_diff(asked) <= 1
            && cbuffer.abs_diff(asked) <= 1
    }
}

mod tbf {
    pub(super) const PARAMETERS: u16 = 1;
    pub(super) const RATE64: u16 = 4;
    pub(super) const BURST: u16 = 6;
    /// Offsets in `struct tc_tbf_qopt`.
    pub(super) const RATE_AT: usize = 8;
    pub(super) const LIMIT_AT: usize = 24;
    pub(super) const BUFFER_AT: usize = 28;
}

impl TbfConfig {
    fn encode(&self) -> Vec<u8> {
        let mut parameters = Vec::with_capacity(36);
        rate_spec(&mut parameters, self.rate);
        parameters.extend_from_slice(&[0; 12]);
        let buffer = ticks(u64::from(self.burst), self.rate).unwrap_or(u32::MAX);
        for word in [self.limit, buffer, 0] {
            parameters.extend_from_slice(&word.to_ne_bytes());
        }
        let mut options = Attributes::new();
        options.0.append_attr(tbf::PARAMETERS, &parameters);
        options.0.append_attr_u32(tbf::BURST, self.burst);
        if self.rate > u64::from(u32::MAX) {
            options.0.append_attr_u64(tbf::RATE64, self.rate);
        }
        options.finish()
    }

    /// Whether dumped options say the same: rate and limit to the byte, burst to the tick.
    pub fn reads_back(&self, options: &[u8]) -> bool {
        let Some((rate, limit, buffer)) = tbf_read(options) else {
            return false;
        };
        let asked = ticks(u64::from(self.burst), self.rate).unwrap_or(u32::MAX);
        (rate, limit) == (self.rate, self.limit) && buffer.abs_diff(asked) <= 1
    }
}

/// Rate, limit and buffer in ticks of a dumped tbf.
fn tbf_read(options: &[u8]) -> Option<(u64, u32, u32)> {
    let parameters = find(options, tbf::PARAMETERS)?;
    let wide = find(options, tbf::RATE64).and_then(|v| Some(u64::from_ne_bytes(*v.first_chunk()?)));
    let rate = wide.unwrap_or(u64::from(u32_at(parameters, tbf::RATE_AT)?));
    Some((
        rate,
        u32_at(parameters, tbf::LIMIT_AT)?,
        u32_at(parameters, tbf::BUFFER_AT)?,
    ))
}

/// A dumped tbf says its burst only as time in whole ticks, which at high rates is less than it
/// has (3,100 B at 100 Gbit/s read back as 2,400). Adds the largest burst that reads back the
/// same, so that a qdisc put back never drops what the old one passed.
fn tbf_put_back(dumped: &[u8]) -> Vec<u8> {
    let mut options = dumped.to_vec();
    let Some((rate, _, buffer)) = tbf_read(dumped) else {
        return options;
    };
    if find(dumped, tbf::BURST).is_some() {
        return options;
    }
    let next_tick = (u128::from(buffer) + 1) * u128::from(TICK_NS);
    let first_beyond = (next_tick * u128::from(rate)).div_ceil(1_000_000_000);
    let burst = u32::try_from(first_beyond.saturating_sub(1)).unwrap_or(u32::MAX);
    let mut more = Attributes::new();
    more.0.append_attr_u32(tbf::BURST, burst);
    options.extend_from_slice(&more.finish());
    options
}

/// Target, interval and CE threshold of fq_codel.
const FQ_CODEL_TIMES: [u16; 3] = [1, 3, 7];

/// CoDel keeps times in units of 1,024 ns and cuts off the rest both when it is told microseconds
/// and when it dumps them, so that a dump put back would be 1 us less each time. One more gives
/// the same units.
fn codel_put_back(dumped: &[u8], times: &[u16]) -> Vec<u8> {
    let mut options = Attributes::new();
    for (kind, value) in AttrIter::new(dumped) {
        match u32_at(value, 0) {
            Some(us) if times.contains(&(kind & TYPE_MASK)) => {
                options.0.append_attr_u32(kind, us.saturating_add(1));
            }
            _ => options.0.append_attr(kind, value),
        }
    }
    options.finish()
}

/// Appends a `struct tc_ratespec`.
fn rate_spec(to: &mut Vec<u8>, rate: u64) {
    let narrow = u32::try_from(rate).unwrap_or(u32::MAX);
    to.extend_from_slice(&[0, LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0]);
    to.extend_from_slice(&narrow.to_ne_bytes());
}

/// A list of attributes being written.
struct Attributes(MessageBuilder);

impl Attributes {
    fn new() -> Attributes {
        Attributes(MessageBuilder::new(0, 0))
    }

    fn finish(self) -> Vec<u8> {
        self.0.finish().split_off(NLMSG_HDRLEN)
    }
}

/// The value of the first attribute of this type.
pub(super) fn find(attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    AttrIter::new(attributes)
        .find(|(kind, _)| kind & TYPE_MASK == wanted)
        .map(|(_, value)| value)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map(|b| u32::from_ne_bytes(*b))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map(|b| u64::from_ne_bytes(*b))
}
