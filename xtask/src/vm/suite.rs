//! Fetching packages of a Debian suite that this machine need not use itself.
//!
//! The suite gets a private apt set-up (own sources, lists and cache), so nothing of the machine's
//! own package state changes and no root is needed. What is fetched is signed: apt checks it with
//! the archive keyring that is installed on the machine.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{is_root, quiet};
use crate::setup::apt;

/// Names a Debian mirror for machines whose own apt configuration has none (Ubuntu, for example).
const MIRROR_VARIABLE: &str = "LEAKY_DEBIAN_MIRROR";

/// Debian's archive keys, from the package `debian-archive-keyring`.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A private apt set-up for one suite, in a folder of its own.
pub(super) struct Suite {
    options: Vec<String>,
    folder: PathBuf,
}

/// A package to download, as the archive describes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Package {
    /// Name in the archive.
    pub(super) name: String,
    /// Size of the package file in bytes.
    pub(super) size: u64,
    /// First alternative of every dependency, versions stripped.
    depends: Vec<String>,
}

impl Suite {
    /// Sets `suite` up in `folder` (made if missing) and reads its package lists.
    ///
    /// # Errors
    /// When no Debian mirror is known, the archive keyring is missing, or apt refuses the lists.
    pub(super) fn open(suite: &str, folder: &Path) -> Result<Self> {
        if !Path::new(KEYRING).exists() {
            bail!(
                "no archive keys to check kernel packages with: apt-get install debian-archive-keyring"
            );
        }
        let mirror = mirror()?;
        let lists = folder.join("lists");
        let cache = folder.join("cache");
        fs::create_dir_all(lists.join("partial"))?;
        fs::create_dir_all(cache.join("archives/partial"))?;
        let sources = folder.join("suite.sources");
        fs::write(
            &sources,
            format!(
                "Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: main\nSigned-By: {KEYRING}\n"
            ),
        )?;
        // An empty status file: what is installed here must not influence what is found there.
        let status = folder.join("status");
        fs::write(&status, "")?;
        let show = |path: &Path| path.display().to_string();
        let options = [
            format!("Dir::Etc::sourcelist={}", show(&sources)),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", show(&lists)),
            format!("Dir::State::status={}", show(&status)),
            format!("Dir::Cache={}", show(&cache)),
            "Acquire::Languages=none".to_owned(),
            // As root apt would switch to a user that cannot reach a private folder.
            "APT::Sandbox::User=root".to_owned(),
        ]
        .into_iter()
        .flat_map(|option| ["-o".to_owned(), option])
        .collect();
        let opened = Self {
            options,
            folder: folder.to_owned(),
        };
        opened.run("apt-get", &["update", "-q"]).with_context(|| {
            format!("reading the package lists of {suite} (its keys come with a current debian-archive-keyring)")
        })?;
        Ok(opened)
    }

    /// Finds `root` and every package it needs, directly or not, whose name `wanted` accepts.
    ///
    /// # Errors
    /// When `root` or one of the wanted packages is not in the suite.
    pub(super) fn closure(
        &self,
        root: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<Package>> {
        let mut found: Vec<Package> = Vec::new();
        let mut open = VecDeque::from([root.to_owned()]);
        while let Some(name) = open.pop_front() {
            if found.iter().any(|package| package.name == name) {
                continue;
            }
            let text = self.run("apt-cache", &["show", "--no-all-versions", &name])?;
            let package = parse_package(&text)
                .with_context(|| format!("apt-cache show {name}: no such package in the suite"))?;
            open.extend(package.depends.iter().filter(|name| wanted(name)).cloned());
            found.push(package);
        }
        Ok(found)
    }

    /// Downloads the packages and returns their files.
    ///
    /// # Errors
    /// When apt cannot download or verify one of them.
    pub(super) fn download(&self, packages: &[Package]) -> Result<Vec<PathBuf>> {
        let mut arguments = vec!["download", "-q"];
        arguments.extend(packages.iter().map(|package| package.name.as_str()));
        self.run("apt-get", &arguments)?;
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                files.push(path);
            }
        }
        Ok(files)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        command.args(&self.options).args(arguments);
        // `apt-get download` writes to the current folder.
        command.current_dir(&self.folder).env("LC_ALL", "C");
        quiet(&mut command)
    }
}

/// The Debian mirror that this machine's apt uses, or the one named in the environment.
fn mirror() -> Result<String> {
    if let Ok(named) = std::env::var(MIRROR_VARIABLE) {
        return Ok(named);
    }
    if let Some(found) = configured_mirror()? {
        return Ok(found);
    }
    // apt tells its sources only when it has fetched their lists.
    if is_root() {
        apt::update()?;
    }
    configured_mirror()?.with_context(|| {
        format!("this machine's apt knows no Debian mirror: run apt-get update, or name one with {MIRROR_VARIABLE}=URL")
    })
}

fn configured_mirror() -> Result<Option<String>> {
    let text = quiet(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(ORIGIN) $(REPO_URI)",
        "Created-By: Packages",
    ]))?;
    Ok(debian_mirror(&text))
}

/// Picks the address of the main Debian archive from lines of "origin address".
fn debian_mirror(text: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(origin, _)| *origin == "Debian")
        .map(|(_, address)| address.trim().to_owned())
        // The security archive has the same origin and other suites.
        .find(|address| !address.contains("security"))
}

/// Reads the first stanza of `apt-cache show`.
fn parse_package(text: &str) -> Option<Package> {
    let stanza = text.split("\n\n").next()?;
    let field = |name: &str| {
        stanza
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.trim())
    };
    Some(Package {
        name: field("Package")?.to_owned(),
        size: field("Size")?.parse().ok()?,
        depends: field("Depends").map(parse_depends).unwrap_or_default(),
    })
}

/// Names in a `Depends` field: the first alternative of each, without version or architecture.
fn parse_depends(field: &str) -> Vec<String> {
    field
        .split(',')
        .filter_map(|alternatives| alternatives.split('|').next())
        .filter_map(|first| {
            first
                .split(|c: char| c.is_whitespace() || c == '(')
                .find(|s| !s.is_empty())
        })
        .filter_map(|name| name.split(':').next())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depends_keep_first_alternatives_without_versions() {
        let field = "dracut | initramfs-tools (>= 0.1), linux-base-7.3-amd64 (= 7.3-1), kmod:any,libc6(>= 2)";
        assert_eq!(
            parse_depends(field),
            ["dracut", "linux-base-7.3-amd64", "kmod", "libc6"]
        );
        assert!(parse_depends("").is_empty());
    }

    #[test]
    fn package_is_read_from_the_first_stanza_only() {
        let text = "Package: linux-image-amd64\nVersion: 6.1-1\nDepends: linux-image-6.1-amd64 (= 6.1-1)\nSize: 1480\n\nPackage: linux-image-amd64\nSize: 1\n";
        let package = parse_package(text).expect("a package");
        assert_eq!(package.name, "linux-image-amd64");
        assert_eq!(package.size, 1480);
        assert_eq!(package.depends, ["linux-image-6.1-amd64"]);
    }

    #[test]
    fn package_without_name_or_size_is_none() {
        assert_eq!(parse_package(""), None);
        assert_eq!(parse_package("Package: x\n"), None);
        assert_eq!(parse_package("Package: x\nSize: large\n"), None);
    }

    #[test]
    fn mirror_is_the_main_archive() {
        let text = "Debian http://mirror.example/debian-security/\nDebian http://mirror.example/debian/\nOther http://other.example/\n";
        assert_eq!(
            debian_mirror(text).as_deref(),
            Some("http://mirror.example/debian/")
        );
        assert_eq!(debian_mirror("Ubuntu http://u.example/ubuntu/\n"), None);
    }
}
