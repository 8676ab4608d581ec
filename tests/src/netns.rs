//! One network namespace: code and processes inside it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{SigSet, Signal};

use crate::cleanup;
use crate::process::tool;

/// How a process gets into a namespace; people use both, and they differ in what /sys shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Only the network namespace changes, /sys stays the host's (as `nsenter --net=…` does).
    NetOnly,
    /// `ip netns exec`: the process also gets a fresh /sys, in which no bpffs is mounted.
    IpNetnsExec,
}

/// A network namespace that the lab made. Removed when the last copy is dropped.
#[derive(Debug, Clone)]
pub struct Netns {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    file: File,
}

impl Netns {
    /// Makes a namespace with loopback up.
    ///
    /// # Errors
    /// Without root, without the `ip` tool, or when the name is taken.
    pub fn create(name: &str) -> Result<Self> {
        cleanup::create_namespace(name)
            .context("making a network namespace needs root and the iproute2 package")?;
        let path = format!("/run/netns/{name}");
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) => {
                cleanup::remove_namespace(name);
                return Err(error).with_context(|| format!("opening {path}"));
            }
        };
        let namespace = Self {
            inner: Arc::new(Inner {
                name: name.to_owned(),
                file,
            }),
        };
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// The name that `ip netns` shows.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Runs `ip` in the namespace and returns what it printed.
    ///
    /// # Errors
    /// With the words of `ip` when it fails.
    pub fn ip(&self, arguments: &[&str]) -> Result<String> {
        tool("ip", &[&["-n", self.name()], arguments].concat())
    }

    /// Runs `tc` in the namespace and returns what it printed.
    ///
    /// # Errors
    /// With the words of `tc` when it fails.
    pub fn tc(&self, arguments: &[&str]) -> Result<String> {
        tool("tc", &[&["-n", self.name()], arguments].concat())
    }

    /// Runs code in the namespace and waits for it. Sockets made in there stay in the namespace for ever.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn run<T: Send>(&self, code: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    self.enter()?;
                    Ok(code())
                })
                .join()
                .map_err(|_| anyhow!("code in namespace {} panicked", self.name()))?
        })
    }

    /// Runs code in the namespace on a thread of its own.
    pub fn spawn<T: Send + 'static>(
        &self,
        code: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> JoinHandle<Result<T>> {
        let namespace = self.clone();
        thread::spawn(move || {
            namespace.enter()?;
            code()
        })
    }

    /// Moves the calling thread; only for threads that end afterwards.
    fn enter(&self) -> Result<()> {
        setns(self.inner.file.as_fd(), CloneFlags::CLONE_NEWNET)
            .with_context(|| format!("entering namespace {}", self.name()))
    }

    /// A command that will run in the namespace. It gets SIGTERM when the thread that starts it ends, so start it from a thread
    /// that lives as long as the command is wanted.
    #[must_use]
    pub fn command(&self, program: &str, entry: Entry) -> Command {
        let mut command = match entry {
            Entry::NetOnly => Command::new(program),
            Entry::IpNetnsExec => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", self.name(), program]);
                command
            }
        };
        let namespace = self.clone();
        // SAFETY: between fork and exec only system calls on an open descriptor and on this process are made: no
        // allocation, no lock.
        unsafe {
            command.pre_exec(move || {
                if entry == Entry::NetOnly {
                    setns(namespace.inner.file.as_fd(), CloneFlags::CLONE_NEWNET)
                        .map_err(io::Error::from)?;
                }
                standard_signals()
            });
        }
        command
    }
}

/// The lab blocks signals in its own threads and a child would inherit that; and a child must not outlive the lab.
pub(crate) fn standard_signals() -> io::Result<()> {
    SigSet::empty().thread_set_mask().map_err(io::Error::from)?;
    nix::sys::prctl::set_pdeathsig(Signal::SIGTERM).map_err(io::Error::from)
}

impl Drop for Inner {
    fn drop(&mut self) {
        cleanup::remove_namespace(&self.name);
    }
}
