//! What a class does with its packets, and what becomes of those that are in none. L65.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::lab;
use leaky_tests::probe::{Question, ask};
use leaky_tests::raw::{self, RawSocket};
use leaky_tests::stats::{self, deliveries, percentile};
use leaky_tests::{Packet, Udp};

use crate::Case;
use crate::configured::{Configured, OTHER_PORT};
use crate::host::Need;
use crate::judge::{between, near};
use crate::rig::PORT;

pub(crate) const CASES: &[Case] = &[
    Case::new(
        "ecn_marks_what_waits_and_can_be_marked",
        &[Need::Root, Need::Leaky],
        ecn,
    ),
    Case::new(
        "pass_and_drop_do_what_they_say",
        &[Need::Root, Need::Leaky],
        pass_and_drop,
    ),
    Case::new(
        "what_matches_no_class_is_dropped_if_asked",
        &[Need::Root, Need::Leaky],
        default_drop,
    ),
    Case::timed(
        "monitor_counts_and_touches_nothing",
        &[Need::Root, Need::Leaky],
        monitor,
    ),
    Case::new(
        "l65_control_traffic_lives_at_one_kbit",
        &[Need::Root, Need::Leaky],
        l65,
    ),
    Case::new(
        "control_traffic_is_matched_if_asked",
        &[Need::Root, Need::Leaky],
        control_in_class,
    ),
];

fn of(stream: u32) -> impl Fn(&Packet) -> bool {
    move |packet| packet.mark.is_some_and(|mark| mark.stream == stream)
}

fn pass_and_drop() -> Result<()> {
    let classes = r#"
[[interface.class]]
name = "free"
match = { destination-port = ["5004"] }
action = "pass"

[[interface.class]]
name = "never"
match = { destination-port = ["5006"] }
action = "drop"

[[interface.class]]
name = "slow"
rate = "100kbit"
"#;
    let configured = Configured::start(classes, &[])?;
    let lab = &configured.lab;
    for (stream, port) in [(1, PORT), (2, PORT + 2), (3, OTHER_PORT)] {
        Udp::burst(stream, lab.far(false, port), 1_000, 600).send(&lab.a)?;
    }
    let found = configured.finish(Duration::from_millis(400))?;
    let [free, never, slow] = [1, 2, 3].map(|stream| found.captured.stream(stream).len());
    println!("arrived: passed {free}, dropped {never}, shaped {slow} of 600 each");
    ensure!(free == 600, "{free} of 600 passed");
    ensure!(never == 0, "{never} packets of a class that drops arrived");
    let fit = found.fits("slow")? / 1_000;
    between("shaped packets", u64::try_from(slow)?, fit, fit + 20)?;
    let dropped = found.summary.class("never")?.dropped_total().packets;
    ensure!(dropped == 600, "{dropped} of 600 drops are counted");
    found.accepted_arrived("slow", of(3))
}

fn default_drop() -> Result<()> {
    let configured = Configured::start(
        "default = \"drop\"\n[[interface.class]]\nname = \"known\"\nmatch = { destination-port = [\"5004\"] }\nrate = \"100mbit\"\n",
        &[],
    )?;
    let lab = &configured.lab;
    for (stream, port) in [(1, PORT), (2, PORT + 2)] {
        Udp::burst(stream, lab.far(false, port), 1_000, 100).send(&lab.a)?;
    }
    let answers = ask(
        &lab.a,
        Question::Arp,
        5,
        Duration::from_millis(10),
        Duration::from_secs(1),
    )?;
    let found = configured.finish(Duration::from_millis(300))?;
    ensure!(
        answers.round_trips.len() == 5,
        "ARP was dropped too: {answers:?}"
    );
    ensure!(
        found.captured.stream(1).len() == 100,
        "the known class lost packets"
    );
    ensure!(
        found.captured.stream(2).is_empty(),
        "what matches no class arrived: {:?}",
        found.summary
    );
    let rest = found.summary.class("rest")?;
    ensure!(rest.dropped_total().packets == 100, "not counted: {rest:?}");
    Ok(())
}

/// Thirty times the rate: nothing is delayed, dropped or marked, and the counters say what would have been.
fn monitor() -> Result<()> {
    let configured = Configured::start(
        "[[interface.class]]\nname = \"watched\"\naction = \"monitor\"\nrate = \"1mbit\"\nmax-wait = \"100ms\"\necn = \"5ms\"\n",
        &[],
    )?;
    let lab = &configured.lab;
    let sent = Udp {
        tos: Some(2),
        ..Udp::stream(
            1,
            lab.far(false, PORT),
            1_000,
            3_750_000,
            Duration::from_secs(2),
        )
    }
    .send(&lab.a)?;
    let found = configured.finish(Duration::from_millis(300))?;
    let packets = found.captured.stream(1);
    let delivery = deliveries(&packets, &[(1, sent.packets)].into())[&1];
    ensure!(
        (delivery.lost, delivery.reordered, delivery.changed) == (0, 0, 0),
        "{delivery:?}"
    );
    ensure!(
        packets.iter().all(|packet| packet.tos == 2),
        "a packet was marked"
    );
    let median = percentile(&stats::delays(&packets), 50).context("no delays")?;
    between("median delay, ns", median, 0, 2_000_000)?;
    let class = found.summary.class("watched")?;
    println!("{class:?}");
    ensure!(class.offered_packets == sent.packets, "{class:?}");
    // 2 s at 125 kB/s and the bucket of 12.5 kB fit in, the rest would have been dropped.
    near(
        "bytes that would have passed",
        class.accepted_bytes,
        262_500,
        40,
    )?;
    ensure!(
        class.delayed_packets > 0 && class.marked_packets > 0,
        "{class:?}"
    );
    Ok(())
}

/// The default bucket has 1 kbit/s and ten times that to carry: ARP is answered each time, and routing hellos leave.
fn l65() -> Result<()> {
    let configured = Configured::start(
        "default = \"small\"\n[[interface.class]]\nname = \"web\"\nmatch = { protocol = [\"tcp\"] }\nrate = \"10mbit\"\n[[interface.class]]\nname = \"small\"\nmatch = { destination-port = [\"1\"] }\nrate = \"1kbit\"\nmax-wait = \"2s\"\n",
        &[],
    )?;
    let lab = &configured.lab;
    let sending =
        Udp::stream(1, lab.far(false, PORT), 125, 1_250, Duration::from_secs(30)).start(&lab.a);
    thread::sleep(Duration::from_millis(500));
    for question in [Question::Arp, Question::Neighbour] {
        let answers = ask(
            &lab.a,
            question,
            100,
            Duration::from_millis(10),
            Duration::from_millis(500),
        )?;
        println!(
            "{question:?}: {} of {}",
            answers.round_trips.len(),
            answers.asked
        );
        ensure!(
            answers.round_trips.len() == 100,
            "{question:?}: {answers:?}"
        );
    }
    let socket = RawSocket::open(&lab.a, lab::SHAPED, 0)?;
    for _ in 0..20 {
        socket.send(&ospf_hello())?;
    }
    sending.stop()?;
    let found = configured.finish(Duration::from_millis(300))?;
    let hellos = found.captured.only(|packet| packet.protocol == 89).len();
    ensure!(hellos == 20, "{hellos} of 20 OSPF hellos left");
    ensure!(found.summary.passed_packets >= 220, "{:?}", found.summary);
    let small = found.summary.class("small")?;
    ensure!(
        small.dropped_total().packets > 0,
        "nothing was limited: {small:?}"
    );
    Ok(())
}

/// A hello to all OSPF routers, with a lifetime of one hop.
fn ospf_hello() -> Vec<u8> {
    let mut frame = raw::ethernet([0x01, 0x00, 0x5e, 0, 0, 5], 0x0800);
    let mut ip = raw::ipv4_header(64, 89);
    ip[1] = 0xc0; // internetwork control
    ip[8] = 1;
    ip[16..20].copy_from_slice(&[224, 0, 0, 5]);
    let sum = raw::checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(ip);
    frame.extend([2, 1, 0, 44]);
    frame.resize(14 + 64, 0);
    frame
}

fn control_in_class() -> Result<()> {
    let all = "[[interface.class]]\nname = \"all\"\naction = \"drop\"\n";
    for (control, answered) in [("pass", 10), ("class", 0)] {
        let configured = Configured::start(&format!("control = \"{control}\"\n{all}"), &[])?;
        let answers = ask(
            &configured.lab.a,
            Question::Arp,
            10,
            Duration::from_millis(10),
            Duration::from_millis(300),
        )?;
        configured.finish(Duration::from_millis(100))?;
        ensure!(
            answers.round_trips.len() == answered,
            "control = {control}: {} of 10 answered",
            answers.round_trips.len()
        );
    }
    Ok(())
}

/// 200 frames of 1,000 B at 10 Mbit/s: the n-th waits 0.8 ms x n, so all but the first seven wait more than 5 ms.
fn ecn() -> Result<()> {
    let configured = Configured::start(
        "[[interface.class]]\nname = \"marks\"\nrate = \"10mbit\"\necn = \"5ms\"\n",
        &[],
    )?;
    let lab = &configured.lab;
    for (stream, v6, tos) in [
        (1, false, 0xba),
        (2, true, 0xb9),
        (3, false, 0xb8),
        (4, true, 0xb8),
    ] {
        Udp {
            tos: Some(tos),
            ..Udp::burst(stream, lab.far(v6, PORT), 1_000, 200)
        }
        .send(&lab.a)?;
        std::thread::sleep(Duration::from_millis(400));
    }
    let found = configured.finish(Duration::from_millis(300))?;
    let mut marked = 0;
    for (stream, tos) in [(1, 0xba), (2, 0xb9), (3, 0xb8), (4, 0xb8)] {
        let packets = found.captured.stream(stream);
        ensure!(packets.len() == 200, "{} of 200 arrived", packets.len());
        ensure!(
            packets
                .iter()
                .all(|packet| packet.intact && packet.header_right),
            "a packet of stream {stream} arrived with a wrong checksum or payload"
        );
        let (ce, plain): (Vec<&Packet>, Vec<&Packet>) =
            packets.iter().partition(|packet| packet.tos & 3 == 3);
        ensure!(
            plain.iter().all(|packet| packet.tos == tos)
                && ce.iter().all(|packet| packet.tos == 0xbb),
            "bits of stream {stream} changed that are none of ours"
        );
        println!("stream {stream} with {tos:#x}: {} of 200 marked", ce.len());
        if tos & 3 == 0 {
            ensure!(
                ce.is_empty(),
                "{} packets that cannot be marked are",
                ce.len()
            );
        } else {
            between("marked packets", ce.len(), 185, 194)?;
        }
        marked += u64::try_from(ce.len())?;
    }
    let class = found.summary.class("marks")?;
    ensure!(
        class.marked_packets == marked && found.summary.marked_packets == marked,
        "{marked} arrived marked, leaky counts {class:?}"
    );
    Ok(())
}
