//! What is computed from a capture. Integers only; percentiles are by nearest rank, so every figure shown was measured.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use crate::frame::{Packet, sequences};

/// Nanoseconds of a duration; a duration beyond 584 years counts as that.
#[must_use]
pub fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The value below or at which `percent` % of the sorted values are (nearest rank); `None` without values.
#[must_use]
pub fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Times between packets that follow each other, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gaps {
    /// How many gaps: packets less one.
    pub count: usize,
    /// Shortest.
    pub min: u64,
    /// 1 % are at most this.
    pub p1: u64,
    /// Median.
    pub p50: u64,
    /// 99 % are at most this.
    pub p99: u64,
    /// Longest.
    pub max: u64,
}

impl Gaps {
    /// The gaps of packets in order of arrival; `None` with fewer than two packets.
    #[must_use]
    pub fn of(packets: &[Packet]) -> Option<Self> {
        let mut gaps: Vec<u64> = packets
            .windows(2)
            .map(|pair| pair[1].time_ns.saturating_sub(pair[0].time_ns))
            .collect();
        gaps.sort_unstable();
        Some(Self {
            count: gaps.len(),
            min: *gaps.first()?,
            p1: percentile(&gaps, 1)?,
            p50: percentile(&gaps, 50)?,
            p99: percentile(&gaps, 99)?,
            max: *gaps.last()?,
        })
    }
}

/// Wire bytes in windows that follow each other, from `from_ns` to the last packet. The last window may be partial.
#[must_use]
pub fn windows(packets: &[Packet], from_ns: u64, width: Duration) -> Vec<u64> {
    let width = ns(width).max(1);
    let mut sums = Vec::new();
    for packet in packets.iter().filter(|packet| packet.time_ns >= from_ns) {
        let Ok(index) = usize::try_from((packet.time_ns - from_ns) / width) else {
            continue;
        };
        if sums.len() <= index {
            sums.resize(index + 1, 0);
        }
        sums[index] += u64::from(packet.wire_bytes);
    }
    sums
}

/// The most that any window of this width holds, wherever it begins: wire bytes and packets.
#[must_use]
pub fn largest_window(packets: &[Packet], width: Duration) -> (u64, usize) {
    let width = ns(width);
    let (mut first, mut bytes) = (0, 0);
    let mut most = (0, 0);
    for (last, packet) in packets.iter().enumerate() {
        bytes += u64::from(packet.wire_bytes);
        while packet.time_ns - packets[first].time_ns >= width {
            bytes -= u64::from(packets[first].wire_bytes);
            first += 1;
        }
        most = (most.0.max(bytes), most.1.max(last + 1 - first));
    }
    most
}

/// Sum of the wire bytes.
#[must_use]
pub fn wire_bytes(packets: &[Packet]) -> u64 {
    packets
        .iter()
        .map(|packet| u64::from(packet.wire_bytes))
        .sum()
}

/// The rate at which packets left, wire bytes per second: a packet occupies the time until the next one, so the last
/// one is not counted. `None` with fewer than two packets.
#[must_use]
pub fn rate(packets: &[Packet]) -> Option<u64> {
    let (last, before) = packets.split_last()?;
    let time = last
        .time_ns
        .checked_sub(before.first()?.time_ns)
        .filter(|time| *time > 0)?;
    let scaled = u128::from(wire_bytes(before)) * 1_000_000_000 / u128::from(time);
    u64::try_from(scaled).ok()
}

/// How far `measured` is from `wanted`, parts per million of `wanted`.
#[must_use]
pub fn ppm(measured: u64, wanted: u64) -> i64 {
    let difference = i128::from(measured) - i128::from(wanted);
    i64::try_from(difference * 1_000_000 / i128::from(wanted.max(1))).unwrap_or(i64::MAX)
}

/// What became of the packets of one sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delivery {
    /// Different sequence numbers that arrived.
    pub received: u64,
    /// Sequence numbers below `sent` that did not.
    pub lost: u64,
    /// Arrivals of a number that had arrived before.
    pub duplicated: u64,
    /// Arrivals with a number below one that had arrived before.
    pub reordered: u64,
    /// Packets whose payload is not what was sent.
    pub changed: u64,
    /// Longest time from sending to receiving, ns.
    pub delay_max_ns: u64,
}

/// Follows each sender's sequence numbers. `sent` gives how many numbers each sender used.
#[must_use]
pub fn deliveries(packets: &[Packet], sent: &BTreeMap<u32, u64>) -> BTreeMap<u32, Delivery> {
    let mut seen: BTreeMap<u32, (BTreeSet<u64>, Delivery)> = sent
        .keys()
        .map(|stream| (*stream, Default::default()))
        .collect();
    let mut highest: BTreeMap<u32, u64> = BTreeMap::new();
    for packet in packets {
        let Some(mark) = packet.mark else { continue };
        let (numbers, delivery) = seen.entry(mark.stream).or_default();
        for number in sequences(packet) {
            if !numbers.insert(number) {
                delivery.duplicated += 1;
            }
            let highest = highest.entry(mark.stream).or_insert(number);
            if number < *highest {
                delivery.reordered += 1;
            }
            *highest = number.max(*highest);
        }
        delivery.changed += u64::from(!packet.intact);
        delivery.delay_max_ns = delivery
            .delay_max_ns
            .max(packet.time_ns.saturating_sub(mark.sent_ns));
    }
    seen.into_iter()
        .map(|(stream, (numbers, mut delivery))| {
            delivery.received = numbers.len() as u64;
            delivery.lost = sent
                .get(&stream)
                .map_or(0, |sent| sent.saturating_sub(delivery.received));
            (stream, delivery)
        })
        .collect()
}

/// Delays from sending to receiving, sorted, ns.
#[must_use]
pub fn delays(packets: &[Packet]) -> Vec<u64> {
    let mut delays: Vec<u64> = packets
        .iter()
        .filter_map(|packet| Some(packet.time_ns.saturating_sub(packet.mark?.sent_ns)))
        .collect();
    delays.sort_unstable();
    delays
}

/// The packets for each destination address, in their order.
#[must_use]
pub fn per_destination(packets: &[Packet]) -> BTreeMap<IpAddr, Vec<Packet>> {
    let mut found: BTreeMap<IpAddr, Vec<Packet>> = BTreeMap::new();
    for packet in packets {
        if let Some(destination) = packet.destination {
            found.entry(destination).or_default().push(*packet);
        }
    }
    found
}

/// Nanoseconds as microseconds with one digit, as text.
#[must_use]
pub fn us(ns: u64) -> String {
    format!("{}.{}", ns / 1000, ns % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::{Gaps, deliveries, largest_window, percentile, ppm, rate, us, windows};
    use crate::frame::Packet;
    use crate::payload::Mark;

    fn packet(time_ns: u64, wire_bytes: u32, sequence: u64) -> Packet {
        Packet {
            time_ns,
            wire_bytes,
            skb_bytes: wire_bytes,
            segments: 1,
            ethertype: 0x0800,
            vlan: None,
            source: None,
            destination: None,
            tos: 0,
            header_right: true,
            protocol: 17,
            fragment: false,
            source_port: 1,
            destination_port: 2,
            mark: Some(Mark {
                stream: 1,
                sequence,
                sent_ns: 0,
            }),
            intact: true,
        }
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<u64> = (1..=200).collect();
        assert_eq!(percentile(&values, 1), Some(2));
        assert_eq!(percentile(&values, 50), Some(100));
        assert_eq!(percentile(&values, 99), Some(198));
        assert_eq!(percentile(&[7], 1), Some(7));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn even_packets_have_even_gaps_windows_and_rate() {
        let packets: Vec<Packet> = (0..100).map(|i| packet(i * 1_000_000, 1000, i)).collect();
        let gaps = Gaps::of(&packets).expect("gaps");
        assert_eq!(
            (gaps.count, gaps.min, gaps.p50, gaps.max),
            (99, 1_000_000, 1_000_000, 1_000_000)
        );
        assert_eq!(rate(&packets), Some(1_000_000));
        assert_eq!(
            windows(&packets, 0, Duration::from_millis(10)),
            vec![10_000; 10]
        );
        assert_eq!(
            largest_window(&packets, Duration::from_millis(10)),
            (10_000, 10)
        );
        assert_eq!(
            largest_window(&packets, Duration::from_nanos(10_000_001)),
            (11_000, 11)
        );
        assert_eq!(ppm(1_000_500, 1_000_000), 500);
        assert_eq!(us(833_649), "833.6");
    }

    #[test]
    fn a_capture_without_two_packets_has_no_rate() {
        assert_eq!(rate(&[]), None);
        assert_eq!(rate(&[packet(1, 1, 0)]), None);
        assert_eq!(Gaps::of(&[packet(1, 1, 0)]), None);
        assert_eq!(largest_window(&[], Duration::from_millis(1)), (0, 0));
    }

    #[test]
    fn lost_double_and_late_packets_are_counted() {
        let packets = [0, 1, 3, 2, 3].map(|number| packet(number, 100, number));
        let found = deliveries(&packets, &BTreeMap::from([(1, 6), (2, 5)]));
        let one = found[&1];
        assert_eq!(
            (one.received, one.lost, one.duplicated, one.reordered),
            (4, 2, 1, 1)
        );
        assert_eq!(found[&2].lost, 5);
    }
}
