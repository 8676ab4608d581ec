//! The command line: what is typed becomes a request, or one line that says what to write instead.

use crate::clear;
use crate::hold::{self, HoldMode};
use crate::limit::Asked;
use crate::output::{Format, Output};
use crate::run::{self, Request, Smooth};
use clap::{Args, Parser, Subcommand};
use leaky_core::abi::Key;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::str::FromStr;

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
    Run(Run),
    /// Removes what a leaky that died left on an interface
    Clear {
        /// The interface
        interface: String,
    },
}

const RUN_EXAMPLES: &str = "\
Examples:
  leaky run eth0 --rate 20mbit                      at most 20 Mbit/s leave by eth0
  leaky run eth0 --rate 20mbit --max-wait 50ms      and nothing waits longer than 50 ms
  leaky run eth0 --rate 4mbit --per flow            every flow has 4 Mbit/s of its own
  leaky run eth0 --rate 3.8mbit --capacity 250kB    smooths a 3.6 Mbit/s video stream: 5 % of
                                                    headroom, room for its key frames

Rates: bit kbit mbit gbit (k = 1000), B/s kB/s MB/s GB/s KiB/s MiB/s GiB/s, pps kpps mpps.
Sizes: B kB MB GB, kib mib gib (1024), p for packets; times: ns us ms s min h.";

#[derive(Args)]
#[command(after_help = RUN_EXAMPLES)]
struct Run {
    /// The interface whose outgoing traffic is limited
    interface: String,
    /// How fast it leaves, such as 20mbit, 2.5MB/s or 500pps
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    rate: String,
    /// How much may wait: bytes, packets or time at the rate [default: what drains in the max wait]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    capacity: Option<String>,
    /// The longest that a packet may wait [default: what the capacity takes to drain, or 200ms
    /// without one]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    max_wait: Option<String>,
    /// Who has a bucket of their own: class (the whole interface has one) or flow
    #[arg(long, value_name = "KEY", default_value = "class")]
    per: String,
    /// How much may leave at once after a pause [default: nothing]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    burst: Option<String>,
    /// What keeps packets until they may leave: fq, htb, or auto (fq where the kernel has it)
    #[arg(long, value_name = "HOLD", default_value = "auto")]
    hold: String,
    /// Whether to keep the local stack's packets small, so that they do not leave in lumps: auto
    /// (when a full GSO packet takes more than 1 ms at the rate) or off
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    smooth: String,
    /// Replace a root qdisc that somebody chose, and put it back at the end
    #[arg(long)]
    replace_root: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Reads the command line, does what it says, and returns the exit code. Errors go to standard
/// error in one line.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Run(arguments) => arguments.request().and_then(|request| {
            let interface = request.interface.clone();
            block_on(run::run(&request)).map_err(|error| Failure::of(&interface, &error))
        }),
        Command::Clear { interface } => block_on(clear::clear(&interface))
            // It is cleared; that nobody reads about it is no failure.
            .map(|done| drop(writeln!(std::io::stdout(), "{interface}: {done}")))
            .map_err(|error| Failure::new(exit_code(&error), error.to_string())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("leaky: {}", failure.line);
            ExitCode::from(failure.code)
        }
    }
}

/// Why it ended, in one line.
struct Failure {
    code: u8,
    line: String,
}

impl Failure {
    fn new(code: u8, line: impl Into<String>) -> Failure {
        Failure {
            code,
            line: line.into(),
        }
    }

    /// Of `leaky run`: says that the interface is not limited, unless another leaky limits it.
    fn of(interface: &str, error: &run::Error) -> Failure {
        let interface = interface.escape_default();
        let line = match error {
            run::Error::Hold(hold::Error::Busy { .. }) => format!("{interface}: {error}"),
            _ => format!("{interface} is not limited: {error}"),
        };
        Failure::new(exit_code(error), line)
    }

    fn bad_input(line: impl ToString) -> Failure {
        Failure::new(code::BAD_INPUT, line.to_string())
    }
}

fn exit_code(error: &run::Error) -> u8 {
    use crate::bpf;
    match error {
        run::Error::Limit(_)
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
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| run::Error::Process("start", error))?
        .block_on(task)
}

impl Run {
    fn request(self) -> Result<Request, Failure> {
        let asked = Asked {
            rate: value(&self.rate)?,
            capacity: self.capacity.as_deref().map(value).transpose()?,
            max_wait: self.max_wait.as_deref().map(value).transpose()?,
            burst: self.burst.as_deref().map(value).transpose()?,
            key: match self.per.as_str() {
                "class" => Key::Class,
                "flow" => Key::Flow,
                other => return Err(choice("--per", other, "class or flow")),
            },
        };
        let hold: HoldMode = self
            .hold
            .parse()
            .map_err(|_| choice("--hold", &self.hold, "auto, fq or htb"))?;
        let smooth = match self.smooth.as_str() {
            "auto" => Smooth::Auto,
            "off" => Smooth::Off,
            other => return Err(choice("--smooth", other, "auto or off")),
        };
        let format = match self.json {
            true => Format::Json,
            false => Format::Words {
                terminal: std::io::stdout().is_terminal(),
            },
        };
        Ok(Request {
            interface: self.interface,
            asked,
            hold,
            smooth,
            replace_root: self.replace_root,
            output: Output::new(format),
        })
    }
}

fn value<T: FromStr<Err: ToString>>(text: &str) -> Result<T, Failure> {
    text.parse()
        .map_err(|error: T::Err| Failure::bad_input(error.to_string()))
}

fn choice(option: &str, given: &str, accepted: &str) -> Failure {
    Failure::bad_input(format!("{option} is {accepted}, not {given:?}"))
}
