//! Coming, going, crashing, and living with what is already there.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aya::programs::{SchedClassifier, TcAttachType};
use leaky_tests::capture::{Capture, HEADERS_ONLY};
use leaky_tests::lab::{FAR, SHAPED};
use leaky_tests::netns::{Entry, Netns};
use leaky_tests::stats::{self, Gaps};
use leaky_tests::udp::Sink;
use leaky_tests::witness::{self, KernelState};
use leaky_tests::{Lab, Leaky, Udp, leaky};
use nix::sys::signal::Signal;

use crate::Case;
use crate::host::{Host, Need};
use crate::judge::near;
use crate::rig::{PORT, hold_burst_bytes};

pub(crate) const CASES: &[Case] = &[
    Case::new(
        "sigint_and_sigterm_put_everything_back",
        &[Need::Root, Need::Leaky],
        signals,
    ),
    Case::new(
        "a_killed_leaky_is_cleared_twice",
        &[Need::Root, Need::Leaky],
        killed,
    ),
    Case::new(
        "clear_does_nothing_where_nothing_is",
        &[Need::Root, Need::Leaky],
        clear_nothing,
    ),
    Case::new(
        "a_new_run_takes_over_from_a_killed_one",
        &[Need::Root, Need::Leaky],
        run_after_kill,
    ),
    Case::new(
        "a_second_leaky_on_the_interface_is_refused",
        &[Need::Root, Need::Leaky],
        second,
    ),
    Case::new(
        "a_foreign_root_qdisc_is_refused_and_untouched",
        &[Need::Root, Need::Leaky],
        foreign_root,
    ),
    Case::new(
        "a_foreign_root_qdisc_is_replaced_if_asked_and_put_back",
        &[Need::Root, Need::Leaky],
        replaced_root,
    ),
    Case::new(
        "an_interface_removed_while_running_is_an_error",
        &[Need::Root, Need::Leaky],
        removed,
    ),
    Case::new(
        "a_root_qdisc_taken_away_is_not_hidden",
        &[Need::Root, Need::Leaky],
        root_taken_away,
    ),
    Case::new(
        "started_by_ip_netns_exec",
        &[Need::Root, Need::Leaky],
        ip_netns_exec,
    ),
    Case::new(
        "ten_starts_and_stops_leave_nothing",
        &[Need::Root, Need::Leaky],
        ten_times,
    ),
    Case::timed(
        "the_report_of_each_second_goes_on",
        &[Need::Root, Need::Leaky],
        reports,
    ),
];

/// Everything that leaky may have changed: what `tc` and `ip` show, and the programs attached with tcx, which they do not show.
fn everything(namespace: &Netns, interface: &str) -> Result<(KernelState, usize)> {
    let programs = namespace.run(|| {
        [TcAttachType::Egress, TcAttachType::Ingress]
            .into_iter()
            // A kernel before 6.6 has no tcx and says so.
            .filter_map(|direction| SchedClassifier::query_tcx(interface, direction).ok())
            .map(|(_, programs)| programs.len())
            .sum()
    })?;
    Ok((witness::state(namespace, interface)?, programs))
}

fn unchanged(lab: &Lab, before: &(KernelState, usize)) -> Result<()> {
    let after = everything(&lab.a, SHAPED)?;
    ensure!(
        after == *before,
        "the kernel is not as before.\nBefore: {before:?}\nAfter: {after:?}"
    );
    Ok(())
}

fn one_line(errors: &str) -> Result<()> {
    ensure!(
        errors.trim().lines().count() == 1,
        "not one line of error: {errors:?}"
    );
    Ok(())
}

/// The limit is in force: 150 packets at once take their time.
fn is_limited(lab: &Lab, leaky: &Leaky) -> Result<()> {
    let _sink = Sink::open(&lab.b, PORT)?;
    let capture = Capture::start(&lab.b, FAR, HEADERS_ONLY)?;
    Udp::burst(9, lab.far(false, PORT), 1_000, 150).send(&lab.a)?;
    ensure!(
        capture.wait_for(150, Duration::from_secs(3)),
        "{} of 150 packets arrived",
        capture.arrived()
    );
    let packets = capture.stop()?.stream(9);
    let burst = usize::try_from(hold_burst_bytes(leaky.installed()) / 1_000)? + 1;
    let gaps = Gaps::of(&packets[burst..]).context("no gaps")?;
    near("median gap at 10 Mbit/s, ns", gaps.p50, 800_000, 50)
}

fn signals() -> Result<()> {
    let lab = Lab::new()?;
    let before = everything(&lab.a, SHAPED)?;
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let leaky = Leaky::start(&lab, &["--rate", "10mbit"])?;
        ensure!(
            everything(&lab.a, SHAPED)? != before,
            "leaky runs, and nothing shows it"
        );
        is_limited(&lab, &leaky)?;
        leaky.signal(signal)?;
        let outcome = leaky.wait(Duration::from_secs(10))?;
        ensure!(outcome.code == Some(0), "{signal}: {outcome:?}");
        let summary = outcome
            .summary
            .with_context(|| format!("no summary after {signal}"))?;
        ensure!(summary.offered_packets >= 150, "{summary:?}");
        unchanged(&lab, &before).with_context(|| format!("after {signal}"))?;
    }
    Ok(())
}

/// kill -9, then `leaky clear`, and once more: there is nothing to do and that is no error.
fn killed() -> Result<()> {
    let lab = Lab::new()?;
    let before = everything(&lab.a, SHAPED)?;
    let leaky = Leaky::start(&lab, &["--rate", "10mbit"])?;
    leaky.signal(Signal::SIGKILL)?;
    leaky.wait(Duration::from_secs(5))?;
    for _ in 0..2 {
        let cleared = leaky::call(&lab.a, &["clear", SHAPED], Duration::from_secs(10))?;
        ensure!(cleared.status.code() == Some(0), "{cleared:?}");
        unchanged(&lab, &before)?;
    }
    Ok(())
}

fn clear_nothing() -> Result<()> {
    let lab = Lab::new()?;
    lab.a.tc(&[
        "qdisc", "add", "dev", SHAPED, "root", "pfifo", "limit", "77",
    ])?;
    let before = everything(&lab.a, SHAPED)?;
    let cleared = leaky::call(&lab.a, &["clear", SHAPED], Duration::from_secs(10))?;
    ensure!(cleared.status.code() == Some(0), "{cleared:?}");
    unchanged(&lab, &before)
}

fn run_after_kill() -> Result<()> {
    let lab = Lab::new()?;
    let before = everything(&lab.a, SHAPED)?;
    let leaky = Leaky::start(&lab, &["--rate", "5mbit"])?;
    leaky.signal(Signal::SIGKILL)?;
    leaky.wait(Duration::from_secs(5))?;
    let leaky = Leaky::start(&lab, &["--rate", "10mbit"])?;
    is_limited(&lab, &leaky)?;
    leaky.stop()?;
    unchanged(&lab, &before)
}

fn second() -> Result<()> {
    let lab = Lab::new()?;
    let before = everything(&lab.a, SHAPED)?;
    let first = Leaky::start(&lab, &["--rate", "10mbit"])?;
    let during = everything(&lab.a, SHAPED)?;
    let refused = leaky::call(
        &lab.a,
        &["run", SHAPED, "--rate", "5mbit", "--json"],
        Duration::from_secs(20),
    )?;
    ensure!(
        !refused.status.success(),
        "a second leaky was let in: {refused:?}"
    );
    one_line(&refused.stderr)?;
    unchanged(&lab, &during).context("the refused one changed something")?;
    is_limited(&lab, &first)?;
    first.stop()?;
    unchanged(&lab, &before)
}

fn foreign_root() -> Result<()> {
    let lab = Lab::new()?;
    lab.a.tc(&[
        "qdisc", "add", "dev", SHAPED, "root", "handle", "77:", "pfifo", "limit", "77",
    ])?;
    let before = everything(&lab.a, SHAPED)?;
    let refused = leaky::call(
        &lab.a,
        &["run", SHAPED, "--rate", "5mbit", "--json"],
        Duration::from_secs(20),
    )?;
    ensure!(!refused.status.success(), "{refused:?}");
    one_line(&refused.stderr)?;
    ensure!(
        refused.stderr.contains("pfifo") && refused.stderr.contains("--replace-root"),
        "the qdisc and the way out are not named: {}",
        refused.stderr
    );
    unchanged(&lab, &before)
}

fn replaced_root() -> Result<()> {
    let lab = Lab::new()?;
    for foreign in [
        &["handle", "77:", "pfifo", "limit", "77"][..],
        &[
            "handle", "78:", "tbf", "rate", "50mbit", "burst", "20000", "limit", "300000",
        ][..],
    ] {
        lab.a
            .tc(&[&["qdisc", "replace", "dev", SHAPED, "root"], foreign].concat())?;
        let before = everything(&lab.a, SHAPED)?;
        let leaky = Leaky::start(&lab, &["--rate", "10mbit", "--replace-root"])?;
        is_limited(&lab, &leaky)?;
        leaky.stop()?;
        unchanged(&lab, &before).with_context(|| format!("with {foreign:?}"))?;
    }
    Ok(())
}

fn removed() -> Result<()> {
    let lab = Lab::new()?;
    let leaky = Leaky::start(&lab, &["--rate", "10mbit"])?;
    lab.a.ip(&["link", "del", SHAPED])?;
    let outcome = leaky
        .wait(Duration::from_secs(5))
        .context("after its interface was removed")?;
    ensure!(outcome.code == Some(1), "{outcome:?}");
    one_line(&outcome.errors)?;
    ensure!(
        outcome.errors.contains(SHAPED),
        "the interface is not named: {}",
        outcome.errors
    );
    Ok(())
}

/// Somebody else replaces the root qdisc: packets are not held any more, so leaky must not go on as if they were.
fn root_taken_away() -> Result<()> {
    let lab = Lab::new()?;
    let leaky = Leaky::start(&lab, &["--rate", "10mbit"])?;
    lab.a.tc(&[
        "qdisc", "replace", "dev", SHAPED, "root", "handle", "77:", "pfifo", "limit", "77",
    ])?;
    let before = witness::qdiscs(&lab.a, SHAPED)?
        .first()
        .map(|qdisc| qdisc.kind.clone());
    let outcome = leaky
        .wait(Duration::from_secs(5))
        .context("after its qdisc was replaced")?;
    ensure!(outcome.code == Some(1), "{outcome:?}");
    one_line(&outcome.errors)?;
    let after = witness::qdiscs(&lab.a, SHAPED)?
        .first()
        .map(|qdisc| qdisc.kind.clone());
    ensure!(
        before == after,
        "the qdisc of somebody else was changed: {after:?}"
    );
    Ok(())
}

fn ip_netns_exec() -> Result<()> {
    let lab = Lab::new()?;
    let before = everything(&lab.a, SHAPED)?;
    let leaky = Leaky::start_on(&lab.a, SHAPED, &["--rate", "10mbit"], Entry::IpNetnsExec)?;
    is_limited(&lab, &leaky)?;
    leaky.stop()?;
    unchanged(&lab, &before)
}

fn ten_times() -> Result<()> {
    let lab = Lab::new()?;
    let before = everything(&lab.a, SHAPED)?;
    for _ in 0..if Host::get().vm { 3 } else { 10 } {
        Leaky::start(&lab, &["--rate", "10mbit"])?.stop()?;
    }
    unchanged(&lab, &before)?;
    // No file of a process that has ended stays behind in a folder named after leaky.
    let left: Vec<_> = fs::read_dir("/run/leaky")
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| entry.file_name())
        .collect();
    ensure!(
        left.iter()
            .all(|name| !name.to_string_lossy().contains(SHAPED)),
        "left in /run/leaky: {left:?}"
    );
    Ok(())
}

/// Counters come once a second and only grow.
fn reports() -> Result<()> {
    let lab = Lab::new()?;
    let _sink = Sink::open(&lab.b, PORT)?;
    let leaky = Leaky::start(&lab, &["--rate", "10mbit"])?;
    let sent = Udp::stream(
        1,
        lab.far(false, PORT),
        1_000,
        2_500_000,
        Duration::from_millis(3_500),
    )
    .send(&lab.a)?;
    let outcome = leaky.stop()?;
    ensure!(
        (3..=4).contains(&outcome.counters.len()),
        "{} reports in 3.5 s",
        outcome.counters.len()
    );
    let offered: Vec<u64> = outcome
        .counters
        .iter()
        .map(|counters| counters.offered_packets)
        .collect();
    ensure!(offered.is_sorted() && offered[0] > 0, "{offered:?}");
    let summary = outcome.summary.context("no summary")?;
    ensure!(
        summary.offered_packets == sent.packets,
        "{} were sent, {} offered",
        sent.packets,
        summary.offered_packets
    );
    near(
        "accepted bytes in 3.5 s and a full bucket",
        summary.accepted_bytes,
        1_250_000 * 37 / 10,
        20,
    )?;
    let mean_ns = stats::ns(Duration::from_secs_f64(summary.wait_sum_seconds))
        / summary.accepted_packets.max(1);
    ensure!(
        mean_ns > 100_000_000,
        "mean wait {mean_ns} ns with a full bucket of 200 ms"
    );
    Ok(())
}
