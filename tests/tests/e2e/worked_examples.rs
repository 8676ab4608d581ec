//! The worked examples of the design, with real packets: rates in packets, so the numbers are those of the text.
//! Departures are at exact times, so this needs deterministic time and the fq hold.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use leaky_tests::{Packet, Udp};

use crate::Case;
use crate::host::Need;
use crate::judge::between;
use crate::rig::{Measured, PORT, Rig};

const NEEDS: &[Need] = &[Need::Root, Need::Leaky, Need::DeterministicTime, Need::Fq];

pub(crate) const CASES: &[Case] = &[
    Case::new(
        "capacity_5_2_per_second_arrivals_4_4_0_0",
        NEEDS,
        four_and_four,
    ),
    Case::new("capacity_5_2_per_second_6_at_once", NEEDS, six_at_once),
    Case::new(
        "capacity_5_2_per_second_6_one_per_second",
        NEEDS,
        one_per_second,
    ),
    Case::new(
        "capacity_20_5_per_second_25_at_once",
        NEEDS,
        twenty_five_at_once,
    ),
    Case::new(
        "5_per_second_and_at_most_2_seconds_is_capacity_10",
        &[Need::Root, Need::Leaky, Need::Fq],
        capacity_from_wait,
    ),
];

/// Sends groups of packets, one group at the start of each second, through a limit in packets.
fn run(rate: &str, capacity: &str, groups: &[u64]) -> Result<Measured> {
    let rig = Rig::new(&["--rate", rate, "--capacity", capacity, "--max-wait", "60s"])?;
    let to = rig.lab.far(false, PORT);
    let begin = Instant::now();
    for (second, count) in (0u32..).zip(groups) {
        thread::sleep(
            (begin + Duration::from_secs(u64::from(second)))
                .saturating_duration_since(Instant::now()),
        );
        if *count > 0 {
            Udp::burst(second, to, 100, *count).send(&rig.lab.a)?;
        }
    }
    rig.finish(Duration::from_millis(1_500))
}

fn marked(measured: &Measured) -> Vec<Packet> {
    measured.captured.only(|packet| packet.mark.is_some())
}

/// Packet `number` (from 0) left at `start_ms` after the first, to the millisecond.
fn left_at(packets: &[Packet], number: usize, start_ms: u64) -> Result<()> {
    let time = packets[number].time_ns - packets[0].time_ns;
    let what = format!("start of packet {number}, ns after the first");
    between(
        &what,
        time,
        (start_ms * 1_000_000).saturating_sub(1_000_000),
        start_ms * 1_000_000 + 1_000_000,
    )
}

fn counts(measured: &Measured, accepted: u64, dropped: u64) -> Result<()> {
    let found = (
        measured.summary.accepted_packets,
        measured.summary.dropped_total().packets,
    );
    ensure!(
        found == (accepted, dropped),
        "accepted and dropped: {found:?}, wanted {:?}",
        (accepted, dropped)
    );
    ensure!(
        measured.summary.dropped_for("overflow").packets == dropped,
        "{:?}",
        measured.summary.dropped
    );
    ensure!(
        marked(measured).len() as u64 == accepted,
        "{} arrived",
        marked(measured).len()
    );
    Ok(())
}

/// After each second 2, 3, 1, 0 are left; one is dropped, in second 2.
fn four_and_four() -> Result<()> {
    let measured = run("2pps", "5p", &[4, 4, 0, 0])?;
    counts(&measured, 7, 1)?;
    let packets = marked(&measured);
    for (number, start_ms) in [0, 500, 1_000, 1_500, 2_000, 2_500, 3_000]
        .into_iter()
        .enumerate()
    {
        left_at(&packets, number, start_ms)?;
    }
    // The fourth of the second group is the one that is missing.
    ensure!(
        measured.captured.stream(1).len() == 3,
        "the drop was not in second 2"
    );
    // What is left: accepted and not drained, where a packet has drained half a second after its start.
    let accepted = [4, 7, 7, 7];
    for (second, (accepted, left)) in (1u64..).zip(accepted.into_iter().zip([2, 3, 1, 0])) {
        let drained = packets
            .iter()
            .filter(|packet| {
                packet.time_ns - packets[0].time_ns + 500_000_000
                    <= second * 1_000_000_000 + 1_000_000
            })
            .count();
        ensure!(
            accepted - drained == left,
            "after second {second} {} are left, wanted {left}",
            accepted - drained
        );
    }
    Ok(())
}

/// Five accepted, one dropped; the fifth starts after 2.0 s (and has drained after 2.5 s, when the next could start).
fn six_at_once() -> Result<()> {
    let measured = run("2pps", "5p", &[6])?;
    counts(&measured, 5, 1)?;
    left_at(&marked(&measured), 4, 2_000)
}

fn one_per_second() -> Result<()> {
    let measured = run("2pps", "5p", &[1; 6])?;
    counts(&measured, 6, 0)?;
    ensure!(
        measured.summary.delayed_packets == 0,
        "{} packets had to wait",
        measured.summary.delayed_packets
    );
    for (number, packet) in marked(&measured).iter().enumerate() {
        let delay = packet
            .time_ns
            .saturating_sub(packet.mark.map_or(0, |mark| mark.sent_ns));
        between(
            &format!("delay of packet {number}, ns"),
            delay,
            0,
            1_000_000,
        )?;
    }
    Ok(())
}

/// 20 accepted, 5 dropped; the twentieth starts after 3.8 s.
fn twenty_five_at_once() -> Result<()> {
    let measured = run("5pps", "20p", &[25])?;
    counts(&measured, 20, 5)?;
    left_at(&marked(&measured), 19, 3_800)
}

fn capacity_from_wait() -> Result<()> {
    let rig = Rig::new(&["--rate", "5pps", "--max-wait", "2s"])?;
    let installed = rig.leaky.installed().clone();
    rig.finish(Duration::from_millis(20))?;
    ensure!(installed.capacity_packets == Some(10), "{installed:?}");
    ensure!(
        installed.rate_packets_per_second == Some(5),
        "{installed:?}"
    );
    Ok(())
}
