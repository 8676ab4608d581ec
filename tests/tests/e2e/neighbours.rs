//! What shares the interface with a full bucket: ARP and neighbour discovery are not delayed, a ping is bounded (L23).

use std::net::{Ipv4Addr, SocketAddrV4};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::ahead;
use leaky_tests::lab::{SHAPED, V4_B};
use leaky_tests::probe::{Answers, Question, ask};
use leaky_tests::{Udp, stats};

use crate::Case;
use crate::host::{Host, Need};
use crate::judge::between;
use crate::rig::{PORT, Rig};

pub(crate) const CASES: &[Case] = &[
    Case::timed(
        "l23_arp_is_not_delayed_under_ten_times_the_limit",
        &[Need::Root, Need::Leaky],
        || control(Question::Arp),
    ),
    Case::timed(
        "l23_neighbour_discovery_is_not_delayed_under_ten_times_the_limit",
        &[Need::Root, Need::Leaky],
        || control(Question::Neighbour),
    ),
    Case::timed(
        "l23_a_ping_waits_at_most_the_max_wait",
        &[Need::Root, Need::Leaky],
        ping,
    ),
    Case::timed(
        "arp_lives_at_one_kbit",
        &[Need::Root, Need::Leaky],
        arp_at_one_kbit,
    ),
    Case::new(
        "control_traffic_stamped_far_ahead_does_not_fill_the_hold",
        &[Need::Root, Need::Leaky, Need::Fq],
        || stamped_ahead(&["--rate", "4mbit"], SocketAddrV4::new(ROUTERS, 520)),
    ),
    Case::new(
        "unlimited_traffic_stamped_far_ahead_does_not_fill_the_hold",
        &[Need::Root, Need::Leaky, Need::Fq],
        || {
            let others = ["--rate", "4mbit", "--destination-port", "5004"];
            stamped_ahead(&others, SocketAddrV4::new(V4_B, 9))
        },
    ),
];

/// All RIP routers: what goes there passes every limit.
const ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 9);

/// More packets than fq has room for, each asking to be kept for 9.5 s, from somebody who passes the limit: the packets that are
/// limited leave all the same.
fn stamped_ahead(arguments: &[&str], to: SocketAddrV4) -> Result<()> {
    let rig = Rig::new(arguments)?;
    rig.lab
        .a
        .ip(&["route", "add", "224.0.0.0/24", "dev", SHAPED])?;
    let taken = ahead::send(&rig.lab.a, to, 12_000, Duration::from_millis(9_500))?;
    let far = rig.lab.far(false, PORT);
    let sent = Udp::stream(1, far, 1_000, 400_000, Duration::from_secs(1)).send(&rig.lab.a)?;
    let quiet = Duration::from_millis(400);
    ensure!(
        rig.capture.wait_quiet(quiet, Duration::from_secs(10)),
        "packets still arrive after 10 s"
    );
    let outcome = rig.leaky.stop()?;
    let captured = rig.capture.stop()?;
    let arrived = captured.stream(1).len();
    let summary = outcome.summary.context("no summary")?;
    println!(
        "{taken} stamped ahead; {arrived} of {} arrived; {} times ignored",
        sent.packets, summary.stamps_ignored_packets
    );
    ensure!(taken > 10_000, "only {taken} were taken");
    ensure!(
        arrived as u64 == sent.packets,
        "{arrived} of {} arrived",
        sent.packets
    );
    ensure!(
        summary.stamps_ignored_packets >= u64::from(taken),
        "{} times ignored",
        summary.stamps_ignored_packets
    );
    Ok(())
}

fn asked_under_load(rate: &str, offered: u64, question: Question) -> Result<(Answers, String)> {
    let rig = Rig::new(&["--rate", rate])?;
    let to = rig.lab.far(false, PORT);
    let sending = Udp::stream(1, to, 1_000, offered, Duration::from_secs(30)).start(&rig.lab.a);
    thread::sleep(Duration::from_millis(500));
    let (count, patience) = if question == Question::Ping {
        (40, 300)
    } else {
        (100, 250)
    };
    let answers = ask(
        &rig.lab.a,
        question,
        count,
        Duration::from_millis(10),
        Duration::from_millis(patience),
    )?;
    sending.stop()?;
    let hold = rig.leaky.installed().hold.clone();
    let measured = rig.finish(Duration::from_millis(400))?;
    if question != Question::Ping {
        ensure!(
            measured.summary.passed_packets >= 100,
            "leaky counts {} passed",
            measured.summary.passed_packets
        );
    }
    Ok((answers, hold))
}

fn judge(answers: &Answers) -> Result<()> {
    let median = stats::percentile(&answers.round_trips, 50).unwrap_or(0);
    let longest = answers.round_trips.last().copied().unwrap_or(0);
    println!(
        "{} of {} answered, median {} us, longest {} us",
        answers.round_trips.len(),
        answers.asked,
        stats::us(median),
        stats::us(longest)
    );
    ensure!(
        answers.round_trips.len() == answers.asked,
        "{} of {} were answered",
        answers.round_trips.len(),
        answers.asked
    );
    // A queue of 200 ms would show; what remains is the machine.
    between("median round trip, ns", median, 1, 2_000_000)?;
    between(
        "longest round trip, ns",
        longest,
        1,
        if Host::get().vm {
            5_000_000
        } else {
            50_000_000
        },
    )
}

fn control(question: Question) -> Result<()> {
    judge(&asked_under_load("5mbit", 6_250_000, question)?.0)
}

fn arp_at_one_kbit() -> Result<()> {
    judge(&asked_under_load("1kbit", 12_500, Question::Arp)?.0)
}

/// A ping is ordinary traffic: under twice the limit it may be dropped, but never waits longer than the rest.
fn ping() -> Result<()> {
    let (answers, hold) = asked_under_load("5mbit", 1_250_000, Question::Ping)?;
    let longest = answers.round_trips.last().copied().unwrap_or(0);
    println!(
        "{} of {} answered, longest {} us",
        answers.round_trips.len(),
        answers.asked,
        stats::us(longest)
    );
    ensure!(!answers.round_trips.is_empty(), "no ping came through");
    let most = if hold == "htb" {
        225_000_000
    } else {
        212_000_000
    };
    between("longest round trip, ns", longest, 1, most)
}
