//! What is refused: one line that names the fix, the exit code of the contract, and the kernel as before.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::lab::SHAPED;
use leaky_tests::process::{Finished, finish};
use leaky_tests::{Lab, leaky, witness};

use crate::Case;
use crate::host::Need;

pub(crate) const CASES: &[Case] = &[
    Case::new("rates_that_are_none", &[Need::Root, Need::Leaky], rates),
    Case::new(
        "other_options_that_are_none",
        &[Need::Root, Need::Leaky],
        options,
    ),
    Case::new(
        "class_flags_that_are_none",
        &[Need::Root, Need::Leaky],
        class_flags,
    ),
    Case::new(
        "l28_more_than_the_hold_can_keep",
        &[Need::Root, Need::Leaky],
        beyond_the_hold,
    ),
    Case::new(
        "an_interface_that_does_not_exist",
        &[Need::Root, Need::Leaky],
        unknown_interface,
    ),
    Case::new("without_root", &[Need::Root, Need::Leaky], without_root),
    Case::new(
        "fq_where_there_is_none",
        &[Need::Root, Need::Leaky, Need::NoFq],
        without_fq,
    ),
    Case::new(
        "packets_per_second_where_htb_holds",
        &[Need::Root, Need::Leaky, Need::Htb],
        packets_with_htb,
    ),
];

/// Usage and units.
const BAD_INPUT: i32 = 2;
/// Not on this host.
const CANNOT: i32 = 3;

/// Runs it and checks that it was refused with a code and in one line that contains all `words`.
fn refused(lab: &Lab, arguments: &[&str], codes: &[i32], words: &[&str]) -> Result<()> {
    let before = witness::state(&lab.a, SHAPED)?;
    let done = leaky::call(
        &lab.a,
        &[&["run"], arguments].concat(),
        Duration::from_secs(20),
    )
    .with_context(|| format!("leaky run {arguments:?}"))?;
    judge(&done, codes, words).with_context(|| format!("leaky run {arguments:?}"))?;
    let after = witness::state(&lab.a, SHAPED)?;
    ensure!(
        after == before,
        "leaky run {arguments:?} changed the kernel.\nBefore: {before:?}\nAfter: {after:?}"
    );
    Ok(())
}

fn judge(done: &Finished, codes: &[i32], words: &[&str]) -> Result<()> {
    ensure!(
        done.status.code().is_some_and(|code| codes.contains(&code)),
        "exit {:?}, wanted {codes:?}; it said: {}",
        done.status.code(),
        done.stderr.trim()
    );
    let said = done.stderr.trim();
    // What does not fit the usage at all is followed by the usage; everything else is one line.
    ensure!(
        said.lines().count() == 1 || said.contains("\nUsage: "),
        "not one line: {said:?}"
    );
    let error = said.split("\n\n").next().unwrap_or_default();
    for word in words {
        ensure!(error.contains(word), "{word:?} is not named: {said}");
    }
    Ok(())
}

fn rates() -> Result<()> {
    let lab = Lab::new()?;
    for rate in [
        "0",
        "0bit",
        "0mbit",
        "-1mbit",
        "NaN",
        "nan",
        "inf",
        "1e30",
        "1e30bit",
        "",
        " ",
        "10",
        "10mbitx",
        "10mbit 5",
        "10 mbit ps",
        "1,000kbit",
        "1_000kbit",
        "0.5B/s",
        "99999999999999999999mbit",
        "1000gbit",
        "mbit",
        "١mbit",
    ] {
        // The `=` keeps a value with a sign from being read as an option.
        refused(
            &lab,
            &[SHAPED, &format!("--rate={rate}")],
            &[BAD_INPUT],
            &["mbit"],
        )?;
    }
    for (rate, bits, bytes) in [
        ("256kbps", "256kbit", "256kB/s"),
        ("30mbps", "30mbit", "30MB/s"),
        ("1M", "1mbit", "1MB/s"),
        ("64k", "64kbit", "64kB/s"),
    ] {
        refused(
            &lab,
            &[SHAPED, "--rate", rate],
            &[BAD_INPUT],
            &[bits, bytes],
        )?;
    }
    Ok(())
}

fn options() -> Result<()> {
    let lab = Lab::new()?;
    let with = |option: &[&str], words: &[&str]| {
        refused(
            &lab,
            &[&[SHAPED, "--rate", "10mbit"], option].concat(),
            &[BAD_INPUT],
            words,
        )
    };
    refused(&lab, &[SHAPED], &[BAD_INPUT], &["--rate"])?;
    with(&["--capacity", "5p"], &["bytes"])?;
    with(&["--capacity", "0B"], &[])?;
    with(&["--capacity", "banana"], &["banana"])?;
    with(&["--max-wait", "10"], &["10"])?;
    with(&["--max-wait=-1s"], &[])?;
    with(&["--burst", "10m"], &[])?;
    with(&["--per", "user"], &["class", "flow"])?;
    with(&["--hold", "cake"], &["fq", "htb"])?;
    with(&["--smooth", "maybe"], &["auto"])?;
    with(&["--no-such-option"], &["--no-such-option"])?;
    refused(
        &lab,
        &[SHAPED, "--rate", "10pps", "--capacity", "10kB"],
        &[BAD_INPUT],
        &["packets"],
    )
}

/// Values beyond what the kernel keeps: the bound is named. Bad input, or not on this host, as one looks at it.
fn beyond_the_hold() -> Result<()> {
    let lab = Lab::new()?;
    refused(
        &lab,
        &[SHAPED, "--rate", "10gbit", "--max-wait", "1h"],
        &[BAD_INPUT, CANNOT],
        &[],
    )?;
    refused(
        &lab,
        &[SHAPED, "--rate", "10mbit", "--max-wait", "24h"],
        &[BAD_INPUT, CANNOT],
        &[],
    )
}

fn unknown_interface() -> Result<()> {
    let lab = Lab::new()?;
    for name in [
        "nope0",
        "",
        "a-name-that-is-much-too-long-for-linux",
        "v0/../v0",
    ] {
        let words: &[&str] = if name.is_empty() { &[] } else { &[name] };
        refused(
            &lab,
            &[name, "--rate", "10mbit"],
            &[BAD_INPUT, CANNOT],
            words,
        )?;
    }
    Ok(())
}

/// As an ordinary user: the binary is copied to where such a user can read it.
fn without_root() -> Result<()> {
    let lab = Lab::new()?;
    let binary = leaky::binary().context("no leaky binary")?;
    let copy = std::env::temp_dir().join(format!("leaky-as-nobody-{}", std::process::id()));
    fs::copy(&binary, &copy).with_context(|| format!("copying {}", binary.display()))?;
    let tried = try_as_nobody(&lab, &copy);
    fs::remove_file(&copy)?;
    tried
}

fn try_as_nobody(lab: &Lab, binary: &std::path::Path) -> Result<()> {
    fs::set_permissions(binary, fs::Permissions::from_mode(0o755))?;
    let before = witness::state(&lab.a, SHAPED)?;
    let done = lab.a.run(|| {
        let mut command = Command::new(binary);
        command
            .args(["run", SHAPED, "--rate", "10mbit"])
            .uid(65_534)
            .gid(65_534)
            .current_dir("/");
        finish(&mut command, Duration::from_secs(20))
    })??;
    judge(&done, &[CANNOT], &["root"])?;
    ensure!(
        witness::state(&lab.a, SHAPED)? == before,
        "the kernel was changed without root"
    );
    Ok(())
}

fn without_fq() -> Result<()> {
    let lab = Lab::new()?;
    refused(
        &lab,
        &[SHAPED, "--rate", "10mbit", "--hold", "fq"],
        &[CANNOT],
        &["fq", "modprobe"],
    )
}

fn packets_with_htb() -> Result<()> {
    let lab = Lab::new()?;
    refused(
        &lab,
        &[SHAPED, "--rate", "10pps", "--hold", "htb"],
        &[BAD_INPUT, CANNOT],
        &["fq"],
    )
}

/// The flags that say which packets, whose bucket, and what is charged.
fn class_flags() -> Result<()> {
    let lab = Lab::new()?;
    for (flags, word) in [
        (vec!["--source", "10.0.0.1/8"], "10.0.0.0/8"),
        (vec!["--destination-port", "9-1"], "9-1"),
        (vec!["--dscp", "gold"], "gold"),
        (vec!["--mark", "banana"], "banana"),
        (vec!["--vlan", "5000"], "5000"),
        (vec!["--per", "user"], "flow"),
        (vec!["--action", "slow"], "monitor"),
        (vec!["--overhead", "2000B"], "1000"),
        (vec!["--link-rate", "10pps"], "link"),
        (
            vec!["--clients", "/not/there.txt", "--per", "src"],
            "there.txt",
        ),
    ] {
        let arguments = [&[SHAPED, "--rate", "1mbit"], flags.as_slice()].concat();
        refused(&lab, &arguments, &[BAD_INPUT], &[word])?;
    }
    Ok(())
}
