//! Random classes and packets: what the program finds by masks and tables against the rules read one by
//! one.

use crate::compiled::{Classes, NO_CLASS};
use crate::rig::*;
use ipnet::IpNet;
use leaky_user::bpf::Kind;
use leaky_user::config::Smooth;
use leaky_user::config::{Action, Control, Fallback, Interface, Match, Per};
use leaky_user::hold::HoldMode;
use std::net::IpAddr;

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::try_from(self.below(values.len() as u64)).unwrap()]
    }

    /// Nothing more often than not, else some of these.
    fn some<T: Copy + PartialEq>(&mut self, values: &[T]) -> Vec<T> {
        let mut some = Vec::new();
        if self.below(3) == 0 {
            for _ in 0..=self.below(3) {
                let value = self.of(values);
                if !some.contains(&value) {
                    some.push(value);
                }
            }
        }
        some
    }
}

const PREFIXES: [&str; 9] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.0/24",
    "10.1.2.3/32",
    "192.0.2.0/25",
    "::/0",
    "fd00::/16",
    "fd00:1:2:3::/64",
];
const ADDRESSES: [&str; 9] = [
    "10.1.2.3",
    "10.1.2.4",
    "10.1.3.3",
    "10.2.0.1",
    "11.0.0.1",
    "192.0.2.127",
    "192.0.2.128",
    "fd00:1:2:3::9",
    "fd00:1:2:4::9",
];
const PROTOCOLS: [u8; 5] = [6, 17, 1, 50, 132];
const DSCPS: [u8; 3] = [0, 46, 24];
const MARKS: [u32; 3] = [0, 1, 0x10];
const VLANS: [u16; 3] = [1, 100, 4_094];
const PORTS: [u16; 6] = [1, 79, 80, 81, 443, 65_535];

struct Packet {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    dscp: u8,
    ports: Option<(u16, u16)>,
    mark: u32,
    vlan: u16,
}

impl Packet {
    fn any(random: &mut Random) -> Packet {
        let source: IpAddr = random.of(&ADDRESSES).parse().unwrap();
        let destination = loop {
            let other: IpAddr = random.of(&ADDRESSES).parse().unwrap();
            if other.is_ipv4() == source.is_ipv4() {
                break other;
            }
        };
        let protocol = random.of(&PROTOCOLS);
        let ports =
            matches!(protocol, 6 | 17 | 132).then(|| (random.of(&PORTS), random.of(&PORTS)));
        let vlan = match random.below(2) {
            0 => 0,
            _ => random.of(&VLANS),
        };
        Packet {
            source,
            destination,
            protocol,
            dscp: random.of(&DSCPS),
            ports,
            mark: random.of(&MARKS) | random.of(&[0, 0xff00]),
            vlan,
        }
    }

    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2; 12];
        match (self.source, self.destination) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                frame.extend([8, 0, 0x45, self.dscp << 2, 0, 60, 0, 0, 0, 0, 64]);
                frame.extend([self.protocol, 0, 0]);
                frame.extend(from.octets());
                frame.extend(to.octets());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                frame.extend([
                    0x86,
                    0xdd,
                    0x60 | self.dscp >> 2,
                    self.dscp << 6,
                    0,
                    0,
                    0,
                    40,
                ]);
                frame.extend([self.protocol, 64]);
                frame.extend(from.octets());
                frame.extend(to.octets());
            }
            _ => panic!("addresses of two versions"),
        }
        let (from, to) = self.ports.unwrap_or((0x5050, 0x5050));
        frame.extend(from.to_be_bytes());
        frame.extend(to.to_be_bytes());
        frame.extend([0x50; 36]);
        if self.vlan != 0 {
            frame = tagged(&frame, self.vlan);
        }
        frame
    }

    fn is_in(&self, of: &Match, mask: u32) -> bool {
        let within = |prefixes: &[IpNet], address: IpAddr| {
            prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.contains(&address))
        };
        let port = |ranges: &[std::ops::RangeInclusive<u16>], port: Option<u16>| {
            ranges.is_empty()
                || port.is_some_and(|port| ranges.iter().any(|range| range.contains(&port)))
        };
        let listed = |empty: bool, contains: bool| empty || contains;
        listed(
            of.protocols.is_empty(),
            of.protocols.contains(&self.protocol),
        ) && within(&of.sources, self.source)
            && within(&of.destinations, self.destination)
            && port(&of.source_ports, self.ports.map(|ports| ports.0))
            && port(&of.destination_ports, self.ports.map(|ports| ports.1))
            && listed(of.dscps.is_empty(), of.dscps.contains(&self.dscp))
            && listed(of.marks.is_empty(), of.marks.contains(&(self.mark & mask)))
            && listed(of.vlans.is_empty(), of.vlans.contains(&self.vlan))
    }
}

fn classes(random: &mut Random) -> Interface {
    let prefixes: Vec<IpNet> = PREFIXES.iter().map(|text| text.parse().unwrap()).collect();
    let ranges = [(0u16, 1u16), (80, 80), (79, 81), (443, 65_535)];
    let count = 1 + random.below(64);
    let classes = (0..count)
        .map(|place| {
            config_class(
                place,
                Match {
                    protocols: random.some(&PROTOCOLS),
                    sources: random.some(&prefixes),
                    destinations: random.some(&prefixes),
                    source_ports: random
                        .some(&ranges)
                        .into_iter()
                        .map(|(a, b)| a.max(1)..=b)
                        .collect(),
                    destination_ports: random
                        .some(&ranges)
                        .into_iter()
                        .map(|(a, b)| a.max(1)..=b)
                        .collect(),
                    dscps: random.some(&DSCPS),
                    marks: random.some(&MARKS),
                    vlans: random.some(&VLANS),
                    cgroups: Vec::new(),
                },
            )
        })
        .collect();
    Interface {
        name: "t0".to_owned(),
        link: None,
        overhead: 0,
        mpu: 0,
        hold: HoldMode::Auto,
        smooth: Smooth::Auto,
        mark_mask: 0xff,
        control: Control::Pass,
        fallback: Fallback::Pass,
        classes,
    }
}

fn config_class(place: u64, matching: Match) -> leaky_user::config::Class {
    leaky_user::config::Class {
        name: format!("c{place}"),
        matching,
        per: Per::Class,
        action: Action::Pass,
        limits: None,
        clients: None,
    }
}

pub(crate) fn l40_random_classes_and_packets_agree_with_the_rules_read_one_by_one() -> Outcome {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut kernel = Classes::of(Kind::DepartureTime, &classes(&mut random))?;
    let mut in_class = 0;
    for round in 0..20 {
        let interface = classes(&mut random);
        kernel.change(&interface)?;
        for _ in 0..100 {
            let packet = Packet::any(&mut random);
            let wanted = interface
                .classes
                .iter()
                .find(|class| packet.is_in(&class.matching, interface.mark_mask))
                .map_or(NO_CLASS, |class| class.name.as_str());
            let context = Context::new().with(Context::MARK, packet.mark);
            let found = kernel.class_of(&packet.frame(), &context)?;
            in_class += u32::from(found != NO_CLASS);
            let what = format!(
                "round {round}, {} to {} protocol {} ports {:?} dscp {} mark {:#x} vlan {}",
                packet.source,
                packet.destination,
                packet.protocol,
                packet.ports,
                packet.dscp,
                packet.mark,
                packet.vlan
            );
            equal(&what, found.as_str(), wanted)?;
        }
    }
    check(
        (200..1_900).contains(&in_class),
        format!("{in_class} of 2,000 are in a class"),
    )
}
