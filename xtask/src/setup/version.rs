//! What `rustc -vV` says about a compiler.

use std::fmt;

/// Lowest rustc that the eBPF crate builds with: the workspace's `rust-version`.
pub(crate) const OLDEST: Release = Release {
    major: 1,
    minor: 95,
};

/// A release of rustc as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    /// Always 1 so far.
    pub(crate) major: u32,
    /// A new one every six weeks.
    pub(crate) minor: u32,
}

impl Release {
    /// Reads the start of a version such as `1.96.0`, `1.97.0-nightly` or Debian's `1.96.0+dfsg1-1~deb12u2`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit());
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        Some(Self { major, minor })
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A compiler and the LLVM inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RustcVersion {
    /// The release, compared with [`OLDEST`].
    pub(crate) release: Release,
    /// The first line, for people.
    pub(crate) text: String,
    /// LLVM's major version: bpf-linker must have the same.
    pub(crate) llvm: u32,
}

impl RustcVersion {
    /// Reads the output of `rustc -vV`; `None` when a needed line is missing.
    pub(crate) fn parse(output: &str) -> Option<Self> {
        let field = |name: &str| output.lines().find_map(|line| line.strip_prefix(name));
        Some(Self {
            release: Release::parse(field("release: ")?)?,
            text: output.lines().next()?.to_owned(),
            llvm: field("LLVM version: ")?.split('.').next()?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIGHTLY: &str = "rustc 1.97.0-nightly (e50aa6fba 2026-05-19)\nbinary: rustc\n\
        commit-hash: e50aa6fba4e63ab34c72bf9acfd2c307c1155d1a\ncommit-date: 2026-05-19\n\
        host: x86_64-unknown-linux-gnu\nrelease: 1.97.0-nightly\nLLVM version: 22.1.4\n";

    #[test]
    fn reads_a_nightly() {
        let version = RustcVersion::parse(NIGHTLY).unwrap();
        assert_eq!(
            version.release,
            Release {
                major: 1,
                minor: 97
            }
        );
        assert_eq!(version.llvm, 22);
        assert_eq!(version.text, "rustc 1.97.0-nightly (e50aa6fba 2026-05-19)");
    }

    #[test]
    fn a_compiler_without_llvm_is_refused() {
        assert_eq!(RustcVersion::parse(&NIGHTLY.replace("LLVM", "GCC")), None);
        assert_eq!(RustcVersion::parse(""), None);
    }

    #[test]
    fn releases_compare_as_numbers() {
        let debian = Release::parse("1.96.0+dfsg1-1~deb12u2").unwrap();
        let old = Release::parse("1.100.0").unwrap();
        assert!(old > debian);
        assert!(Release::parse("1.63.0+dfsg1-2").unwrap() < OLDEST);
        assert_eq!(Release::parse("(none)"), None);
        assert_eq!(Release::parse("1"), None);
    }
}
