//! The foreground form: puts limits in force, watches over them, and takes everything away again.

mod error;
mod limiter;
mod reload;
mod stop;
mod watch;

pub use error::Error;
pub(crate) use reload::entry;

use crate::bpf::{self, Kind, Program, Sizes};
use crate::classes::{self, Compiled, Ids};
use crate::config::{Interface, Per};
use crate::hold::{self, Cleared, HoldMode};
use crate::net::kernel::Kernel;
use crate::net::{Link, Net};
use crate::output::Output;
use crate::state;
use error::both;
use limiter::Limiter;
use std::path::PathBuf;
use stop::Stop;

/// What `leaky run` is asked to do.
#[derive(Debug)]
pub struct Request {
    /// What is to be in force, on which interface.
    pub interface: Interface,
    /// The config file that says so, if one does.
    pub file: Option<PathBuf>,
    /// Whether a root qdisc that somebody chose may be replaced.
    pub replace_root: bool,
    /// Where reports go.
    pub output: Output,
}

/// Runs until SIGINT or SIGTERM, or until the limits cannot be enforced any more.
///
/// # Errors
/// Why nothing is limited (any more). The interface is then as it was before, unless the error says
/// what could not be put back.
pub async fn run(request: &Request) -> Result<(), Error> {
    let mut stop = Stop::new(request.file.is_some())?;
    let net = Kernel::open()?;
    let mut link = net.link_by_name(&request.interface.name).await?;
    let mut watch = net.watch(link.index).await?;
    // Before anything else: do the limits fit together on this interface, and can this host and this
    // binary load the program at all?
    let mut compiled = compile(request, &link)?;
    let program = load(request)?;
    if stop.was_asked().await {
        return Ok(());
    }
    if hold::clear(&net, &link, &state::record_path(link.index)?).await? != Cleared::Nothing {
        // A leaky that died had changed it.
        link = net.link_by_index(link.index).await?;
        compiled = compile(request, &link)?;
    }
    let mut limiter = Limiter::install(&net, request, &link, compiled, program).await?;
    let ended = match request.output.installed(&limiter.report()) {
        Ok(()) => {
            limiter
                .watch_over(&net, request, &mut watch, &mut stop)
                .await
        }
        Err(error) => Err(Error::Process("write to standard output", error)),
    };
    let removed = limiter.remove(&net, request, &mut stop).await;
    both(
        ended.map_err(|error| Error::Ended(Box::new(error))),
        removed,
    )
}

/// What is put in force at the start, and the places of its state.
fn compile(request: &Request, link: &Link) -> Result<(Compiled, Ids), Error> {
    let mut ids = Ids::default();
    let compiled = classes::compile(&request.interface, link, memory()?, &mut ids)?;
    Ok((compiled, ids))
}

/// A program, the hold it is for, and why it is not fq where it could have been.
struct Loaded {
    program: Program,
    mode: HoldMode,
    why_not_fq: Option<String>,
}

/// Loads the program for the hold that is asked for. With `auto`, a kernel that cannot stamp
/// departure times gets the one for htb, and the reason.
fn load(request: &Request) -> Result<Loaded, Error> {
    let sizes = sizes(request);
    let mode = request.interface.hold;
    let kind = match mode {
        HoldMode::Auto | HoldMode::Fq => Kind::DepartureTime,
        HoldMode::Htb => Kind::Queue,
    };
    match Program::load(kind, sizes) {
        Err(error @ bpf::Error::Refused { .. }) if mode == HoldMode::Auto => Ok(Loaded {
            program: Program::load(Kind::Queue, sizes)?,
            mode: HoldMode::Htb,
            why_not_fq: Some(format!(
                "this kernel cannot stamp departure times ({error})"
            )),
        }),
        loaded => Ok(Loaded {
            program: loaded?,
            mode,
            why_not_fq: None,
        }),
    }
}

/// Tables for what is asked; with a config file, which can ask for anything when it is read again, for
/// any policy.
fn sizes(request: &Request) -> Sizes {
    if request.file.is_some() {
        return Sizes::FULL;
    }
    let classes = &request.interface.classes;
    let clients = classes.iter().filter_map(|class| class.clients.as_ref());
    let keyed = classes
        .iter()
        .any(|class| class.per != Per::Class && class.clients.is_none());
    let clients = u32::try_from(clients.map(Vec::len).sum::<usize>()).unwrap_or(u32::MAX);
    Sizes {
        keys: if keyed { Sizes::FULL.keys } else { 1 },
        clients: clients.clamp(1, Sizes::FULL.clients),
        classes: classes.iter().any(|class| !class.matching.is_all()),
    }
}

fn unwritten(error: std::io::Error) -> Error {
    Error::Process("write to standard output", error)
}

/// The machine's memory, in bytes.
fn memory() -> Result<u64, Error> {
    let info = nix::sys::sysinfo::sysinfo()
        .map_err(|error| Error::Process("read the size of the memory", error.into()))?;
    Ok(info.ram_total())
}
