//! The match of a class: its lists, read and without redundancy.

use super::error::{Place, Problems, quoted};
use super::lines::{TextFile, only_word};
use super::model::Match;
use super::raw::{Item, List, RawMatch};
use super::value::{self, ValueError};
use ipnet::IpNet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;

/// Reads a match. `None` if anything is wrong with it, so that nothing else is concluded from it.
pub(super) fn matching(
    raw: &RawMatch<'_>,
    mark_mask: u32,
    base: &Path,
    problems: &mut Problems,
) -> Option<Match> {
    let before = problems.count();
    let mark = |text: &str| {
        let mark = value::mark(text)?;
        if mark & !mark_mask != 0 {
            return Err(ValueError::new(format!(
                "mark {mark:#x} has bits outside the mark-mask {mark_mask:#x}: no packet has it; \
                 write {:#x}, or widen the mask",
                mark & mark_mask
            )));
        }
        Ok(mark)
    };
    let matching = Match {
        protocols: values(
            &raw.protocol,
            value::protocol,
            |p| value::protocol_name(*p),
            problems,
        ),
        sources: prefixes(&raw.source, &raw.source_file, base, problems),
        destinations: prefixes(&raw.destination, &raw.destination_file, base, problems),
        source_ports: port_list(&raw.source_port, problems),
        destination_ports: port_list(&raw.destination_port, problems),
        dscps: values(
            &raw.dscp,
            value::dscp,
            |dscp| value::dscp_name(*dscp),
            problems,
        ),
        marks: values(&raw.mark, mark, |mark| format!("{mark:#x}"), problems),
        vlans: values(&raw.vlan, value::vlan, u16::to_string, problems),
        cgroups: values(
            &raw.cgroup,
            value::cgroup,
            |path| quoted(&path.to_string_lossy()),
            problems,
        ),
    };
    protocols_have_ports(raw, problems);
    one_family(raw, &matching, problems);
    (problems.count() == before).then_some(matching)
}

/// Where a value stands.
struct At<T> {
    value: T,
    place: Place,
}

fn not_empty(list: &List<'_>, problems: &mut Problems) {
    if list.is_empty {
        problems.missing(
            list.place,
            format!(
                "{} = [] matches nothing: name at least one, or leave {} out to match all",
                list.key, list.key
            ),
        );
    }
}

/// Reads a list and sorts it; a value that is there twice is a problem.
fn values<T: Ord>(
    list: &Option<List<'_>>,
    read: impl Fn(&str) -> Result<T, ValueError>,
    show: impl Fn(&T) -> String,
    problems: &mut Problems,
) -> Vec<T> {
    let Some(list) = list else {
        return Vec::new();
    };
    not_empty(list, problems);
    let mut found: Vec<At<T>> = list
        .items
        .iter()
        .filter_map(|item| {
            let value = item.read(problems, &read)?;
            let place = item.place;
            Some(At { value, place })
        })
        .collect();
    found.sort_by(|a, b| (&a.value, a.place).cmp(&(&b.value, b.place)));
    for pair in found.windows(2) {
        if pair[0].value == pair[1].value {
            let (text, first) = (show(&pair[1].value), pair[0].place);
            twice(list.key, &text, first, pair[1].place, problems);
        }
    }
    found.into_iter().map(|at| at.value).collect()
}

fn twice(key: &str, text: &str, first: Place, again: Place, problems: &mut Problems) {
    let first = problems.refer(again, first);
    problems.add(
        again,
        format!("{key} has {text} twice (first on {first}): leave one out"),
    );
}

fn inside(key: &str, inner: At<impl Display>, outer: At<impl Display>, problems: &mut Problems) {
    let whole = problems.refer(inner.place, outer.place);
    problems.add(
        inner.place,
        format!(
            "{key} {} lies inside {} ({whole}): leave it out",
            inner.value, outer.value
        ),
    );
}

/// Ports: overlapping ranges are a problem, adjacent ones become one.
fn port_list(list: &Option<List<'_>>, problems: &mut Problems) -> Vec<RangeInclusive<u16>> {
    let Some(list) = list else {
        return Vec::new();
    };
    not_empty(list, problems);
    let mut found: Vec<At<RangeInclusive<u16>>> = list
        .items
        .iter()
        .filter_map(|item| {
            let value = item.read(problems, value::ports)?;
            let place = item.place;
            Some(At { value, place })
        })
        .collect();
    // A range before those inside it.
    found.sort_by_key(|at| (*at.value.start(), u16::MAX - at.value.end(), at.place));
    let mut merged: Vec<At<RangeInclusive<u16>>> = Vec::new();
    for At { value, place } in found {
        match merged.last_mut() {
            Some(last) if value == last.value => {
                twice(
                    list.key,
                    &value::show_ports(&value),
                    last.place,
                    place,
                    problems,
                );
            }
            Some(last) if value.end() <= last.value.end() => {
                let show = |value: &RangeInclusive<u16>, place| At {
                    value: value::show_ports(value),
                    place,
                };
                let (inner, outer) = (show(&value, place), show(&last.value, last.place));
                inside(list.key, inner, outer, problems);
            }
            Some(last) if value.start() <= last.value.end() => {
                let other = problems.refer(place, last.place);
                problems.add(
                    place,
                    format!(
                        "{} {} overlaps {} ({other}): write \"{}-{}\" for both",
                        list.key,
                        value::show_ports(&value),
                        value::show_ports(&last.value),
                        last.value.start(),
                        value.end()
                    ),
                );
            }
            Some(last) if *value.start() == last.value.end().saturating_add(1) => {
                last.value = *last.value.start()..=*value.end();
            }
            _ => merged.push(At { value, place }),
        }
    }
    merged.into_iter().map(|at| at.value).collect()
}

/// The prefixes of a list and of a file together; none may lie inside another.
fn prefixes(
    list: &Option<List<'_>>,
    file: &Option<Item<'_>>,
    base: &Path,
    problems: &mut Problems,
) -> Vec<IpNet> {
    let mut found: Vec<At<IpNet>> = Vec::new();
    let mut key = "";
    if let Some(list) = list {
        key = list.key;
        not_empty(list, problems);
        for item in &list.items {
            if let Some(value) = item.read(problems, value::prefix) {
                let place = item.place;
                found.push(At { value, place });
            }
        }
    }
    if let Some(item) = file {
        key = item.key.trim_end_matches("-file");
        if let Some(file) = TextFile::named(item, base, problems) {
            let mut lines = 0;
            for (place, line) in file.lines() {
                lines += 1;
                let word = only_word(place, line, problems);
                let read = word.map(value::prefix);
                if let Some(value) = read.and_then(|read| problems.take(place, read)) {
                    found.push(At { value, place });
                }
            }
            if lines == 0 {
                let text = format!(
                    "no prefix in it, so {} matches nothing: write one prefix a line, or leave {} out",
                    item.key, item.key
                );
                problems.add(file.source().whole(), text);
            }
        }
    }
    // Prefixes are disjoint or one contains the other, and then it comes first.
    found.sort_by_key(|at| (at.value, at.place));
    let mut kept: Vec<At<IpNet>> = Vec::new();
    for At { value, place } in found {
        match kept.last() {
            Some(last) if last.value == value => {
                twice(
                    key,
                    &value::show_prefix(&value),
                    last.place,
                    place,
                    problems,
                );
            }
            Some(last) if last.value.contains(&value) => {
                let (inner, outer) = (
                    At {
                        value: value::show_prefix(&value),
                        place,
                    },
                    At {
                        value: last.value,
                        place: last.place,
                    },
                );
                inside(key, inner, outer, problems);
            }
            _ => kept.push(At { value, place }),
        }
    }
    kept.into_iter().map(|at| at.value).collect()
}

/// Ports are only read of some protocols; one that has none never matches beside them.
fn protocols_have_ports(raw: &RawMatch<'_>, problems: &mut Problems) {
    let Some(ports) = raw.source_port.as_ref().or(raw.destination_port.as_ref()) else {
        return;
    };
    for item in raw.protocol.iter().flat_map(|list| &list.items) {
        if let Ok(protocol) = value::protocol(&item.text)
            && !value::has_ports(protocol)
        {
            let name = value::protocol_name(protocol);
            problems.add(
                item.place,
                format!(
                    "leaky reads no ports of {name} (of tcp, udp, sctp and udplite it does), so with \
                     {} it never matches: leave {name} out, or the ports",
                    ports.key
                ),
            );
        }
    }
}

/// A packet has both addresses of one family.
fn one_family(raw: &RawMatch<'_>, matching: &Match, problems: &mut Problems) {
    let families = |prefixes: &[IpNet]| {
        let v4 = prefixes.iter().any(|prefix| prefix.addr().is_ipv4());
        let v6 = prefixes.iter().any(|prefix| prefix.addr().is_ipv6());
        (v4, v6)
    };
    let (source, destination) = (
        families(&matching.sources),
        families(&matching.destinations),
    );
    let empty = match (source, destination) {
        ((true, false), (false, true)) => Some(("IPv4", "IPv6")),
        ((false, true), (true, false)) => Some(("IPv6", "IPv4")),
        _ => None,
    };
    let list = raw.destination.as_ref().map(|list| list.place);
    let place = list.or(raw.destination_file.as_ref().map(|file| file.place));
    if let (Some((source, destination)), Some(place)) = (empty, place) {
        problems.add(
            place,
            format!(
                "empty match: the sources are {source} and the destinations {destination}, and no \
                 packet is both; give them the same family"
            ),
        );
    }
}
