//! Which packets a class takes that no class before it takes.

use super::class::Draft;
use super::error::Problems;
use super::model::{Class, Fallback};
use super::per::Per;
use super::ranges::{Addresses, Ranges};
use super::value;
use std::collections::BTreeSet;
use std::path::Path;

/// Reports every class whose packets one class before it takes all. A class to which unmatched
/// packets go is reached anyhow.
pub(super) fn unreachable(drafts: &[Draft], fallback: Fallback, problems: &mut Problems) {
    if problems.incomplete {
        return;
    }
    let takes: Vec<Option<Takes<'_>>> = drafts
        .iter()
        .map(|draft| draft.known.then(|| Takes::of(&draft.class)))
        .collect();
    for (at, draft) in drafts.iter().enumerate() {
        let Some(own) = &takes[at] else { continue };
        if own.is_empty() {
            let text = format!(
                "class {} matches nothing: none of its clients has an address that its match takes",
                draft.class.name
            );
            problems.add(draft.place, text);
            continue;
        }
        if fallback == Fallback::Class(at) {
            continue;
        }
        let before = takes[..at].iter().zip(drafts);
        let covers = before
            .filter_map(|(takes, draft)| Some((takes.as_ref()?, draft)))
            .find(|(earlier, _)| earlier.covers(own));
        if let Some((_, earlier)) = covers {
            let line = problems.refer(draft.place, earlier.place);
            problems.add(
                draft.place,
                format!(
                    "no packet reaches class {}: class {} ({line}) comes before it and takes all of \
                     its packets; put {} first, or leave it out",
                    draft.class.name, earlier.class.name, draft.class.name
                ),
            );
        }
    }
}

/// For each class, those before it that take some of its packets although neither takes all of the
/// other's. The order decides about these packets, which may not be what was meant.
pub(super) fn partial_overlaps(classes: &[Class]) -> Vec<(usize, Vec<usize>)> {
    let takes: Vec<Takes<'_>> = classes.iter().map(Takes::of).collect();
    (0..classes.len())
        .map(|at| {
            let earlier = (0..at).filter(|before| {
                let (first, second) = (&takes[*before], &takes[at]);
                first.meets(second) && !second.covers(first) && !first.covers(second)
            });
            (at, earlier.collect())
        })
        .filter(|(_, earlier): &(usize, Vec<usize>)| !earlier.is_empty())
        .collect()
}

/// What a class takes: for each dimension what is accepted, or `None` for everything, also where a
/// packet has no such thing.
struct Takes<'a> {
    protocols: Option<Ranges>,
    source: Option<Addresses>,
    destination: Option<Addresses>,
    source_ports: Option<Ranges>,
    destination_ports: Option<Ranges>,
    dscps: Option<Ranges>,
    marks: Option<Ranges>,
    vlans: Option<Ranges>,
    cgroups: Option<BTreeSet<&'a Path>>,
}

impl<'a> Takes<'a> {
    fn of(class: &'a Class) -> Takes<'a> {
        let matching = &class.matching;
        let mut takes = Takes {
            protocols: numbers(&matching.protocols),
            source: addresses(&matching.sources),
            destination: addresses(&matching.destinations),
            source_ports: port_ranges(&matching.source_ports),
            destination_ports: port_ranges(&matching.destination_ports),
            dscps: numbers(&matching.dscps),
            marks: numbers(&matching.marks),
            vlans: numbers(&matching.vlans),
            cgroups: (!matching.cgroups.is_empty())
                .then(|| matching.cgroups.iter().map(|path| path.as_path()).collect()),
        };
        if let Some(clients) = &class.clients {
            let clients = Addresses::of(clients.iter().map(|client| client.prefix));
            let looked_up = match class.per {
                Per::Destination { .. } => &mut takes.destination,
                _ => &mut takes.source,
            };
            *looked_up = Some(match looked_up.take() {
                Some(matched) => matched.and(&clients),
                None => clients,
            });
        }
        takes.with_what_follows()
    }

    /// Makes explicit what one dimension says about another: ports are of the protocols that have
    /// some, and both addresses of an IP packet are of one family.
    fn with_what_follows(mut self) -> Takes<'a> {
        if self.source_ports.is_some() || self.destination_ports.is_some() {
            let with_ports = (0..=u8::MAX).filter(|protocol| value::has_ports(*protocol));
            let with_ports = Ranges::new(with_ports.map(|p| (p.into(), p.into())));
            self.protocols.get_or_insert(with_ports);
        }
        let is_ip = self.protocols.is_some()
            || self.source.is_some()
            || self.destination.is_some()
            || self.dscps.is_some();
        if is_ip {
            let source = self.source.take().unwrap_or_else(Addresses::all);
            let destination = self.destination.take().unwrap_or_else(Addresses::all);
            self.source = Some(source.in_families_of(&destination));
            self.destination = Some(destination.in_families_of(&source));
        }
        self
    }

    fn is_empty(&self) -> bool {
        self.source.as_ref().is_some_and(Addresses::is_empty)
            || self.destination.as_ref().is_some_and(Addresses::is_empty)
    }

    /// Whether it takes every packet that `other` takes.
    fn covers(&self, other: &Takes<'_>) -> bool {
        let ranges = |mine: &Option<Ranges>, theirs: &Option<Ranges>| match (mine, theirs) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(mine), Some(theirs)) => mine.covers(theirs),
        };
        let addresses = |mine: &Option<Addresses>, theirs: &Option<Addresses>| match (mine, theirs)
        {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(mine), Some(theirs)) => mine.covers(theirs),
        };
        let cgroups = match (&self.cgroups, &other.cgroups) {
            (None, _) => true,
            (Some(_), None) => false,
            // A class takes what is below its cgroups too.
            (Some(mine), Some(theirs)) => theirs.iter().all(|inner| {
                let mut around = mine.iter();
                around.any(|outer| inner.starts_with(outer))
            }),
        };
        // Addresses last: they can be many.
        cgroups
            && ranges(&self.protocols, &other.protocols)
            && ranges(&self.source_ports, &other.source_ports)
            && ranges(&self.destination_ports, &other.destination_ports)
            && ranges(&self.dscps, &other.dscps)
            && ranges(&self.marks, &other.marks)
            && ranges(&self.vlans, &other.vlans)
            && addresses(&self.source, &other.source)
            && addresses(&self.destination, &other.destination)
    }

    /// Whether there can be a packet that both take.
    fn meets(&self, other: &Takes<'_>) -> bool {
        let ranges = |mine: &Option<Ranges>, theirs: &Option<Ranges>| match (mine, theirs) {
            (Some(mine), Some(theirs)) => mine.meets(theirs),
            _ => true,
        };
        let addresses = |mine: &Option<Addresses>, theirs: &Option<Addresses>| match (mine, theirs)
        {
            (Some(mine), Some(theirs)) => mine.meets(theirs),
            _ => true,
        };
        let cgroups = match (&self.cgroups, &other.cgroups) {
            (Some(mine), Some(theirs)) => theirs.iter().any(|one| {
                let mut others = mine.iter();
                others.any(|other| one.starts_with(other) || other.starts_with(one))
            }),
            _ => true,
        };
        cgroups
            && ranges(&self.protocols, &other.protocols)
            && ranges(&self.source_ports, &other.source_ports)
            && ranges(&self.destination_ports, &other.destination_ports)
            && ranges(&self.dscps, &other.dscps)
            && ranges(&self.marks, &other.marks)
            && ranges(&self.vlans, &other.vlans)
            && addresses(&self.source, &other.source)
            && addresses(&self.destination, &other.destination)
    }
}

fn numbers<T: Copy + Into<u128>>(values: &[T]) -> Option<Ranges> {
    let ranges = values
        .iter()
        .map(|value| ((*value).into(), (*value).into()));
    (!values.is_empty()).then(|| Ranges::new(ranges))
}

fn port_ranges(values: &[std::ops::RangeInclusive<u16>]) -> Option<Ranges> {
    let ranges = values
        .iter()
        .map(|range| ((*range.start()).into(), (*range.end()).into()));
    (!values.is_empty()).then(|| Ranges::new(ranges))
}

fn addresses(prefixes: &[ipnet::IpNet]) -> Option<Addresses> {
    (!prefixes.is_empty()).then(|| Addresses::of(prefixes.iter().copied()))
}
