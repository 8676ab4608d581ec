//! The kernel program: loading it, telling it its policy, attaching it, reading what it counted.
//! The only place that uses aya.

mod attach;
mod object;
mod program;
mod tables;
mod values;

pub use attach::{Attachment, Hook, Place, remove_filters};
pub use object::OBJECT;
pub use program::{Kind, Program, Sizes};
pub use tables::Tables;

/// What can go wrong with the kernel program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This binary was built without the kernel program.
    #[error(
        "this leaky was built without its kernel program (plain `cargo build` leaves it out); \
         build it with `cargo xtask build`"
    )]
    Stub,
    /// Not allowed to load or attach.
    #[error(
        "the kernel does not let this user {doing} ({reason}); run leaky as root, or with the \
         capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"
    )]
    NotPermitted {
        /// What was tried.
        doing: &'static str,
        /// The kernel's error.
        reason: String,
    },
    /// The kernel has no BPF at all.
    #[error(
        "this kernel has no bpf() system call; leaky needs a kernel with CONFIG_BPF_SYSCALL and \
         CONFIG_NET_CLS_BPF, 5.12 or later"
    )]
    NoBpf,
    /// The kernel refused the program.
    #[error(
        "the kernel refused to load leaky's program {program}: {reason}; leaky needs kernel 5.18 or \
         later with the fq hold, 5.12 or later with the htb hold"
    )]
    Refused {
        /// The program.
        program: &'static str,
        /// The kernel's error, with the last line of the verifier's log.
        reason: String,
    },
    /// Attaching failed.
    #[error("cannot attach leaky's program to {interface}: {reason}")]
    Attach {
        /// The interface.
        interface: String,
        /// The kernel's error.
        reason: String,
    },
    /// A map could not be used.
    #[error("cannot {doing}: {reason}")]
    Map {
        /// What was tried.
        doing: String,
        /// The kernel's error.
        reason: String,
    },
}
