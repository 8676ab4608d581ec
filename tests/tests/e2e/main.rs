//! End-to-end tests: real packets through a real kernel.
//!
//! Every case says what it needs; if this kernel does not have it, the case is reported as ignored with the reason,
//! and never as passed. Natively the machine is noisy and time is real, so there only what noise cannot change is
//! asserted: rates over seconds, counts, equations, medians. Tight spacing is asserted under deterministic time
//! (`cargo xtask test vm` sets LEAKY_VM=1), with the fq hold.
//!
//! Cases run one after the other. A name or a part of one as argument runs those only.

mod actions;
mod bad_input;
mod classes;
mod clients;
mod configured;
mod devices;
mod gso;
mod host;
mod instruments;
mod intact;
mod judge;
mod keys;
mod kinds;
mod lifecycle;
mod limits;
mod link;
mod live;
mod loopback;
mod neighbours;
mod overload;
mod packets;
mod refusals;
mod rig;
mod spacing;
mod tables;
mod worked_examples;

use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use leaky_tests::{bulk, cleanup};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use host::{CannotTell, Host, Need};

/// One end-to-end test.
struct Case {
    name: &'static str,
    needs: &'static [Need],
    run: fn() -> anyhow::Result<()>,
    /// It judges times, which other processes on the machine can spoil.
    timed: bool,
}

/// How often a case that judges times may be tried in real time. Noise spoils one try; a shaper that is wrong is wrong in
/// each. Each failed try is printed, and numbers that do not add up are not tried again.
const TRIES: u32 = 3;

impl Case {
    const fn new(
        name: &'static str,
        needs: &'static [Need],
        run: fn() -> anyhow::Result<()>,
    ) -> Self {
        Self {
            name,
            needs,
            run,
            timed: false,
        }
    }

    const fn timed(
        name: &'static str,
        needs: &'static [Need],
        run: fn() -> anyhow::Result<()>,
    ) -> Self {
        Self {
            name,
            needs,
            run,
            timed: true,
        }
    }
}

fn main() -> ExitCode {
    // One of the lab's own senders, which is this program too.
    if let Some(done) = bulk::child() {
        return match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error:#}");
                ExitCode::FAILURE
            }
        };
    }
    // First of all, so that every thread inherits it.
    if let Err(error) = cleanup::on_signals() {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    match cleanup::remove_leftovers() {
        Ok(removed) if removed.is_empty() => {}
        Ok(removed) => eprintln!("removed what an earlier run left: {}", removed.join(" ")),
        Err(error) => eprintln!("looking for leftovers of earlier runs: {error:#}"),
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let themes: [(&str, &[Case]); 22] = [
        ("instruments", instruments::CASES),
        ("spacing", spacing::CASES),
        ("intact", intact::CASES),
        ("worked_examples", worked_examples::CASES),
        ("overload", overload::CASES),
        ("limits", limits::CASES),
        ("loopback", loopback::CASES),
        ("gso", gso::CASES),
        ("neighbours", neighbours::CASES),
        ("lifecycle", lifecycle::CASES),
        ("bad_input", bad_input::CASES),
        ("devices", devices::CASES),
        ("clients", clients::CASES),
        ("link", link::CASES),
        ("classes", classes::CASES),
        ("actions", actions::CASES),
        ("keys", keys::CASES),
        ("packets", packets::CASES),
        ("kinds", kinds::CASES),
        ("live", live::CASES),
        ("tables", tables::CASES),
        ("refusals", refusals::CASES),
    ];
    let trials = themes
        .into_iter()
        .flat_map(|(theme, cases)| {
            cases.iter().map(move |case| {
                Trial::ignorable_test(format!("{theme}::{}", case.name), || run(case))
            })
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    cleanup::remove_everything();
    conclusion.exit_code()
}

fn run(case: &'static Case) -> Result<Completion, Failed> {
    let host = Host::get();
    if let Some(reason) = case.needs.iter().find_map(|need| host.lacks(*need)) {
        return Ok(Completion::ignored_with(reason));
    }
    let limit = if host.vm {
        Duration::from_secs(1200)
    } else {
        Duration::from_secs(90)
    };
    let (done, watch) = channel::<()>();
    thread::spawn(move || {
        if watch.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{} is not done after {limit:?}: giving up", case.name);
            cleanup::remove_everything();
            std::process::exit(101);
        }
    });
    let tries = match (case.timed, host.vm) {
        (true, false) => TRIES,
        // Under deterministic time one thing still disturbs: while the guest waits for a file of the host, its clock jumps.
        (true, true) => 2,
        (false, _) => 1,
    };
    let mut result = (case.run)();
    for number in 1..tries {
        let Err(error) = &result else { break };
        if error.downcast_ref::<rig::Broken>().is_some() {
            break;
        }
        eprintln!("try {number} of {tries} of {} failed: {error:#}", case.name);
        result = (case.run)();
    }
    drop(done);
    match result {
        Ok(()) => Ok(Completion::Completed),
        Err(error) => match error.downcast_ref::<CannotTell>() {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => Err(Failed::from(format!("{error:#}"))),
        },
    }
}
