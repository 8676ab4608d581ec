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

    let mut summary = Summary::default();
    let mut programs = None;
    let (needs_root, can_run): (Vec<Part>, Vec<Part>) = parts
        .iter()
        .partition(|part| part.needs_root() && !is_root());
    'parts: for part in can_run {
        if part.needs_product() && programs.is_none() {
            programs = Some(prepare(workspace)?);
        }
        for mut step in parts::steps(workspace, part, programs.as_ref(), options)? {
            if !summary.run(&mut step)? {
                break 'parts;
            }
        }
    }
    summary.print();

    if summary.total.failed > 0 {
        bail!("tests failed in: {}", summary.failed.join(", "));
    }
    if !needs_root.is_empty() {
        let programs = match programs {
            Some(programs) => programs,
            None => prepare(workspace)?,
        };
        let commands: Vec<String> = needs_root
            .iter()
            .filter_map(|part| parts::program(*part, &programs, &options.arguments))
            .map(|command| format!("sudo {}", shell_line(&command)))
            .collect();
        bail!(
            "not run, because it takes root to load eBPF programs and make namespaces; run as root:\n  {}",
            commands.join("\n  ")
        );
    }
    Ok(())
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
    failed: Vec<String>,
}

impl Summary {
    /// Runs one step and says whether to go on.
    fn run(&mut self, step: &mut Step) -> Result<bool> {
        note(&format!("testing: {}", step.name));
        let started = Instant::now();
        let (status, output) = copied(&mut step.command, Stream::Stdout)?;
        let mut report = Report::parse(&output);
        let mut remark = "";
        if !status.success() && report.failed == 0 {
            // It did not build, or died on the way: whatever passed before, that is a failure.
            report.failed = 1;
            remark = " (did not run to its end)";
        } else if report.is_empty() && step.must_have_tests {
            report.failed = 1;
            remark = " (there was no test to run)";
        }
        self.lines.push(format!(
            "{:<12} {report}, {:.0} s{remark}",
            step.name,
            started.elapsed().as_secs_f32()
        ));
        if report.failed > 0 {
            self.failed.push(step.name.clone());
        }
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
