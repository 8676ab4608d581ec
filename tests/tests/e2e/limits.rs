//! What the limit is and what it counts: L18, L22, L25, L26, L27, L28, L47.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use leaky_tests::capture::{Capture, HEADERS_ONLY};
use leaky_tests::lab::SHAPED;
use leaky_tests::netns::Entry;
use leaky_tests::stats::{self, windows};
use leaky_tests::tcp::{CUBIC, Transfer};
use leaky_tests::udp::Sink;
use leaky_tests::{Lab, Leaky, Udp, witness};

use crate::Case;
use crate::host::{CannotTell, Host, Need};
use crate::judge::{between, near};
use crate::rig::{PORT, Rig};

pub(crate) const CASES: &[Case] = &[
    Case::new(
        "l18_a_rate_alone_is_enough",
        &[Need::Root, Need::Leaky],
        l18_defaults,
    ),
    Case::new(
        "l18_the_rate_asked_is_the_rate_installed",
        &[Need::Root, Need::Leaky],
        l18_rates,
    ),
    Case::timed(
        "l22_tcp_gets_the_rate_less_the_headers",
        &[Need::Root, Need::Leaky],
        l22,
    ),
    Case::timed("l25_udp_over_loopback", &[Need::Root, Need::Leaky], l25_udp),
    Case::timed(
        "l25_tcp_over_loopback_with_a_bucket_for_one_packet",
        &[Need::Root, Need::Leaky],
        l25_tcp_small,
    ),
    Case::timed(
        "l25_tcp_over_loopback_with_64_kb_packets",
        &[Need::Root, Need::Leaky],
        l25_tcp,
    ),
    Case::timed(
        "l26_900mbit_of_full_frames",
        &[Need::Root, Need::Leaky, Need::RealTime, Need::Cpus(2)],
        l26,
    ),
    Case::new(
        "l27_a_gso_packet_longer_than_the_hold_does_not_vanish",
        &[Need::Root, Need::Leaky],
        l27_gso,
    ),
    Case::new(
        "l47_a_capacity_below_one_frame_is_raised",
        &[Need::Root, Need::Leaky],
        l47_capacity,
    ),
    Case::timed(
        "l47_the_mtu_changes_under_load",
        &[Need::Root, Need::Leaky],
        l47_mtu,
    ),
    Case::new(
        "a_limit_in_packets_counts_packets",
        &[Need::Root, Need::Leaky, Need::Fq],
        packets_per_second,
    ),
];

/// Only interface and rate: every other value has its documented default and is reported.
fn l18_defaults() -> Result<()> {
    let rig = Rig::new(&["--rate", "1mbit"])?;
    let installed = rig.leaky.installed().clone();
    rig.finish(Duration::from_millis(20))?;
    ensure!(installed.interface == SHAPED, "{installed:?}");
    ensure!(
        installed.rate_bytes_per_second == Some(125_000),
        "{installed:?}"
    );
    ensure!(
        installed.capacity_bytes == Some(25_000),
        "capacity is not rate x max wait: {installed:?}"
    );
    ensure!(
        (installed.max_wait_seconds - 0.2).abs() < 1e-9,
        "{installed:?}"
    );
    ensure!(
        (installed.capacity_seconds - 0.2).abs() < 1e-6,
        "{installed:?}"
    );
    ensure!(installed.burst_seconds == 0.0, "{installed:?}");
    ensure!(installed.key == "class", "{installed:?}");
    ensure!(installed.hold == Host::get().hold, "{installed:?}");
    ensure!(
        !installed.hold_reason.is_empty() && !installed.attach.is_empty(),
        "{installed:?}"
    );
    Ok(())
}

fn l18_rates() -> Result<()> {
    let lab = Lab::new()?;
    for (rate, bytes) in [
        ("8kbit", 1_000),
        ("25kbit", 3_125),
        ("999kbit", 124_875),
        ("1234567B/s", 1_234_567),
        ("0.5gbit", 62_500_000),
        ("10gbit", 1_250_000_000),
    ] {
        let leaky = Leaky::start(&lab, &["--rate", rate, "--max-wait", "50ms"])?;
        let installed = leaky.installed().clone();
        leaky.stop()?;
        ensure!(
            installed.rate_bytes_per_second == Some(bytes),
            "{rate}: {installed:?}"
        );
    }
    Ok(())
}

/// L2 frames count, with the headers of every segment: 1,448 B of payload in 1,514 B on the wire. And what leaky counts as sent
/// agrees with the interface's tx_bytes. The case says 60 s; here 8.
fn l22() -> Result<()> {
    let rig = Rig::new(&["--rate", "10mbit"])?;
    let (from, to) = (&rig.lab.a, &rig.lab.b);
    let transfer = Transfer::start(
        from,
        to,
        rig.lab.far(false, PORT),
        CUBIC,
        Duration::from_secs(8),
    )?;
    let goodput = transfer
        .join()?
        .goodput(Duration::from_secs(1))
        .context("nothing was transferred")?;
    let measured = rig.finish(Duration::from_millis(400))?;
    println!(
        "goodput {goodput} B/s; tx_bytes {}; {:?}",
        measured.tx_bytes, measured.summary
    );
    near("goodput", goodput, 1_250_000 * 1_448 / 1_514, 10)?;
    if measured.installed.hold == "fq" {
        // The htb hold cuts GSO packets behind the program, so the interface counts other pieces than it saw.
        near(
            "accepted bytes as pieces",
            measured.summary.accepted_skb_bytes,
            measured.tx_bytes,
            5,
        )?;
    }
    near(
        "accepted bytes on the wire",
        measured.summary.accepted_bytes,
        stats::wire_bytes(&measured.captured.packets),
        5,
    )
}

/// Loopback has no queue of its own, and frames up to 64 KB: a capacity of 10 kB is raised, and the rate is the rate.
fn l25(capacity: &[&str], traffic: impl Fn(&Lab) -> Result<()>) -> Result<(u64, Vec<String>)> {
    let lab = Lab::new()?;
    let before = witness::state(&lab.a, "lo")?;
    let arguments = [&["--rate", "10mbit"], capacity].concat();
    let leaky = Leaky::start_on(&lab.a, "lo", &arguments, Entry::NetOnly)?;
    let notices = leaky.installed().notices.clone();
    let capture = Capture::start(&lab.a, "lo", HEADERS_ONLY)?;
    traffic(&lab)?;
    let _ = capture.wait_quiet(Duration::from_millis(300), Duration::from_secs(5));
    let packets = capture.stop()?.packets;
    let begin = packets.first().context("nothing went through lo")?.time_ns;
    // Without the first second: with 64 KB frames, what htb lets out at once after a pause is 131 KB.
    let packets: Vec<_> = packets
        .into_iter()
        .filter(|packet| packet.time_ns > begin + 1_000_000_000)
        .collect();
    leaky.stop()?;
    let after = witness::state(&lab.a, "lo")?;
    ensure!(
        before == after,
        "leaky left something on lo.\nBefore: {before:?}\nAfter: {after:?}"
    );
    Ok((
        stats::rate(&packets).context("lo came to a standstill")?,
        notices,
    ))
}

fn l25_udp() -> Result<()> {
    let (rate, notices) = l25(&["--capacity", "10kB"], |lab| {
        let _sink = Sink::open(&lab.a, PORT)?;
        let to = ([127, 0, 0, 1], PORT).into();
        Udp::stream(1, to, 1_000, 2_500_000, Duration::from_secs(3)).send(&lab.a)?;
        Ok(())
    })?;
    println!("{rate} B/s over lo; {notices:?}");
    ensure!(
        !notices.is_empty(),
        "a capacity below one frame of lo was raised without a notice"
    );
    near("rate over lo", rate, 1_250_000, 20)
}

fn tcp_over_loopback(lab: &Lab) -> Result<()> {
    let address = ([127, 0, 0, 1], PORT).into();
    Transfer::start(&lab.a, &lab.a, address, CUBIC, Duration::from_secs(5))?.join()?;
    Ok(())
}

fn l25_tcp() -> Result<()> {
    let (rate, notices) = l25(&[], tcp_over_loopback)?;
    println!("{rate} B/s over lo; {notices:?}");
    near("rate over lo", rate, 1_250_000, 20)
}

/// A bucket for one packet of 64 KB cannot carry TCP at the full rate (each packet that comes before the last has left overflows), but never
/// is it zero, and leaky says that it made the bucket larger.
fn l25_tcp_small() -> Result<()> {
    let (rate, notices) = l25(&["--capacity", "10kB"], tcp_over_loopback)?;
    println!("{rate} B/s over lo; {notices:?}");
    ensure!(
        !notices.is_empty(),
        "a capacity below one frame of lo was raised without a notice"
    );
    between("rate over lo", rate, 62_500, 1_275_000)
}

/// 900 Mbit/s of full frames, each a packet of its own. The case says 4 cores; this asks for two, which the senders and the capture
/// share with leaky, so the sender's own limit is checked first.
fn l26() -> Result<()> {
    let rig = Rig::new(&["--rate", "900mbit"])?;
    let installed = rig.leaky.installed().clone();
    let senders = [1, 2].map(|stream| {
        Udp::stream(
            stream,
            rig.lab.far(false, PORT),
            1_514,
            62_000_000,
            Duration::from_millis(2_500),
        )
        .start(&rig.lab.a)
    });
    let mut offered = 0;
    for sender in senders {
        let sent = sender.join()?;
        offered += sent.bytes * 1_000 / (sent.took_ns / 1_000_000);
    }
    let measured = rig.finish(Duration::from_millis(400))?;
    let packets = measured.captured.only(|packet| packet.mark.is_some());
    let first = packets.first().context("nothing arrived")?.time_ns;
    let seconds = windows(&packets, first + 200_000_000, Duration::from_secs(1));
    println!("bytes in each second: {seconds:?}; offered {offered} B/s");
    if offered < 114_000_000 {
        bail!(CannotTell(format!(
            "the senders only reach {offered} B/s on this machine, now"
        )));
    }
    for bytes in &seconds[..2] {
        between(
            "bytes of a second",
            *bytes,
            112_500_000 / 100 * 98,
            112_500_000 / 1000 * 1_005,
        )?;
    }
    ensure!(
        installed.capacity_bytes.is_some() && installed.capacity_seconds > 0.0,
        "{installed:?}"
    );
    Ok(())
}

/// 8 kbit/s: a GSO packet of 40 kB is 40 s of link time, more than fq holds. Whatever happens to it is counted (the rig checks the
/// equations). The htb hold cuts the packet and spaces the pieces, so there it is 80 kbit/s and 4 s.
fn l27_gso() -> Result<()> {
    let rate = if Host::get().hold == "htb" {
        "80kbit"
    } else {
        "8kbit"
    };
    let rig = Rig::new(&["--rate", rate, "--max-wait", "2s"])?;
    let to = rig.lab.far(false, PORT);
    for stream in 1..4 {
        Udp {
            segments: 40,
            ..Udp::burst(stream, to, 1_042, 40)
        }
        .send(&rig.lab.a)?;
    }
    let measured = rig.finish(Duration::from_secs(1))?;
    ensure!(
        measured.summary.offered_packets == 120,
        "{:?}",
        measured.summary
    );
    println!(
        "dropped {:?}, accepted {}",
        measured.summary.dropped, measured.summary.accepted_packets
    );
    Ok(())
}

fn l47_capacity() -> Result<()> {
    let lab = Lab::new()?;
    let leaky = Leaky::start(&lab, &["--rate", "10mbit", "--capacity", "500B"])?;
    let installed = leaky.installed().clone();
    leaky.stop()?;
    ensure!(
        installed.capacity_bytes.is_some_and(|bytes| bytes >= 1_514),
        "{installed:?}"
    );
    ensure!(
        installed
            .notices
            .iter()
            .any(|notice| notice.contains("500")),
        "no notice about the capacity: {installed:?}"
    );
    Ok(())
}

/// 1500 -> 9000 -> 1500 under 1.5 times the limit: the rate in every second, no restart.
fn l47_mtu() -> Result<()> {
    let rig = Rig::new(&["--rate", "20mbit"])?;
    let sending = Udp::stream(
        1,
        rig.lab.far(false, PORT),
        1_000,
        3_750_000,
        Duration::from_secs(6),
    )
    .start(&rig.lab.a);
    for mtu in [9_000, 1_500] {
        thread::sleep(Duration::from_secs(2));
        rig.lab.set_mtu(mtu)?;
    }
    sending.join()?;
    let measured = rig.finish(Duration::from_millis(400))?;
    let packets = measured.settled(1);
    let first = packets.first().context("nothing arrived")?.time_ns;
    let seconds = windows(&packets, first, Duration::from_secs(1));
    println!("bytes in each second: {seconds:?}");
    for bytes in &seconds[..5] {
        near("bytes of a second", *bytes, 2_500_000, 20)?;
    }
    Ok(())
}

/// 100 packets a second, big or small.
fn packets_per_second() -> Result<()> {
    let rig = Rig::new(&["--rate", "100pps", "--max-wait", "3s"])?;
    let sizes = leaky_tests::Sizes::Between(100, 1_514);
    Udp {
        sizes,
        ..Udp::burst(1, rig.lab.far(false, PORT), 0, 200)
    }
    .send(&rig.lab.a)?;
    let measured = rig.finish(Duration::from_millis(200))?;
    let packets = measured.captured.stream(1);
    ensure!(packets.len() == 200, "{} packets arrived", packets.len());
    near(
        "time of 199 gaps, ns",
        packets[199].time_ns - packets[0].time_ns,
        1_990_000_000,
        5,
    )
}
