//! Which files of this machine the guest copies into its memory before the command starts.
//!
//! While the guest waits for a file of this machine, its clock jumps from timer to timer; in the
//! middle of a measurement that would be seen as lost time.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command::{find_program, quiet};

/// Programs that tests call.
const PROGRAMS: [&str; 11] = [
    "sh", "ip", "tc", "env", "sleep", "nsenter", "sysctl", "date", "cat", "nft", "wg",
];

/// Files that starting almost any program reads.
const SETTINGS: [&str; 6] = [
    "/etc/ld.so.cache",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/localtime",
];

/// Folders that are links on most systems, and on the way to every program.
const FOLDERS: [&str; 5] = ["/bin", "/sbin", "/lib", "/lib64", "/var/run"];

/// Files and links to copy: what the words of a job name, what tests call, and what those need.
///
/// # Errors
/// When a file that is there cannot be looked at.
pub(super) fn files<'a>(words: impl Iterator<Item = &'a str>) -> Result<Vec<PathBuf>> {
    let named = words.filter_map(|word| {
        if word.contains('/') {
            std::path::absolute(word).ok().filter(|file| file.is_file())
        } else {
            find_program(word)
        }
    });
    let programs: Vec<_> = named
        .chain(PROGRAMS.into_iter().filter_map(find_program))
        .collect();
    let mut files = with_libraries(&programs);
    files.extend(SETTINGS.into_iter().chain(FOLDERS).map(PathBuf::from));
    files.retain(|file| file.exists());
    let mut all = links_to(&files)?;
    for file in files {
        let file = fs::canonicalize(file)?;
        if file.is_file() && !all.contains(&file) {
            all.push(file);
        }
    }
    Ok(all)
}

/// Everything that starting `programs` reads: the files themselves and their shared libraries.
fn with_libraries(programs: &[PathBuf]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for program in programs {
        // A static program or a script has none: ldd then fails, and there is nothing to add.
        let text = quiet(Command::new("ldd").arg(program)).unwrap_or_default();
        for file in libraries(&text).chain([program.as_path()]) {
            if !files.iter().any(|known| known == file) {
                files.push(file.to_owned());
            }
        }
    }
    files
}

/// Every symbolic link on the way to one of `files`, which all exist.
///
/// # Errors
/// When a link cannot be read.
fn links_to(files: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut links: Vec<PathBuf> = Vec::new();
    let mut open = files.to_vec();
    while let Some(path) = open.pop() {
        let mut way = PathBuf::new();
        let mut rest = path.components();
        while let Some(component) = rest.next() {
            if component == Component::ParentDir {
                way.pop();
                continue;
            }
            way.push(component);
            if way.is_symlink() {
                // Go on from where it points, which may lead over links again.
                let target = fs::read_link(&way)?;
                let folder = way.parent().unwrap_or(Path::new("/"));
                open.push(folder.join(target).join(rest.as_path()));
                if !links.contains(&way) {
                    links.push(way);
                }
                break;
            }
        }
    }
    Ok(links)
}

/// Paths in what `ldd` printed.
fn libraries(text: &str) -> impl Iterator<Item = &Path> {
    text.split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_over_links_and_parents() {
        let folder = std::env::temp_dir().join(format!("leaky-links-{}", std::process::id()));
        fs::create_dir_all(folder.join("usr/lib")).expect("a folder");
        fs::write(folder.join("usr/lib/real"), "").expect("a file");
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, folder.join(name)).expect("a link");
        };
        link("usr/lib", "lib");
        link("../usr/lib/../lib/real", "lib/name");
        let links = links_to(&[folder.join("lib/name")]);
        fs::remove_dir_all(&folder).expect("clean up");
        assert_eq!(
            links.expect("links"),
            [folder.join("lib"), folder.join("usr/lib/name")]
        );
    }

    #[test]
    fn libraries_are_the_paths_in_the_list() {
        let text = "\tlinux-vdso.so.1 (0x7f)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n\t/lib64/ld.so.2 (0x7f)\n";
        let found: Vec<_> = libraries(text).collect();
        assert_eq!(
            found,
            [Path::new("/lib/libc.so.6"), Path::new("/lib64/ld.so.2")]
        );
        assert_eq!(libraries("\tnot a dynamic executable\n").count(), 0);
    }
}
