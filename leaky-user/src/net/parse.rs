//! The kernel's messages, read into the values of this module.
//!
//! Layouts: `struct ifinfomsg`, `struct tcmsg` and the `IFLA_*`, `TCA_*` numbers of the kernel's
//! `include/uapi/linux/{rtnetlink,if_link,gen_stats,pkt_sched}.h`.

use super::config::{find, u32_at, u64_at};
use super::{Class, Error, FqStats, Layer, Link, Qdisc, Stats};

/// Bytes of `struct ifinfomsg`, before the attributes.
pub(super) const LINK_HEADER: usize = 16;
/// Bytes of `struct tcmsg`, before the attributes.
pub(super) const TC_HEADER: usize = 20;

mod ifla {
    pub(super) const IFNAME: u16 = 3;
    pub(super) const MTU: u16 = 4;
    pub(super) const NUM_TX_QUEUES: u16 = 31;
    pub(super) const GSO_MAX_SEGS: u16 = 40;
    pub(super) const GSO_MAX_SIZE: u16 = 41;
}

mod tca {
    pub(super) const KIND: u16 = 1;
    pub(super) const OPTIONS: u16 = 2;
    pub(super) const STATS2: u16 = 7;
    pub(super) const STATS_BASIC: u16 = 1;
    pub(super) const STATS_QUEUE: u16 = 3;
    pub(super) const STATS_APP: u16 = 4;
    pub(super) const STATS_PACKETS64: u16 = 8;
}

/// Link types (`ARPHRD_*`, `include/uapi/linux/if_arp.h`) by what a frame starts with.
fn layer_of(arphrd: u16) -> Option<Layer> {
    match arphrd {
        // ETHER, LOOPBACK.
        1 | 772 => Some(Layer::Ethernet),
        // PPP, RAWIP, TUNNEL, TUNNEL6, SIT, NONE (tun, WireGuard).
        512 | 519 | 768 | 769 | 776 | 0xfffe => Some(Layer::Ip),
        _ => None,
    }
}

/// An RTM_NEWLINK body.
pub(super) fn link(body: &[u8], doing: &str) -> Result<Link, Error> {
    let malformed = |what| Error::Malformed {
        doing: doing.to_owned(),
        what,
    };
    let header = body
        .get(..LINK_HEADER)
        .ok_or_else(|| malformed("short link message"))?;
    let attributes = body.get(LINK_HEADER..).unwrap_or_default();
    let name = find(attributes, ifla::IFNAME)
        .map(text)
        .ok_or_else(|| malformed("link without a name"))?;
    let arphrd = u16::from_ne_bytes([header[2], header[3]]);
    let index = u32_at(header, 4).ok_or_else(|| malformed("link without an index"))?;
    let flags = u32_at(header, 8).unwrap_or_default();
    let layer = layer_of(arphrd).ok_or_else(|| Error::UnsupportedLink {
        name: name.clone(),
        arphrd,
    })?;
    let number = |attribute| find(attributes, attribute).and_then(|v| u32_at(v, 0));
    Ok(Link {
        index,
        name,
        mtu: number(ifla::MTU).ok_or_else(|| malformed("link without an MTU"))?,
        layer,
        loopback: flags & libc::IFF_LOOPBACK.cast_unsigned() != 0,
        up: flags & libc::IFF_UP.cast_unsigned() != 0,
        tx_queues: number(ifla::NUM_TX_QUEUES).unwrap_or(1).max(1),
        gso_max_segs: number(ifla::GSO_MAX_SEGS)
            .ok_or_else(|| malformed("link without gso_max_segs"))?,
        gso_max_size: number(ifla::GSO_MAX_SIZE)
            .ok_or_else(|| malformed("link without gso_max_size"))?,
    })
}

/// The interface index of a link message.
pub(super) fn link_index(body: &[u8]) -> Option<u32> {
    u32_at(body, 4)
}

/// The interface index of a qdisc or class message.
pub(super) fn tc_index(body: &[u8]) -> Option<u32> {
    u32_at(body, 4)
}

/// An RTM_NEWQDISC body.
pub(super) fn qdisc(body: &[u8]) -> Option<Qdisc> {
    let attributes = body.get(TC_HEADER..)?;
    let kind = text(find(attributes, tca::KIND)?);
    let stats = find(attributes, tca::STATS2).unwrap_or_default();
    let fq = if kind == "fq" {
        find(stats, tca::STATS_APP).and_then(fq_stats)
    } else {
        None
    };
    Some(Qdisc {
        kind,
        handle: u32_at(body, 8)?,
        parent: u32_at(body, 12)?,
        options: find(attributes, tca::OPTIONS).map(<[u8]>::to_vec),
        stats: counters(stats),
        fq,
    })
}

/// An RTM_NEWTCLASS body.
pub(super) fn class(body: &[u8]) -> Option<Class> {
    let attributes = body.get(TC_HEADER..)?;
    Some(Class {
        kind: text(find(attributes, tca::KIND)?),
        classid: u32_at(body, 8)?,
        parent: u32_at(body, 12)?,
        options: find(attributes, tca::OPTIONS).map(<[u8]>::to_vec),
        stats: counters(find(attributes, tca::STATS2).unwrap_or_default()),
    })
}

fn counters(stats: &[u8]) -> Stats {
    let basic = find(stats, tca::STATS_BASIC).unwrap_or_default();
    let queue = find(stats, tca::STATS_QUEUE).unwrap_or_default();
    // The basic counter of packets has 32 bits; the wide one is there when it matters.
    let packets = find(stats, tca::STATS_PACKETS64)
        .and_then(|v| u64_at(v, 0))
        .or_else(|| u32_at(basic, 8).map(u64::from));
    Stats {
        sent_packets: packets.unwrap_or_default(),
        backlog_packets: u32_at(queue, 0).unwrap_or_default(),
        backlog_bytes: u32_at(queue, 4).unwrap_or_default(),
        dropped: u32_at(queue, 8).unwrap_or_default(),
    }
}

/// `struct tc_fq_qd_stats`, which only ever grew at its end.
fn fq_stats(app: &[u8]) -> Option<FqStats> {
    Some(FqStats {
        flow_limit_drops: u64_at(app, 32)?,
        horizon_drops: u64_at(app, 88)?,
    })
}

/// A string attribute without its closing zero.
fn text(value: &[u8]) -> String {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}
