//! Why packets cannot be held.

use super::HoldKind;
use crate::net;
use std::path::PathBuf;

/// An error of a hold.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no qdisc that can keep packets.
    #[error(
        "this kernel has no qdisc that can hold packets: {missing}. Load it with `modprobe \
         {module}`; if there is no such module, install the kernel's full set of modules \
         (Debian: linux-image-amd64 instead of -cloud-; Fedora: kernel-modules-core and \
         kernel-modules) or a kernel built with CONFIG_NET_SCH_FQ or CONFIG_NET_SCH_HTB and \
         CONFIG_NET_SCH_TBF"
    )]
    Missing {
        /// What was looked for, in words.
        missing: String,
        /// The module to load.
        module: &'static str,
    },
    /// The hold cannot keep what is asked.
    #[error("the {hold} hold cannot keep this: {reason}")]
    Refused {
        /// Which hold.
        hold: HoldKind,
        /// The limit, and what to ask for instead.
        reason: String,
    },
    /// The interface has a root qdisc that somebody chose.
    #[error("interface {interface} already has the root qdisc {kind} {handle}, which {problem}")]
    ForeignRoot {
        /// The interface.
        interface: String,
        /// Kind of the root qdisc.
        kind: String,
        /// Its handle.
        handle: String,
        /// Why it stays, and what to do.
        problem: String,
    },
    /// The kernel does not run what was asked.
    #[error("not enforced on {interface}: {difference}")]
    NotEnforced {
        /// The interface.
        interface: String,
        /// What is different.
        difference: String,
    },
    /// Another leaky is at work on the interface.
    #[error("another leaky is running there (it holds {path}); stop it first")]
    Busy {
        /// The file that it has locked.
        path: PathBuf,
    },
    /// The record of what is to be put back cannot be kept.
    #[error("cannot {doing} {path}: {source}{}", folder_advice(source))]
    Record {
        /// What failed.
        doing: &'static str,
        /// The record file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Reading from the kernel failed.
    #[error(transparent)]
    Net(#[from] net::Error),
    /// Changing the interface failed.
    #[error(transparent)]
    Apply(#[from] net::ApplyError),
}

/// What to do about a folder that this user cannot use.
fn folder_advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "; run leaky as root, or make /run/leaky a folder that this user can write to"
        }
        _ => {
            "; leaky keeps in /run/leaky what it must put back: it must be a folder with room in it"
        }
    }
}

impl Error {
    /// Whether it is this user who may not do it.
    pub fn is_not_permitted(&self) -> bool {
        match self {
            Error::Net(error) => error.is_not_permitted(),
            Error::Apply(error) => error.failed.is_not_permitted(),
            Error::Record { source, .. } => source.kind() == std::io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }

    pub(super) fn refused(hold: HoldKind, reason: impl Into<String>) -> Error {
        Error::Refused {
            hold,
            reason: reason.into(),
        }
    }

    pub(super) fn not_enforced(interface: &str, difference: impl Into<String>) -> Error {
        Error::NotEnforced {
            interface: interface.to_owned(),
            difference: difference.into(),
        }
    }
}
