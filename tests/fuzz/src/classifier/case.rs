//! Classes and packets as plain data, made from bytes such that they often meet.

use arbitrary::{Result, Unstructured};
use leaky_core::wire::Layer;
use std::ops::RangeInclusive;

/// An IPv4 address is in the upper 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) six: bool,
    pub(super) bits: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    pub(super) address: Address,
    pub(super) length: u8,
}

/// What a class asks for; an empty list asks for nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Rule {
    pub(super) protocols: Vec<u8>,
    pub(super) sources: Vec<Prefix>,
    pub(super) destinations: Vec<Prefix>,
    pub(super) source_ports: Vec<RangeInclusive<u16>>,
    pub(super) destination_ports: Vec<RangeInclusive<u16>>,
    pub(super) dscps: Vec<u8>,
    pub(super) marks: Vec<u32>,
    pub(super) vlans: Vec<u16>,
    /// Paths from the root, a byte for each folder.
    pub(super) cgroups: Vec<Vec<u8>>,
    pub(super) clients: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Ip {
    pub(super) source: Address,
    /// Of the same version.
    pub(super) destination: Address,
    pub(super) protocol: u8,
    pub(super) traffic_class: u8,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    pub(super) fragment: bool,
    /// IPv4: words of options, 0 to 10. IPv6: extension headers before that of a fragment, 0 to 9.
    pub(super) extensions: u8,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Packet {
    pub(super) bare: bool,
    /// From the outermost on, at most three.
    pub(super) tags: Vec<u16>,
    /// The kernel keeps the first tag beside the frame.
    pub(super) beside: bool,
    pub(super) ip: Option<Ip>,
    pub(super) mark: u32,
    pub(super) cgroup: Option<Vec<u8>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    pub(super) packets: [Packet; 2],
    pub(super) mark_mask: u32,
    pub(super) clients: Vec<Prefix>,
    pub(super) client_is_destination: bool,
    /// Looks up what no class asks for, too.
    pub(super) uses_all: bool,
    /// At most 64.
    pub(super) rules: Vec<Rule>,
}

const PROTOCOLS: [u8; 10] = [6, 17, 1, 50, 58, 132, 136, 60, 44, 59];
/// Those that IPv6 takes for extension headers.
const EXTENSIONS: [u8; 6] = [0, 43, 44, 51, 60, 135];
const NO_NEXT_HEADER: u8 = 59;
const PORTS: [u16; 8] = [0, 1, 53, 443, 1000, 1001, 5004, 65535];
const DSCPS: [u8; 5] = [0, 8, 34, 46, 63];
const MARKS: [u32; 6] = [0, 1, 2, 0x10, 0x101, 0x8000_0001];
const MASKS: [u32; 5] = [u32::MAX, u32::MAX, 0x8000_0fff, 0xff, 0xf0];
const VLANS: [u16; 5] = [0, 1, 100, 200, 4095];
/// Prefix lengths of IPv4 and IPv6 for which the addresses below differ.
const LENGTHS: [[u8; 8]; 2] = [
    [0, 8, 15, 16, 23, 24, 31, 32],
    [0, 8, 32, 48, 63, 64, 127, 128],
];
/// As [`leaky_core::policy::MAX_CLASSES`].
const CLASSES: usize = 64;

impl Case {
    /// The rules come last, so that it is they that are missing where there are few bytes.
    pub(super) fn from_bytes(u: &mut Unstructured) -> Result<Case> {
        let mut packets = [packet(u)?, packet(u)?];
        let aims: [u8; 2] = u.arbitrary()?;
        let same: u8 = u.arbitrary()?;
        let mark_mask = *u.choose(&MASKS)?;
        let client_is_destination = u.arbitrary()?;
        let uses_all = u.arbitrary()?;
        let clients = list(u, 8, prefix)?;
        let mut rules = Vec::new();
        let most = u.int_in_range(0..=CLASSES)?;
        while rules.len() < most && !u.is_empty() {
            rules.push(rule(u)?);
        }
        for (packet, aim) in packets.iter_mut().zip(aims) {
            aim_at(packet, aim, &rules, &clients);
        }
        let [first, second] = &mut packets;
        share(first, second, same);
        Ok(Case {
            packets,
            mark_mask,
            clients,
            client_is_destination,
            uses_all,
            rules,
        })
    }
}

impl Rule {
    /// How many things.
    pub(super) fn asks_for(&self) -> usize {
        [
            self.protocols.is_empty(),
            self.sources.is_empty(),
            self.destinations.is_empty(),
            self.source_ports.is_empty(),
            self.destination_ports.is_empty(),
            self.dscps.is_empty(),
            self.marks.is_empty(),
            self.vlans.is_empty(),
            self.cgroups.is_empty(),
            !self.clients,
        ]
        .iter()
        .filter(|nothing| !**nothing)
        .count()
    }
}

impl Packet {
    pub(super) fn layer(&self) -> Layer {
        if self.bare {
            Layer::Ip
        } else {
            Layer::Ethernet
        }
    }
}

impl Prefix {
    /// Bits that count.
    pub(super) fn mask(&self) -> u128 {
        u128::MAX
            .checked_shl(128 - u32::from(self.length))
            .unwrap_or(0)
    }

    pub(super) fn contains(&self, address: Address) -> bool {
        self.address.six == address.six && (self.address.bits ^ address.bits) & self.mask() == 0
    }
}

fn list<T>(
    u: &mut Unstructured,
    most: usize,
    one: impl Fn(&mut Unstructured) -> Result<T>,
) -> Result<Vec<T>> {
    let length = u.int_in_range(0..=most)?;
    (0..length).map(|_| one(u)).collect()
}

/// Nothing three times of five.
fn asked<T>(u: &mut Unstructured, one: impl Fn(&mut Unstructured) -> Result<T>) -> Result<Vec<T>> {
    if u.ratio(3, 5)? {
        return Ok(Vec::new());
    }
    let mut values = vec![one(u)?];
    values.extend(list(u, 2, one)?);
    Ok(values)
}

/// One of these, or now and then any.
fn one_of<T: Copy + for<'a> arbitrary::Arbitrary<'a>>(
    u: &mut Unstructured,
    usual: &[T],
) -> Result<T> {
    if u.ratio(1, 8)? {
        u.arbitrary()
    } else {
        u.choose(usual).copied()
    }
}

fn rule(u: &mut Unstructured) -> Result<Rule> {
    Ok(Rule {
        protocols: asked(u, |u| one_of(u, &PROTOCOLS))?,
        sources: asked(u, prefix)?,
        destinations: asked(u, prefix)?,
        source_ports: asked(u, ports)?,
        destination_ports: asked(u, ports)?,
        dscps: asked(u, dscp)?,
        marks: asked(u, |u| one_of(u, &MARKS))?,
        vlans: asked(u, vlan)?,
        cgroups: asked(u, cgroup)?,
        clients: u.ratio(1, 8)?,
    })
}

fn ports(u: &mut Unstructured) -> Result<RangeInclusive<u16>> {
    let (one, other) = (one_of(u, &PORTS)?, one_of(u, &PORTS)?);
    Ok(if u.arbitrary()? {
        one..=one
    } else {
        one.min(other)..=one.max(other)
    })
}

fn dscp(u: &mut Unstructured) -> Result<u8> {
    Ok(one_of(u, &DSCPS)? & 63)
}

fn vlan(u: &mut Unstructured) -> Result<u16> {
    Ok(one_of(u, &VLANS)? & 4095)
}

/// At most seven levels below the root.
fn cgroup(u: &mut Unstructured) -> Result<Vec<u8>> {
    list(u, 7, |u| u.int_in_range(0..=1))
}

/// Few different ones, which differ at the front, in the middle and at the end.
fn address(u: &mut Unstructured, six: bool) -> Result<Address> {
    let picks: u16 = u.arbitrary()?;
    let pick = |at: u32| u128::from(picks >> at & 3);
    let bits = if six {
        (0xfd00 | pick(0)) << 112 | pick(2) << 80 | pick(4) << 64 | pick(6) << 63 | pick(8)
    } else {
        (10 << 24 | pick(0) << 23 | pick(2) << 16 | pick(4) << 8 | pick(6)) << 96
    };
    Ok(Address { six, bits })
}

fn prefix(u: &mut Unstructured) -> Result<Prefix> {
    let six = u.arbitrary()?;
    let mut prefix = Prefix {
        address: address(u, six)?,
        length: *u.choose(&LENGTHS[usize::from(six)])?,
    };
    prefix.address.bits &= prefix.mask();
    Ok(prefix)
}

fn packet(u: &mut Unstructured) -> Result<Packet> {
    let bare = u.ratio(1, 4)?;
    let tags = if bare { Vec::new() } else { list(u, 3, vlan)? };
    let is_ip = u.ratio(7, 8)?;
    let six = u.arbitrary()?;
    let ip = Ip {
        source: address(u, six)?,
        destination: address(u, six)?,
        protocol: one_of(u, &PROTOCOLS)?,
        traffic_class: dscp(u)? << 2 | u.int_in_range(0..=3)?,
        source_port: one_of(u, &PORTS)?,
        destination_port: one_of(u, &PORTS)?,
        fragment: u.ratio(1, 8)?,
        extensions: if u.arbitrary()? {
            u.int_in_range(0..=10)?
        } else {
            0
        },
    };
    let mut packet = Packet {
        bare,
        beside: u.arbitrary()?,
        tags,
        ip: is_ip.then_some(ip),
        mark: one_of(u, &MARKS)?,
        cgroup: if u.arbitrary()? {
            Some(cgroup(u)?)
        } else {
            None
        },
    };
    packet.make_sense();
    Ok(packet)
}

impl Packet {
    fn make_sense(&mut self) {
        if let Some(ip) = &mut self.ip
            && ip.source.six
        {
            if EXTENSIONS.contains(&ip.protocol) {
                ip.protocol = NO_NEXT_HEADER;
            }
            ip.extensions = ip.extensions.min(9);
        }
    }
}

/// Gives the packet what one of the rules asks for, three times of four.
fn aim_at(packet: &mut Packet, aim: u8, rules: &[Rule], clients: &[Prefix]) {
    if aim & 3 == 0 || rules.is_empty() {
        return;
    }
    let pick = usize::from(aim >> 2);
    let rule = &rules[pick % rules.len()];
    if let Some(mark) = picked(&rule.marks, pick) {
        packet.mark = *mark;
    }
    if let Some(vlan) = picked(&rule.vlans, pick) {
        packet.bare = false;
        packet.tags.truncate(2);
        packet.tags.splice(..packet.tags.len().min(1), [*vlan]);
    }
    if let Some(path) = picked(&rule.cgroups, pick) {
        packet.cgroup = Some(path.clone());
    }
    let Some(ip) = &mut packet.ip else { return };
    if let Some(protocol) = picked(&rule.protocols, pick) {
        ip.protocol = *protocol;
    }
    if !rule.source_ports.is_empty() || !rule.destination_ports.is_empty() {
        ip.fragment = false;
        if rule.protocols.is_empty() {
            ip.protocol = 17;
        }
    }
    if let Some(dscp) = picked(&rule.dscps, pick) {
        ip.traffic_class = dscp << 2;
    }
    if let Some(ports) = picked(&rule.source_ports, pick) {
        ip.source_port = *ports.end();
    }
    if let Some(ports) = picked(&rule.destination_ports, pick) {
        ip.destination_port = *ports.start();
    }
    let clients = if rule.clients { clients } else { &[] };
    let six = picked(&rule.sources, pick)
        .or(picked(&rule.destinations, pick))
        .or(picked(clients, pick))
        .map_or(ip.source.six, |prefix| prefix.address.six);
    (ip.source.six, ip.destination.six) = (six, six);
    if !six {
        for address in [&mut ip.source, &mut ip.destination] {
            address.bits &= u128::MAX << 96;
        }
    }
    for (address, prefixes) in [
        (&mut ip.source, &rule.sources),
        (&mut ip.destination, &rule.destinations),
    ] {
        let asked = [clients, prefixes].map(|list| {
            let of_version: Vec<&Prefix> = list.iter().filter(|p| p.address.six == six).collect();
            picked(&of_version, pick).copied()
        });
        for prefix in asked.into_iter().flatten() {
            address.bits = prefix.address.bits | address.bits & !prefix.mask();
        }
    }
    packet.make_sense();
}

fn picked<T>(list: &[T], pick: usize) -> Option<&T> {
    list.get(pick.checked_rem(list.len())?)
}

/// Gives the second packet these parts of the first, so that their keys are often the same.
fn share(first: &Packet, second: &mut Packet, parts: u8) {
    let shared = |at: u8| parts >> at & 1 == 1;
    if shared(0) {
        second.mark = first.mark;
        second.cgroup.clone_from(&first.cgroup);
    }
    if shared(1) {
        second.bare = first.bare;
        second.tags.clone_from(&first.tags);
    }
    let (Some(from), Some(to)) = (&first.ip, &mut second.ip) else {
        return;
    };
    if shared(2) {
        to.source = from.source;
        to.destination = from.destination;
        to.extensions = from.extensions;
        to.fragment = from.fragment;
        to.protocol = from.protocol;
    }
    if shared(3) {
        to.source_port = from.source_port;
    }
    if shared(4) {
        to.destination_port = from.destination_port;
    }
    second.make_sense();
}
