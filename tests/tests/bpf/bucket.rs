//! The bucket: what is accepted, when it leaves, what it is charged.

use crate::rig::*;
use leaky_core::bucket::Limits;
use leaky_core::key::KeyMask;
use leaky_core::rate::{Rate, span_of};
use leaky_core::time::Span;
use leaky_core::wire::Layer;
use leaky_user::bpf::{Kind, Program, Tables};

pub(crate) fn stamps_are_one_cost_apart_and_what_does_not_fit_is_dropped() -> Outcome {
    let mut bench = Bench::new(Kind::DepartureTime, KeyMask::NOTHING, slow())?;
    let frame = udp(1, 1_000);
    let (verdict, first) = bench.send(&frame, &Context::new())?;
    equal("first", (verdict, first.stamp()), (NEXT, 0))?;
    let (verdict, second) = bench.send(&frame, &Context::new())?;
    equal("second", verdict, NEXT)?;
    let mut before = second.stamp();
    // 12,500 B hold twelve packets of 1,000 B.
    for packet in 3..=12 {
        let (verdict, out) = bench.send(&frame, &Context::new())?;
        equal(&format!("packet {packet}"), verdict, NEXT)?;
        near(out.stamp(), before + 8 * SECOND)?;
        before = out.stamp();
    }
    equal(
        "the one too many",
        bench.send(&frame, &Context::new())?.0,
        DROP,
    )?;
    let counters = bench.counters()?;
    equal(
        "offered",
        (counters.offered.packets, counters.offered.bytes),
        (13, 13_000),
    )?;
    equal(
        "accepted",
        (counters.accepted.packets, counters.accepted.bytes),
        (12, 12_000),
    )?;
    equal("delayed", counters.delayed.packets, 11)?;
    equal(
        "overflow",
        (counters.dropped[0].packets, counters.dropped[0].bytes),
        (1, 1_000),
    )?;
    equal("too late", counters.dropped[1].packets, 0)
}

pub(crate) fn a_packet_that_would_wait_too_long_is_dropped_under_its_own_reason() -> Outcome {
    let max_wait = Span::from_ns(9 * SECOND);
    let mut bench = Bench::new(
        Kind::DepartureTime,
        KeyMask::NOTHING,
        Limits { max_wait, ..slow() },
    )?;
    let frame = udp(1, 1_000);
    let verdicts: Vec<u32> = (0..4)
        .map(|_| {
            bench
                .send(&frame, &Context::new())
                .map(|(verdict, _)| verdict)
        })
        .collect::<Result<_, _>>()?;
    equal("verdicts", verdicts, vec![NEXT, NEXT, DROP, DROP])?;
    equal("too late", bench.counters()?.dropped[1].packets, 2)
}

pub(crate) fn each_flow_has_a_bucket_of_its_own() -> Outcome {
    let mut bench = Bench::new(Kind::DepartureTime, KeyMask::FLOW, slow())?;
    for port in 1..=100 {
        let (verdict, out) = bench.send(&udp(port, 1_000), &Context::new())?;
        equal(
            &format!("first of flow {port}"),
            (verdict, out.stamp()),
            (NEXT, 0),
        )?;
    }
    let (_, out) = bench.send(&udp(7, 1_000), &Context::new())?;
    check(out.stamp() > 0, "the second of a flow does not wait")?;
    equal("delayed", bench.counters()?.delayed.packets, 1)
}

pub(crate) fn l22_each_segment_of_a_gso_packet_is_charged_with_its_headers() -> Outcome {
    let mut bench = Bench::new(Kind::DepartureTime, KeyMask::NOTHING, slow())?;
    let frame = udp(1, 1_042);
    // Ten segments of 100 B behind 42 B of headers: 1,000 + 10 x 42.
    let counted = Context::new()
        .with(Context::GSO_SIZE, 100)
        .with(Context::GSO_SEGS, 10)
        .with(Context::WIRE_LEN, 1_420);
    bench.send(&frame, &counted)?;
    let uncounted = Context::new()
        .with(Context::GSO_SIZE, 100)
        .with(Context::WIRE_LEN, 1_042);
    let (_, second) = bench.send(&frame, &uncounted)?;
    let (_, third) = bench.send(&udp(1, 60), &Context::new())?;
    near(third.stamp(), second.stamp() + 1_420 * SECOND / 125)?;
    let counters = bench.counters()?;
    equal("packets", counters.accepted.packets, 21)?;
    equal("bytes", counters.accepted.bytes, 2 * 1_420 + 60)?;
    equal(
        "buffers",
        (counters.accepted.buffers, counters.accepted.buffer_bytes),
        (3, 2_144),
    )?;
    equal(
        "largest",
        (counters.largest_packets, counters.largest_bytes),
        (10, 1_420),
    )
}

pub(crate) fn rates_in_packets_charge_each_segment() -> Outcome {
    let rate = Rate::packets_per_second(1).unwrap();
    let capacity = span_of(20, 1, 1).unwrap();
    let mut bench = Bench::new(
        Kind::DepartureTime,
        KeyMask::NOTHING,
        limits(rate, capacity),
    )?;
    bench.send(&udp(1, 60), &Context::new())?;
    let gso = Context::new()
        .with(Context::GSO_SIZE, 100)
        .with(Context::GSO_SEGS, 10)
        .with(Context::WIRE_LEN, 1_420);
    let (_, second) = bench.send(&udp(1, 1_042), &gso)?;
    let (_, third) = bench.send(&udp(1, 1_500), &Context::new())?;
    near(third.stamp(), second.stamp() + 10 * SECOND)
}

pub(crate) fn a_new_policy_keeps_the_state() -> Outcome {
    let mut bench = Bench::new(Kind::DepartureTime, KeyMask::NOTHING, slow())?;
    let frame = udp(1, 1_000);
    bench.send(&frame, &Context::new())?;
    let (_, second) = bench.send(&frame, &Context::new())?;
    let rate = Rate::bytes_per_second(250).unwrap();
    let mut faster = limits(rate, span_of(25_000, 250, 60).unwrap());
    faster.stale_after = faster.furthest().max(slow().furthest());
    bench.program.set_policy(
        &policy(KeyMask::NOTHING, faster, Layer::Ethernet),
        &Tables::default(),
    )?;
    let (_, third) = bench.send(&frame, &Context::new())?;
    near(third.stamp(), second.stamp() + 8 * SECOND)?;
    let (_, fourth) = bench.send(&frame, &Context::new())?;
    near(fourth.stamp(), third.stamp() + 4 * SECOND)?;
    equal("accepted", bench.counters()?.accepted.packets, 4)
}

pub(crate) fn l18_the_policy_in_the_kernel_is_the_one_that_was_set() -> Outcome {
    for bytes_per_second in [125, 1_250_000, 4_294_967_296, 50_000_000_000] {
        let rate = Rate::bytes_per_second(bytes_per_second).unwrap();
        let policy = policy(
            KeyMask::FLOW,
            limits(rate, Span::from_ns(SECOND)),
            Layer::Ip,
        );
        let mut program = Program::load(Kind::DepartureTime, SMALL)?;
        program.set_policy(&policy, &Tables::default())?;
        equal("policy", program.policy()?, policy)?;
    }
    Ok(())
}
