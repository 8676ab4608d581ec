//! What the link adds to each frame, and the least that a frame takes.

use crate::compiled::Classes;
use crate::rig::*;
use leaky_core::abi::SharedBucket;
use leaky_user::bpf::Kind;

fn classes(framing: &str) -> Result<Classes, Failed> {
    Classes::new(
        Kind::DepartureTime,
        &format!(
            "{framing}\n[[interface.class]]\nname = \"a\"\nrate = \"1kbit\"\n\
             capacity = \"100kB\"\nmax-wait = \"1000s\"\n"
        ),
    )
}

/// Sends a packet to fill the bucket, then this one; what the latter was charged must be `bytes`.
fn charged(classes: &mut Classes, frame: &[u8], context: &Context, bytes: u64) -> Outcome {
    classes.send(&udp(1, 1_000), &Context::new())?;
    let id = classes.compiled.classes[0].id;
    let before = classes.free_at(SharedBucket::Class(id))?;
    equal("verdict", classes.send(frame, context)?.0, NEXT)?;
    let cost = classes.free_at(SharedBucket::Class(id))? - before;
    let rate = classes.compiled.policy.classes[0].limits.rate;
    equal(&format!("cost of {bytes} B"), cost, rate.cost(bytes).0)?;
    // 125 B/s: 8 ms a byte, in 2^-16 ns.
    equal("as time", cost >> 16, bytes * 8_000_000)
}

pub(crate) fn overhead_and_minimum_are_charged_for_every_frame() -> Outcome {
    for (framing, length, bytes) in [
        ("", 60, 60),
        ("overhead = \"24B\"", 60, 84),
        ("overhead = \"24B\"", 1_000, 1_024),
        ("mpu = \"64B\"", 60, 64),
        ("mpu = \"64B\"", 65, 65),
        ("overhead = \"4B\"\nmpu = \"64B\"", 60, 64),
        ("overhead = \"38B\"\nmpu = \"84B\"", 42, 84),
        ("overhead = \"1000B\"\nmpu = \"2000B\"", 42, 2_000),
    ] {
        charged(
            &mut classes(framing)?,
            &udp(1, length),
            &Context::new(),
            bytes,
        )?;
    }
    // Counters show the wire as the kernel sees it, not what was charged.
    let mut classes = classes("overhead = \"24B\"")?;
    classes.send(&udp(1, 1_000), &Context::new())?;
    equal("bytes", classes.counted("a")?.accepted.bytes, 1_000)
}

pub(crate) fn overhead_is_charged_for_every_segment() -> Outcome {
    // 10 segments of 100 B behind 42 B of headers each, and one of 20 B.
    let frame = udp(1, 42 + 1_020);
    let on_wire = 11 * 42 + 1_020;
    let counted = Context::new()
        .with(Context::GSO_SIZE, 100)
        .with(Context::GSO_SEGS, 11)
        .with(Context::WIRE_LEN, on_wire);
    let uncounted = Context::new()
        .with(Context::GSO_SIZE, 100)
        .with(Context::WIRE_LEN, 1_062);
    let on_wire = u64::from(on_wire);
    for context in [counted, uncounted] {
        let with_overhead = on_wire + 11 * 24;
        charged(
            &mut classes("overhead = \"24B\"")?,
            &frame,
            &context,
            with_overhead,
        )?;
        // Only the last frame, of 62 B, is shorter than this.
        charged(
            &mut classes("mpu = \"100B\"")?,
            &frame,
            &context,
            on_wire + 38,
        )?;
    }
    Ok(())
}
