//! Clients with limits of their own.

use crate::compiled::{Classes, NO_CLASS, interface};
use crate::rig::*;
use aya::maps::{Array, MapData};
use leaky_core::policy::{Client, Policy};
use leaky_core::rate::{Rate, span_of};
use leaky_core::time::Span;
use leaky_core::wire::Layer;
use leaky_user::bpf::{Kind, Program, Sizes};
use std::time::{Duration, Instant};

fn table(clients: &str) -> String {
    format!(
        r#"
[[interface.class]]
name = "subscribers"
per = "src"
rate = "1kbit"
capacity = "12500B"
max-wait = "1000s"
clients = {{ {clients} }}

[[interface.class]]
name = "others"
match = {{ source = ["10.0.0.0/8", "fd00::/8"] }}
rate = "1kbit"
capacity = "12500B"
max-wait = "1000s"
"#
    )
}

impl Classes {
    /// The state of the client's bucket of this prefix.
    fn client(&mut self, prefix: &str) -> Result<u64, Failed> {
        let clients = &self.compiled.clients;
        let found = clients
            .iter()
            .find(|place| place.prefix.to_string() == prefix);
        let slot = found.ok_or("no such client")?.client.slot;
        let buckets: Array<MapData, [u64; 2]> = self.map("CLIENT_BUCKETS")?.try_into()?;
        Ok(buckets.get(&slot, 0)?[0])
    }
}

pub(crate) fn the_longest_prefix_has_the_say() -> Outcome {
    let text = table(
        r#""10.0.0.1" = {}, "10.0.0.0/24" = {}, "10.0.0.0/16" = {}, "fd00:1::/32" = {}, "fd00:1:2::/48" = {}"#,
    );
    let mut classes = Classes::new(Kind::DepartureTime, &text)?;
    let v6 = |text: &str| {
        udp6(
            text.parse::<std::net::Ipv6Addr>().unwrap().octets(),
            [1; 16],
        )
    };
    for (frame, wanted) in [
        (udp_from([10, 0, 0, 1], 1, 100), "10.0.0.1/32"),
        (udp_from([10, 0, 0, 2], 1, 100), "10.0.0.0/24"),
        (udp_from([10, 0, 1, 1], 1, 100), "10.0.0.0/16"),
        (v6("fd00:1:2::1"), "fd00:1:2::/48"),
        (v6("fd00:1:3::1"), "fd00:1::/32"),
    ] {
        let names: Vec<String> = classes
            .compiled
            .clients
            .iter()
            .map(|place| place.prefix.to_string())
            .collect();
        let before: Vec<u64> = names
            .iter()
            .map(|name| classes.client(name))
            .collect::<Result<_, _>>()?;
        let class = classes.class_of(&frame, &Context::new())?;
        equal(wanted, class.as_str(), "subscribers")?;
        for (name, before) in names.iter().zip(before) {
            let debited = classes.client(name)? != before;
            equal(&format!("{wanted}: {name}"), debited, name == wanted)?;
        }
    }
    for (frame, wanted) in [
        (udp_from([10, 1, 0, 1], 1, 100), "others"),
        (v6("fd00:2::1"), "others"),
        (udp_from([11, 1, 0, 1], 1, 100), NO_CLASS),
    ] {
        let class = classes.class_of(&frame, &Context::new())?;
        equal("not in the table", class.as_str(), wanted)?;
    }
    equal("keys", classes.keys()?.len(), 0)
}

pub(crate) fn each_client_has_its_own_rate_and_capacity() -> Outcome {
    let text = table(
        r#""10.0.0.1" = { rate = "2kbit" }, "10.0.0.2" = { rate = "8kbit", capacity = "20kB" }, "10.0.0.3" = {}"#,
    );
    let mut classes = Classes::new(Kind::DepartureTime, &text)?;
    for (host, spacing, accepted) in [(1, 4, 12), (2, 1, 20), (3, 8, 12)] {
        let frame = udp_from([10, 0, 0, host], 1, 1_000);
        let mut stamps = Vec::new();
        for _ in 0..30 {
            let (verdict, out) = classes.send(&frame, &Context::new())?;
            if verdict == NEXT {
                stamps.push(out.stamp());
            }
        }
        // At 8 kbit/s the time that the test takes may make room for one more.
        let about = stamps.len().abs_diff(accepted) <= usize::from(host == 2);
        check(about, format!("client {host}: {} accepted", stamps.len()))?;
        near(stamps[5], stamps[4] + spacing * SECOND)?;
    }
    Ok(())
}

pub(crate) fn l66_a_client_replaced_keeps_its_backlog_and_one_removed_is_nobodys() -> Outcome {
    let mut classes = Classes::new(
        Kind::DepartureTime,
        &table(r#""10.0.0.1" = {}, "10.0.0.2" = {}"#),
    )?;
    let frame = |host| udp_from([10, 0, 0, host], 1, 1_000);
    for _ in 0..2 {
        classes.send(&frame(1), &Context::new())?;
    }
    let (_, third) = classes.send(&frame(1), &Context::new())?;
    let other = classes.client("10.0.0.2/32")?;
    let changed = table(r#""10.0.0.1" = { rate = "2kbit" }, "10.0.0.2" = {}, "10.0.0.3" = {}"#);
    classes.change(&interface(&changed)?)?;
    let (_, fourth) = classes.send(&frame(1), &Context::new())?;
    near(fourth.stamp(), third.stamp() + 8 * SECOND)?;
    let (_, fifth) = classes.send(&frame(1), &Context::new())?;
    near(fifth.stamp(), fourth.stamp() + 4 * SECOND)?;
    equal("the other's bucket", classes.client("10.0.0.2/32")?, other)?;

    classes.change(&interface(&table(r#""10.0.0.2" = {}, "10.0.0.3" = {}"#))?)?;
    let class = classes.class_of(&frame(1), &Context::new())?;
    equal("one that was removed", class.as_str(), "others")?;
    // Its place goes to the next; the bucket that it finds is empty.
    classes.change(&interface(&table(r#""10.0.0.2" = {}, "10.0.0.4" = {}"#))?)?;
    for host in [2, 4] {
        let (verdict, out) = classes.send(&frame(host), &Context::new())?;
        equal("first of a client", (verdict, out.stamp()), (NEXT, 0))?;
    }
    Ok(())
}

/// Bounds that a busy machine keeps too; `cargo xtask bench` has the figures.
const LOADED_IN: Duration = Duration::from_secs(5);
const CHANGED_IN: Duration = Duration::from_millis(10);

pub(crate) fn a_hundred_thousand_clients_fit_and_are_found() -> Outcome {
    let text = table(r#""10.0.0.1" = {}"#);
    let one = Classes::new(Kind::DepartureTime, &text)?;
    let policy: Policy = one.compiled.policy;
    let tables = one.compiled.tables.clone();
    let mut bench = Bench {
        program: Program::load(Kind::DepartureTime, Sizes::FULL)?,
    };
    bench.program.set_policy(&policy, &tables)?;
    let address = |n: u32| std::net::Ipv4Addr::from(0x6440_0000 + n);
    // Each at a rate of its own, from 1 kbit/s on.
    let client = |n: u32, per_second: u64| Client {
        limits: limits(
            Rate::bytes_per_second(per_second).unwrap(),
            span_of(12_500, per_second, 60).unwrap(),
        ),
        mark_above: Span::MAX,
        slot: n,
        queue: 0,
    };
    let rate = |n: u32| 125 + u64::from(n % 1_000);
    let prefix = |n: u32| ipnet::IpNet::from(std::net::IpAddr::from(address(n)));
    let start = Instant::now();
    for n in 0..100_000 {
        bench
            .program
            .put_client(&prefix(n), &client(n, rate(n)), true)?;
    }
    let loaded = start.elapsed();
    check(loaded <= LOADED_IN, format!("loaded in {loaded:?}"))?;
    let start = Instant::now();
    for n in 0..1_000 {
        bench
            .program
            .put_client(&prefix(n * 97), &client(n * 97, 125), false)?;
    }
    let changed = start.elapsed() / 1_000;
    check(changed <= CHANGED_IN, format!("changed in {changed:?}"))?;
    for n in (0..100_000).step_by(997) {
        let frame = udp_from(address(n).octets(), 1, 1_000);
        bench.send(&frame, &Context::new())?;
        let (_, second) = bench.send(&frame, &Context::new())?;
        let (_, third) = bench.send(&frame, &Context::new())?;
        let per_second = if n % 97 == 0 && n / 97 < 1_000 {
            125
        } else {
            rate(n)
        };
        near(third.stamp(), second.stamp() + 1_000 * SECOND / per_second)?;
    }
    equal("keys", bench.keys()?.len(), 0)?;
    equal("layer", policy.layer(), Layer::Ethernet)
}
