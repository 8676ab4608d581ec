//! The options of `leaky run`.

use super::{Failure, exit_code};
use crate::config::{Flags, from_flags};
use crate::output::{Format, Output};
use crate::run::{self, Request};
use clap::Args;
use std::io::IsTerminal;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  leaky run eth0 --rate 20mbit                      at most 20 Mbit/s leave by eth0
  leaky run eth0 --rate 20mbit --max-wait 50ms      and nothing waits longer than 50 ms
  leaky run eth0 --rate 4mbit --per flow            every flow has 4 Mbit/s of its own
  leaky run eth0 --rate 4mbit --per dst --link-rate 20mbit
                                                    every receiver 4 Mbit/s, all together 20
  leaky run eth0 --rate 160mbit --destination-file prefixes.txt
                                                    uploads to these prefixes only
  leaky run eth0 --rate 3.8mbit --capacity 250kB    smooths a 3.6 Mbit/s video stream: 5 % of
                                                    headroom, room for its key frames
  leaky run eth0 --config leaky.toml                several classes, see docs/config.md

Rates: bit kbit mbit gbit (k = 1000), B/s kB/s MB/s GB/s KiB/s MiB/s GiB/s, pps kpps mpps.
Sizes: B kB MB GB, kib mib gib (1024), p for packets; times: ns us ms s min h.
Lists take commas, and their options can be repeated.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunOptions {
    #[command(flatten)]
    flags: Flags,
    /// Take the limits of this interface from a config file; SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Replace a root qdisc that somebody chose, and put it back at the end
    #[arg(long, help_heading = "The link")]
    replace_root: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl RunOptions {
    pub(super) fn request(self) -> Result<Request, Failure> {
        let format = match self.json {
            true => Format::Json,
            false => Format::Words {
                terminal: std::io::stdout().is_terminal(),
            },
        };
        let (flags, file, replace_root) = (self.flags, self.config, self.replace_root);
        let interface = match &file {
            None if nothing_limits(&flags) => {
                return Err(Failure::new(
                    super::code::BAD_INPUT,
                    "--rate is missing: say how fast traffic may leave, such as --rate 20mbit (or give \
                     --link-rate, --clients or --config)",
                ));
            }
            None => from_flags(&flags).map_err(|errors| Failure::options(&errors))?,
            Some(file) => {
                let only_the_name = Flags {
                    interface: flags.interface.clone(),
                    ..Flags::default()
                };
                if flags != only_the_name {
                    return Err(Failure::new(
                        super::code::BAD_INPUT,
                        "--config says everything about the interface: leave the other limits out, or \
                         put them into the file",
                    ));
                }
                run::entry(file, &flags.interface)
                    .map_err(|error| entry_failure(&flags.interface, &error))?
            }
        };
        Ok(Request {
            interface,
            file,
            replace_root,
            output: Output::new(format),
        })
    }
}

/// Whether the options have no rate of any kind where one is needed.
fn nothing_limits(flags: &Flags) -> bool {
    let needs_rate = !matches!(flags.action.as_deref(), Some("pass" | "drop"));
    let limited = flags.rate.is_some() || flags.clients.is_some();
    needs_rate && !limited && !(flags.link_rate.is_some() && flags.only_link())
}

fn entry_failure(interface: &str, error: &run::Error) -> Failure {
    match error {
        run::Error::Config(errors) => Failure::listed(errors),
        _ => Failure::new(
            exit_code(error),
            format!("{} is not limited: {error}", interface.escape_default()),
        ),
    }
}
