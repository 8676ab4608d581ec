//! Loopback has no queue by default and frames up to 64 KB: L25.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::capture::{Capture, HEADERS_ONLY};
use leaky_tests::netns::Entry;
use leaky_tests::tcp::{CUBIC, Transfer};
use leaky_tests::udp::Sink;
use leaky_tests::{Lab, Leaky, Udp, stats, witness};

use crate::Case;
use crate::host::Need;
use crate::judge::near;
use crate::rig::PORT;

pub(crate) const CASES: &[Case] = &[
    Case::timed("l25_udp_over_loopback", &[Need::Root, Need::Leaky], l25_udp),
    Case::timed(
        "l25_tcp_over_loopback_with_the_smallest_bucket",
        &[Need::Root, Need::Leaky],
        l25_tcp_small,
    ),
    Case::timed(
        "l25_tcp_over_loopback_with_64_kb_packets",
        &[Need::Root, Need::Leaky],
        l25_tcp,
    ),
];

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

/// A bucket too small for TCP (10 kB, where a packet has up to 64 KB) is made large enough for two packets, and leaky
/// says so: TCP then reaches the rate. With a bucket for one it got 4 % of it (kernel 6.12).
fn l25_tcp_small() -> Result<()> {
    let (rate, notices) = l25(&["--capacity", "10kB"], tcp_over_loopback)?;
    println!("{rate} B/s over lo; {notices:?}");
    ensure!(
        !notices.is_empty(),
        "a capacity below one frame of lo was raised without a notice"
    );
    near("rate over lo", rate, 1_250_000, 20)
}
