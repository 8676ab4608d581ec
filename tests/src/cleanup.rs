//! Leaves nothing behind: a list of what the lab made, and three moments at which it is removed (drop, signal, next run).

use std::fs;
use std::path::Path;
use std::process::{self, Child, Command};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use crate::process::tool;

/// Every namespace of the lab starts with this, then the id of the process that made it.
pub const PREFIX: &str = "lk-";

struct Made {
    namespaces: Vec<String>,
    children: Vec<Pid>,
    /// A signal ends the process: nothing new may be made.
    closing: bool,
}

static MADE: Mutex<Made> = Mutex::new(Made {
    namespaces: Vec::new(),
    children: Vec::new(),
    closing: false,
});

fn made() -> MutexGuard<'static, Made> {
    // A panic while the list was held leaves a list that is still worth clearing.
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The list, to make something new; held while it is made, so that a signal finds either nothing or an entry.
/// Once a signal ends the process this does not return.
fn open() -> MutexGuard<'static, Made> {
    loop {
        let made = made();
        if !made.closing {
            return made;
        }
        drop(made);
        thread::sleep(Duration::from_secs(1));
    }
}

/// Makes a namespace that will be removed.
pub(crate) fn create_namespace(name: &str) -> Result<()> {
    let mut made = open();
    tool("ip", &["netns", "add", name])?;
    made.namespaces.push(name.to_owned());
    Ok(())
}

/// Removes a namespace now; does nothing while a signal ends the process, which removes them all.
pub(crate) fn remove_namespace(name: &str) {
    let mut made = made();
    if !made.closing {
        made.namespaces.retain(|known| known != name);
        drop(made);
        delete_namespace(name);
    }
}

fn delete_namespace(name: &str) {
    if Path::new("/run/netns").join(name).exists()
        && let Err(error) = tool("ip", &["netns", "del", name])
    {
        eprintln!(
            "lab: namespace {name} could not be removed ({error:#}); remove it with `ip netns del {name}`"
        );
    }
}

/// Starts a child that will be ended.
pub(crate) fn spawn(command: &mut Command) -> Result<(Child, Pid)> {
    let mut made = open();
    let child = command
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let pid = Pid::from_raw(i32::try_from(child.id())?);
    made.children.push(pid);
    Ok((child, pid))
}

/// Forgets a child that has been waited for: its id may belong to somebody else from now on.
pub(crate) fn forget_child(pid: Pid) {
    made().children.retain(|known| *known != pid);
}

/// Ends every child of the lab and removes every namespace it made. Call it last in `main`: if a signal is already ending the
/// process, this waits for that.
pub fn remove_everything() {
    let lists = {
        let mut made = open();
        (
            std::mem::take(&mut made.namespaces),
            std::mem::take(&mut made.children),
        )
    };
    remove(lists);
}

fn remove((namespaces, children): (Vec<String>, Vec<Pid>)) {
    for child in &children {
        // It may have ended by itself.
        let _ = kill(*child, Signal::SIGTERM);
    }
    let until = Instant::now() + Duration::from_secs(5);
    for child in children {
        while is_running(child) {
            if Instant::now() >= until {
                let _ = kill(child, Signal::SIGKILL);
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    for name in namespaces {
        delete_namespace(&name);
    }
}

/// Running, and not merely waiting to be waited for.
fn is_running(pid: Pid) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| {
            stat.rsplit_once(')')
                .map(|(_, rest)| !rest.trim_start().starts_with('Z'))
        })
        .unwrap_or(false)
}

/// Makes SIGINT, SIGTERM and SIGHUP remove everything before the process ends. Call it first in `main`: the signals
/// are blocked in the calling thread and all threads it makes later, and one thread of the lab waits for them.
///
/// # Errors
/// When the signals cannot be blocked.
pub fn on_signals() -> Result<()> {
    static ONCE: Once = Once::new();
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals
        .thread_block()
        .context("blocking SIGINT, SIGTERM and SIGHUP")?;
    ONCE.call_once(|| {
        thread::spawn(move || {
            let code = signals.wait().map_or(1, |signal| 128 + signal as i32);
            eprintln!("\ninterrupted: removing namespaces and processes");
            let lists = {
                let mut made = made();
                made.closing = true;
                (
                    std::mem::take(&mut made.namespaces),
                    std::mem::take(&mut made.children),
                )
            };
            remove(lists);
            process::exit(code);
        });
    });
    Ok(())
}

/// Removes the namespaces of lab processes that no longer exist, with what still runs in them. Returns their names.
///
/// # Errors
/// When the list of namespaces cannot be read.
pub fn remove_leftovers() -> Result<Vec<String>> {
    let Ok(entries) = fs::read_dir("/run/netns") else {
        return Ok(Vec::new()); // nobody has made a namespace since boot
    };
    let mut removed = Vec::new();
    for entry in entries {
        let name = entry
            .context("reading /run/netns")?
            .file_name()
            .to_string_lossy()
            .into_owned();
        let Some(owner) = owner(&name) else { continue };
        if Path::new(&format!("/proc/{owner}")).exists() {
            continue;
        }
        for pid in tool("ip", &["netns", "pids", &name])
            .unwrap_or_default()
            .split_whitespace()
        {
            if let Ok(pid) = pid.parse() {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        delete_namespace(&name);
        removed.push(name);
    }
    Ok(removed)
}

/// The process that made a namespace, from its name `lk-<pid>-<number>-<side>`.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::owner;

    #[test]
    fn only_names_of_the_lab_have_an_owner() {
        assert_eq!(owner("lk-4711-0-a"), Some(4711));
        assert_eq!(owner("lk-x-0-a"), None);
        assert_eq!(owner("blue"), None);
    }
}
