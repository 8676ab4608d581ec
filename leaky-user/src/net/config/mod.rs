//! The options of qdiscs and classes, to and from the kernel's form.
//!
//! Layouts and attribute numbers: the kernel's `include/uapi/linux/pkt_sched.h`. Times of token
//! buckets go in ticks of 64 ns (`PSCHED_SHIFT` in `include/net/pkt_sched.h`); the kernel drops
//! the rest of a tick.

mod codel;
mod difference;
mod fq;
mod htb;
mod rate;
mod tbf;

pub use difference::Difference;
pub use fq::FqConfig;
pub use htb::HtbClassConfig;
pub(crate) use htb::compare_htb;
pub use rate::{PerPacket, TICK_NS, ticks};
pub use tbf::TbfConfig;

use codel::{FQ_CODEL_TIMES, codel_put_back};
use htb::{encode_htb, htb_put_back};
use nlink::netlink::{AttrIter, MessageBuilder, NLMSG_HDRLEN};
use tbf::tbf_put_back;

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
pub(in crate::net) fn find(attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    AttrIter::new(attributes)
        .find(|(kind, _)| kind & TYPE_MASK == wanted)
        .map(|(_, value)| value)
}

pub(in crate::net) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map(|b| u32::from_ne_bytes(*b))
}

pub(in crate::net) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map(|b| u64::from_ne_bytes(*b))
}
