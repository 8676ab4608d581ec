//! The distribution kernels that leaky is tested on, fetched once and kept.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::suite::Suite;
use crate::command::{find_program, note, quiet};

/// Every suite's package that stands for its current kernel.
const META_PACKAGE: &str = "linux-image-amd64";

/// A kernel series and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// What people type: the series, for example "6.12".
    pub(crate) name: &'static str,
    /// Debian suite that carries it.
    suite: &'static str,
    /// Most CPUs with which it boots under deterministic time.
    pub(crate) max_cpus: u32,
}

/// All kernels, oldest first.
pub(crate) const KERNELS: [Kernel; 3] = [
    Kernel {
        name: "6.1",
        suite: "bookworm",
        // With two CPUs and instruction-counted time it hangs while booting.
        max_cpus: 1,
    },
    Kernel {
        name: "6.12",
        suite: "bookworm-backports",
        max_cpus: u32::MAX,
    },
    Kernel {
        name: "7.3",
        suite: "trixie-backports",
        max_cpus: u32::MAX,
    },
];

/// Which kernels a command is run on; parsed from a series name or `all`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernels(pub(crate) Vec<Kernel>);

impl std::str::FromStr for Kernels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(KERNELS.to_vec()));
        }
        match KERNELS.iter().find(|kernel| kernel.name == text) {
            Some(kernel) => Ok(Self(vec![*kernel])),
            None => {
                let names: Vec<_> = KERNELS.iter().map(|kernel| kernel.name).collect();
                Err(format!("choose one of {}, or all", names.join(", ")))
            }
        }
    }
}

/// A kernel on this machine, ready to boot.
#[derive(Debug)]
pub(super) struct Installed {
    /// Full release as `uname -r` shows it.
    pub(super) release: String,
    /// Bootable image.
    pub(super) image: PathBuf,
    /// Its `lib/modules/<release>`.
    pub(super) modules: PathBuf,
}

impl Kernel {
    /// Returns the kernel kept in `<target>/kernels/<suite>`, fetching it first if it is not there.
    ///
    /// # Errors
    /// When it cannot be fetched, or what came is not a kernel package.
    pub(super) fn install(&self, target: &Path) -> Result<Installed> {
        let kernels = target.join("kernels");
        fs::create_dir_all(&kernels)?;
        // Two runs at once must not fetch into the same folder.
        let lock = File::create(kernels.join("lock"))?;
        lock.lock()?;
        let folder = kernels.join(self.suite);
        // Written last: a fetch that was interrupted starts again.
        let complete = folder.join("release");
        if !complete.exists() {
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
            self.fetch(&folder).with_context(|| {
                format!("fetching kernel {} from Debian {}", self.name, self.suite)
            })?;
        }
        let release = fs::read_to_string(&complete)?.trim().to_owned();
        if !release.starts_with(&format!("{}.", self.name)) {
            note(&format!(
                "Debian {} has moved on: its kernel is now {release}, not {}",
                self.suite, self.name
            ));
        }
        let modules = folder.join("lib/modules").join(&release);
        Ok(Installed {
            image: folder.join("vmlinuz"),
            modules,
            release,
        })
    }

    fn fetch(&self, folder: &Path) -> Result<()> {
        let work = folder.join("fetch");
        fs::create_dir_all(&work)?;
        let suite = Suite::open(self.suite, &work)?;
        // The kernel's own packages end in the architecture; tools it depends on do not.
        let packages = suite.closure(META_PACKAGE, |name| {
            name.starts_with("linux-") && name.ends_with("-amd64")
        })?;
        let bytes: u64 = packages.iter().map(|package| package.size).sum();
        note(&format!(
            "fetching kernel {} from Debian {} ({} MB)",
            self.name,
            self.suite,
            bytes / 1_000_000
        ));
        let root = work.join("root");
        for file in suite.download(&packages)? {
            quiet(Command::new("dpkg").arg("-x").arg(&file).arg(&root))?;
        }
        let release = adopt(&root, folder)?;
        let depmod = find_program("depmod").context("depmod is not on this machine")?;
        quiet(Command::new(depmod).arg("-b").arg(folder).arg(&release))?;
        fs::remove_dir_all(&work)?;
        fs::write(folder.join("release"), format!("{release}\n"))?;
        Ok(())
    }
}

/// Moves image and modules out of unpacked packages into one layout; returns the release.
fn adopt(root: &Path, folder: &Path) -> Result<String> {
    let Some(modules) = ["lib/modules", "usr/lib/modules"]
        .iter()
        .map(|place| root.join(place))
        .find(|place| place.is_dir())
    else {
        bail!("the packages hold no lib/modules");
    };
    let releases: Vec<_> = fs::read_dir(&modules)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    let [release] = releases.as_slice() else {
        bail!("expected the modules of one kernel, found {releases:?}");
    };
    let Some(image) = [
        root.join("boot").join(format!("vmlinuz-{release}")),
        modules.join(release).join("vmlinuz"),
    ]
    .into_iter()
    .find(|image| image.is_file()) else {
        bail!("the packages hold no image of {release}");
    };
    fs::rename(image, folder.join("vmlinuz"))?;
    fs::create_dir_all(folder.join("lib/modules"))?;
    fs::rename(
        modules.join(release),
        folder.join("lib/modules").join(release),
    )?;
    Ok(release.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_chosen_by_series_or_all() {
        assert_eq!("all".parse::<Kernels>().map(|k| k.0.len()), Ok(3));
        let one: Kernels = "6.12".parse().expect("a known series");
        assert_eq!(one.0[0].suite, "bookworm-backports");
        let error = "6.18".parse::<Kernels>().expect_err("not a known series");
        assert_eq!(error, "choose one of 6.1, 6.12, 7.3, or all");
    }
}
