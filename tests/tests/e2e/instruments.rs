//! The lab measures right: checked against shapers that `tc` sets up, without leaky.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use leaky_tests::capture::{Capture, HEADERS_ONLY, WHOLE};
use leaky_tests::lab::{FAR, GROUP, SHAPED};
use leaky_tests::payload::Mark;
use leaky_tests::probe::{Question, ask};
use leaky_tests::raw::{RawSocket, tagged_udp};
use leaky_tests::stats::{self, Gaps};
use leaky_tests::tcp::{CUBIC, Transfer};
use leaky_tests::udp::Sink;
use leaky_tests::{Lab, Sizes, Udp, witness};

use crate::Case;
use crate::host::{CannotTell, Need};
use crate::judge::{between, near, show};
use crate::rig::PORT;

pub(crate) const CASES: &[Case] = &[
    Case::new(
        "a_capture_sees_every_packet_unchanged",
        &[Need::Root],
        every_packet,
    ),
    Case::timed(
        "a_plain_htb_class_is_measured_as_even",
        &[Need::Root, Need::Htb],
        plain_htb,
    ),
    Case::new(
        "gso_packets_count_as_their_segments",
        &[Need::Root],
        gso_packets,
    ),
    Case::new("questions_are_answered", &[Need::Root], questions),
    Case::timed(
        "a_tcp_transfer_is_timed",
        &[Need::Root, Need::Htb],
        tcp_transfer,
    ),
];

fn every_packet() -> Result<()> {
    let lab = Lab::new()?;
    let _sink = Sink::open(&lab.b, PORT)?;
    let capture = Capture::start(&lab.b, FAR, WHOLE)?;
    let destinations = [
        (1, lab.far(false, PORT)),
        (2, lab.far(true, PORT)),
        (3, (GROUP, PORT).into()),
    ];
    for (stream, to) in destinations {
        let sender = Udp {
            sizes: Sizes::Between(100, 1514),
            ..Udp::burst(stream, to, 0, 3_000)
        };
        let sent = sender.send(&lab.a)?;
        ensure!(sent.packets == 3_000, "{sent:?}");
    }
    let raw = RawSocket::open(&lab.a, SHAPED, 0)?;
    raw.send(&tagged_udp(
        Mark {
            stream: 4,
            sequence: 0,
            sent_ns: 0,
        },
        300,
        PORT,
        &[(0x8100, 5)],
    )?)?;
    ensure!(
        capture.wait_for(9_001, Duration::from_secs(5)),
        "{} packets arrived",
        capture.arrived()
    );
    let link = witness::link(&lab.a, SHAPED)?;
    let captured = capture.stop()?;
    let deliveries = stats::deliveries(
        &captured.packets,
        &[(1, 3_000), (2, 3_000), (3, 3_000), (4, 1)].into(),
    );
    for (stream, delivery) in deliveries {
        ensure!(
            (
                delivery.lost,
                delivery.duplicated,
                delivery.reordered,
                delivery.changed
            ) == (0, 0, 0, 0),
            "stream {stream}: {delivery:?}"
        );
    }
    let tagged = captured.stream(4);
    ensure!(
        tagged
            .first()
            .is_some_and(|packet| (packet.vlan, packet.wire_bytes) == (Some(5), 304)),
        "{tagged:?}"
    );
    let bytes: u64 = captured
        .packets
        .iter()
        .map(|packet| u64::from(packet.skb_bytes))
        .sum();
    near("bytes captured against tx_bytes", bytes, link.tx_bytes, 5)
}

fn plain_htb() -> Result<()> {
    let lab = Lab::new()?;
    let _sink = Sink::open(&lab.b, PORT)?;
    lab.a.tc(&[
        "qdisc", "add", "dev", SHAPED, "root", "handle", "1:", "htb", "default", "1",
    ])?;
    lab.a.tc(&[
        "class", "add", "dev", SHAPED, "parent", "1:", "classid", "1:1", "htb", "rate", "10mbit",
        "burst", "3100", "cburst", "3100", "quantum", "1600",
    ])?;
    let capture = Capture::start(&lab.b, FAR, HEADERS_ONLY)?;
    Udp::burst(1, lab.far(false, PORT), 1_042, 500).send(&lab.a)?;
    ensure!(
        capture.wait_for(500, Duration::from_secs(5)),
        "{} packets arrived",
        capture.arrived()
    );
    let packets = capture.stop()?.stream(1);
    let gaps = Gaps::of(&packets[5..]).context("no gaps")?;
    println!("{}", show(&gaps));
    between("median gap in ns", gaps.p50, 828_600, 838_600)?;
    near(
        "rate",
        stats::rate(&packets[5..]).context("no rate")?,
        1_250_000,
        5,
    )
}

fn gso_packets() -> Result<()> {
    let lab = Lab::new()?;
    let _sink = Sink::open(&lab.b, PORT)?;
    let capture = Capture::start(&lab.b, FAR, HEADERS_ONLY)?;
    Udp {
        segments: 10,
        ..Udp::burst(1, lab.far(false, PORT), 1_042, 100)
    }
    .send(&lab.a)?;
    if !capture.wait_for(10, Duration::from_secs(5)) && capture.arrived() == 0 {
        bail!(CannotTell(
            "packet sockets show UDP GSO packets from kernel 6.2 on".to_owned()
        ));
    }
    let captured = capture.stop()?;
    let packets = captured.stream(1);
    let segments: u32 = packets.iter().map(|packet| packet.segments).sum();
    ensure!(
        (segments, stats::wire_bytes(&packets)) == (100, 104_200),
        "{segments} segments, {} B",
        stats::wire_bytes(&packets)
    );
    Ok(())
}

fn questions() -> Result<()> {
    let lab = Lab::new()?;
    for question in [Question::Arp, Question::Neighbour, Question::Ping] {
        let answers = ask(
            &lab.a,
            question,
            5,
            Duration::from_millis(5),
            Duration::from_secs(1),
        )?;
        ensure!(answers.round_trips.len() == 5, "{question:?}: {answers:?}");
    }
    Ok(())
}

fn tcp_transfer() -> Result<()> {
    let lab = Lab::new()?;
    lab.a.tc(&[
        "qdisc", "add", "dev", SHAPED, "root", "tbf", "rate", "20mbit", "burst", "3100", "limit",
        "250000",
    ])?;
    let capture = Capture::start(&lab.b, FAR, HEADERS_ONLY)?;
    let transfer = Transfer::start(
        &lab.a,
        &lab.b,
        lab.far(false, PORT),
        CUBIC,
        Duration::from_secs(3),
    )?;
    let transferred = transfer.join()?;
    let captured = capture.stop()?;
    let goodput = transferred
        .goodput(Duration::from_secs(1))
        .context("nothing was transferred")?;
    // 1,448 B of payload in each frame of 1,514 B.
    near("goodput", goodput, 2_500_000 * 1448 / 1514, 20)?;
    let packets = captured.only(|packet| packet.protocol == 6 && packet.destination_port == PORT);
    let (most, _) = stats::largest_window(&packets[20..], Duration::from_millis(1));
    println!("goodput {goodput} B/s, most in a millisecond {most} B");
    Ok(())
}
