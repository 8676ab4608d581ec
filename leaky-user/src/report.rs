//! What leaky says: in words and numbers for people, in one JSON object per line for programs.
//! Every number carries its unit and can be typed back in.

use crate::bpf::Hook;
use crate::hold::{Content, HoldStats, Installed};
use crate::limit::Limit;
use crate::net::Link;
use crate::units::{Duration, Rate};
use leaky_core::abi::{Counters, Key, REASONS};
use leaky_core::bucket::Refusal;
use leaky_core::wire::Layer;
use serde::Serialize;
use std::collections::BTreeMap;

/// What was installed.
#[derive(Serialize)]
pub struct InstallReport {
    interface: String,
    ifindex: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_bytes_per_second: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_packets_per_second: Option<u64>,
    capacity_bytes: Option<u64>,
    capacity_packets: u64,
    #[serde(rename = "capacity_seconds", serialize_with = "as_seconds")]
    capacity_ns: u64,
    #[serde(rename = "max_wait_seconds", serialize_with = "as_seconds")]
    max_wait_ns: u64,
    #[serde(rename = "burst_seconds", serialize_with = "as_seconds")]
    burst_ns: u64,
    key: &'static str,
    hold: String,
    hold_reason: String,
    attach: &'static str,
    gso_max_segs: u32,
    notices: Vec<String>,
    #[serde(skip)]
    pub(crate) words: String,
}

impl InstallReport {
    /// Puts the report together. `link` is the interface as it was before.
    pub fn new(
        link: &Link,
        limit: &Limit,
        installed: &Installed,
        reason: &str,
        hook: Hook,
    ) -> InstallReport {
        let mut notices = limit.notices.clone();
        notices.extend_from_slice(installed.notices());
        let gso_max_segs = installed.ask().gso_max_segs.unwrap_or(link.gso_max_segs);
        let (capacity_bytes, capacity_packets) = match limit.capacity {
            Content::Bytes(bytes) => (Some(bytes), bytes / u64::from(link.full_frame().max(1))),
            Content::Packets(packets) => (None, packets),
        };
        let mut report = InstallReport {
            interface: link.name.clone(),
            ifindex: link.index,
            rate_bytes_per_second: limit.rate.bytes_per_second(),
            rate_packets_per_second: limit.rate.packets_per_second(),
            capacity_bytes,
            capacity_packets,
            capacity_ns: limit.capacity_time.as_nanos(),
            max_wait_ns: limit.max_wait.as_nanos(),
            burst_ns: limit.burst.as_nanos(),
            key: key_name(limit.key),
            hold: installed.kind().to_string(),
            hold_reason: reason.to_owned(),
            attach: hook.name(),
            gso_max_segs,
            notices,
            words: String::new(),
        };
        report.words = report.in_words(link, limit);
        report
    }

    fn in_words(&self, link: &Link, limit: &Limit) -> String {
        let whose = match limit.key {
            Key::Class => "one bucket for the whole interface",
            Key::Flow => "one bucket for each flow",
        };
        let frames = match limit.capacity {
            Content::Bytes(_) => {
                format!(" = {}p of {} B", self.capacity_packets, link.full_frame())
            }
            Content::Packets(_) => String::new(),
        };
        let counted = match (limit.rate, link.layer) {
            (Rate::PacketsPerSecond(_), _) => "packets as sent, each segment of a GSO packet",
            (_, Layer::Ethernet) => {
                "bytes of Ethernet frames (headers yes, preamble and checksum no), for each segment \
                 of a GSO packet"
            }
            (_, Layer::Ip) => {
                "bytes of IP packets (no link header here), for each segment of a GSO \
                 packet"
            }
        };
        let burst = match limit.burst {
            Duration::ZERO => "none: idle time earns no credit".to_owned(),
            burst => format!("up to {burst} early after a pause"),
        };
        let mut lines = vec![
            format!(
                "{}: limited to {}, {whose}",
                self.interface,
                limit.rate.echo()
            ),
            format!(
                "  bucket    {}{frames} = {} at the rate",
                limit.capacity.echo(),
                limit.capacity_time
            ),
            format!("  max wait  {}", limit.max_wait),
            format!("  burst     {burst}"),
            format!("  counted   {counted}"),
            format!("  hold      {}: {}", self.hold, self.hold_reason),
            format!("  attached  {}", self.attach),
            format!(
                "  GSO       up to {}p in a packet of the local stack (before: {}p); connections \
                 already open keep their size",
                self.gso_max_segs, link.gso_max_segs
            ),
        ];
        lines.extend(
            self.notices
                .iter()
                .map(|notice| format!("  note      {notice}")),
        );
        lines.join("\n")
    }
}

/// Everything counted since the start.
#[derive(Clone, Debug, Serialize)]
pub struct CountersReport {
    offered_packets: u64,
    offered_bytes: u64,
    offered_skb_bytes: u64,
    accepted_packets: u64,
    accepted_bytes: u64,
    accepted_skb_bytes: u64,
    /// What qdiscs count as packets: the same as packets where there is no GSO.
    accepted_buffers: u64,
    delayed_packets: u64,
    delayed_bytes: u64,
    delayed_buffers: u64,
    dropped: BTreeMap<&'static str, Dropped>,
    passed_packets: u64,
    passed_bytes: u64,
    hold_sent_packets: u64,
    hold_dropped_packets: u64,
    hold_drops: BTreeMap<&'static str, u64>,
    hold_passed_dropped_packets: u64,
    hold_backlog_packets: u64,
    hold_backlog_bytes: u64,
    #[serde(rename = "wait_sum_seconds", serialize_with = "as_seconds")]
    wait_sum_ns: u64,
    #[serde(rename = "wait_max_seconds", serialize_with = "as_seconds")]
    wait_max_ns: u64,
    largest_lump_packets: u64,
    largest_lump_bytes: u64,
    stamps_ignored_packets: u64,
    keys_beyond_table_packets: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Dropped {
    packets: u64,
    bytes: u64,
}

impl CountersReport {
    /// Puts what the program and the hold counted side by side.
    pub fn new(counters: &Counters, hold: &HoldStats) -> CountersReport {
        let dropped = REASONS
            .iter()
            .zip(&counters.dropped)
            .map(|(reason, tally)| {
                (
                    reason_name(*reason),
                    Dropped {
                        packets: tally.packets,
                        bytes: tally.bytes,
                    },
                )
            })
            .collect();
        CountersReport {
            offered_packets: counters.offered.packets,
            offered_bytes: counters.offered.bytes,
            offered_skb_bytes: counters.offered.buffer_bytes,
            accepted_packets: counters.accepted.packets,
            accepted_bytes: counters.accepted.bytes,
            accepted_skb_bytes: counters.accepted.buffer_bytes,
            accepted_buffers: counters.accepted.buffers,
            delayed_packets: counters.delayed.packets,
            delayed_bytes: counters.delayed.bytes,
            delayed_buffers: counters.delayed.buffers,
            dropped,
            passed_packets: counters.passed.packets,
            passed_bytes: counters.passed.bytes,
            hold_sent_packets: hold.sent_packets,
            hold_dropped_packets: hold.dropped_packets,
            hold_drops: hold.drops.iter().copied().collect(),
            hold_passed_dropped_packets: hold.passed_dropped_packets,
            hold_backlog_packets: hold.backlog_packets,
            hold_backlog_bytes: hold.backlog_bytes,
            wait_sum_ns: counters.wait_sum_ns,
            wait_max_ns: counters.wait_max_ns,
            largest_lump_packets: counters.largest_packets,
            largest_lump_bytes: counters.largest_bytes,
            stamps_ignored_packets: counters.stamps_ignored,
            keys_beyond_table_packets: counters.keys_beyond_table,
        }
    }

    /// One line about the time since `before`, `elapsed_ns` ago.
    pub fn line(&self, before: &CountersReport, elapsed_ns: u64) -> String {
        let rate = |now: u64, then: u64| measured(now.saturating_sub(then), elapsed_ns);
        let sum =
            |report: &CountersReport| -> u64 { report.dropped.values().map(|d| d.packets).sum() };
        format!(
            "offered {:>11}  accepted {:>11}  waiting {:>7}p = {:>8} B  dropped {:>8}p, by the hold {}p",
            rate(self.offered_bytes, before.offered_bytes),
            rate(self.accepted_bytes, before.accepted_bytes),
            self.hold_backlog_packets,
            self.hold_backlog_bytes,
            sum(self).saturating_sub(sum(before)),
            self.hold_dropped_packets
                .saturating_sub(before.hold_dropped_packets),
        )
    }

    /// Whether traffic came and the limit never mattered to it.
    pub fn limit_not_reached(&self) -> bool {
        self.offered_packets > 0
            && self.delayed_packets == 0
            && self.dropped.values().all(|dropped| dropped.packets == 0)
    }

    /// What was offered per second over `elapsed_ns`.
    pub fn offered_rate(&self, elapsed_ns: u64) -> String {
        measured(self.offered_bytes, elapsed_ns)
    }

    /// The summary at the end.
    pub fn in_words(&self, interface: &str, elapsed_ns: u64) -> String {
        let amount = |packets: u64, bytes: u64| format!("{packets}p, {bytes} B");
        let mut lines = vec![
            format!(
                "{interface}: not limited any more, after {}",
                brief(Duration::from_nanos(elapsed_ns))
            ),
            format!(
                "  offered   {} = {}",
                amount(self.offered_packets, self.offered_bytes),
                self.offered_rate(elapsed_ns)
            ),
            format!(
                "  accepted  {} = {}",
                amount(self.accepted_packets, self.accepted_bytes),
                measured(self.accepted_bytes, elapsed_ns)
            ),
            format!(
                "  delayed   {}",
                amount(self.delayed_packets, self.delayed_bytes)
            ),
        ];
        if self.delayed_packets > 0 {
            let mean = self.wait_sum_ns / self.delayed_buffers.max(1);
            lines.push(format!(
                "  wait      mean {}, longest {}",
                brief(Duration::from_nanos(mean)),
                brief(Duration::from_nanos(self.wait_max_ns))
            ));
        }
        for (reason, dropped) in self
            .dropped
            .iter()
            .filter(|(_, dropped)| dropped.packets > 0)
        {
            let reason = reason.replace('_', " ");
            lines.push(format!(
                "  dropped   {} ({reason})",
                amount(dropped.packets, dropped.bytes)
            ));
        }
        for (reason, packets) in self.hold_drops.iter().filter(|(_, packets)| **packets > 0) {
            lines.push(format!("  dropped   {packets}p by the hold ({reason})"));
        }
        lines.push(format!(
            "  passed    {} of control traffic, unshaped",
            amount(self.passed_packets, self.passed_bytes)
        ));
        lines.push(format!(
            "  largest   {} handed down in one piece",
            amount(self.largest_lump_packets, self.largest_lump_bytes)
        ));
        if self.hold_backlog_packets > 0 {
            lines.push(format!(
                "  given up  {}, still waiting when the hold was removed",
                amount(self.hold_backlog_packets, self.hold_backlog_bytes)
            ));
        }
        if self.limit_not_reached() {
            lines.push(
                "  note      the limit was not reached: nothing was delayed or dropped".into(),
            );
        }
        lines.join("\n")
    }
}

/// One line of JSON output.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    /// The limit is in force.
    Installed(&'a InstallReport),
    /// What was counted so far.
    Counters(&'a CountersReport),
    /// Something worth knowing happened.
    Notice {
        /// In words.
        text: &'a str,
    },
    /// The limit is removed; what was counted.
    Summary(&'a CountersReport),
}

fn key_name(key: Key) -> &'static str {
    match key {
        Key::Class => "class",
        Key::Flow => "flow",
    }
}

fn reason_name(reason: Refusal) -> &'static str {
    match reason {
        Refusal::Overflow => "overflow",
        Refusal::TooLate => "too_late",
        Refusal::Contention => "contention",
    }
}

/// Nanoseconds as JSON seconds, with all their digits. Only here is a time a float.
#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 ns are 104 days; below that it is exact"
)]
fn as_seconds<S: serde::Serializer>(ns: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(*ns as f64 / 1e9)
}

/// A measured rate, rounded to the kbit/s: a whole number of bytes, so that it can be typed.
fn measured(bytes: u64, elapsed_ns: u64) -> String {
    let kbit = u128::from(bytes) * 8 * 1_000_000 / u128::from(elapsed_ns.max(1));
    match u64::try_from(kbit) {
        Ok(0) => "0bit".to_owned(),
        Ok(kbit) => Rate::BytesPerSecond(kbit.saturating_mul(125)).to_string(),
        Err(_) => "n/a".to_owned(),
    }
}

/// A duration to four digits or so.
fn brief(duration: Duration) -> Duration {
    let ns = duration.as_nanos();
    let step = 10u64.pow(ns.checked_ilog10().unwrap_or(0).saturating_sub(3));
    Duration::from_nanos(ns / step * step)
}
