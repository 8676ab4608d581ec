//! The tables against the rules walked one by one, and what follows from a configuration.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::config::Match;
use crate::net::Layer;
use leaky_core::classify::{Side, Tables as Lookup, classify};
use leaky_core::policy::MAX_CLASSES;
use leaky_core::wire::Headers;
use proptest::prelude::*;
use std::net::IpAddr;
use std::ops::RangeInclusive;

const MEMORY: u64 = 16 << 30;

fn link() -> Link {
    Link {
        gso_max_segs: 65_535,
        ..crate::limit::tests::link()
    }
}

fn asked(rate: &str) -> Asked {
    Asked {
        rate: rate.parse().unwrap(),
        capacity: None,
        max_wait: None,
        burst: None,
        ecn: None,
    }
}

fn class(name: &str, matching: Match) -> Class {
    Class {
        name: name.to_owned(),
        matching,
        per: Per::Class,
        action: Action::Shape,
        limits: Some(asked("1mbit")),
        clients: None,
    }
}

fn interface(classes: Vec<Class>) -> Interface {
    Interface {
        name: "v0".to_owned(),
        link: None,
        overhead: 0,
        mpu: 0,
        hold: crate::hold::HoldMode::Auto,
        smooth: Smooth::Auto,
        mark_mask: u32::MAX,
        control: Control::Pass,
        fallback: Fallback::Pass,
        classes,
    }
}

/// What the kernel's maps answer.
struct InMemory<'a>(&'a Tables);

impl Lookup for InMemory<'_> {
    fn prefix(&self, side: Side, version: u8, address: &[u32; 4]) -> Option<u64> {
        let address = address_of(version, address)?;
        self.0
            .prefixes
            .iter()
            .filter(|(of, prefix, _)| *of == side && prefix.contains(&address))
            .max_by_key(|(_, prefix, _)| prefix.prefix_len())
            .map(|(_, _, classes)| *classes)
    }

    fn port(&self, side: Side, port: u16) -> u64 {
        let ports = match side {
            Side::Source => &self.0.source_ports,
            Side::Destination => &self.0.destination_ports,
        };
        ports[usize::from(port)]
    }

    fn vlan(&self, id: u16) -> u64 {
        self.0.vlans[usize::from(id)]
    }

    fn mark(&self, mark: u32) -> Option<u64> {
        let found = self.0.marks.iter().find(|(known, _)| *known == mark);
        found.map(|(_, classes)| *classes)
    }

    fn cgroup(&self, _levels: u32) -> u64 {
        0
    }
}

fn address_of(version: u8, words: &[u32; 4]) -> Option<IpAddr> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    match version {
        4 => <[u8; 4]>::try_from(&bytes[..4]).ok().map(IpAddr::from),
        6 => <[u8; 16]>::try_from(&bytes[..]).ok().map(IpAddr::from),
        _ => None,
    }
}

/// The rules as people read them: from the first on, and everything that a rule asks for must hold.
fn first_match(interface: &Interface, packet: &Headers, mark: u32) -> usize {
    let inside = |list: &[IpNet], words| {
        list.is_empty()
            || address_of(packet.version, words)
                .is_some_and(|address| list.iter().any(|prefix| prefix.contains(&address)))
    };
    let port = |list: &[RangeInclusive<u16>], port: u16| {
        list.is_empty() || port != 0 && list.iter().any(|range| range.contains(&port))
    };
    let ip = packet.version != 0;
    let vlan = u16::try_from(packet.vlans & 0xffff).unwrap();
    let matches = |m: &Match| {
        (m.protocols.is_empty() || ip && m.protocols.contains(&packet.protocol))
            && (m.dscps.is_empty() || ip && m.dscps.contains(&packet.dscp()))
            && inside(&m.sources, &packet.source)
            && inside(&m.destinations, &packet.destination)
            && port(&m.source_ports, packet.source_port)
            && port(&m.destination_ports, packet.destination_port)
            && (m.vlans.is_empty() || m.vlans.contains(&vlan))
            && (m.marks.is_empty() || m.marks.contains(&(mark & interface.mark_mask)))
    };
    interface
        .classes
        .iter()
        .position(|class| matches(&class.matching))
        .unwrap_or(MAX_CLASSES)
}

/// Few values, so that rules and packets meet.
fn prefixes() -> impl Strategy<Value = Vec<IpNet>> {
    let prefix = prop_oneof![
        (0u8..4, 0u8..=32).prop_map(|(host, length)| format!("10.{host}.0.{host}/{length}")),
        (0u8..4, 0u8..=128).prop_map(|(host, length)| format!("fd0{host}::{host}/{length}")),
    ];
    prop::collection::vec(prefix, 0..4).prop_map(|texts| {
        let net = |text: &String| text.parse::<IpNet>().unwrap().trunc();
        texts.iter().map(net).collect()
    })
}

fn ports() -> impl Strategy<Value = Vec<RangeInclusive<u16>>> {
    prop::collection::vec(
        (1u16..8, 0u16..3).prop_map(|(from, more)| from..=from + more),
        0..3,
    )
}

prop_compose! {
    fn matching()(
        protocols in prop::collection::vec(prop_oneof![Just(6u8), Just(17), Just(50)], 0..2),
        sources in prefixes(),
        destinations in prop_oneof![Just(Vec::new()), prefixes()],
        source_ports in prop_oneof![Just(Vec::new()), ports()],
        destination_ports in prop_oneof![Just(Vec::new()), ports()],
        dscps in prop_oneof![Just(vec![]), Just(vec![46u8]), Just(vec![0, 8])],
        marks in prop_oneof![Just(vec![]), Just(vec![1u32]), Just(vec![1, 2])],
        vlans in prop_oneof![Just(vec![]), Just(vec![100u16])],
    ) -> Match {
        Match {
            protocols, sources, destinations, source_ports, destination_ports, dscps, marks, vlans,
            cgroups: Vec::new(),
        }
    }
}

prop_compose! {
    fn packet()(
        version in prop_oneof![Just(4u8), Just(6), Just(0)],
        hosts in (0u8..4, 0u8..4),
        protocol in prop_oneof![Just(6u8), Just(17), Just(50)],
        ports in (0u16..10, 0u16..10),
        dscp in prop_oneof![Just(46u8), Just(0), Just(8), Just(10)],
        vlans in prop_oneof![Just(0u32), Just(100), Just(7 << 16 | 100)],
    ) -> Headers {
        let words = |host: u8| match version {
            4 => [u32::from_ne_bytes([10, host, 0, host]), 0, 0, 0],
            6 => [u32::from_ne_bytes([0xfd, host, 0, 0]), 0, 0, u32::from_ne_bytes([0, 0, 0, host])],
            _ => [0; 4],
        };
        let readable = Headers {
            source: words(hosts.0),
            destination: words(hosts.1),
            vlans,
            source_port: if protocol == 50 { 0 } else { ports.0 },
            destination_port: if protocol == 50 { 0 } else { ports.1 },
            protocol,
            version,
            traffic_class: dscp << 2,
            cut_short: 0,
        };
        if version == 0 { Headers { vlans, ..Headers::default() } } else { readable }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_tables_find_the_first_rule_that_matches(
        matches in prop::collection::vec(matching(), 0..8),
        packets in prop::collection::vec((packet(), 0u32..4), 1..60),
        mark_mask in prop_oneof![Just(u32::MAX), Just(1u32)],
    ) {
        let classes = matches.into_iter().map(|matching| class("c", matching)).collect();
        let interface = Interface { mark_mask, ..interface(classes) };
        let (classifier, tables) = tables::classifier(&interface, &Cgroups::new());
        for (packet, mark) in packets {
            let found = classify(&classifier, &packet, mark, false, &InMemory(&tables));
            prop_assert_eq!(found as usize, first_match(&interface, &packet, mark), "{:?}", packet);
        }
    }
}

#[test]
fn sixty_four_classes_are_told_apart() {
    let one = |vlan: u16| {
        class(
            &format!("v{vlan}"),
            Match {
                vlans: vec![vlan],
                ..Match::default()
            },
        )
    };
    let interface = interface((1..=64).map(one).collect());
    let compiled = compile(&interface, &link(), MEMORY, &mut Ids::default()).unwrap();
    for vlan in 1u32..=64 {
        let packet = Headers {
            vlans: vlan,
            ..Headers::default()
        };
        let tables = InMemory(&compiled.tables);
        let place = classify(&compiled.policy.classifier, &packet, 0, false, &tables);
        assert_eq!(place, vlan - 1);
    }
    let ids: std::collections::BTreeSet<u32> =
        compiled.policy.classes[..64].iter().map(|c| c.id).collect();
    assert_eq!(ids.len(), 64, "each has its own counters");
}

#[test]
fn one_bucket_for_everything_is_what_it_was() {
    let interface = interface(vec![class("all", Match::default())]);
    let compiled = compile(&interface, &link(), MEMORY, &mut Ids::default()).unwrap();
    assert_eq!(compiled.ask.groups.len(), 1);
    assert_eq!(compiled.ask.groups[0].keys, Keys::One);
    assert_eq!(compiled.ask.line, None);
    assert_eq!(compiled.policy.classifier.uses, 0, "no lookups");
    assert!(compiled.tables == Tables::default());
}

#[test]
fn small_packets_are_asked_for_where_one_rate_rules() {
    let all = || class("all", Match::default());
    let some = || {
        let matching = Match {
            protocols: vec![6],
            ..Match::default()
        };
        class("some", matching)
    };
    let with = |classes, link_rate: Option<&str>| {
        let mut interface = interface(classes);
        interface.link = link_rate.map(|rate| crate::config::LinkBucket {
            rate: rate.parse().unwrap(),
            capacity: None,
            max_wait: None,
        });
        compile(&interface, &link(), MEMORY, &mut Ids::default())
            .unwrap()
            .ask
            .gso_max_segs
    };
    assert_eq!(with(vec![all()], None), Some(1));
    assert_eq!(
        with(vec![some(), all()], None),
        None,
        "one slow class among others"
    );
    assert_eq!(with(vec![some()], None), None, "the rest is fast");
    assert_eq!(with(vec![some(), all()], Some("100mbit")), Some(8));
    let mut asked = interface(vec![some(), all()]);
    asked.smooth = Smooth::On;
    let compiled = compile(&asked, &link(), MEMORY, &mut Ids::default()).unwrap();
    assert_eq!(compiled.ask.gso_max_segs, Some(1), "asked for");
}

#[test]
fn places_stay_while_the_order_changes_and_clients_come_and_go() {
    let client = |text: &str, rate: &str| crate::config::Client {
        prefix: text.parse().unwrap(),
        asked: asked(rate),
    };
    let subscribers = |clients| Class {
        per: Per::DESTINATION,
        clients: Some(clients),
        ..class("subscribers", Match::default())
    };
    let voice = || {
        let matching = Match {
            dscps: vec![46],
            ..Match::default()
        };
        class("voice", matching)
    };
    let mut ids = Ids::default();
    let first = interface(vec![
        voice(),
        subscribers(vec![
            client("10.0.0.1/32", "1mbit"),
            client("10.0.0.2/32", "2mbit"),
        ]),
    ]);
    let before = compile(&first, &link(), MEMORY, &mut ids).unwrap();
    assert!(before.clients.iter().all(|place| place.new));
    assert_eq!(before.policy.classifier.client_side, 1);
    let second = interface(vec![
        subscribers(vec![
            client("10.0.0.2/32", "3mbit"),
            client("10.0.0.3/32", "1mbit"),
        ]),
        voice(),
    ]);
    let after = compile(&second, &link(), MEMORY, &mut ids).unwrap();
    assert_eq!(before.policy.classes[0].id, after.policy.classes[1].id);
    let place = |compiled: &Compiled, text: &str| {
        let prefix: IpNet = text.parse().unwrap();
        let found = compiled.clients.iter().find(|place| place.prefix == prefix);
        found.map(|place| (place.client.slot, place.new))
    };
    let (slot, _) = place(&before, "10.0.0.2/32").unwrap();
    assert_eq!(place(&after, "10.0.0.2/32"), Some((slot, false)));
    assert_eq!(place(&after, "10.0.0.3/32").map(|(_, new)| new), Some(true));
    assert_eq!(after.gone, ["10.0.0.1/32".parse::<IpNet>().unwrap()]);
}

#[test]
fn what_does_not_fit_leaves_the_places_as_they_were() {
    let mut ids = Ids::default();
    let good = interface(vec![class("a", Match::default())]);
    compile(&good, &link(), MEMORY, &mut ids).unwrap();
    let before = ids.clone();
    let mut bad = class("b", Match::default());
    bad.limits = Some(Asked {
        capacity: Some("100gib".parse().unwrap()),
        ..asked("100gbit")
    });
    let error = compile(&interface(vec![bad]), &link(), MEMORY, &mut ids).unwrap_err();
    assert!(error.to_string().starts_with("class b: "), "{error}");
    assert_eq!(ids, before);
}

#[test]
fn the_links_bucket_has_room_for_what_waits_in_the_others() {
    let mut interface = interface(vec![class("all", Match::default())]);
    interface.link = Some(crate::config::LinkBucket {
        rate: "8mbit".parse().unwrap(),
        capacity: None,
        max_wait: None,
    });
    let compiled = compile(&interface, &link(), MEMORY, &mut Ids::default()).unwrap();
    // 200 ms of its own and the class's 200 ms, at 1 MB/s.
    assert_eq!(compiled.ask.line.unwrap().capacity, 400_000);
    assert_eq!(compiled.policy.has_link, 1);
    let link = compiled.policy.link;
    assert!(link.max_wait >= link.capacity, "full is the only reason");
    assert_eq!(Layer::Ethernet, compiled.policy.layer());
}

#[test]
fn htb_keeps_the_rest_as_it_was_asked_for() {
    for (fallback, action) in [
        (Fallback::Drop, policy::Action::Drop),
        (Fallback::Pass, policy::Action::Pass),
        (Fallback::Class(0), policy::Action::Shape),
    ] {
        let mut interface = interface(vec![class("all", Match::default())]);
        interface.fallback = fallback;
        let mut compiled = compile(&interface, &link(), MEMORY, &mut Ids::default()).unwrap();
        compiled.name_queues().unwrap();
        let rest = compiled.policy.classes[REST];
        assert_eq!(rest.action(), action);
        let queue = compiled.policy.classes[0].queue;
        assert_eq!(
            rest.queue,
            if action == policy::Action::Shape {
                queue
            } else {
                0
            }
        );
    }
}

#[test]
fn of_two_bounds_of_the_link_the_smaller_one_holds_and_is_shown() {
    let capacity_of = |capacity: Option<&str>, max_wait: Option<&str>| {
        let mut interface = interface(vec![class("all", Match::default())]);
        interface.link = Some(crate::config::LinkBucket {
            rate: "8mbit".parse().unwrap(),
            capacity: capacity.map(|text| text.parse().unwrap()),
            max_wait: max_wait.map(|text| text.parse().unwrap()),
        });
        let compiled = compile(&interface, &link(), MEMORY, &mut Ids::default()).unwrap();
        compiled.link.unwrap().capacity
    };
    assert_eq!(capacity_of(None, Some("100ms")), Content::Bytes(100_000));
    assert_eq!(capacity_of(Some("50kB"), None), Content::Bytes(50_000));
    assert_eq!(
        capacity_of(Some("50kB"), Some("20ms")),
        Content::Bytes(20_000)
    );
    // By default not more than a class holds by default, however fast.
    let mut fast = interface(vec![class("all", Match::default())]);
    fast.link = Some(crate::config::LinkBucket {
        rate: "400gbit".parse().unwrap(),
        capacity: None,
        max_wait: None,
    });
    let compiled = compile(&fast, &link(), MEMORY, &mut Ids::default()).unwrap();
    assert_eq!(
        compiled.link.unwrap().capacity,
        Content::Bytes(limit::DEFAULT_MOST)
    );
    // Three frames, however short the wait.
    assert_eq!(capacity_of(None, Some("1us")), Content::Bytes(3 * 1_522));
}
