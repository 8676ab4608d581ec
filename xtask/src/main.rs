//! Everything a contributor runs: set-up, build, demo, tests, virtual machines, benchmarks, lint.

mod command;
mod ebpf;
mod fuzz;
mod lint;
mod product;
mod setup;
mod show;
mod test;
mod vm;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use workspace::Workspace;

/// Set-up, build, demo and tests of leaky.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Find or get what building and testing needs (every other command does this by itself)
    Setup,
    /// Build leaky with its eBPF programs inside, and print where it is
    Build,
    /// Shape real traffic between two network namespaces and show what came out (root)
    Demo {
        /// Arguments for the demo
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the tests
    Test(test::Options),
    /// Look for input that the parser or the classifier takes wrongly (rustup nightly)
    Fuzz(fuzz::Options),
    // Its help text is at its arguments.
    Vm(vm::Args),
    /// Measure what the eBPF program costs per packet (root)
    Bench {
        /// Arguments for the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Check format and warnings
    Lint,
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    match task {
        Task::Setup => setup::show(&workspace)?,
        Task::Build => println!("{}", product::build(&workspace)?.binary.display()),
        Task::Demo { arguments } => show::run(&workspace, "demo", &arguments)?,
        Task::Test(options) => test::run(&workspace, &options)?,
        Task::Fuzz(options) => fuzz::run(&workspace, &options)?,
        Task::Vm(arguments) => return vm::command(&workspace, &arguments),
        Task::Bench { arguments } => show::run(&workspace, "bench", &arguments)?,
        Task::Lint => lint::run(&workspace)?,
    }
    Ok(ExitCode::SUCCESS)
}
