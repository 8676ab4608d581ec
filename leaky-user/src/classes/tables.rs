//! For each thing that classes can ask for, a table of which classes accept a value. Pure.

use super::Cgroups;
use crate::bpf::Tables;
use crate::config::{Interface, Match, Per};
use ipnet::IpNet;
use leaky_core::abi::{PORTS, VLANS};
use leaky_core::classify::{Classifier, Side, uses};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// What classes ask for, as bits.
pub(super) fn classifier(interface: &Interface, cgroups: &Cgroups) -> (Classifier, Tables) {
    let matches: Vec<&Match> = interface.classes.iter().map(|c| &c.matching).collect();
    let mut classifier = Classifier {
        classes: bits(matches.iter().map(|_| true)),
        mark_mask: interface.mark_mask,
        any_source: bits(matches.iter().map(|m| m.sources.is_empty())),
        any_destination: bits(matches.iter().map(|m| m.destinations.is_empty())),
        any_mark: bits(matches.iter().map(|m| m.marks.is_empty())),
        any_cgroup: bits(matches.iter().map(|m| m.cgroups.is_empty())),
        any_client: bits(interface.classes.iter().map(|c| c.clients.is_none())),
        any_protocol: bits(matches.iter().map(|m| {
            m.protocols.is_empty()
                && m.dscps.is_empty()
                && m.sources.is_empty()
                && m.destinations.is_empty()
                && m.source_ports.is_empty()
                && m.destination_ports.is_empty()
        })),
        ..Classifier::EMPTY
    };
    for (protocol, classes) in (0..=u8::MAX).zip(&mut classifier.protocols) {
        *classes = accepting(&matches, |m| &m.protocols, &protocol);
    }
    for (dscp, classes) in (0..64).zip(&mut classifier.dscps) {
        *classes = accepting(&matches, |m| &m.dscps, &dscp);
    }
    if let Some(class) = interface.classes.iter().find(|c| c.clients.is_some()) {
        classifier.client_side = u32::from(matches!(class.per, Per::Destination { .. }));
    }
    for cgroup in cgroups.values().flatten() {
        classifier.cgroup_levels |= 1u32.checked_shl(cgroup.level).unwrap_or(0);
    }
    let asked = [
        (uses::SOURCES, !all(classifier.any_source, &classifier)),
        (
            uses::DESTINATIONS,
            !all(classifier.any_destination, &classifier),
        ),
        (
            uses::SOURCE_PORTS,
            matches.iter().any(|m| !m.source_ports.is_empty()),
        ),
        (
            uses::DESTINATION_PORTS,
            matches.iter().any(|m| !m.destination_ports.is_empty()),
        ),
        (uses::VLANS, matches.iter().any(|m| !m.vlans.is_empty())),
        (uses::MARKS, !all(classifier.any_mark, &classifier)),
        (uses::CGROUPS, !all(classifier.any_cgroup, &classifier)),
        (uses::CLIENTS, !all(classifier.any_client, &classifier)),
        (
            uses::CGROUP_KEYS,
            interface.classes.iter().any(|c| c.per == Per::Cgroup),
        ),
    ];
    for (bit, asked) in asked {
        if asked {
            classifier.uses |= bit;
        }
    }
    let tables = tables(&matches, classifier.uses, cgroups);
    (classifier, tables)
}

fn all(classes: u64, classifier: &Classifier) -> bool {
    classes == classifier.classes
}

/// A bit for each class that says yes.
fn bits(classes: impl Iterator<Item = bool>) -> u64 {
    (0..64)
        .zip(classes)
        .fold(0, |bits, (place, yes)| bits | u64::from(yes) << place)
}

/// The classes that ask for this value among others, or for none.
fn accepting<T: PartialEq>(matches: &[&Match], list: fn(&Match) -> &Vec<T>, value: &T) -> u64 {
    bits(matches.iter().map(|m| {
        let asked = list(m);
        asked.is_empty() || asked.contains(value)
    }))
}

fn tables(matches: &[&Match], uses: u32, cgroups: &Cgroups) -> Tables {
    let mut tables = Tables::default();
    if uses & uses::SOURCES != 0 {
        prefixes(matches, Side::Source, |m| &m.sources, &mut tables);
    }
    if uses & uses::DESTINATIONS != 0 {
        prefixes(matches, Side::Destination, |m| &m.destinations, &mut tables);
    }
    if uses & uses::SOURCE_PORTS != 0 {
        tables.source_ports = ports(matches, |m| &m.source_ports);
    }
    if uses & uses::DESTINATION_PORTS != 0 {
        tables.destination_ports = ports(matches, |m| &m.destination_ports);
    }
    if uses & uses::VLANS != 0 {
        tables.vlans = (0..VLANS)
            .map(|vlan| {
                let vlan = u16::try_from(vlan).unwrap_or(u16::MAX);
                accepting(matches, |m| &m.vlans, &vlan)
            })
            .collect();
    }
    if uses & uses::MARKS != 0 {
        let mut marks: Vec<u32> = matches.iter().flat_map(|m| &m.marks).copied().collect();
        marks.sort_unstable();
        marks.dedup();
        tables.marks = marks
            .into_iter()
            .map(|mark| (mark, accepting(matches, |m| &m.marks, &mark)))
            .collect();
    }
    if uses & uses::CGROUPS != 0 {
        // Without the classes that ask for no cgroup: those come in anyway, and a packet is in
        // several cgroups, one below the other.
        tables.cgroups = cgroups
            .iter()
            .filter_map(|(path, cgroup)| {
                let asking = bits(matches.iter().map(|m| m.cgroups.contains(path)));
                cgroup.map(|cgroup| (cgroup.id, asking))
            })
            .collect();
    }
    tables
}

/// The table by prefix answers with the longest prefix that contains the address. Its classes are
/// therefore also those of all shorter ones around it.
fn prefixes(matches: &[&Match], side: Side, list: fn(&Match) -> &Vec<IpNet>, tables: &mut Tables) {
    let any = bits(matches.iter().map(|m| list(m).is_empty()));
    let mut own: BTreeMap<IpNet, u64> = BTreeMap::new();
    for (place, m) in matches.iter().enumerate() {
        for prefix in list(m) {
            *own.entry(*prefix).or_insert(any) |= 1 << place;
        }
    }
    // In this order (network, then length) a prefix comes behind all that contain it.
    let mut around: Vec<(IpNet, u64)> = Vec::new();
    for (prefix, mut classes) in own {
        while around
            .last()
            .is_some_and(|(outer, _)| !outer.contains(&prefix))
        {
            around.pop();
        }
        classes |= around.last().map_or(0, |(_, outer)| *outer);
        around.push((prefix, classes));
        tables.prefixes.push((side, prefix, classes));
    }
}

fn ports(matches: &[&Match], list: fn(&Match) -> &Vec<RangeInclusive<u16>>) -> Vec<u64> {
    let any = bits(matches.iter().map(|m| list(m).is_empty()));
    let mut table = vec![any; PORTS as usize];
    for (place, m) in matches.iter().enumerate() {
        for range in list(m) {
            for port in range.clone() {
                table[usize::from(port)] |= 1 << place;
            }
        }
    }
    // Port 0 stands for a packet without ports, such as a fragment.
    table[0] = any;
    table
}
