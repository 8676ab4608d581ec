//! Running a command inside a distribution kernel, under QEMU, with time that counts instructions.
//!
//! The guest shares this machine's files, so what was built here runs there as it is. It sees them
//! read-only: what it writes is kept in its memory and forgotten, except in the folders it is given.
//! With deterministic time two nanoseconds pass for every instruction and idle time passes at once,
//! so measured gaps do not depend on how busy this machine is. The CPUs of such a guest take turns
//! in slices of some 10 ms and share that speed: a second CPU can show what happens when two CPUs
//! interleave, and makes everything that measures time worse.

mod cli;
mod guest;
mod initramfs;
mod kernel;
mod klog;
mod preload;
mod qemu;
mod suite;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::command::{find_program, note, tail};
use crate::workspace::Workspace;

pub(crate) use cli::{Args, command};
pub(crate) use kernel::{Kernel, Kernels};

/// One command to run inside one kernel.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// Kernel to boot.
    pub(crate) kernel: Kernel,
    /// Program and arguments; a program without `/` is looked up on the guest's PATH.
    pub(crate) command: Vec<String>,
    /// Variables added to the command's environment.
    pub(crate) env: Vec<(String, String)>,
    /// Folders of this machine that the guest may write; they must exist.
    pub(crate) rw_dirs: Vec<PathBuf>,
    /// CPUs; lowered, and told, to what the kernel can boot with under deterministic time.
    pub(crate) cpus: u32,
    /// Memory in MiB; half of it can hold what the guest writes.
    pub(crate) memory: u32,
    /// Whether time counts instructions instead of following this machine's clock.
    pub(crate) deterministic: bool,
    /// Real time after which the guest is ended and the run fails.
    pub(crate) timeout: Duration,
}

impl Job {
    /// A job with the usual settings: one CPU, 2 GiB, deterministic time, ten minutes.
    pub(crate) fn new(kernel: Kernel, command: Vec<String>) -> Self {
        Self {
            kernel,
            command,
            env: Vec::new(),
            rw_dirs: Vec::new(),
            cpus: 1,
            memory: 2048,
            deterministic: true,
            timeout: Duration::from_secs(600),
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Exit status of the command, 128 + n if signal n ended it.
    pub(crate) exit_code: u8,
    /// Lines of the guest's kernel log that say that something went wrong.
    pub(crate) kernel_warnings: Vec<String>,
}

impl Outcome {
    /// Whether the command succeeded and the kernel had nothing to complain about.
    pub(crate) fn passed(&self) -> bool {
        self.exit_code == 0 && self.kernel_warnings.is_empty()
    }
}

/// Boots the job's kernel and runs the command in it, its output on standard output. Steps and
/// complaints of the kernel are told on standard error.
///
/// # Errors
/// When the guest could not be booted, was ended by the time-out, or never said how the command
/// ended. A command that fails is an [`Outcome`], not an error.
pub(crate) fn run(workspace: &Workspace, job: &Job) -> Result<Outcome> {
    tools::ensure()?;
    let kernel = job.kernel.install(&workspace.target)?;
    let runs = workspace.target.join("vm");
    fs::create_dir_all(&runs)?;
    remove_abandoned(&runs)?;
    let folder = runs.join(format!("{}-{}", job.kernel.name, std::process::id()));
    fs::create_dir_all(&folder)?;
    let ended = boot(job, &kernel, &folder);
    // The log outlives the run, so that a failure can be looked at.
    let log = runs.join(format!("{}.log", job.kernel.name));
    let text = match fs::read(folder.join("log")) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    };
    fs::write(&log, &text)?;
    fs::remove_dir_all(&folder)?;
    let report = ended.with_context(|| format!("kernel log: {}", log.display()))?;
    let kernel_warnings = klog::complaints(&text);
    for line in &kernel_warnings {
        note(&format!("kernel: {line}"));
    }
    if !kernel_warnings.is_empty() {
        note(&format!("the whole kernel log: {}", log.display()));
    }
    let Some(exit_code) = report.exit else {
        bail!(
            "the guest ended without saying how the command did. Its kernel's last words:\n{}\nThe whole kernel log: {}",
            tail(&text),
            log.display()
        );
    };
    Ok(Outcome {
        exit_code,
        kernel_warnings,
    })
}

fn boot(job: &Job, kernel: &kernel::Installed, folder: &Path) -> Result<guest::Report> {
    let rw_dirs = job
        .rw_dirs
        .iter()
        .map(|folder| {
            fs::canonicalize(folder)
                .with_context(|| format!("folder that the guest may write: {}", folder.display()))
        })
        .collect::<Result<Vec<_>>>()?;
    let words = job
        .command
        .iter()
        .chain(job.env.iter().map(|(_, value)| value));
    let program =
        |name: &str| find_program(name).with_context(|| format!("`{name}` is not on this machine"));
    let plan = guest::Plan {
        kernel,
        command: &job.command,
        env: &job.env,
        folder: &std::env::current_dir()?,
        rw_dirs: &rw_dirs,
        preload: &preload::files(words.map(String::as_str))?,
        env_program: &program("env")?,
        modprobe: &program("modprobe")?,
        ip: &program("ip")?,
    };
    let archive = initramfs::build(
        kernel,
        &program("busybox")?,
        &guest::init(&plan),
        &guest::job(&plan),
    )?;
    let initramfs = folder.join("initramfs");
    fs::write(&initramfs, archive)?;
    let mut cpus = job.cpus;
    if job.deterministic && cpus > job.kernel.max_cpus {
        cpus = job.kernel.max_cpus;
        note(&format!(
            "{} boots with {cpus} CPU at most under deterministic time",
            job.kernel.name
        ));
    }
    let machine = qemu::Machine {
        image: &kernel.image,
        initramfs: &initramfs,
        log: &folder.join("log"),
        report: &folder.join("report"),
        rw_dirs: &rw_dirs,
        cpus,
        memory: job.memory,
        deterministic: job.deterministic,
        timeout: job.timeout,
    };
    note(&format!("booting {} (CPUs: {cpus})", kernel.release));
    qemu::run(&machine, |report, after| {
        note(&format!(
            "{} is up after {:.1} s",
            kernel.release,
            after.as_secs_f32()
        ));
        for line in &report.modules {
            note(&format!("not loaded: {line}"));
        }
    })
}

/// Removes the folders of runs that were interrupted; their names end in the number of a process.
fn remove_abandoned(runs: &Path) -> Result<()> {
    for entry in fs::read_dir(runs)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let abandoned = name
            .rsplit_once('-')
            .is_some_and(|(_, process)| !Path::new("/proc").join(process).exists());
        if abandoned && entry.file_type()?.is_dir() {
            // Another run may be removing it too.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}
