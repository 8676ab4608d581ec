//! `cargo xtask test`: everything that can show a mistake, what fails fastest first.

mod parts;
mod report;

use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::command::{Stream, copied, is_root, note, shell_line};
use crate::product::{self, TestPrograms};
use crate::setup;
use crate::vm::Kernels;
use crate::workspace::Workspace;
use parts::Step;
use report::Report;

/// What to test.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Parts to run; without any: all but vm
    parts: Vec<Part>,
    /// Kernel for the part vm: 6.1, 6.12, 7.3 or all [default: 7.3]
    #[arg(long)]
    kernel: Option<Kernels>,
    /// Arguments for the test programs, for example a part of a test's name
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// A group of tests that need the same things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Part {
    /// Unit and property tests and the model check of the compare-exchange loop; any user, any kernel
    Unit,
    /// What leaky tells the kernel over netlink, read back (root)
    Netlink,
    /// The eBPF programs against crafted packets (root)
    Bpf,
    /// Real packets between network namespaces on the running kernel (root)
    E2e,
    /// netlink, bpf and e2e inside a distribution kernel under QEMU
    Vm,
}

impl Part {
    /// The guest of a virtual machine has a root of its own.
    fn needs_root(self) -> bool {
        matches!(self, Self::Netlink | Self::Bpf | Self::E2e)
    }

    fn needs_product(self) -> bool {
        self != Self::Unit
    }

    /// As on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Netlink => "netlink",
            Self::Bpf => "bpf",
            Self::E2e => "e2e",
            Self::Vm => "vm",
        }
    }
}

/// Runs the chosen parts in order, stops at the first that fails, and closes with the counts.
///
/// # Errors
/// When a test failed, a part ran no test, or a part could not run (no root): a success means that all was run.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut parts = match options.parts.as_slice() {
        [] => vec![Part::Unit, Part::Netlink, Part::Bpf, Part::E2e],
        parts => parts.to_vec(),
    };
    parts.sort_unstable();
    parts.dedup();
    if options.kernel.is_some() && !parts.contains(&Part::Vm) {
        bail!("--kernel is for the part vm: cargo xtask test vm --kernel …");
    }

    let (needs_root, can_run): (Vec<Part>, Vec<Part>) = parts
        .iter()
        .partition(|part| part.needs_root() && !is_root());
    let mut summary = Summary::default();
    let ran = run_parts(workspace, options, &can_run, &mut summary);
    // Also when something did not build half-way: what ran before still counts.
    summary.print();
    let programs = ran?;
    if !needs_root.is_empty() {
        let programs = match programs {
            Some(programs) => programs,
            None => prepare(workspace)?,
        };
        bail!(
            "not run, because it takes root to load eBPF programs and make namespaces; run as root:\n  {}",
            needs_root
                .iter()
                .filter_map(|part| parts::program(*part, &programs, &options.arguments))
                .map(|command| format!("sudo {}", shell_line(&command)))
                .collect::<Vec<_>>()
                .join("\n  ")
        );
    }
    Ok(())
}

/// Runs `parts` up to the first step that fails. Returns the test programs if they had to be built.
fn run_parts(
    workspace: &Workspace,
    options: &Options,
    parts: &[Part],
    summary: &mut Summary,
) -> Result<Option<TestPrograms>> {
    let mut programs = None;
    for (done, part) in parts.iter().enumerate() {
        if part.needs_product() && programs.is_none() {
            programs = Some(prepare(workspace)?);
        }
        for mut step in parts::steps(workspace, *part, programs.as_ref(), options)? {
            if summary.run(&mut step)? {
                continue;
            }
            let later: Vec<&str> = parts
                .iter()
                .skip(done + 1)
                .map(|part| part.name())
                .collect();
            if later.is_empty() {
                bail!("tests failed in: {}", step.name);
            }
            bail!(
                "tests failed in: {}; not run because of that: {}",
                step.name,
                later.join(", ")
            );
        }
    }
    Ok(programs)
}

fn prepare(workspace: &Workspace) -> Result<TestPrograms> {
    setup::programs()?;
    let product = product::build(workspace)?;
    product::build_tests(workspace, product)
}

/// What has been run so far.
#[derive(Debug, Default)]
struct Summary {
    lines: Vec<String>,
    total: Report,
}

impl Summary {
    /// Runs one step and says whether to go on.
    fn run(&mut self, step: &mut Step) -> Result<bool> {
        note(&format!("testing: {}", step.name));
        let started = Instant::now();
        let (status, output) = copied(&mut step.command, Stream::Stdout)?;
        let mut report = Report::parse(&output);
        let mut remark = String::new();
        if !status.success() && report.failed == 0 {
            // It did not build, died on the way, or a guest's kernel complained: a failure whatever passed.
            report.failed = 1;
            remark = format!(" (ended with {status}, see above)");
        } else if report.is_empty() && step.must_have_tests {
            report.failed = 1;
            remark = " (there was no test to run)".to_owned();
        }
        self.lines.push(format!(
            "{:<12} {report}, {:.0} s{remark}",
            step.name,
            started.elapsed().as_secs_f32()
        ));
        self.total.add(&report);
        Ok(report.failed == 0)
    }

    fn print(&self) {
        if self.lines.is_empty() {
            return;
        }
        println!();
        if !self.total.skips.is_empty() {
            println!("skipped:");
            for skip in &self.total.skips {
                println!("  {skip}");
            }
            println!();
        }
        for line in &self.lines {
            println!("{line}");
        }
        println!("\n{}", self.total);
    }
}
