//! The commands behind each part of the tests.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Options, Part};
use crate::command::host_cargo;
use crate::product::TestPrograms;
use crate::vm::Kernels;
use crate::workspace::Workspace;

/// The kernel for `test vm` when none is named: the newest, with every hold.
const DEFAULT_KERNEL: &str = "7.3";

/// Seconds of real time for all tests of one program in one guest; an emulated processor is slow.
const GUEST_TIMEOUT: &str = "2400";

/// Parts that are a program of their own, in the order to run them.
const PROGRAMS: [Part; 3] = [Part::Netlink, Part::Bpf, Part::E2e];

/// One command that runs tests.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) command: Command,
    /// Whether running no test means that something is wrong; not so if a filter was given.
    pub(super) must_have_tests: bool,
}

/// The commands of `part` in the order to run them. `programs` are there for every part but unit.
pub(super) fn steps(
    workspace: &Workspace,
    part: Part,
    programs: Option<&TestPrograms>,
    options: &Options,
) -> Result<Vec<Step>> {
    let arguments = options.arguments.as_slice();
    let commands = if part == Part::Unit {
        unit(workspace, arguments)
    } else {
        let programs = programs.context("the test programs have not been built")?;
        match program(part, programs, arguments) {
            Some(command) => vec![(part.name().to_owned(), command)],
            None => in_guests(options.kernel.as_ref(), programs, arguments)?,
        }
    };
    Ok(commands
        .into_iter()
        .map(|(name, command)| Step {
            name,
            command,
            must_have_tests: arguments.is_empty(),
        })
        .collect())
}

/// The program of a part that runs on this kernel, with its environment.
pub(super) fn program(
    part: Part,
    programs: &TestPrograms,
    arguments: &[String],
) -> Option<Command> {
    let mut command = Command::new(file(part, programs)?);
    command.args(arguments).envs(programs.product.environment());
    Some(command)
}

fn file(part: Part, programs: &TestPrograms) -> Option<&Path> {
    match part {
        Part::Netlink => Some(&programs.netlink),
        Part::Bpf => Some(&programs.bpf),
        Part::E2e => Some(&programs.e2e),
        Part::Unit | Part::Vm => None,
    }
}

fn unit(workspace: &Workspace, arguments: &[String]) -> Vec<(String, Command)> {
    let cargo_test = |args: &[&str]| {
        let mut command = host_cargo();
        command
            .current_dir(&workspace.root)
            .args(["test", "--no-fail-fast"])
            .args(args)
            // With the stub, as for everyone who runs `cargo test` without an eBPF toolchain.
            .env_remove("LEAKY_EBPF_OBJECT");
        command
    };
    // The test programs of the other packages take root.
    let properties = ["-p", "leaky-core", "--test", "*"];
    // loom replaces the atomics, so it is a build of its own; optimised, because it tries every interleaving.
    let mut loom = cargo_test(&["--release", "-p", "leaky-core", "--test", "loom"]);
    loom.arg("--target-dir")
        .arg(workspace.target.join("loom"))
        .env("CARGO_ENCODED_RUSTFLAGS", "--cfg\u{1f}loom")
        .env_remove("RUSTFLAGS");
    let steps = [
        ("unit", cargo_test(&["--workspace", "--lib", "--bins"])),
        ("properties", cargo_test(&properties)),
        ("doc", cargo_test(&["--workspace", "--doc"])),
        ("loom", loom),
    ];
    steps
        .into_iter()
        .map(|(name, mut command)| {
            command.arg("--").args(arguments);
            (name.to_owned(), command)
        })
        .collect()
}

/// Each test program in each guest, through `cargo xtask vm`: this very program.
fn in_guests(
    kernels: Option<&Kernels>,
    programs: &TestPrograms,
    arguments: &[String],
) -> Result<Vec<(String, Command)>> {
    let kernels = match kernels {
        Some(kernels) => kernels.clone(),
        None => DEFAULT_KERNEL.parse().map_err(anyhow::Error::msg)?,
    };
    let xtask = env::current_exe().context("cannot find out where xtask itself is")?;
    let runs = kernels
        .0
        .iter()
        .flat_map(|kernel| PROGRAMS.map(|part| (kernel.name, part)));
    Ok(runs
        .filter_map(|(kernel, part)| Some((kernel, part.name(), file(part, programs)?)))
        .map(|(kernel, name, file)| {
            let mut command = Command::new(&xtask);
            command.args(["vm", "--kernel", kernel, "--timeout", GUEST_TIMEOUT]);
            command.args(["--env", "LEAKY_VM=1"]);
            for (variable, value) in programs.product.environment() {
                command
                    .arg("--env")
                    .arg(format!("{variable}={}", value.display()));
            }
            command.arg("--").arg(file).args(arguments);
            (format!("{kernel} {name}"), command)
        })
        .collect())
}
