//! The rustc that builds the eBPF programs: one whose `core` can be built from source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::apt;
use super::linker::LLVM_MAJORS;
use super::version::{OLDEST, Release, RustcVersion};
use crate::command::{is_root, quiet};

/// A compiler that is good for eBPF, checked.
#[derive(Debug, Clone)]
pub(crate) struct Toolchain {
    /// The compiler itself, not rustup's stand-in.
    pub(crate) rustc: PathBuf,
    /// The cargo that belongs to it.
    pub(crate) cargo: PathBuf,
    /// What it says about itself.
    pub(crate) version: RustcVersion,
    /// The LLVM library it is linked with; bpf-linker is linked with the same file.
    pub(crate) libllvm: PathBuf,
}

/// Finds a toolchain; installs the distribution's when there is none and this host and user can.
///
/// # Errors
/// When there is none: says why each one found will not do, and the command that gets one.
pub(crate) fn ensure() -> Result<Toolchain> {
    let mut rejected = match find() {
        Ok(toolchain) => return Ok(toolchain),
        Err(rejected) => rejected,
    };
    let mut commands =
        vec!["rustup toolchain install nightly --profile minimal --component rust-src".to_owned()];
    if apt::exists() {
        match packages() {
            Some(packages) => {
                let names: Vec<&str> = packages.iter().map(String::as_str).collect();
                if is_root() {
                    apt::install(&names)?;
                    match find() {
                        Ok(toolchain) => return Ok(toolchain),
                        Err(still) => rejected = still,
                    }
                } else {
                    commands.insert(0, apt::install_command(&names));
                }
            }
            None => rejected.push(format!(
                "apt: no package with a rustc of {OLDEST} or newer and its sources is known here"
            )),
        }
    }
    bail!(
        "no rustc that can build eBPF programs: it takes one of {OLDEST} or newer with the sources of `core`.\n  \
         {}\nGet one with:\n  {}",
        rejected.join("\n  "),
        commands.join("\nor\n  ")
    )
}

/// Looks at every toolchain there is, in order of preference, and returns the first that will do or why none does.
fn find() -> Result<Toolchain, Vec<String>> {
    let mut rejected = Vec::new();
    let candidates = rustup_nightlies().into_iter().chain(system_compilers());
    for (rustc, cargo) in candidates {
        match check(&rustc, &cargo) {
            Ok(toolchain) => return Ok(toolchain),
            Err(reason) => rejected.push(format!("{}: {reason}", rustc.display())),
        }
    }
    if rejected.is_empty() {
        rejected.push("neither a rustup nightly nor a rustc of the distribution was found".into());
    }
    Err(rejected)
}

/// The nightlies that rustup has, by folder: its stand-ins in PATH would cost time and obey RUSTUP_TOOLCHAIN.
pub(crate) fn rustup_nightlies() -> Vec<(PathBuf, PathBuf)> {
    let list = quiet(Command::new("rustup").args(["toolchain", "list", "-v"])).unwrap_or_default();
    nightly_folders(&list)
        .into_iter()
        .map(|folder| (folder.join("bin/rustc"), folder.join("bin/cargo")))
        .collect()
}

/// Lines look like `nightly-x86_64-unknown-linux-gnu (default) /home/me/.rustup/toolchains/nightly-…`.
fn nightly_folders(list: &str) -> Vec<PathBuf> {
    list.lines()
        .filter(|line| line.starts_with("nightly"))
        .filter_map(|line| line.find('/').and_then(|start| line.get(start..)))
        .map(|path| PathBuf::from(path.trim()))
        .collect()
}

/// What the distribution installs: `/usr/bin/rustc`, and on Ubuntu `/usr/bin/rustc-1.96` and the like, newest first.
fn system_compilers() -> Vec<(PathBuf, PathBuf)> {
    let bin = Path::new("/usr/bin");
    let mut versioned: Vec<(Release, String)> = fs::read_dir(bin)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_prefix("rustc-")
                .map(str::to_owned)
        })
        .filter_map(|suffix| Some((Release::parse(&suffix)?, suffix)))
        .collect();
    versioned.sort_unstable_by(|a, b| b.cmp(a));
    let plain = bin.join("rustc");
    let plain = plain.is_file().then(|| (plain, bin.join("cargo")));
    let versioned = versioned.into_iter().map(|(_, suffix)| {
        (
            bin.join(format!("rustc-{suffix}")),
            bin.join(format!("cargo-{suffix}")),
        )
    });
    plain.into_iter().chain(versioned).collect()
}

fn check(rustc: &Path, cargo: &Path) -> Result<Toolchain, String> {
    // `LD_LIBRARY_PATH` as set by the outer cargo points into another toolchain.
    let ask = |args: &[&str]| {
        quiet(Command::new(rustc).args(args).env_remove("LD_LIBRARY_PATH"))
            .map_err(|error| error.to_string())
    };
    let said = ask(&["-vV"])?;
    let version = RustcVersion::parse(&said).ok_or("`-vV` does not say its release and LLVM")?;
    if version.release < OLDEST {
        return Err(format!("is {}, older than {OLDEST}", version.release));
    }
    if !LLVM_MAJORS.contains(&version.llvm) {
        return Err(format!(
            "has LLVM {}, bpf-linker exists for {LLVM_MAJORS:?}",
            version.llvm
        ));
    }
    let sysroot = PathBuf::from(ask(&["--print", "sysroot"])?.trim());
    if !sysroot.join("lib/rustlib/src/rust/library/core").is_dir() {
        return Err("has no library sources (rust-src)".into());
    }
    if !cargo.is_file() {
        return Err(format!("its cargo, {}, is not there", cargo.display()));
    }
    let libllvm = find_libllvm(&sysroot, version.llvm)
        .ok_or_else(|| format!("its libLLVM.so.{} was not found", version.llvm))?;
    Ok(Toolchain {
        rustc: rustc.to_path_buf(),
        cargo: cargo.to_path_buf(),
        version,
        libllvm,
    })
}

/// rustup keeps LLVM in the toolchain, Debian in the multiarch folder or LLVM's own, others in `/usr/lib64`.
fn find_libllvm(sysroot: &Path, major: u32) -> Option<PathBuf> {
    let wanted = format!("libLLVM.so.{major}.");
    let multiarch = fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with("-linux-gnu"));
    [
        sysroot.join("lib"),
        PathBuf::from(format!("/usr/lib/llvm-{major}/lib")),
    ]
    .into_iter()
    .chain(multiarch)
    .chain(["/usr/lib64", "/usr/lib"].map(PathBuf::from))
    .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
    .filter(|entry| entry.file_name().to_string_lossy().starts_with(&wanted))
    .find_map(|entry| entry.path().canonicalize().ok())
}

/// The packages that bring a new enough rustc with its sources, as far as the package lists tell.
fn packages() -> Option<[String; 3]> {
    known_packages().or_else(|| {
        // A fresh machine or image has no package lists at all.
        if is_root() {
            apt::update().ok()?;
        }
        known_packages()
    })
}

fn known_packages() -> Option<[String; 3]> {
    // Debian's own names first, then Ubuntu's versioned ones.
    let web = ["rustc-web", "rust-web-src", "cargo-web"];
    let plain = ["rustc", "rust-src", "cargo"];
    let versioned = apt::search("^rustc-1\\.[0-9]+$")
        .into_iter()
        .filter_map(|name| {
            let version = name.strip_prefix("rustc-")?.to_owned();
            Some((Release::parse(&version)?, version))
        });
    let mut versioned: Vec<_> = versioned
        .filter(|(release, _)| *release >= OLDEST)
        .collect();
    versioned.sort_unstable_by(|a, b| b.cmp(a));
    [web, plain]
        .map(|names| names.map(str::to_owned))
        .into_iter()
        .chain(versioned.into_iter().map(|(_, version)| {
            [
                format!("rustc-{version}"),
                format!("rust-{version}-src"),
                format!("cargo-{version}"),
            ]
        }))
        .find(|names| {
            names.iter().all(|name| {
                apt::candidate(name)
                    .and_then(|version| Release::parse(&version))
                    .is_some_and(|release| release >= OLDEST)
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nightlies_are_found_with_their_folder() {
        let list = "stable-x86_64-unknown-linux-gnu (active, default) /r/toolchains/stable\n\
                    nightly-x86_64-unknown-linux-gnu /r/tool chains/nightly\n\
                    nightly-2026-05-20-x86_64-unknown-linux-gnu (active) /r/n2\n\
                    1.95.0-x86_64-unknown-linux-gnu /r/toolchains/stable\n";
        assert_eq!(
            nightly_folders(list),
            [
                PathBuf::from("/r/tool chains/nightly"),
                PathBuf::from("/r/n2")
            ]
        );
        assert!(nightly_folders("no installed toolchains\n").is_empty());
    }

    #[test]
    fn a_program_that_is_no_rustc_is_refused_with_a_reason() {
        let reason = check(Path::new("/bin/true"), Path::new("/bin/true")).unwrap_err();
        assert!(reason.contains("-vV"), "{reason}");
        let reason = check(Path::new("/nowhere/rustc"), Path::new("/bin/true")).unwrap_err();
        assert!(reason.contains("cannot start"), "{reason}");
    }
}
