//! What is done with the packets of a class, and with those of none.

use crate::classes::BY_PORT;
use crate::compiled::{Classes, NO_CLASS};
use crate::rig::*;
use leaky_user::bpf::Kind;

fn unreadable() -> Vec<(&'static str, Vec<u8>)> {
    let with_type = |kind: [u8; 2]| {
        let mut frame = udp(1, 200);
        frame[12..14].copy_from_slice(&kind);
        frame
    };
    let three = tagged(&tagged(&tagged(&udp(1, 200), 1), 2), 3);
    let mut short_header = udp(1, 200);
    short_header[14] = 0x44;
    vec![
        ("PPPoE", with_type([0x88, 0x64])),
        ("MPLS", with_type([0x88, 0x47])),
        ("an unknown protocol", with_type([0x12, 0x34])),
        ("three tags", three),
        ("IPv4 header of 16 B", short_header),
        ("IPv4 said to be IPv6", with_type([0x86, 0xdd])),
    ]
}

pub(crate) fn l41_unreadable_frames_are_of_the_fallback_and_counted() -> Outcome {
    let text = format!("{BY_PORT}\n[[interface.class]]\nname = \"others\"\nrate = \"1kbit\"\n");
    let mut classes = Classes::new(Kind::DepartureTime, BY_PORT)?;
    let mut with_rest = Classes::new(Kind::DepartureTime, &text)?;
    let frames = unreadable();
    for (what, frame) in &frames {
        let class = classes.class_of(frame, &Context::new())?;
        equal(what, class.as_str(), NO_CLASS)?;
        let class = with_rest.class_of(frame, &Context::new())?;
        equal(what, class.as_str(), "others")?;
    }
    let count = frames.len() as u64;
    equal("unreadable", classes.counted(NO_CLASS)?.unreadable, count)?;
    equal("unreadable", with_rest.counted("others")?.unreadable, count)
}

pub(crate) fn l65_the_fallback_passes_drops_or_is_a_class() -> Outcome {
    let only_tcp =
        "[[interface.class]]\nname = \"tcp\"\nmatch = { protocol = [\"tcp\"] }\nrate = \"1kbit\"\n";
    let mut pass = Classes::new(Kind::DepartureTime, only_tcp)?;
    let mut drop = Classes::new(
        Kind::DepartureTime,
        &format!("default = \"drop\"\n{only_tcp}"),
    )?;
    let mut class = Classes::new(
        Kind::DepartureTime,
        &format!("default = \"tcp\"\n{only_tcp}"),
    )?;
    for _ in 0..3 {
        let (verdict, out) = pass.send(&udp(1, 1_000), &Context::new())?;
        equal("pass", (verdict, out.stamp()), (NEXT, 0))?;
        equal("drop", drop.send(&udp(1, 1_000), &Context::new())?.0, DROP)?;
        class.send(&udp(1, 1_000), &Context::new())?;
    }
    equal("passed", pass.counted(NO_CLASS)?.passed.packets, 3)?;
    equal("denied", drop.counted(NO_CLASS)?.dropped[4].packets, 3)?;
    equal("shaped as tcp", class.counted("tcp")?.delayed.packets, 2)?;
    // ARP lives even so.
    let mut arp = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6];
    arp.resize(60, 0);
    equal("ARP", drop.send(&arp, &Context::new())?.0, NEXT)
}

pub(crate) fn control_traffic_is_classified_when_asked() -> Outcome {
    let class = "[[interface.class]]\nname = \"all\"\nrate = \"1kbit\"\n";
    let mut arp = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6];
    arp.resize(60, 0);
    let mut pass = Classes::new(Kind::DepartureTime, class)?;
    equal(
        "control = pass",
        pass.class_of(&arp, &Context::new())?.as_str(),
        NO_CLASS,
    )?;
    let mut asked = Classes::new(
        Kind::DepartureTime,
        &format!("control = \"class\"\n{class}"),
    )?;
    equal(
        "control = class",
        asked.class_of(&arp, &Context::new())?.as_str(),
        "all",
    )?;
    let (_, out) = asked.send(&arp, &Context::new())?;
    check(out.stamp() > 0, "the second ARP frame is not shaped")
}

pub(crate) fn actions_do_what_they_say() -> Outcome {
    let text = r#"
[[interface.class]]
name = "through"
match = { destination-port = ["1"] }
action = "pass"
[[interface.class]]
name = "away"
match = { destination-port = ["9"] }
action = "drop"
"#;
    for kind in [Kind::DepartureTime, Kind::Queue] {
        let mut classes = Classes::new(kind, text)?;
        let mut through = udp(1, 500);
        through[36..38].copy_from_slice(&[0, 1]);
        let (verdict, out) = classes.send(&through, &Context::new())?;
        equal("pass", (verdict, out.stamp()), (NEXT, 0))?;
        equal("drop", classes.send(&udp(1, 500), &Context::new())?.0, DROP)?;
        equal("passed", classes.counted("through")?.passed.packets, 1)?;
        let away = classes.counted("away")?;
        equal(
            "denied",
            (away.dropped[4].packets, away.dropped[4].bytes),
            (1, 500),
        )?;
    }
    Ok(())
}

pub(crate) fn monitor_counts_as_if_it_shaped() -> Outcome {
    let with = |action: &str| {
        format!(
            "[[interface.class]]\nname = \"a\"\nrate = \"1kbit\"\ncapacity = \"12500B\"\n\
             max-wait = \"1000s\"\nper = \"flow\"\naction = \"{action}\"\n"
        )
    };
    let mut shape = Classes::new(Kind::DepartureTime, &with("shape"))?;
    let mut monitor = Classes::new(Kind::DepartureTime, &with("monitor"))?;
    for packet in 0..30 {
        let frame = udp(1 + packet % 2, 1_000);
        shape.send(&frame, &Context::new())?;
        let asked = Context::new().with(Context::PRIORITY, 7);
        let (verdict, out) = monitor.send(&frame, &asked)?;
        let untouched = (verdict, out.stamp(), out.priority());
        equal("a monitored packet", untouched, (NEXT, 0, 7))?;
    }
    let (mut shape, mut monitor) = (shape.counted("a")?, monitor.counted("a")?);
    check(shape.dropped[0].packets == 6, "nothing overflowed")?;
    equal(
        "passed",
        (monitor.passed.packets, shape.passed.packets),
        (30, 0),
    )?;
    monitor.passed = shape.passed;
    // The waits differ by the time between the runs of the two.
    for counted in [&mut shape, &mut monitor] {
        counted.wait_sum_ns = 0;
        counted.wait_max_ns = 0;
    }
    equal("counters", monitor, shape)
}

/// A key that is only watched needs no queue of the hold, and takes none from those that are shaped.
pub(crate) fn monitored_keys_take_no_queue() -> Outcome {
    let text = "[[interface.class]]\nname = \"a\"\nrate = \"1kbit\"\ncapacity = \"12500B\"\n\
                max-wait = \"1000s\"\nper = \"flow\"\naction = \"monitor\"\n";
    let mut monitor = Classes::new(Kind::Queue, text)?;
    for packet in 0..30 {
        let (verdict, _) = monitor.send(&udp(1 + packet % 10, 1_000), &Context::new())?;
        equal("verdict", verdict, NEXT)?;
    }
    let counted = monitor.counted("a")?;
    equal(
        "keys made, packets without a place",
        (counted.keys_made, counted.keys_beyond_table),
        (10, 0),
    )
}
