//! The set-up of a case with a config file: lab, files, `leaky run IF --config`, capture; and what must hold at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use leaky_tests::capture::{Capture, Captured, WHOLE};
use leaky_tests::lab::{FAR, SHAPED};
use leaky_tests::netns::Entry;
use leaky_tests::report::{Amount, Counters, Installed};
use leaky_tests::udp::Sink;
use leaky_tests::witness::{self, KernelState};
use leaky_tests::{Lab, Leaky, Packet};

use crate::rig::{Broken, PORT};

/// A port that no class of the usual configs names.
pub(crate) const OTHER_PORT: u16 = 6_000;

/// A folder for config files, removed on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("leaky-e2e-{}-{number}", process::id()));
        fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self(path))
    }

    /// Where a file in it is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.path(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        text_of(&path)
    }
}

fn text_of(path: &Path) -> Result<String> {
    Ok(path
        .to_str()
        .context("a path that is not UTF-8")?
        .to_owned())
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A config file for one interface: `lines` are its keys and classes.
pub(crate) fn for_interface(name: &str, lines: &str) -> String {
    format!("version = 1\n\n[[interface]]\nname = \"{name}\"\n{lines}")
}

/// A limited interface, and a capture at its far end.
pub(crate) struct Configured {
    pub(crate) lab: Lab,
    pub(crate) leaky: Leaky,
    pub(crate) capture: Capture,
    pub(crate) folder: Folder,
    _sinks: Vec<Sink>,
    before: KernelState,
}

/// What was found.
pub(crate) struct Found {
    pub(crate) captured: Captured,
    pub(crate) installed: Installed,
    pub(crate) summary: Counters,
    pub(crate) notices: Vec<String>,
}

impl Configured {
    /// In a new lab with many clients and senders, with these files beside the config.
    pub(crate) fn start(lines: &str, files: &[(&str, &str)]) -> Result<Self> {
        let lab = Lab::new()?;
        lab.many_addresses()?;
        Self::on(lab, lines, files)
    }

    /// In a lab that is already there.
    pub(crate) fn on(lab: Lab, lines: &str, files: &[(&str, &str)]) -> Result<Self> {
        let folder = Folder::new()?;
        for (name, text) in files {
            folder.write(name, text)?;
        }
        let config = folder.write("leaky.toml", &for_interface(SHAPED, lines))?;
        let sinks = [PORT, PORT + 2, OTHER_PORT]
            .map(|port| Sink::open(&lab.b, port))
            .into_iter()
            .collect::<Result<_>>()?;
        let before = witness::state(&lab.a, SHAPED)?;
        let arguments = ["--config", config.as_str()];
        let leaky = Leaky::start_on(&lab.a, SHAPED, &arguments, Entry::NetOnly)?;
        let capture = Capture::start(&lab.b, FAR, WHOLE)?;
        Ok(Self {
            lab,
            leaky,
            capture,
            folder,
            _sinks: sinks,
            before,
        })
    }

    /// Waits until nothing has arrived for `quiet`, ends everything, and checks what must hold after every run.
    pub(crate) fn finish(self, quiet: Duration) -> Result<Found> {
        let is_quiet = self
            .capture
            .wait_quiet(quiet, quiet + Duration::from_secs(20));
        ensure!(
            is_quiet,
            "packets still arrive 20 s after the last was sent"
        );
        let captured = self.capture.stop()?;
        let installed = self.leaky.installed().clone();
        let outcome = self.leaky.stop()?;
        let summary = outcome.summary.context("no summary")?;
        check(&installed, &summary).context(Broken)?;
        let after = witness::state(&self.lab.a, SHAPED)?;
        if after != self.before {
            let left = format!("Before: {:?}\nAfter: {after:?}", self.before);
            return Err(anyhow::Error::msg(left).context(Broken));
        }
        let mut notices = installed.notices.clone();
        notices.extend(outcome.notices);
        Ok(Found {
            captured,
            installed,
            summary,
            notices,
        })
    }
}

impl Found {
    /// Bytes that an empty bucket of a class takes at once: what it holds, but no more than drains in the longest wait.
    pub(crate) fn fits(&self, class: &str) -> Result<u64> {
        let found = self.installed.class(class);
        let found = found.with_context(|| format!("no class {class}"))?;
        let (Some(rate), Some(capacity), Some(wait)) = (
            found.rate_bytes_per_second,
            found.capacity_bytes,
            found.max_wait_seconds,
        ) else {
            bail!("not told what fits into {found:?}");
        };
        let milliseconds = Duration::try_from_secs_f64(wait)?.as_millis();
        Ok(capacity.min(rate * u64::try_from(milliseconds)? / 1_000))
    }

    /// The program says that it accepted, in this class, what arrived of it; `mine` picks the packets of the class.
    pub(crate) fn accepted_arrived(
        &self,
        class: &str,
        mine: impl Fn(&Packet) -> bool,
    ) -> Result<()> {
        let arrived = self.captured.only(mine);
        let packets: u64 = arrived
            .iter()
            .map(|packet| u64::from(packet.segments))
            .sum();
        let counted = self.summary.class(class)?;
        ensure!(
            counted.accepted_packets == packets,
            "class {class} accepted {} packets, {packets} arrived: {counted:?}",
            counted.accepted_packets
        );
        Ok(())
    }
}

/// In each class offered = accepted + dropped, and the totals are the sums over the classes, but for those that are
/// only watched: what a limit would do to them has not happened.
fn check(installed: &Installed, summary: &Counters) -> Result<()> {
    let (mut offered, mut accepted, mut dropped) = <(Amount, Amount, Amount)>::default();
    let add = |sum: &mut Amount, packets: u64, bytes: u64| {
        sum.packets += packets;
        sum.bytes += bytes;
    };
    let watched = |name: &str| {
        let class = installed.class(name);
        class.is_some_and(|class| class.action == "monitor")
    };
    for class in &summary.classes {
        let lost = class.dropped_total();
        ensure!(
            class.offered_packets == class.accepted_packets + lost.packets
                && class.offered_bytes == class.accepted_bytes + lost.bytes,
            "offered is not accepted + dropped: {class:?}"
        );
        if watched(&class.class) {
            continue;
        }
        add(&mut offered, class.offered_packets, class.offered_bytes);
        add(&mut accepted, class.accepted_packets, class.accepted_bytes);
        add(&mut dropped, lost.packets, lost.bytes);
    }
    let total = |packets, bytes| Amount { packets, bytes };
    ensure!(
        offered == total(summary.offered_packets, summary.offered_bytes)
            && accepted == total(summary.accepted_packets, summary.accepted_bytes)
            && dropped == summary.dropped_total(),
        "the totals are not the sums over the classes: {summary:?}"
    );
    Ok(())
}
