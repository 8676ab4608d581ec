//! Child processes that cannot hang the lab: everything that is started has a deadline.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// How long an `ip` or `tc` command may take. They are instant; a stuck kernel lock is not a reason to wait for ever.
const TOOL_DEADLINE: Duration = Duration::from_secs(20);

/// What a process left behind.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

/// Waits for a child for at most `deadline`; `None` if it still runs then.
///
/// # Errors
/// When the child cannot be waited for.
pub fn wait_for(child: &mut Child, deadline: Duration) -> Result<Option<ExitStatus>> {
    let until = Instant::now() + deadline;
    loop {
        if let Some(status) = child.try_wait().context("waiting for a child process")? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a command to its end, collecting what it prints.
///
/// # Errors
/// When it cannot be started, or still runs after `deadline` (it is killed then).
pub fn finish(command: &mut Command, deadline: Duration) -> Result<Finished> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let stdout = child.stdout.take().map(read_all);
    let stderr = child.stderr.take().map(read_all);
    let status = wait_for(&mut child, deadline)?;
    if status.is_none() {
        // By its own id, so nothing else can be hit.
        child
            .kill()
            .context("killing a child process that is over its deadline")?;
        child.wait().context("waiting for a killed child process")?;
    }
    let text = |reader: Option<thread::JoinHandle<String>>| {
        reader
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default()
    };
    let (stdout, stderr) = (text(stdout), text(stderr));
    match status {
        Some(status) => Ok(Finished {
            status,
            stdout,
            stderr,
        }),
        None => bail!(
            "{command:?} still ran after {deadline:?} and was killed; it printed: {stdout}{stderr}"
        ),
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A pipe that breaks ends the text; what came before is still worth showing.
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Runs a system tool (`ip`, `tc`) and returns its standard output.
///
/// # Errors
/// When it cannot be started or reports failure; the message carries its own words.
pub fn tool(program: &str, arguments: &[&str]) -> Result<String> {
    let done = finish(Command::new(program).args(arguments), TOOL_DEADLINE)?;
    ensure!(
        done.status.success(),
        "`{program} {}` failed: {}",
        arguments.join(" "),
        done.stderr.trim()
    );
    Ok(done.stdout)
}

/// Waits until a condition holds, looking every few milliseconds; false at the deadline.
pub fn eventually(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + deadline;
    while !condition() {
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}
