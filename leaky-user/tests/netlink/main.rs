//! `net` and `hold` against the running kernel, each test in a network namespace of its own.
//! Needs root. What this kernel cannot do is reported as ignored, with the reason.
//!
//! `tc`, where it is installed, is the witness: it reads the kernel without leaky's code.

mod apply;
mod htb;
mod lab;
mod life;
mod line;
mod roots;
mod traffic;
mod watch;

use lab::Lab;
use leaky_user::net::Net;
use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let why_not = (!nix::unistd::Uid::effective().is_root()).then_some("not root");
    let has_fq = why_not.is_none() && has("fq");
    let fq = why_not.or((!has_fq).then_some("this kernel has no fq (module sch_fq)"));
    let no_fq = why_not.or(has_fq.then_some("this kernel has fq"));
    let missing = |kind: &str| {
        why_not.map(str::to_owned).or_else(|| {
            (!has(kind)).then(|| format!("this kernel has no {kind} (module sch_{kind})"))
        })
    };

    let mut trials = vec![
        trial(
            "apply_failure_leaves_no_trace",
            why_not,
            apply::failure_leaves_no_trace,
        ),
        trial(
            "apply_undoes_changes_in_place",
            why_not,
            apply::undoes_changes_in_place,
        ),
        trial(
            "apply_puts_a_whole_tree_back",
            why_not,
            apply::puts_a_whole_tree_back,
        ),
        trial(
            "links_read_as_they_are",
            why_not,
            apply::links_read_as_they_are,
        ),
        trial("no_fq_is_missing", no_fq, life::no_fq_is_missing),
        trial("htb_slots_come_and_go", why_not, htb::slots_come_and_go),
        trial("htb_reads_back_extremes", why_not, htb::reads_back_extremes),
        trial("htb_on_many_queues", why_not, htb::on_many_queues),
        trial(
            "htb_change_keeps_what_waits",
            why_not,
            htb::change_keeps_what_waits,
        ),
        trial("htb_drops_add_up", why_not, htb::drops_add_up),
        trial(
            "htb_lo_passes_its_largest_packets",
            why_not,
            htb::lo_passes_its_largest_packets,
        ),
        trial(
            "htb_has_a_class_for_the_link",
            why_not,
            line::htb_has_a_class_for_the_link,
        ),
        trial("htb_shares_the_link", why_not, line::htb_shares_the_link),
        trial(
            "htb_below_the_link_each_keeps_its_rate",
            why_not,
            line::htb_below_the_link_each_keeps_its_rate,
        ),
        trial(
            "htb_grows_behind_while_packets_wait",
            why_not,
            line::htb_grows_behind_while_packets_wait,
        ),
        trial(
            "htb_has_slots_for_4000_clients",
            why_not,
            line::htb_has_slots_for_4000_clients,
        ),
        trial("fq_goes_below_a_tbf", fq, line::fq_goes_below_a_tbf),
        trial(
            "fq_and_tbf_drops_count_once",
            fq,
            line::fq_and_tbf_drops_count_once,
        ),
        trial("fq_comes_and_goes", fq, life::fq_comes_and_goes),
        trial("fq_on_many_queues", fq, life::fq_on_many_queues),
        trial("fq_drops_by_reason", fq, life::fq_drops_by_reason),
        trial("fq_longest_wait_reads_back", fq, life::fq_longest_wait),
        trial("clear_after_a_crash", why_not, life::clear_after_a_crash),
        trial("one_leaky_at_a_time", why_not, life::one_leaky_at_a_time),
        trial(
            "interface_removed_while_held",
            why_not,
            life::interface_removed_while_held,
        ),
        trial(
            "somebody_replaces_the_root",
            why_not,
            life::somebody_replaces_the_root,
        ),
        trial(
            "smooth_comes_and_goes",
            why_not,
            life::smooth_comes_and_goes,
        ),
        trial(
            "watch_sees_changes_at_once",
            why_not,
            watch::sees_changes_at_once,
        ),
        trial("watch_survives_overflow", why_not, watch::survives_overflow),
        trial(
            "foreign_root_needs_the_flag",
            why_not,
            roots::needs_the_flag,
        ),
        trial(
            "foreign_root_with_classes_stays",
            why_not,
            roots::with_classes_stays,
        ),
    ];
    for (kind, options) in roots::KINDS {
        let name = format!("foreign_root_comes_back_{kind}");
        let ignored = missing(kind);
        trials.push(trial(&name, ignored.as_deref(), move |lab: &Lab| {
            roots::comes_back(lab, kind, options)
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if conclusion.has_failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// A test, or the reason why it cannot run here.
fn trial(
    name: &str,
    ignored: Option<&str>,
    test: impl FnOnce(&Lab) -> lab::Outcome + Send + 'static,
) -> Trial {
    let label = match ignored {
        Some(reason) => format!("{name} [{reason}]"),
        None => name.to_owned(),
    };
    Trial::test(label, move || Lab::run(test).map_err(Failed::from))
        .with_ignored_flag(ignored.is_some())
}

/// Whether the running kernel has this kind of qdisc.
fn has(kind: &str) -> bool {
    let kind = kind.to_owned();
    let mut found = false;
    let outcome = Lab::run(|lab| {
        found = lab.wait(lab.net().has_kind(lab.link().index, &kind))?;
        Ok(())
    });
    outcome.is_ok() && found
}
