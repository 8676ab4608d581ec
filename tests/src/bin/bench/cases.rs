//! What is measured on the packet path: policies, packets, and how many keys.

use crate::frames::{extended, qinq, rotated, udp};
use anyhow::{Context, Result};
use leaky_core::bucket::Limits;
use leaky_core::classify::{Classifier, Side, uses};
use leaky_core::key::KeyMask;
use leaky_core::policy::{Action, Client, Policy, REST};
use leaky_core::rate::Rate;
use leaky_core::time::Span;
use leaky_core::wire::Layer;
use leaky_user::bpf::Tables;

/// One kind of measurement.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) program: &'static str,
    pub(crate) policy: Policy,
    pub(crate) tables: Tables,
    pub(crate) clients: Vec<([u8; 4], Client)>,
    /// Sent in turn, `keys` packets of each.
    pub(crate) frames: Vec<Vec<u8>>,
    /// How many keys the measuring program rotates through with each frame.
    pub(crate) keys: u32,
    /// Whether packets come faster than they may leave, so that each is stamped.
    pub(crate) waiting: bool,
}

const FLOW: KeyMask = KeyMask::FLOW;
const ONE: KeyMask = KeyMask::NOTHING;
const SOURCE: KeyMask = KeyMask::source(32, 64);
/// The most that two bytes can be rotated through.
const ALL: u32 = 65_536;
/// Clients in the table.
const CLIENTS: u32 = 100_000;

/// Limits that accept every packet of a measurement: at 10 Mbit/s 1,042 B take 833 us, 16 million of
/// them 4 hours. With more keys each packet takes longer (8 ms, 8 s), and longer than all keys' turn.
fn limits(keys: u32, waiting: bool) -> Result<Limits> {
    let bytes_per_second = match (waiting, keys) {
        (false, _) => 50_000_000_000,
        (true, 0..10) => 1_250_000,
        (true, 10..10_000) => 125_000,
        (true, _) => 125,
    };
    let most = Span::from_ns(10 * 3_600 * 1_000_000_000);
    let mut limits = Limits {
        rate: Rate::bytes_per_second(bytes_per_second).context("rate")?,
        capacity: most,
        max_wait: most,
        ..Limits::default()
    };
    limits.stale_after = limits.furthest();
    Ok(limits)
}

impl Case {
    fn new(
        name: &'static str,
        program: &'static str,
        key: KeyMask,
        keys: u32,
        waiting: bool,
    ) -> Result<Case> {
        let mut policy = Policy::new(Layer::Ethernet);
        let mut class = policy.classes[REST].with_action(Action::Shape);
        class.limits = limits(keys, waiting)?;
        class.key = key;
        class.single = u32::from(key == KeyMask::NOTHING);
        policy.classes[REST] = class;
        Ok(Case {
            name,
            program,
            policy,
            tables: Tables::default(),
            clients: Vec::new(),
            frames: vec![udp()],
            keys,
            waiting,
        })
    }

    fn sending(mut self, frames: Vec<Vec<u8>>) -> Case {
        self.frames = frames;
        self
    }

    /// With a bucket for the link.
    fn with_link(mut self) -> Result<Case> {
        self.policy.has_link = 1;
        self.policy.link = limits(1, self.waiting)?;
        Ok(self)
    }

    /// Ten classes that ask for source and destination prefixes and ports; the packet is in the last.
    fn with_classes(mut self) -> Result<Case> {
        let rest = self.policy.classes[REST];
        for (id, class) in (0..10).zip(&mut self.policy.classes) {
            *class = rest;
            class.id = id;
        }
        let all = (1 << 10) - 1;
        // Of each kind of question, one class in three asks it; the last asks all of them.
        let (sources, destinations, ports, last) = (0x249, 0x292, 0x324, 1 << 9);
        let (any_source, any_destination, any_port) =
            (all & !sources, all & !destinations, all & !ports);
        self.policy.classifier = Classifier {
            classes: all,
            uses: uses::SOURCES | uses::DESTINATIONS | uses::DESTINATION_PORTS,
            any_source,
            any_destination,
            protocols: [all; 256],
            dscps: [all; 64],
            ..Classifier::EMPTY
        };
        let prefixes = &mut self.tables.prefixes;
        for n in 0..100 {
            let prefix = format!("172.16.{n}.0/24").parse()?;
            let (of_source, of_destination) = (sources & !last, destinations & !last);
            prefixes.push((Side::Source, prefix, any_source | of_source));
            prefixes.push((Side::Destination, prefix, any_destination | of_destination));
        }
        prefixes.push((Side::Source, "10.0.0.0/8".parse()?, any_source | last));
        let host = "10.0.0.2/32".parse()?;
        prefixes.push((Side::Destination, host, any_destination | last));
        self.tables.destination_ports = vec![any_port; usize::from(u16::MAX) + 1];
        // Port 0x2000, where the packets go.
        self.tables.destination_ports[0x2000] |= last;
        Ok(self)
    }

    /// With a table of clients that every packet's source is looked up in. `served`: whether the class
    /// gives clients buckets of their own; else the answer is not used, so that only the lookup is
    /// added.
    fn with_clients(mut self, served: bool) -> Case {
        let limits = self.policy.classes[REST].limits;
        self.clients = (0..CLIENTS)
            .map(|slot| {
                let [low, high, block, _] = slot.to_le_bytes();
                let n = u16::from_le_bytes([low, high]);
                let client = Client {
                    limits,
                    mark_above: Span::MAX,
                    slot,
                    queue: 0,
                };
                (rotated(n, block), client)
            })
            .collect();
        let mut class = self.policy.classes[REST];
        class.id = 0;
        class.clients = u32::from(served);
        self.policy.classes[0] = class;
        self.policy.classifier = Classifier {
            classes: 1,
            uses: uses::CLIENTS,
            any_client: u64::from(!served),
            protocols: [1; 256],
            dscps: [1; 64],
            ..Classifier::EMPTY
        };
        self
    }
}

/// The trie's share is the last of these less the first.
pub(crate) const TRIE: [&str; 2] = [
    "QinQ, 1,000 src keys, stamped",
    "the same, looked up among 100,000 clients",
];

pub(crate) fn all() -> Result<Vec<Case>> {
    let new = Case::new;
    let tagged = || vec![qinq(0)];
    Ok(vec![
        new("empty program", "empty", ONE, 1, false)?,
        new("rotating through 1,000 flows", "cycle", ONE, 1_000, false)?,
        new("one bucket, leaves at once", "accept", ONE, 1, false)?,
        new("one bucket, stamped", "accept", ONE, 1, true)?,
        new("1,000 flows, leaves at once", "accept", FLOW, 1_000, false)?,
        new("1 flow, stamped", "accept", FLOW, 1, true)?,
        new("1,000 flows, stamped", "accept", FLOW, 1_000, true)?,
        new("one bucket and the link's, stamped", "accept", ONE, 1, true)?.with_link()?,
        new(
            "1,000 flows and the link, stamped",
            "accept",
            FLOW,
            1_000,
            true,
        )?
        .with_link()?,
        new("10 classes, one bucket, stamped", "accept", ONE, 1, true)?.with_classes()?,
        new(
            "10 classes, 1,000 flows, stamped",
            "accept",
            FLOW,
            1_000,
            true,
        )?
        .with_classes()?,
        new("QinQ, one bucket, stamped", "accept", ONE, 1, true)?.sending(tagged()),
        new("IPv6, 7 extension headers, stamped", "accept", ONE, 1, true)?
            .sending(vec![extended()]),
        new(TRIE[0], "accept", SOURCE, 1_000, true)?.sending(tagged()),
        new(TRIE[1], "accept", SOURCE, 1_000, true)?
            .sending(tagged())
            .with_clients(false),
        new(
            "QinQ, 1,000 clients of 100,000, stamped",
            "accept",
            ONE,
            1_000,
            true,
        )?
        .sending(tagged())
        .with_clients(true),
        new(
            "QinQ, 65,536 clients of 100,000, stamped",
            "accept",
            ONE,
            ALL,
            true,
        )?
        .sending(tagged())
        .with_clients(true),
        new(
            "QinQ, 131,072 src keys, stamped",
            "accept",
            SOURCE,
            ALL,
            true,
        )?
        .sending(vec![qinq(0), qinq(1)]),
    ])
}
