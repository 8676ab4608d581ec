//! `cargo xtask fuzz`: looks for bytes that the parser or the classifier takes wrongly.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::command::{find_program, host_cargo, note, quiet, remove_package_variables, tail};
use crate::ebpf::FOREIGN_VARIABLES;
use crate::setup;
use crate::workspace::Workspace;

/// The version of cargo-fuzz that is built when none is found.
const VERSION: &str = "0.13.2";

/// Longest input in bytes, which is enough for two packets and 64 classes.
const LONGEST: u32 = 2_048;

/// What to fuzz.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Without one: each, after the other
    target: Option<Target>,
    /// How long to run each target
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Arbitrary bytes as a frame, with etherparse as second opinion
    Parser,
    /// Arbitrary classes and packets, against a slow model
    Classifier,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::Parser => "parser",
            Self::Classifier => "classifier",
        }
    }
}

/// Runs the targets and prints a line for each.
///
/// # Errors
/// When a target found something, or could not be built; says what is missing without a nightly compiler.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let fuzzer = Fuzzer::find(workspace)?;
    let targets = match options.target {
        Some(target) => vec![target],
        None => vec![Target::Parser, Target::Classifier],
    };
    let mut failed = Vec::new();
    for target in targets {
        if !fuzzer.run(target, options.seconds)? {
            failed.push(target.name());
        }
    }
    if !failed.is_empty() {
        bail!("fuzzing found a fault: {}", failed.join(", "));
    }
    Ok(())
}

/// cargo-fuzz with what it needs.
#[derive(Debug)]
struct Fuzzer {
    program: PathBuf,
    /// The folder with the nightly's cargo and rustc.
    nightly: PathBuf,
    /// The crate with the targets, their seeds and the corpus that is kept.
    source: PathBuf,
    /// For builds and for the corpus that grows from run to run.
    output: PathBuf,
}

impl Fuzzer {
    fn find(workspace: &Workspace) -> Result<Self> {
        let Some((rustc, _)) = setup::rustup_nightlies().into_iter().next() else {
            bail!(
                "fuzzing needs a nightly Rust compiler, for its sanitizers and coverage counters, and rustup has none. \
                 Get one with:\n  rustup toolchain install nightly --profile minimal"
            );
        };
        Ok(Self {
            program: cargo_fuzz(&workspace.tools())?,
            nightly: rustc
                .parent()
                .context("the nightly's rustc has no folder")?
                .to_path_buf(),
            source: workspace.root.join("tests/fuzz"),
            output: workspace.target.join("fuzz"),
        })
    }

    /// Whether nothing was found.
    fn run(&self, target: Target, seconds: u32) -> Result<bool> {
        let name = target.name();
        note(&format!("building the fuzz target {name}"));
        quiet(&mut self.command("build", target)).with_context(|| {
            format!("the fuzz target {name} does not build; it takes a C++ compiler for libFuzzer")
        })?;
        note(&format!("fuzzing the {name} for {seconds} s"));
        let growing = self.output.join("corpus").join(name);
        fs::create_dir_all(&growing)
            .with_context(|| format!("cannot create {}", growing.display()))?;
        let mut command = self.command("run", target);
        command.arg(growing);
        // libFuzzer writes what it finds to the first of the folders; these it only reads.
        let kept = ["corpus", "seeds"].map(|folder| self.source.join(folder).join(name));
        command.args(kept.iter().filter(|folder| folder.is_dir()));
        command
            .arg("--")
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-max_len={LONGEST}"))
            .arg("-print_final_stats=1");
        let start = Instant::now();
        let output = command
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let seconds = start.elapsed().as_secs();
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            if let Some(panic) = panic_in(&said) {
                eprintln!("{panic}");
            }
            // It ends with the file that has the input and the command that runs it again.
            eprintln!("{}", tail(&said));
        }
        let figures = Figures::read(&said).unwrap_or_default();
        let clean = output.status.success();
        println!(
            "{name}: {} executions in {seconds} s, coverage {} ({} features), corpus {}: {}",
            figures.executions,
            figures.coverage,
            figures.features,
            figures.corpus,
            if clean {
                "nothing found"
            } else {
                "FAULT FOUND"
            }
        );
        Ok(clean)
    }

    fn command(&self, action: &str, target: Target) -> Command {
        let mut command = Command::new(&self.program);
        remove_package_variables(&mut command);
        for name in FOREIGN_VARIABLES {
            command.env_remove(name);
        }
        command
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env("PATH", path_from(&self.nightly))
            .current_dir(&self.source)
            .arg(action)
            .arg("--fuzz-dir")
            .arg(&self.source)
            .arg("--target-dir")
            .arg(&self.output)
            .arg(target.name());
        command
    }
}

/// PATH with this folder in front.
fn path_from(folder: &Path) -> std::ffi::OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_path_buf()).chain(env::split_paths(&path));
    // A folder of PATH cannot have the separator in its name.
    env::join_paths(folders).unwrap_or(path)
}

/// The cargo-fuzz built before, else the one in PATH, else builds it.
fn cargo_fuzz(tools: &Path) -> Result<PathBuf> {
    let ours = tools.join("bin/cargo-fuzz");
    let works = |program: &PathBuf| quiet(Command::new(program).arg("--version")).is_ok();
    if let Some(found) = [Some(ours.clone()), find_program("cargo-fuzz")]
        .into_iter()
        .flatten()
        .find(works)
    {
        return Ok(found);
    }
    note(&format!("building cargo-fuzz {VERSION}, about a minute"));
    let mut command = host_cargo();
    command
        .args([
            "install",
            "cargo-fuzz",
            "--version",
            VERSION,
            "--locked",
            "--force",
        ])
        .arg("--root")
        .arg(tools)
        .arg("--target-dir")
        .arg(tools.join("build"));
    quiet(&mut command)
        .context("cargo-fuzz could not be built: it needs a C compiler and the crate registry")?;
    let _ = fs::remove_dir_all(tools.join("build"));
    Ok(ours)
}

/// Lines of a panic's message that are worth showing.
const PANIC_LINES: usize = 6;

/// What a target said when it panicked, which stands far above the end.
fn panic_in(said: &str) -> Option<String> {
    let mut lines = said
        .lines()
        .skip_while(|line| !line.contains("panicked at"));
    let first = lines.next()?;
    let rest = lines
        .take(PANIC_LINES)
        .take_while(|line| !line.starts_with("=="));
    Some(
        std::iter::once(first)
            .chain(rest)
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

/// What libFuzzer says at the end, as it says it.
#[derive(Debug, PartialEq, Eq)]
struct Figures {
    executions: String,
    coverage: String,
    features: String,
    corpus: String,
}

impl Default for Figures {
    fn default() -> Self {
        let unknown = || "?".to_owned();
        Self {
            executions: unknown(),
            coverage: unknown(),
            features: unknown(),
            corpus: unknown(),
        }
    }
}

impl Figures {
    /// From lines such as `#76727 DONE   cov: 1184 ft: 2564 corp: 872/94Kb lim: 359 ...` and
    /// `stat::number_of_executed_units: 76727`.
    fn read(said: &str) -> Option<Self> {
        let last = said.lines().rfind(|line| line.contains(" cov: "))?;
        let field = |name: &str| {
            let mut words = last.split_whitespace().skip_while(|word| *word != name);
            words.nth(1).map(str::to_owned)
        };
        let counted = said
            .lines()
            .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
            .map(|count| count.trim().to_owned());
        let so_far = last.split_whitespace().next()?.trim_start_matches('#');
        Some(Self {
            executions: counted.unwrap_or_else(|| so_far.to_owned()),
            coverage: field("cov:")?,
            features: field("ft:")?,
            corpus: field("corp:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_end() {
        let figures = |executions: &str| Figures {
            executions: executions.to_owned(),
            coverage: "1184".to_owned(),
            features: "2564".to_owned(),
            corpus: "872/94Kb".to_owned(),
        };
        let running = "#10\tINITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 52Mb\n\
            #76727\tREDUCE cov: 1184 ft: 2564 corp: 872/94Kb lim: 359 exec/s: 19181 rss: 147Mb\n";
        assert_eq!(Figures::read(running), Some(figures("76727")));
        let done = format!("{running}stat::number_of_executed_units: 80000\n");
        assert_eq!(Figures::read(&done), Some(figures("80000")));
        assert_eq!(Figures::read("error: no such target\n"), None);
    }

    #[test]
    fn the_message_of_a_panic_is_found() {
        let said = "#7 NEW cov: 9\nthread 'main' panicked at src/x.rs:1:2:\nit is wrong\n==12== ERROR: libFuzzer\n";
        let panic = "thread 'main' panicked at src/x.rs:1:2:\nit is wrong";
        assert_eq!(panic_in(said).as_deref(), Some(panic));
        assert_eq!(panic_in("all is well"), None);
    }

    #[test]
    fn the_nightly_comes_first() {
        let path = path_from(Path::new("/n/bin"));
        assert!(path.to_string_lossy().starts_with("/n/bin:"));
    }
}
