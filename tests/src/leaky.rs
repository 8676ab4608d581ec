//! The product under test: `leaky run` as a process in a namespace of the lab.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cleanup;
use crate::lab::{Lab, SHAPED};
use crate::netns::{Entry, Netns};
use crate::process::{Finished, finish, wait_for};
use crate::report::{Counters, Event, Installed};

/// How long `leaky run` may take to install the limit. Loading the program is most of it, and slow in an emulated machine.
const INSTALL_DEADLINE: Duration = Duration::from_secs(30);
/// How long it may take to put everything back.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

/// The binary under test: `LEAKY_BIN`, else the release build of this workspace. `None` if there is none.
#[must_use]
pub fn binary() -> Option<PathBuf> {
    match env::var_os("LEAKY_BIN") {
        // Asked for: if it is missing, running it must fail loudly.
        Some(path) => Some(PathBuf::from(path)),
        None => Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/leaky"))
            .filter(|path| path.exists()),
    }
}

fn command(namespace: &Netns, entry: Entry) -> Result<Command> {
    let binary = binary()
        .context("there is no leaky binary: build it with `cargo xtask build`, or set LEAKY_BIN")?;
    let binary = binary
        .to_str()
        .context("the path of the leaky binary is not UTF-8")?;
    Ok(namespace.command(binary, entry))
}

/// Runs `leaky` with any arguments to its end.
///
/// # Errors
/// When it cannot be started or does not end within `deadline`.
pub fn call(namespace: &Netns, arguments: &[&str], deadline: Duration) -> Result<Finished> {
    finish(
        command(namespace, Entry::NetOnly)?.args(arguments),
        deadline,
    )
}

/// A running `leaky run`. Killed when dropped.
#[derive(Debug)]
pub struct Leaky {
    child: Child,
    pid: Pid,
    namespace: Netns,
    interface: String,
    log: Arc<Log>,
    readers: Vec<JoinHandle<()>>,
    installed: Installed,
}

#[derive(Debug, Default)]
struct Log {
    told: Mutex<Told>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Told {
    installed: Option<Installed>,
    counters: Vec<Counters>,
    summary: Option<Counters>,
    notices: Vec<String>,
    /// Lines of standard output that are not what the contract says.
    strange: Vec<String>,
    errors: String,
    ended: bool,
}

impl Log {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `enough` holds; false at the deadline.
    fn wait(&self, deadline: Duration, enough: impl Fn(&Told) -> bool) -> bool {
        let (told, _) = self
            .changed
            .wait_timeout_while(self.told(), deadline, |told| !enough(told))
            .unwrap_or_else(PoisonError::into_inner);
        enough(&told)
    }
}

/// How a `leaky run` ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its last report, if it made one.
    pub summary: Option<Counters>,
    /// The reports of each second.
    pub counters: Vec<Counters>,
    /// What it had to say while it ran.
    pub notices: Vec<String>,
    /// What it wrote to standard error.
    pub errors: String,
}

impl Leaky {
    /// Limits the lab's interface: `leaky run v0 … --json`, ready when this returns.
    ///
    /// # Errors
    /// When it does not report that the limit is installed; with what it wrote.
    pub fn start(lab: &Lab, arguments: &[&str]) -> Result<Self> {
        Self::start_on(&lab.a, SHAPED, arguments, Entry::NetOnly)
    }

    /// The same for any interface and way to start it.
    ///
    /// # Errors
    /// As [`Leaky::start`].
    pub fn start_on(
        namespace: &Netns,
        interface: &str,
        arguments: &[&str],
        entry: Entry,
    ) -> Result<Self> {
        let mut command = command(namespace, entry)?;
        command
            .args(["run", interface])
            .args(arguments)
            .arg("--json")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (mut child, pid) = cleanup::spawn(&mut command)?;
        let log = Arc::new(Log::default());
        let mut readers = Vec::new();
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            readers.push(follow_output(stdout, log.clone()));
            readers.push(follow_errors(stderr, log.clone()));
        }
        log.wait(INSTALL_DEADLINE, |told| {
            told.installed.is_some() || told.ended
        });
        let installed = log.told().installed.clone();
        match installed {
            Some(installed) => Ok(Self {
                child,
                pid,
                namespace: namespace.clone(),
                interface: interface.to_owned(),
                log,
                readers,
                installed,
            }),
            None => {
                let ended = wait_for(&mut child, Duration::from_secs(2)).ok().flatten();
                let _ = child.kill();
                let _ = child.wait();
                cleanup::forget_child(pid);
                for reader in readers {
                    let _ = reader.join();
                }
                let told = log.told();
                let how = ended.map_or_else(
                    || "it still ran and was killed".to_owned(),
                    |status| status.to_string(),
                );
                bail!(
                    "`leaky run {interface} {}` installed nothing ({how}); it wrote: {} {}",
                    arguments.join(" "),
                    told.strange.join(" "),
                    told.errors.trim()
                )
            }
        }
    }

    /// What it reported to have installed.
    #[must_use]
    pub fn installed(&self) -> &Installed {
        &self.installed
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// The interface it limits.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The namespace it runs in.
    #[must_use]
    pub fn namespace(&self) -> &Netns {
        &self.namespace
    }

    /// The next report that is made from now on; the one after it if `settled` is needed, since a report may be under way.
    ///
    /// # Errors
    /// When none comes within 5 s.
    pub fn next_counters(&self) -> Result<Counters> {
        let known = self.log.told().counters.len();
        ensure!(
            self.log
                .wait(Duration::from_secs(5), |told| told.counters.len()
                    >= known + 2
                    || told.ended),
            "leaky made no report for 5 s"
        );
        self.log
            .told()
            .counters
            .last()
            .cloned()
            .context("leaky ended without a report")
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.pid, signal).with_context(|| format!("sending {signal} to leaky"))
    }

    /// Asks it to end with SIGINT, as Ctrl-C does.
    ///
    /// # Errors
    /// When it does not end in time, or does not end well: exit code 0 and a summary.
    pub fn stop(self) -> Result<Outcome> {
        self.signal(Signal::SIGINT)?;
        let outcome = self.wait(STOP_DEADLINE)?;
        ensure!(
            outcome.code == Some(0),
            "leaky ended with {:?}: {}",
            outcome.code,
            outcome.errors.trim()
        );
        ensure!(outcome.summary.is_some(), "leaky ended without a summary");
        Ok(outcome)
    }

    /// Stops it and returns its last counters.
    ///
    /// # Errors
    /// As [`Leaky::stop`].
    pub fn summary(self) -> Result<Counters> {
        self.stop()?
            .summary
            .context("leaky ended without a summary")
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// When it still runs after `deadline`, or when its output was not what the contract says.
    pub fn wait(mut self, deadline: Duration) -> Result<Outcome> {
        let status = wait_for(&mut self.child, deadline)?.ok_or_else(|| {
            anyhow!(
                "leaky still runs after {deadline:?}; it wrote: {}",
                self.log.told().errors.trim()
            )
        })?;
        cleanup::forget_child(self.pid);
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        let told = self.log.told();
        ensure!(
            told.strange.is_empty(),
            "lines that are not in the contract: {}",
            told.strange.join("\n")
        );
        Ok(Outcome {
            code: status.code(),
            summary: told.summary.clone(),
            counters: told.counters.clone(),
            notices: told.notices.clone(),
            errors: told.errors.clone(),
        })
    }
}

impl Drop for Leaky {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // The namespace goes too, so there is nothing that it would have to put back.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        cleanup::forget_child(self.pid);
    }
}

fn follow_output(stdout: ChildStdout, log: Arc<Log>) -> JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let event = serde_json::from_str(&line);
            let mut told = log.told();
            match event {
                Ok(Event::Installed(installed)) => told.installed = Some(*installed),
                Ok(Event::Counters(counters)) => told.counters.push(counters),
                Ok(Event::Notice { text }) => told.notices.push(text),
                Ok(Event::Summary(counters)) => told.summary = Some(counters),
                Err(error) => told.strange.push(format!("{line} ({error})")),
            }
            log.changed.notify_all();
        }
        log.told().ended = true;
        log.changed.notify_all();
    })
}

fn follow_errors(mut stderr: ChildStderr, log: Arc<Log>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count) = stderr.read(&mut buffer) {
            if count == 0 {
                break;
            }
            log.told()
                .errors
                .push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    })
}
