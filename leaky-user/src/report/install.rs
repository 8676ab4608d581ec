//! What was installed.

use super::number::as_seconds;
use crate::bpf::Hook;
use crate::classes::{Compiled, Resolved};
use crate::config::{Action, Fallback, Interface};
use crate::hold::{Content, Installed};
use crate::limit::Limit;
use crate::net::Link;
use crate::units::{Duration, Rate};
use serde::Serialize;

/// What was installed.
#[derive(Serialize)]
pub struct InstallReport {
    interface: String,
    ifindex: u32,
    /// The limits of the only class; absent where there are several.
    #[serde(flatten)]
    only: Option<LimitReport>,
    key: String,
    classes: Vec<ClassReport>,
    link: Option<LimitReport>,
    rest: String,
    counted: String,
    hold: String,
    hold_reason: String,
    attach: &'static str,
    gso_max_segs: u32,
    notices: Vec<String>,
    #[serde(skip)]
    pub(crate) words: String,
}

/// The limits of a bucket.
#[derive(Clone, Serialize)]
struct LimitReport {
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
    #[serde(
        rename = "ecn_seconds",
        serialize_with = "as_seconds_if",
        skip_serializing_if = "Option::is_none"
    )]
    ecn_ns: Option<u64>,
}

/// A class and its limits.
#[derive(Serialize)]
struct ClassReport {
    class: String,
    action: String,
    key: String,
    key_words: String,
    clients: usize,
    #[serde(flatten)]
    limit: Option<LimitReport>,
}

impl LimitReport {
    fn new(limit: &Limit, link: &Link) -> LimitReport {
        let (capacity_bytes, capacity_packets) = match limit.capacity {
            Content::Bytes(bytes) => (Some(bytes), bytes / u64::from(link.full_frame().max(1))),
            Content::Packets(packets) => (None, packets),
        };
        LimitReport {
            rate_bytes_per_second: limit.rate.bytes_per_second(),
            rate_packets_per_second: limit.rate.packets_per_second(),
            capacity_bytes,
            capacity_packets,
            capacity_ns: limit.capacity_time.as_nanos(),
            max_wait_ns: limit.max_wait.as_nanos(),
            burst_ns: limit.burst.as_nanos(),
            ecn_ns: limit.ecn.map(Duration::as_nanos),
        }
    }
}

impl InstallReport {
    /// Puts the report together. `link` is the interface as it was before.
    pub fn new(
        link: &Link,
        interface: &Interface,
        compiled: &Compiled,
        installed: &Installed,
        reason: &str,
        hook: Hook,
    ) -> InstallReport {
        let mut notices = compiled.notices.clone();
        notices.extend_from_slice(installed.notices());
        let gso_max_segs = installed.ask().gso_max_segs.unwrap_or(link.gso_max_segs);
        let only = match compiled.classes.as_slice() {
            [class] => class.limit.as_ref(),
            _ => None,
        };
        let mut report = InstallReport {
            interface: link.name.clone(),
            ifindex: link.index,
            only: only.map(|limit| LimitReport::new(limit, link)),
            key: match compiled.classes.as_slice() {
                [class] => class.per.to_string(),
                _ => "n/a".to_owned(),
            },
            classes: compiled
                .classes
                .iter()
                .map(|class| ClassReport {
                    class: class.name.clone(),
                    action: class.action.to_string(),
                    key: class.per.to_string(),
                    key_words: whose(class),
                    clients: class.clients,
                    limit: class
                        .limit
                        .as_ref()
                        .map(|limit| LimitReport::new(limit, link)),
                })
                .collect(),
            link: compiled
                .link
                .as_ref()
                .map(|limit| LimitReport::new(limit, link)),
            rest: match interface.fallback {
                Fallback::Pass => "pass".to_owned(),
                Fallback::Drop => "drop".to_owned(),
                Fallback::Class(at) => {
                    let class = interface.classes.get(at);
                    class.map_or_else(String::new, |class| class.name.clone())
                }
            },
            counted: counted(interface, compiled, link),
            hold: installed.kind().to_string(),
            hold_reason: reason.to_owned(),
            attach: hook.name(),
            gso_max_segs,
            notices,
            words: String::new(),
        };
        report.words = report.in_words(link, interface, compiled);
        report
    }

    fn in_words(&self, link: &Link, interface: &Interface, compiled: &Compiled) -> String {
        let mut lines = match compiled.classes.as_slice() {
            [class] => match &class.limit {
                Some(limit) => self.only_class(link, class, limit),
                None => vec![format!(
                    "{}: class {}: {}",
                    self.interface,
                    class.name,
                    class_words(class)
                )],
            },
            [] => vec![format!("{}: limited as a whole", self.interface)],
            classes => {
                let mut lines = vec![format!("{}: {} classes", self.interface, classes.len())];
                lines.extend(
                    classes
                        .iter()
                        .map(|class| format!("  {:<9} {}", class.name, class_words(class))),
                );
                lines
            }
        };
        if !interface.takes_everything() {
            lines.push(format!("  the rest  {}", interface.rest_in_words()));
        }
        if let Some(line) = &compiled.link {
            lines.push(format!(
                "  link      {} for all together, {} = {} of it may wait",
                line.rate.echo(),
                line.capacity.echo(),
                line.capacity_time
            ));
        }
        lines.push(format!("  counted   {}", self.counted));
        lines.push(format!("  hold      {}: {}", self.hold, self.hold_reason));
        lines.push(format!("  attached  {}", self.attach));
        lines.push(format!(
            "  GSO       up to {}p in a packet of the local stack (before: {}p); connections \
             already open keep their size",
            self.gso_max_segs, link.gso_max_segs
        ));
        lines.extend(
            self.notices
                .iter()
                .map(|notice| format!("  note      {notice}")),
        );
        lines.join("\n")
    }

    fn only_class(&self, link: &Link, class: &Resolved, limit: &Limit) -> Vec<String> {
        let frames = match limit.capacity {
            Content::Bytes(bytes) => format!(
                " = {}p of {} B",
                bytes / u64::from(link.full_frame().max(1)),
                link.full_frame()
            ),
            Content::Packets(_) => String::new(),
        };
        let burst = match limit.burst {
            Duration::ZERO => "none: idle time earns no credit".to_owned(),
            burst => format!("up to {burst} early after a pause"),
        };
        let does = match class.action {
            Action::Monitor => "watched as if limited",
            _ => "limited",
        };
        let mut lines = vec![
            format!(
                "{}: {does} to {}, {}",
                self.interface,
                limit.rate.echo(),
                whose(class)
            ),
            format!(
                "  bucket    {}{frames} = {} at the rate",
                limit.capacity.echo(),
                limit.capacity_time
            ),
            format!("  max wait  {}", limit.max_wait),
            format!("  burst     {burst}"),
        ];
        if let Some(ecn) = limit.ecn {
            lines.push(format!(
                "  ECN       packets that wait longer than {ecn} are marked"
            ));
        }
        lines
    }
}

/// A class in one line.
fn class_words(class: &Resolved) -> String {
    let does = match (class.action, &class.limit) {
        (Action::Pass, _) => return "passes".to_owned(),
        (Action::Drop, _) => return "is dropped".to_owned(),
        (Action::Monitor, _) => "is watched as if limited to",
        (Action::Shape, _) => "is limited to",
    };
    match &class.limit {
        Some(limit) => format!(
            "{does} {}, bucket {} = {}, max wait {}; {}",
            limit.rate.echo(),
            limit.capacity.echo(),
            limit.capacity_time,
            limit.max_wait,
            whose(class)
        ),
        None => format!("{does} the rates of its {}", whose(class)),
    }
}

/// Whose buckets, in words.
fn whose(class: &Resolved) -> String {
    match (class.clients, class.per) {
        (0, per) => per.in_words(),
        (n, _) => format!("{n} clients, each with a bucket of its own"),
    }
}

/// What a packet counts as.
fn counted(interface: &Interface, compiled: &Compiled, link: &Link) -> String {
    let in_packets = |limit: &Limit| matches!(limit.rate, Rate::PacketsPerSecond(_));
    let mut limits = compiled
        .classes
        .iter()
        .filter_map(|class| class.limit.as_ref());
    if compiled.link.is_none() && limits.clone().count() > 0 && limits.all(in_packets) {
        return "packets as sent, each segment of a GSO packet".to_owned();
    }
    interface.counted_in_words(Some(link.layer))
}

fn as_seconds_if<S: serde::Serializer>(ns: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    match ns {
        Some(ns) => as_seconds(ns, to),
        None => to.serialize_none(),
    }
}
