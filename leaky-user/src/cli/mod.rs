//! The command line: what is typed becomes a request, or one line that says what to write instead.

mod run_options;

use crate::check;
use crate::clear;
use crate::config::Errors;
use crate::hold;
use crate::run;
use clap::{Parser, Subcommand};
use run_options::RunOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit codes, as in the help.
mod code {
    pub(super) const FAILED: u8 = 1;
    pub(super) const BAD_INPUT: u8 = 2;
    pub(super) const CANNOT_HERE: u8 = 3;
}

const AFTER_HELP: &str = "\
Exit codes:
  0  done; the interface is as it was before
  1  failed under way: the limit is not enforced (any more)
  2  bad input: nothing was changed
  3  not possible on this host, for this user, or while another leaky limits the interface:
     nothing was changed";

/// Makes traffic leave at a constant rate: bursts wait in a bounded bucket, what does not fit is
/// dropped and counted.
#[derive(Parser)]
#[command(name = "leaky", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Limits what leaves by an interface until Ctrl-C, then puts everything back
    Run(Box<RunOptions>),
    /// Removes what a leaky that died left on an interface
    Clear {
        /// The interface
        interface: String,
    },
    /// Explains a config file in words, or lists all that is wrong with it; touches nothing
    Check {
        /// The config file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Reads the command line, does what it says, and returns the exit code. Errors go to standard
/// error in one line.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Run(arguments) => arguments.request().and_then(|request| {
            let interface = request.interface.name.clone();
            block_on(run::run(&request)).map_err(|error| Failure::of(&interface, &error))
        }),
        Command::Clear { interface } => block_on(clear::clear(&interface))
            // It is cleared; that nobody reads about it is no failure.
            .map(|done| drop(writeln!(std::io::stdout(), "{interface}: {done}")))
            .map_err(|error| Failure::new(exit_code(&error), error.to_string())),
        Command::Check { config, json } => match check::check(&config, json) {
            // That nobody reads it is no failure.
            Ok(explained) => {
                drop(writeln!(std::io::stdout(), "{explained}"));
                Ok(())
            }
            Err(errors) => Err(Failure::listed(&errors)),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // The exit code says the same to those who cannot read it.
            drop(writeln!(std::io::stderr(), "{}", failure.lines));
            ExitCode::from(failure.code)
        }
    }
}

/// Why it ended.
struct Failure {
    code: u8,
    lines: String,
}

impl Failure {
    fn new(code: u8, line: impl Into<String>) -> Failure {
        Failure {
            code,
            lines: format!("leaky: {}", line.into()),
        }
    }

    /// Everything that is wrong with a config file and those that it names. Each line begins with its
    /// file, as editors and people expect it.
    fn listed(errors: &Errors) -> Failure {
        Failure {
            code: code::BAD_INPUT,
            lines: errors.to_string(),
        }
    }

    /// Everything that is wrong with the options.
    fn options(errors: &Errors) -> Failure {
        let lines: Vec<String> = errors
            .to_string()
            .lines()
            .map(|line| format!("leaky: {line}"))
            .collect();
        Failure {
            code: code::BAD_INPUT,
            lines: lines.join("\n"),
        }
    }

    /// Of `leaky run`: says that the interface is not limited, unless another leaky limits it.
    fn of(interface: &str, error: &run::Error) -> Failure {
        let interface = interface.escape_default();
        let line = match error {
            run::Error::Config(errors) => return Failure::listed(errors),
            run::Error::Hold(hold::Error::Busy { .. }) => format!("{interface}: {error}"),
            _ => format!("{interface} is not limited: {error}"),
        };
        Failure::new(exit_code(error), line)
    }
}

fn exit_code(error: &run::Error) -> u8 {
    use crate::bpf;
    match error {
        run::Error::Classes(_)
        | run::Error::Config(_)
        | run::Error::NotConfigured { .. }
        | run::Error::Net(crate::net::Error::NoSuchInterface(_))
        | run::Error::Hold(hold::Error::Refused { .. } | hold::Error::ForeignRoot { .. }) => {
            code::BAD_INPUT
        }
        run::Error::Program(
            bpf::Error::Stub
            | bpf::Error::NotPermitted { .. }
            | bpf::Error::NoBpf
            | bpf::Error::Refused { .. },
        )
        | run::Error::Net(crate::net::Error::UnsupportedLink { .. })
        | run::Error::Hold(hold::Error::Missing { .. } | hold::Error::Busy { .. }) => {
            code::CANNOT_HERE
        }
        run::Error::Net(error) if error.is_not_permitted() => code::CANNOT_HERE,
        run::Error::Apply(error) if error.failed.is_not_permitted() => code::CANNOT_HERE,
        run::Error::Hold(error) if error.is_not_permitted() => code::CANNOT_HERE,
        run::Error::NotPutBack { first, .. } => exit_code(first),
        // Whatever it was: it had been limited, and is not any more.
        run::Error::Ended(_) => code::FAILED,
        _ => code::FAILED,
    }
}

fn block_on<T>(task: impl Future<Output = Result<T, run::Error>>) -> Result<T, run::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| run::Error::Process("start", error))?;
    let done = runtime.block_on(task);
    // A config file that is still being read is not waited for.
    runtime.shutdown_background();
    done
}
