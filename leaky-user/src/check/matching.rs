//! A match in words.

use crate::config::Match;
use crate::config::value::{dscp_name, protocol_name, show_ports, show_prefix};

/// Prefixes that are named; of more it is said how many.
const NAMED: usize = 6;

/// Which packets, such as `UDP, from 10.0.0.0/8, to port 5004, with DSCP ef`.
pub(super) fn in_words(matching: &Match) -> String {
    if matching.is_all() {
        return "every packet".to_owned();
    }
    let mut parts = Vec::new();
    let protocols = any_of(&matching.protocols, "protocols", |p| {
        protocol_name(*p).to_uppercase()
    });
    parts.extend(protocols);
    let mut part = |before: &str, list: Option<String>| {
        parts.extend(list.map(|list| format!("{before} {list}")));
    };
    part("from", any_of(&matching.sources, "prefixes", show_prefix));
    part(
        "to",
        any_of(&matching.destinations, "prefixes", show_prefix),
    );
    part(
        "from port",
        any_of(&matching.source_ports, "ranges", show_ports),
    );
    part(
        "to port",
        any_of(&matching.destination_ports, "ranges", show_ports),
    );
    part(
        "with DSCP",
        any_of(&matching.dscps, "code points", |d| dscp_name(*d)),
    );
    part(
        "with mark",
        any_of(&matching.marks, "marks", |mark| format!("{mark:#x}")),
    );
    part("in VLAN", any_of(&matching.vlans, "ids", u16::to_string));
    let path = |path: &std::path::PathBuf| path.display().to_string().escape_debug().to_string();
    part("sent by cgroup", any_of(&matching.cgroups, "cgroups", path));
    parts.join(", ")
}

/// `a, b or c`, and how many more there are.
fn any_of<T>(values: &[T], what: &str, show: impl Fn(&T) -> String) -> Option<String> {
    let named = if values.len() > NAMED + 1 {
        NAMED
    } else {
        values.len()
    };
    let mut shown: Vec<String> = values.iter().take(named).map(show).collect();
    if values.len() > named {
        shown.push(format!("one of {} more {what}", values.len() - named));
    }
    let last = shown.pop()?;
    Some(match shown.is_empty() {
        true => last,
        false => format!("{} or {last}", shown.join(", ")),
    })
}
