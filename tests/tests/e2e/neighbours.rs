//! What shares the interface with a full bucket: ARP and neighbour discovery are not delayed, a ping is bounded (L23).

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
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
];

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
