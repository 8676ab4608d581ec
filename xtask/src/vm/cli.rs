//! `cargo xtask vm`: what it takes, and what its exit status says.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use super::{Job, Kernels, run};
use crate::command::note;
use crate::workspace::Workspace;

/// Run a command inside a distribution kernel
///
/// The command runs as root with this machine's programs and files. What it writes is forgotten at
/// the end, except below folders given with --rw. The exit status is the command's; it is 1 if
/// the kernel logged a warning.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// 6.1, 6.12, 7.3 or all
    #[arg(long)]
    pub(crate) kernel: Kernels,
    /// Folder that the guest may write (can be repeated)
    #[arg(long, value_name = "FOLDER")]
    pub(crate) rw: Vec<PathBuf>,
    /// Variable for the command's environment (can be repeated)
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// CPUs of the guest. Unless time is real they take turns, which disturbs what measures time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) cpus: u32,
    /// Memory of the guest in MiB
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(512..=65_536))]
    pub(crate) memory: u32,
    /// Let time follow this machine's clock instead of counting instructions
    #[arg(long)]
    pub(crate) real_time: bool,
    /// Seconds of real time after which the guest is ended
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
    /// Program and its arguments, after --
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<String>,
}

/// Runs the command in each of the asked kernels, also after one has failed.
///
/// # Errors
/// When a guest could not be run to its end.
pub(crate) fn command(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let mut code = 0;
    for kernel in &args.kernel.0 {
        let job = Job {
            env: args.env.clone(),
            rw_dirs: args.rw.clone(),
            cpus: args.cpus,
            memory: args.memory,
            deterministic: !args.real_time,
            timeout: Duration::from_secs(args.timeout),
            ..Job::new(*kernel, args.command.clone())
        };
        let outcome = run(workspace, &job)?;
        if outcome.exit_code != 0 {
            note(&format!(
                "on {} the command ended with status {}",
                kernel.name, outcome.exit_code
            ));
        }
        if code == 0 && !outcome.passed() {
            code = outcome.exit_code.max(1);
        }
    }
    Ok(ExitCode::from(code))
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::variable;

    #[test]
    fn variables_are_split_at_the_first_equals_sign() {
        assert_eq!(variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert_eq!(variable("A="), Ok(("A".to_owned(), String::new())));
        assert!(variable("A").is_err());
        assert!(variable("=b").is_err());
    }
}
