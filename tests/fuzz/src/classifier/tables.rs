//! The classifier's words and tables for a list of rules, looked up by linear search.

use super::case::{Address, Case, Packet, Prefix, Rule};
use leaky_core::classify::{Classifier, Side, Tables, uses};
use leaky_core::wire::Headers;

type AsksFor = fn(&Rule) -> bool;

/// The tables for one packet, whose cgroup they know.
pub(super) struct Searched<'a> {
    case: &'a Case,
    packet: &'a Packet,
    prefixes: &'a [PrefixTable; 2],
}

/// Classes by prefix.
pub(super) type PrefixTable = Vec<(Prefix, u64)>;

/// Those of both sides.
pub(super) fn prefixes(case: &Case) -> [PrefixTable; 2] {
    [
        by_prefix(&case.rules, |rule| &rule.sources),
        by_prefix(&case.rules, |rule| &rule.destinations),
    ]
}

pub(super) fn classifier(case: &Case) -> Classifier {
    let rules = &case.rules;
    let mut classifier = Classifier {
        classes: bits(rules, |_| true),
        mark_mask: case.mark_mask,
        client_side: u32::from(case.client_is_destination),
        any_source: bits(rules, |rule| rule.sources.is_empty()),
        any_destination: bits(rules, |rule| rule.destinations.is_empty()),
        any_mark: bits(rules, |rule| rule.marks.is_empty()),
        any_cgroup: bits(rules, |rule| rule.cgroups.is_empty()),
        any_client: bits(rules, |rule| !rule.clients),
        any_protocol: bits(rules, |rule| {
            rule.protocols.is_empty()
                && rule.dscps.is_empty()
                && rule.sources.is_empty()
                && rule.destinations.is_empty()
                && rule.source_ports.is_empty()
                && rule.destination_ports.is_empty()
        }),
        protocols: by_value(rules, |rule| &rule.protocols),
        dscps: by_value(rules, |rule| &rule.dscps),
        ..Classifier::EMPTY
    };
    for path in rules.iter().flat_map(|rule| &rule.cgroups) {
        classifier.cgroup_levels |= 1 << path.len();
    }
    let asks: [(u32, AsksFor); 8] = [
        (uses::SOURCES, |rule| !rule.sources.is_empty()),
        (uses::DESTINATIONS, |rule| !rule.destinations.is_empty()),
        (uses::SOURCE_PORTS, |rule| !rule.source_ports.is_empty()),
        (uses::DESTINATION_PORTS, |rule| {
            !rule.destination_ports.is_empty()
        }),
        (uses::VLANS, |rule| !rule.vlans.is_empty()),
        (uses::MARKS, |rule| !rule.marks.is_empty()),
        (uses::CGROUPS, |rule| !rule.cgroups.is_empty()),
        (uses::CLIENTS, |rule| rule.clients),
    ];
    for (lookup, asks) in asks {
        if case.uses_all || rules.iter().any(asks) {
            classifier.uses |= lookup;
        }
    }
    classifier
}

/// A bit for each rule of which `test` is true.
fn bits(rules: &[Rule], test: impl Fn(&Rule) -> bool) -> u64 {
    rules.iter().enumerate().fold(0, |bits, (place, rule)| {
        bits | u64::from(test(rule)) << place
    })
}

/// For each value the rules that accept it.
fn by_value<const N: usize>(rules: &[Rule], list: fn(&Rule) -> &Vec<u8>) -> [u64; N] {
    let mut table = [bits(rules, |rule| list(rule).is_empty()); N];
    for (place, rule) in rules.iter().enumerate() {
        for value in list(rule) {
            table[usize::from(*value)] |= 1 << place;
        }
    }
    table
}

fn takes<T: PartialEq>(asked: &[T], value: &T) -> bool {
    asked.is_empty() || asked.contains(value)
}

/// An entry for every prefix that a rule asks for; in it are also the rules that ask for a shorter one
/// around it.
fn by_prefix(rules: &[Rule], list: fn(&Rule) -> &Vec<Prefix>) -> PrefixTable {
    let entry = |prefix: &Prefix| {
        let around =
            |other: &Prefix| other.length <= prefix.length && other.contains(prefix.address);
        let classes = bits(rules, |rule| {
            list(rule).is_empty() || list(rule).iter().any(around)
        });
        (*prefix, classes)
    };
    rules.iter().flat_map(list).map(entry).collect()
}

fn address(version: u8, words: &[u32; 4]) -> Address {
    let bits = words.iter().fold(0, |bits, word| {
        bits << 32 | u128::from(u32::from_be_bytes(word.to_ne_bytes()))
    });
    Address {
        six: version == 6,
        bits,
    }
}

impl<'a> Searched<'a> {
    pub(super) fn new(
        case: &'a Case,
        packet: &'a Packet,
        prefixes: &'a [PrefixTable; 2],
    ) -> Searched<'a> {
        Searched {
            case,
            packet,
            prefixes,
        }
    }

    /// Whether an address of the packet is in the table of clients, as the kernel program asks.
    pub(super) fn is_client(&self, headers: &Headers) -> bool {
        let words = if self.case.client_is_destination {
            &headers.destination
        } else {
            &headers.source
        };
        let address = address(headers.version, words);
        headers.is_readable()
            && self
                .case
                .clients
                .iter()
                .any(|prefix| prefix.contains(address))
    }
}

impl Tables for Searched<'_> {
    fn prefix(&self, side: Side, version: u8, words: &[u32; 4]) -> Option<u64> {
        if version == 0 {
            return None;
        }
        let address = address(version, words);
        self.prefixes[side as usize]
            .iter()
            .filter(|(prefix, _)| prefix.contains(address))
            .max_by_key(|(prefix, _)| prefix.length)
            .map(|(_, classes)| *classes)
    }

    fn port(&self, side: Side, port: u16) -> u64 {
        bits(&self.case.rules, |rule| {
            let ranges = match side {
                Side::Source => &rule.source_ports,
                Side::Destination => &rule.destination_ports,
            };
            ranges.is_empty() || port != 0 && ranges.iter().any(|range| range.contains(&port))
        })
    }

    fn vlan(&self, id: u16) -> u64 {
        bits(&self.case.rules, |rule| takes(&rule.vlans, &id))
    }

    fn mark(&self, mark: u32) -> Option<u64> {
        let rules = &self.case.rules;
        rules
            .iter()
            .any(|rule| rule.marks.contains(&mark))
            .then(|| bits(rules, |rule| takes(&rule.marks, &mark)))
    }

    fn cgroup(&self, levels: u32) -> u64 {
        let Some(path) = &self.packet.cgroup else {
            return 0;
        };
        (0..=path.len())
            .filter(|level| levels >> level & 1 == 1)
            .map(|level| &path[..level])
            .fold(0, |classes, ancestor| {
                let asking = |rule: &Rule| rule.cgroups.iter().any(|asked| asked == ancestor);
                classes | bits(&self.case.rules, asking)
            })
    }
}
