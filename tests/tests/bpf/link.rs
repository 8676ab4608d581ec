//! Two levels: the bucket of a key, then that of the link.

use crate::compiled::Classes;
use crate::rig::*;
use aya::programs::{TestRun, TestRunOptions};
use leaky_core::abi::SharedBucket;
use leaky_core::policy::Policy;
use leaky_core::rate::Rate;
use leaky_user::bpf::{Kind, Sizes, Tables};
use std::collections::HashMap;

/// Clients at 10 kbit/s with room for 100 kB each on a link of 1 kbit/s with room for this much.
fn under_link(capacity: &str) -> Result<Classes, Failed> {
    Classes::new(
        Kind::DepartureTime,
        &format!(
            "link = {{ rate = \"1kbit\", capacity = \"{capacity}\", max-wait = \"10h\" }}\n\
             [[interface.class]]\nname = \"a\"\nper = \"src\"\nrate = \"10kbit\"\n\
             capacity = \"100kB\"\nmax-wait = \"1000s\"\n"
        ),
    )
}

pub(crate) fn what_the_link_does_not_take_is_dropped_under_its_own_reason() -> Outcome {
    let mut classes = under_link("12500B")?;
    let cost = classes.compiled.policy.classes[0].limits.rate.cost(1_000).0;
    let (mut accepted, mut refused) = (0, 0);
    let mut before: HashMap<u8, u64> = HashMap::new();
    for packet in 0..60u8 {
        let host = packet % 3;
        let frame = udp_from([10, 0, 0, host], 1, 1_000);
        match classes.send(&frame, &Context::new())?.0 {
            NEXT => accepted += 1,
            _ => refused += 1,
        }
        *before.entry(host).or_default() += 1;
    }
    // The link holds twelve, and a refused packet has paid its own bucket all the same.
    check((6..=12).contains(&accepted), format!("{accepted} accepted"))?;
    let keys = classes.keys()?;
    equal("keys", keys.len(), 3)?;
    let (least, most) = (keys.iter().min().unwrap(), keys.iter().max().unwrap());
    // Twenty packets each, from starts that lie the time of the test apart at most.
    check(
        most - least < cost,
        format!("keys paid for different numbers of packets: {keys:?}"),
    )?;
    let counted = classes.counted("a")?;
    equal("link", counted.dropped[3].packets, refused)?;
    equal(
        "other reasons",
        counted.dropped[0].packets + counted.dropped[1].packets,
        0,
    )?;
    equal("accepted", counted.accepted.packets, accepted)?;
    equal("offered", counted.offered.packets, accepted + refused)
}

pub(crate) fn l65_keys_without_a_backlog_are_refused_only_by_a_full_link() -> Outcome {
    let mut classes = under_link("100kB")?;
    // Each comes once, so none waits for itself.
    for host in 0..120u8 {
        let (verdict, _) = classes.send(&udp_from([10, 0, 0, host], 1, 1_000), &Context::new())?;
        let wanted = if host < 100 { NEXT } else { DROP };
        equal(&format!("newcomer {host}"), verdict, wanted)?;
    }
    // One with a backlog is refused before the link is full.
    let mut classes = under_link("100kB")?;
    let accepted = (0..120)
        .map(|_| classes.send(&udp(1, 1_000), &Context::new()))
        .collect::<Result<Vec<_>, _>>()?
        .iter()
        .filter(|(verdict, _)| *verdict == NEXT)
        .count();
    check(
        (50..100).contains(&accepted),
        format!("{accepted} accepted"),
    )
}

/// Keys that share the link in the test below; a class each, whose counters then are the key's.
const KEYS: u16 = 10;

pub(crate) fn equal_keys_share_an_overloaded_link_equally() -> Outcome {
    // Twice what the link takes, over real time.
    let mut text = "link = { rate = \"200mbit\", capacity = \"2500kB\" }\n".to_owned();
    for key in 0..KEYS {
        text += &format!(
            "[[interface.class]]\nname = \"c{key}\"\nmatch = {{ source-port = [{:?}] }}\n\
             rate = \"40mbit\"\ncapacity = \"1000kB\"\nmax-wait = \"200ms\"\n",
            (key + 1).to_string()
        );
    }
    let mut classes = Classes::new(Kind::DepartureTime, &text)?;
    let frames: Vec<Vec<u8>> = (1..=KEYS).map(|port| udp(port, 1_000)).collect();
    let start = std::time::Instant::now();
    // In step, the order that is hardest on fairness.
    while start.elapsed().as_secs() < 5 {
        for frame in &frames {
            let mut options = TestRunOptions::new();
            options.data_in = Some(frame);
            options.repeat = 4;
            classes.program.classifier()?.test_run(options)?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let counted = (0..KEYS)
        .map(|key| classes.counted(&format!("c{key}")))
        .collect::<Result<Vec<_>, _>>()?;
    for key in &counted {
        let dropped: u64 = key.dropped.iter().map(|tally| tally.packets).sum();
        equal("sum", key.accepted.packets + dropped, key.offered.packets)?;
    }
    let accepted: Vec<u64> = counted.iter().map(|key| key.accepted.packets).collect();
    let sum: u64 = accepted.iter().sum();
    let by_rate = 25_000.0 * seconds;
    check(
        sum as f64 <= by_rate + 2_501.0 && sum as f64 >= 0.95 * by_rate,
        format!("{sum} packets in {seconds:.2} s, the rate is {by_rate:.0}"),
    )?;
    let share = sum / u64::from(KEYS);
    check(
        accepted.iter().all(|one| one.abs_diff(share) * 20 <= share),
        format!("shares {accepted:?}"),
    )
}

pub(crate) fn what_passes_its_class_is_limited_by_the_link() -> Outcome {
    let mut policy = Policy::new(leaky_core::wire::Layer::Ethernet);
    policy.has_link = 1;
    policy.link = slow();
    let mut bench = Bench::with_policy(Kind::Queue, Sizes::FULL, &policy)?;
    let before = bench.free_at(SharedBucket::Link)?;
    let mut verdicts = Vec::new();
    for _ in 0..20 {
        let (verdict, out) = bench.send(&udp(1, 1_000), &Context::new())?;
        equal("stamp", out.stamp(), 0)?;
        verdicts.push(verdict);
    }
    equal(
        "accepted",
        verdicts.iter().filter(|v| **v == NEXT).count(),
        12,
    )?;
    check(
        bench.free_at(SharedBucket::Link)? > before,
        "nothing debited",
    )?;
    let counted = bench.counters()?;
    equal("link", counted.dropped[3].packets, 8)?;
    equal("accepted", counted.accepted.packets, 12)?;
    // A faster link is in force at once, its state kept.
    let rate = Rate::bytes_per_second(1_250).unwrap();
    policy.link = limits(rate, leaky_core::time::Span::from_ns(900 * SECOND));
    bench.program.set_policy(&policy, &Tables::default())?;
    equal("then", bench.send(&udp(1, 1_000), &Context::new())?.0, NEXT)
}
