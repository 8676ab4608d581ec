//! What the hold is told: queues, departure times, priorities.

use crate::rig::*;
use leaky_core::key::KeyMask;
use leaky_user::bpf::Kind;

pub(crate) fn more_flows_than_the_table_holds_share_one_limited_bucket() -> Outcome {
    // With htb as the hold a flow needs a queue, and here there is none to be had.
    let mut bench = Bench::new(Kind::Queue, KeyMask::FLOW, slow())?;
    let mut dropped = 0;
    for port in 1..=20 {
        let (verdict, out) = bench.send(&udp(port, 1_000), &Context::new())?;
        match verdict {
            NEXT => equal("queue", out.priority(), 0x1eaf_0002)?,
            _ => dropped += 1,
        }
    }
    equal("dropped", dropped, 8)?;
    equal("counted", bench.counters()?.keys_beyond_table, 20)
}

pub(crate) fn a_flow_takes_a_queue_of_the_hold_and_keeps_it() -> Outcome {
    let mut bench = Bench::new(Kind::Queue, KeyMask::FLOW, slow())?;
    bench
        .program
        .add_free_queues(0, [0x1eaf_0010, 0x1eaf_0011].into_iter())?;
    for (port, queue) in [
        (1, 0x1eaf_0010),
        (2, 0x1eaf_0011),
        (1, 0x1eaf_0010),
        (3, 0x1eaf_0002),
        (2, 0x1eaf_0011),
    ] {
        let (_, out) = bench.send(&udp(port, 100), &Context::new())?;
        equal(&format!("queue of flow {port}"), out.priority(), queue)?;
    }
    Ok(())
}

pub(crate) fn a_receive_timestamp_is_no_departure_time() -> Outcome {
    let mut bench = Bench::new(Kind::DepartureTime, KeyMask::NOTHING, slow())?;
    // Wall-clock time, as a forwarded packet carries it: decades beyond the monotonic clock.
    let received = Context::new().with_stamp(1_790_000_000 * SECOND);
    let (verdict, out) = bench.send(&udp(1, 1_000), &received)?;
    equal("verdict", verdict, NEXT)?;
    check(
        out.stamp() < 1_000_000_000 * SECOND,
        "fq would see the receive timestamp",
    )?;
    let (_, second) = bench.send(&udp(1, 1_000), &received)?;
    near(second.stamp(), out.stamp() + 8 * SECOND)?;
    equal("ignored", bench.counters()?.stamps_ignored, 2)
}

pub(crate) fn priority_7_does_not_get_past_fq() -> Outcome {
    let mut bench = Bench::new(Kind::DepartureTime, KeyMask::NOTHING, slow())?;
    let seven = Context::new().with(Context::PRIORITY, 7);
    bench.send(&udp(1, 1_000), &seven)?;
    let (_, out) = bench.send(&udp(1, 1_000), &seven)?;
    equal("priority", out.priority(), 6)?;
    let (_, out) = bench.send(&udp(1, 1_000), &Context::new().with(Context::PRIORITY, 5))?;
    equal("another priority", out.priority(), 5)
}

pub(crate) fn control_traffic_cannot_enter_a_queue_of_the_hold() -> Outcome {
    let mut bench = Bench::new(Kind::Queue, KeyMask::NOTHING, slow())?;
    let mut arp = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6];
    arp.resize(60, 0);
    let into_ours = Context::new().with(Context::PRIORITY, 0x1eaf_0001);
    equal("ours", bench.send(&arp, &into_ours)?.1.priority(), 0)?;
    let into_other = Context::new().with(Context::PRIORITY, 0x0001_0001);
    equal(
        "another's",
        bench.send(&arp, &into_other)?.1.priority(),
        0x0001_0001,
    )?;
    equal(
        "shaped",
        bench.send(&udp(1, 100), &into_other)?.1.priority(),
        0x1eaf_0001,
    )
}
