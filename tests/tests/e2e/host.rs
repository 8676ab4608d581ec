//! What this machine offers, found out by trying.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use anyhow::Result;
use leaky_tests::netns::Netns;
use leaky_tests::router::Router;
use leaky_tests::{Kind, Lab, Link, leaky, process};

/// What a case cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Root, with the `ip` and `tc` tools.
    Root,
    /// The product, with its eBPF program.
    Leaky,
    /// A kernel with sch_fq.
    Fq,
    /// A kernel without sch_fq.
    NoFq,
    /// A kernel with sch_htb.
    Htb,
    /// A clock that does not depend on how busy the machine is.
    DeterministicTime,
    /// The opposite: the machine's own speed is what is measured.
    RealTime,
    /// At least this many CPUs.
    Cpus(usize),
    /// Devices of this kind.
    Device(Kind),
    /// Forwarding with address translation.
    Translation,
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Host {
    /// In a virtual machine with deterministic time.
    pub(crate) vm: bool,
    /// The hold that leaky is expected to choose by itself.
    pub(crate) hold: &'static str,
    /// Major and minor version of the kernel.
    pub(crate) kernel: (u32, u32),
    root: Option<String>,
    leaky: bool,
    fq: Option<String>,
    htb: Option<String>,
    cpus: usize,
}

impl Host {
    /// Looks once.
    pub(crate) fn get() -> &'static Self {
        static HOST: OnceLock<Host> = OnceLock::new();
        HOST.get_or_init(|| {
            let root = root_is_missing();
            let probe = |kind: &str| match &root {
                Some(reason) => Some(reason.clone()),
                None => qdisc_is_missing(kind),
            };
            let (fq, htb) = (probe("fq"), probe("htb"));
            Self {
                vm: std::env::var_os("LEAKY_VM").is_some_and(|value| value == "1"),
                hold: if fq.is_none() { "fq" } else { "htb" },
                kernel: kernel_version().unwrap_or_default(),
                leaky: leaky::binary().is_some(),
                fq,
                htb,
                root,
                cpus: thread::available_parallelism().map_or(1, usize::from),
            }
        })
    }

    /// Why a need is not met; `None` if it is.
    pub(crate) fn lacks(&self, need: Need) -> Option<String> {
        match need {
            Need::Root => self.root.clone(),
            Need::Leaky => (!self.leaky)
                .then(|| "no leaky binary: run `cargo xtask test`, which builds it".to_owned()),
            Need::Fq => self.fq.clone(),
            Need::NoFq => self
                .fq
                .is_none()
                .then(|| "this kernel has the fq qdisc".to_owned()),
            Need::Htb => self.htb.clone(),
            Need::DeterministicTime => {
                (!self.vm).then(|| "needs deterministic time: run `cargo xtask test vm`".to_owned())
            }
            Need::RealTime => self
                .vm
                .then(|| "measures the speed of a real machine: run `cargo xtask test`".to_owned()),
            Need::Cpus(wanted) => (self.cpus < wanted)
                .then(|| format!("needs {wanted} CPUs, this machine has {}", self.cpus)),
            Need::Device(kind) => self.root.clone().or_else(|| device_is_missing(kind)),
            Need::Translation => self.root.clone().or_else(translation_is_missing),
        }
    }
}

/// From a release such as "6.12.41+deb13-amd64".
fn kernel_version() -> Option<(u32, u32)> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn root_is_missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("needs root: run it with sudo".to_owned());
    }
    ["ip", "tc"]
        .into_iter()
        .find(|program| process::tool(program, &["-V"]).is_err())
        .map(|program| format!("needs the `{program}` tool (package iproute2)"))
}

fn qdisc_is_missing(kind: &str) -> Option<String> {
    let try_it = || -> Result<()> {
        let namespace = Netns::create(&format!(
            "{}{}-probe-{kind}",
            leaky_tests::cleanup::PREFIX,
            std::process::id()
        ))?;
        namespace.tc(&["qdisc", "add", "dev", "lo", "root", kind])?;
        Ok(())
    };
    try_it()
        .err()
        .map(|error| format!("this kernel has no {kind} qdisc ({error:#})"))
}

/// Makes one. The answer is kept, since some take a while.
fn device_is_missing(kind: Kind) -> Option<String> {
    static KNOWN: Mutex<BTreeMap<Kind, Option<String>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known
        .entry(kind)
        .or_insert_with(|| {
            Lab::new()
                .and_then(|lab| Link::add(&lab, kind).map(drop))
                .err()
                .map(|error| format!("cannot make a {kind:?} device here ({error:#})"))
        })
        .clone()
}

fn translation_is_missing() -> Option<String> {
    static KNOWN: OnceLock<Option<String>> = OnceLock::new();
    KNOWN
        .get_or_init(|| Router::new(1).err().map(|error| format!("{error:#}")))
        .clone()
}

/// What a case returns when it finds out under way that this machine cannot show what it is about. It is reported as ignored.
#[derive(Debug)]
pub(crate) struct CannotTell(pub(crate) String);

impl std::fmt::Display for CannotTell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CannotTell {}
