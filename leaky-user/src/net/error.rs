//! What can go wrong between leaky and the kernel's network configuration.

use nix::errno::Errno;

/// Characters of the longest alternative name of an interface (ALTIFNAMSIZ less the zero).
const LONGEST_NAME: usize = 127;

/// An error from the kernel or on the way to it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No interface of that name or index in this network namespace.
    #[error("there is no interface {} in this network namespace; `ip link` lists those there are", excerpt(.0))]
    NoSuchInterface(String),
    /// Frames of an unknown form.
    #[error(
        "interface {name} has link type {arphrd} (ARPHRD), whose frames leaky cannot read; \
         it reads Ethernet and bare IP (tun, ppp, WireGuard, IP tunnels)"
    )]
    UnsupportedLink {
        /// The interface.
        name: String,
        /// The kernel's number for the link type.
        arphrd: u16,
    },
    /// The kernel refused a request.
    #[error("cannot {doing}: {}{}{}", errno_text(*errno), said(message.as_deref()), advice(*errno))]
    Refused {
        /// What was asked for, and of what object.
        doing: String,
        /// The kernel's error number.
        errno: i32,
        /// The kernel's explanation (extended ack), if it gave one.
        message: Option<String>,
    },
    /// The netlink socket failed.
    #[error("cannot {doing}: the netlink socket failed: {reason}")]
    Socket {
        /// What was asked for.
        doing: String,
        /// What the socket said.
        reason: String,
    },
    /// The kernel did not answer in time.
    #[error("cannot {doing}: no answer from the kernel for {seconds} s")]
    Timeout {
        /// What was asked for.
        doing: String,
        /// How long was waited.
        seconds: u64,
    },
    /// An answer that makes no sense.
    #[error("cannot {doing}: the kernel's answer is not understood ({what})")]
    Malformed {
        /// What was asked for.
        doing: String,
        /// What was wrong with the answer.
        what: &'static str,
    },
    /// The kernel kept changing what was being listed.
    #[error("cannot {doing}: it changed during each of {tries} readings; try again")]
    Unsteady {
        /// What was asked for.
        doing: String,
        /// How often it was tried.
        tries: u32,
    },
}

impl Error {
    /// The kernel's error number, if it was the kernel that refused.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Refused { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// Whether the kernel lacks the right to do it: not root, no CAP_NET_ADMIN.
    pub fn is_not_permitted(&self) -> bool {
        self.errno() == Some(libc::EPERM)
    }

    /// Whether the interface is not there (any more).
    pub fn is_interface_gone(&self) -> bool {
        matches!(self, Error::NoSuchInterface(_)) || self.errno() == Some(libc::ENODEV)
    }
}

/// A list of operations failed and was taken back.
#[derive(Debug, thiserror::Error)]
#[error("{failed}{}", not_undone(undo))]
pub struct ApplyError {
    /// The operation that failed.
    #[source]
    pub failed: Error,
    /// What could not be taken back; empty when the interface is as before.
    pub undo: Vec<Error>,
}

/// A name as it was typed, on one line and not longer than an interface's name can be.
fn excerpt(name: &str) -> String {
    let shown: String = name
        .chars()
        .take(LONGEST_NAME)
        .flat_map(char::escape_default)
        .collect();
    let more = if name.chars().count() > LONGEST_NAME {
        "..."
    } else {
        ""
    };
    format!("'{shown}{more}'")
}

fn errno_text(errno: i32) -> String {
    let known = Errno::from_raw(errno);
    format!("{} ({known:?})", known.desc())
}

fn said(message: Option<&str>) -> String {
    message
        .map(|text| format!("; the kernel says: {}", text.trim_end_matches('.')))
        .unwrap_or_default()
}

fn advice(errno: i32) -> &'static str {
    match errno {
        libc::EPERM => "; run it as root, or with the capability CAP_NET_ADMIN",
        libc::ENODEV => "; the interface is gone",
        _ => "",
    }
}

fn not_undone(undo: &[Error]) -> String {
    if undo.is_empty() {
        return "; the interface is as before".to_owned();
    }
    let list: Vec<String> = undo.iter().map(ToString::to_string).collect();
    format!(
        "; and not everything could be put back: {}",
        list.join("; ")
    )
}
