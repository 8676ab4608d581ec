//! How many packets an fq must have room for.

use crate::hold::line::per_time;
use crate::hold::{Ask, Content, Group, Keys};
use crate::net::{Layer, Link};
use crate::units::Rate;

/// Packets that may wait for the timer although their time has come: what the rate brings in
/// this time.
const LATE_NS: u64 = 4_000_000;
/// Packets of traffic that is not shaped and passes through the same qdisc.
const PASSING_PACKETS: u64 = 1_000;
/// Kernel memory of a small packet: its descriptor and a buffer of 512 B.
const PACKET_MEMORY: u64 = 768;
/// What the queue of an interface may take in kernel memory on top of twice the capacity, in
/// bytes. Twice, because a full frame takes up to 1.6 times its size.
const MEMORY: u64 = 256 << 20;

/// fq must never drop what the program accepted, so there is room for a full bucket of the
/// smallest packets there are (a bare IP header). What bounds it is kernel memory: 256 MiB and
/// twice the capacity in packets of 768 B for one bucket. Several buckets share 256 MiB: in full
/// frames over all of them and all queues, or what all of them hold in small packets if that is
/// known and fits, but always one full bucket. The link's own capacity comes on top. A capacity in
/// packets is taken at its word.
pub(super) fn packets(ask: &Ask) -> (u64, Vec<String>) {
    let mut notices = Vec::new();
    let mut needed = |need: (u64, Option<String>)| {
        notices.extend(need.1);
        need.0
    };
    let buckets: Vec<u64> = ask
        .groups
        .iter()
        .map(|group| needed(bucket(ask, group)))
        .collect();
    let line = ask.line.map_or(0, |line| {
        needed(bytes(ask, "the link", line.capacity, line.rate))
    });
    let largest = buckets.iter().max().copied().unwrap_or_default();
    let least = largest.saturating_add(line).saturating_add(PASSING_PACKETS);
    // Thousands of clients shall not say the same thousands of times.
    if notices.len() > 2 {
        let more = notices.len() - 1;
        notices.truncate(1);
        notices.push(format!("so it is with {more} more buckets"));
    }
    if let ([only], None) = (&ask.groups[..], ask.line)
        && only.keys == Keys::One
    {
        return (least, notices);
    }
    let queues = match ask.line {
        Some(_) => 1,
        None => u64::from(ask.link.tx_queues),
    };
    let frame_memory = u64::from(ask.link.full_frame()) + PACKET_MEMORY;
    let shared = MEMORY / frame_memory / queues;
    let all = buckets.iter().fold(line, |sum, n| sum.saturating_add(*n));
    let small = MEMORY / PACKET_MEMORY / queues;
    let limit = all
        .saturating_add(PASSING_PACKETS)
        .min(small)
        .max(shared)
        .max(least);
    notices.push(format!(
        "fq keeps at most {limit} packets over all keys together{}",
        if queues > 1 {
            " in each transmit queue"
        } else {
            ""
        }
    ));
    (limit, notices)
}

/// The packets that one bucket of a group can have in fq.
fn bucket(ask: &Ask, group: &Group) -> (u64, Option<String>) {
    match (group.capacity, group.rate) {
        (Content::Packets(packets), rate) => {
            let late = per_time(rate.packets_per_second().unwrap_or_default(), LATE_NS);
            (packets.saturating_add(late), None)
        }
        // An empty bucket takes one packet however large.
        (Content::Bytes(capacity), rate) => {
            let rate = match rate {
                Rate::BytesPerSecond(rate) => rate,
                Rate::PacketsPerSecond(_) => 0,
            };
            bytes(ask, "a bucket", capacity.max(ask.largest_packet), rate)
        }
    }
}

/// The packets of a capacity in bytes, and a notice if memory allows fewer.
fn bytes(ask: &Ask, whose: &str, capacity: u64, rate: u64) -> (u64, Option<String>) {
    let content = capacity.saturating_add(per_time(rate, LATE_NS));
    let needed = content.div_ceil(ask.charged(smallest_packet(&ask.link)));
    let affordable = MEMORY.saturating_add(capacity.saturating_mul(2)) / PACKET_MEMORY;
    if needed <= affordable {
        return (needed, None);
    }
    let mean = content.div_ceil(affordable);
    let notice = format!(
        "fq keeps at most {affordable} packets of {whose}: its capacity of {capacity} B is \
         reached with packets of {mean} B or more on average, smaller ones are dropped by fq \
         before that"
    );
    (affordable, Some(notice))
}

/// The smallest packet that is shaped, in bytes as the program counts them: a bare IPv4 header.
fn smallest_packet(link: &Link) -> u64 {
    match link.layer {
        Layer::Ethernet => 34,
        Layer::Ip => 20,
    }
}
