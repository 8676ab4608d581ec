//! What was counted.

use super::number::{as_seconds, brief, measured};
use crate::classes::Resolved;
use crate::config::Action;
use crate::hold::HoldStats;
use crate::units::Duration;
use leaky_core::abi::{Counters, REASONS};
use leaky_core::bucket::Refusal;
use leaky_core::policy::REST;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

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
    marked_packets: u64,
    marked_bytes: u64,
    dropped: BTreeMap<&'static str, Dropped>,
    passed_packets: u64,
    passed_bytes: u64,
    unreadable_packets: u64,
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
    classes: Vec<ClassCounters>,
    /// What waits for the link is not among the delayed: only the hold knows it.
    #[serde(skip)]
    has_link: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Dropped {
    packets: u64,
    bytes: u64,
}

/// What was counted for one class.
#[derive(Clone, Debug, Serialize)]
pub struct ClassCounters {
    pub(crate) class: String,
    offered_packets: u64,
    pub(crate) offered_bytes: u64,
    accepted_packets: u64,
    accepted_bytes: u64,
    delayed_packets: u64,
    delayed_bytes: u64,
    marked_packets: u64,
    marked_bytes: u64,
    dropped: BTreeMap<&'static str, Dropped>,
    passed_packets: u64,
    passed_bytes: u64,
    unreadable_packets: u64,
    #[serde(rename = "wait_sum_seconds", serialize_with = "as_seconds")]
    wait_sum_ns: u64,
    #[serde(rename = "wait_max_seconds", serialize_with = "as_seconds")]
    wait_max_ns: u64,
    /// Keys that have a bucket in the table now.
    keys: u64,
    keys_beyond_table_packets: u64,
    /// By how much one source leads all others together.
    #[serde(skip)]
    pub(crate) lead_bytes: u64,
    /// Whether nothing of it has happened: the class is only watched.
    #[serde(skip)]
    watched: bool,
}

impl ClassCounters {
    fn new(class: String, counted: &Counters, keys: u64, watched: bool) -> ClassCounters {
        ClassCounters {
            class,
            offered_packets: counted.offered.packets,
            offered_bytes: counted.offered.bytes,
            accepted_packets: counted.accepted.packets,
            accepted_bytes: counted.accepted.bytes,
            delayed_packets: counted.delayed.packets,
            delayed_bytes: counted.delayed.bytes,
            marked_packets: counted.marked.packets,
            marked_bytes: counted.marked.bytes,
            dropped: dropped(counted),
            passed_packets: counted.passed.packets,
            passed_bytes: counted.passed.bytes,
            unreadable_packets: counted.unreadable,
            wait_sum_ns: counted.wait_sum_ns,
            wait_max_ns: counted.wait_max_ns,
            keys,
            keys_beyond_table_packets: counted.keys_beyond_table,
            lead_bytes: counted.main_lead,
            watched,
        }
    }

    /// What a limit would have done to a class that is only watched.
    fn would_have_been(&self) -> String {
        let mean = self.wait_sum_ns / self.delayed_packets.max(1);
        format!(
            "  {:<9} only watched: {}p, {} B; a limit would have dropped {}p and delayed {}p, on average by \
             {}, at most by {}",
            self.class,
            self.offered_packets,
            self.offered_bytes,
            self.dropped_packets(),
            self.delayed_packets,
            brief(Duration::from_nanos(mean)),
            brief(Duration::from_nanos(self.wait_max_ns))
        )
    }

    fn dropped_packets(&self) -> u64 {
        self.dropped.values().map(|dropped| dropped.packets).sum()
    }
}

/// What was dropped, by reason.
fn dropped(counters: &Counters) -> BTreeMap<&'static str, Dropped> {
    REASONS
        .iter()
        .zip(&counters.dropped)
        .map(|(reason, tally)| {
            let dropped = Dropped {
                packets: tally.packets,
                bytes: tally.bytes,
            };
            (reason_name(*reason), dropped)
        })
        .collect()
}

fn reason_name(reason: Refusal) -> &'static str {
    match reason {
        Refusal::Overflow => "overflow",
        Refusal::TooLate => "too_late",
        Refusal::Contention => "contention",
        Refusal::Link => "link",
        Refusal::Denied => "denied",
    }
}

/// What the totals need to know of classes that are not in force any more.
#[derive(Clone, Copy)]
pub struct Past<'a> {
    /// What was counted for those whose ids others have now.
    pub counters: &'a Counters,
    /// The ids of classes that are, or were last, only watched.
    pub watched: &'a BTreeSet<u32>,
}

impl CountersReport {
    /// Puts what the program counted, by class id, and the hold side by side.
    pub fn new(
        classes: &[Resolved],
        counters: &[Counters],
        past: Past<'_>,
        keys: impl Fn(u32) -> u64,
        hold: &HoldStats,
        has_link: bool,
    ) -> CountersReport {
        let mut sum = *past.counters;
        for (id, class) in (0..).zip(counters) {
            if past.watched.contains(&id) {
                sum.add(&class.without_limit());
            } else {
                sum.add(class);
            }
        }
        let mut by_class: Vec<ClassCounters> = classes
            .iter()
            .filter_map(|class| {
                let counted = counters.get(class.id as usize)?;
                Some(ClassCounters::new(
                    class.name.clone(),
                    counted,
                    keys(class.id),
                    class.action == Action::Monitor,
                ))
            })
            .collect();
        if let Some(rest) = counters.get(REST) {
            by_class.push(ClassCounters::new("rest".to_owned(), rest, 0, false));
        }
        CountersReport {
            offered_packets: sum.offered.packets,
            offered_bytes: sum.offered.bytes,
            offered_skb_bytes: sum.offered.buffer_bytes,
            accepted_packets: sum.accepted.packets,
            accepted_bytes: sum.accepted.bytes,
            accepted_skb_bytes: sum.accepted.buffer_bytes,
            accepted_buffers: sum.accepted.buffers,
            delayed_packets: sum.delayed.packets,
            delayed_bytes: sum.delayed.bytes,
            delayed_buffers: sum.delayed.buffers,
            marked_packets: sum.marked.packets,
            marked_bytes: sum.marked.bytes,
            dropped: dropped(&sum),
            passed_packets: sum.passed.packets,
            passed_bytes: sum.passed.bytes,
            unreadable_packets: sum.unreadable,
            hold_sent_packets: hold.sent_packets,
            hold_dropped_packets: hold.dropped_packets,
            hold_drops: hold.drops.iter().copied().collect(),
            hold_passed_dropped_packets: hold.passed_dropped_packets,
            hold_backlog_packets: hold.backlog_packets,
            hold_backlog_bytes: hold.backlog_bytes,
            wait_sum_ns: sum.wait_sum_ns,
            wait_max_ns: sum.wait_max_ns,
            largest_lump_packets: sum.largest_packets,
            largest_lump_bytes: sum.largest_bytes,
            stamps_ignored_packets: sum.stamps_ignored,
            keys_beyond_table_packets: sum.keys_beyond_table,
            classes: by_class,
            has_link,
        }
    }

    /// How much the busiest source of a class leads by.
    pub fn main_source_lead(&self, class: &str) -> Option<&ClassCounters> {
        self.classes.iter().find(|counted| counted.class == class)
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
            && !self.has_link
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
                "  offered   {}, on average {}",
                amount(self.offered_packets, self.offered_bytes),
                self.offered_rate(elapsed_ns)
            ),
            format!(
                "  accepted  {}, on average {}",
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
        if self.marked_packets > 0 {
            lines.push(format!(
                "  marked    {} (ECN)",
                amount(self.marked_packets, self.marked_bytes)
            ));
        }
        let watched = self.classes.iter().filter(|class| class.watched);
        lines.extend(watched.map(ClassCounters::would_have_been));
        if self.classes.len() > 2 {
            let limited = self.classes.iter().filter(|class| !class.watched);
            lines.extend(limited.map(|class| {
                format!(
                    "  {:<9} offered {}, accepted {}, dropped {}p, passed {}p",
                    class.class,
                    amount(class.offered_packets, class.offered_bytes),
                    amount(class.accepted_packets, class.accepted_bytes),
                    class.dropped_packets(),
                    class.passed_packets
                )
            }));
        }
        let keys: u64 = self.classes.iter().map(|class| class.keys).sum();
        if keys > 0 {
            lines.push(format!(
                "  keys      {keys} had a bucket of their own at the end"
            ));
        }
        if self.keys_beyond_table_packets > 0 {
            lines.push(format!(
                "  keys      {}p of keys that found no place shared a bucket",
                self.keys_beyond_table_packets
            ));
        }
        if self.unreadable_packets > 0 {
            lines.push(format!(
                "  not IP    {}p could not be read as IP (other protocols, too many tags, broken headers)",
                self.unreadable_packets
            ));
        }
        lines.push(format!(
            "  passed    {} unshaped: control traffic, and classes that pass or are only watched",
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
