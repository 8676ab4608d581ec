//! Running other programs: quietly with a useful error, or shown as they are.

use std::env;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

/// How much of a failed command's output is worth showing.
const TAIL_LINES: usize = 25;

/// Tells the person what is going on. On standard error, so that standard output stays for results.
pub(crate) fn note(text: &str) {
    eprintln!("xtask: {text}");
}

/// The command as a person would type it, for messages.
pub(crate) fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

/// The command with the variables that it was given, quoted so that it can be pasted into a shell.
pub(crate) fn shell_line(command: &Command) -> String {
    let set: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quoted(value?))))
        .collect();
    let env = if set.is_empty() {
        None
    } else {
        Some("env".to_owned())
    };
    let words = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(quoted);
    env.into_iter()
        .chain(set)
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Runs `command` without showing its output and returns its standard output.
///
/// # Errors
/// When it cannot be started or fails; the error carries the last lines it printed.
pub(crate) fn quiet(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let all = format!("{stdout}{}", String::from_utf8_lossy(&output.stderr));
        bail!(
            "`{}` failed ({}):\n{}",
            shown(command),
            output.status,
            tail(&all)
        );
    }
    Ok(stdout)
}

/// Runs `command` with its output shown.
///
/// # Errors
/// When it cannot be started or fails.
pub(crate) fn visible(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs `command` and returns its standard output; its standard error is shown.
///
/// # Errors
/// When it cannot be started or fails.
pub(crate) fn captured(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !output.status.success() {
        bail!("`{}` failed ({})", shown(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs `command`, shows its output as it comes and returns how it ended with what it wrote to one stream.
///
/// # Errors
/// When it cannot be started, or its output cannot be read. A failing command is not an error here.
pub(crate) fn copied(command: &mut Command, stream: Stream) -> Result<(ExitStatus, String)> {
    match stream {
        Stream::Stdout => command.stdout(Stdio::piped()),
        Stream::Stderr => command.stderr(Stdio::piped()),
    };
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    let reader: Box<dyn Read + Send> = match stream {
        Stream::Stdout => Box::new(child.stdout.take().context("no pipe for standard output")?),
        Stream::Stderr => Box::new(child.stderr.take().context("no pipe for standard error")?),
    };
    let copier = thread::spawn(move || match stream {
        Stream::Stdout => copy_while_showing(reader, io::stdout()),
        Stream::Stderr => copy_while_showing(reader, io::stderr()),
    });
    let status = child
        .wait()
        .with_context(|| format!("lost `{}`", shown(command)))?;
    let Ok(text) = copier.join() else {
        bail!("reading the output of `{}` failed", shown(command))
    };
    Ok((
        status,
        text.with_context(|| format!("reading the output of `{}`", shown(command)))?,
    ))
}

/// Which stream [`copied`] keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    /// What test runners report on.
    Stdout,
    /// What compilers report on.
    Stderr,
}

fn copy_while_showing(mut from: impl Read, mut to: impl Write) -> io::Result<String> {
    let mut all = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        let read = from.read(&mut chunk)?;
        let Some(fresh) = chunk.get(..read).filter(|fresh| !fresh.is_empty()) else {
            break;
        };
        all.extend_from_slice(fresh);
        // A closed terminal must not stop the run half-way: what was read still counts.
        let _ = to.write_all(fresh).and_then(|()| to.flush());
    }
    Ok(String::from_utf8_lossy(&all).into_owned())
}

/// Replaces this process by `command`, so that signals (Ctrl-C) go to it alone and its exit code is ours.
///
/// # Errors
/// Only returns when the command could not be started.
pub(crate) fn become_command(command: &mut Command) -> Result<()> {
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start `{}`", shown(command)))
}

/// The cargo that runs xtask, for everything that runs on the host.
pub(crate) fn host_cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    remove_package_variables(&mut command);
    command
}

/// Takes away what the outer `cargo run` told this program about the package xtask: it is wrong for any other.
pub(crate) fn remove_package_variables(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if is_about_this_package(&name) {
            command.env_remove(name);
        }
    }
}

fn is_about_this_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_")
        || [
            "CARGO_MANIFEST_DIR",
            "CARGO_MANIFEST_PATH",
            "CARGO_BIN_NAME",
            "CARGO_CRATE_NAME",
        ]
        .contains(&name.as_ref())
}

/// Looks a program up the way a shell would, and in the administrator's folders, which an ordinary PATH may lack.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let admin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path)
        .chain(admin)
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Whether this process has the rights of root.
pub(crate) fn is_root() -> bool {
    // The second number of the line is the effective user id; /proc is there wherever eBPF is.
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .and_then(|ids| ids.split_whitespace().nth(1))
            == Some("0")
    })
}

/// The last lines of `text`, where compilers and package managers put the reason of a failure.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let start = lines.len().saturating_sub(TAIL_LINES);
    lines.get(start..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_shows_its_last_lines() {
        let error =
            quiet(Command::new("sh").args(["-c", "seq 1 100; echo the reason >&2; exit 3"]))
                .unwrap_err()
                .to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("the reason"), "{error}");
        assert!(!error.contains("\n50\n"), "{error}");
    }

    #[test]
    fn copied_output_is_complete_and_a_failure_is_reported_as_status() {
        let (status, text) = copied(
            Command::new("sh").args(["-c", "printf 'a\\nb'; exit 1"]),
            Stream::Stdout,
        )
        .unwrap();
        assert_eq!(status.code(), Some(1));
        assert_eq!(text, "a\nb");
    }

    #[test]
    fn a_shell_line_can_be_pasted() {
        let mut command = Command::new("/t/demo");
        command
            .args(["--rate", "it's"])
            .env("LEAKY_BIN", "/my target/leaky");
        assert_eq!(
            shell_line(&command),
            r"env LEAKY_BIN='/my target/leaky' /t/demo --rate 'it'\''s'"
        );
        assert_eq!(shell_line(&Command::new("/t/demo")), "/t/demo");
    }

    #[test]
    fn programs_are_found_only_when_they_can_be_run() {
        assert!(find_program("sh").is_some());
        assert_eq!(find_program("no-such-program-anywhere"), None);
    }
}
