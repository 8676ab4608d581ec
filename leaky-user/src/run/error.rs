//! Why a command ended.

use crate::{bpf, classes, config, hold};

/// Why `leaky run` or `leaky clear` ended without doing what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for does not fit together.
    #[error(transparent)]
    Classes(#[from] classes::Error),
    /// The config file.
    #[error(transparent)]
    Config(#[from] config::Errors),
    /// Under way it cannot be changed like that.
    #[error("{0}; start leaky again")]
    StartAgain(String),
    /// It could not be put in force; what was before is.
    #[error("{0}")]
    NotChanged(Box<Error>),
    /// The config file does not speak of the interface.
    #[error("{file} has no interface {interface}; it has {others}")]
    NotConfigured {
        /// The file.
        file: String,
        /// The interface.
        interface: String,
        /// Those that it has.
        others: String,
    },
    /// The kernel program.
    #[error(transparent)]
    Program(#[from] bpf::Error),
    /// The hold.
    #[error(transparent)]
    Hold(#[from] hold::Error),
    /// The interface.
    #[error(transparent)]
    Net(#[from] crate::net::Error),
    /// Changing the interface.
    #[error(transparent)]
    Apply(#[from] crate::net::ApplyError),
    /// The interface went away under way.
    #[error("interface {0} is gone, and its limit with it; start leaky again when it is back")]
    InterfaceGone(String),
    /// The kernel holds another policy than was set.
    #[error("not enforced on {0}: the kernel program runs another policy than was set")]
    OtherPolicy(String),
    /// Somebody took the program off the interface.
    #[error("not enforced on {0}: leaky's program was detached; start leaky again")]
    Detached(String),
    /// It ended under way.
    #[error(transparent)]
    Ended(Box<Error>),
    /// It ended, and then something could not be put back.
    #[error("{first}; and then: {then}; `leaky clear` tries again")]
    NotPutBack {
        /// Why it ended.
        first: Box<Error>,
        /// What could not be put back.
        then: Box<Error>,
    },
    /// The process cannot do its part.
    #[error("cannot {0}: {1}")]
    Process(&'static str, std::io::Error),
}

impl Error {
    /// Whether a change that failed with it has left the limits from before in force.
    pub(super) fn leaves_limits(&self) -> bool {
        matches!(
            self,
            Error::Config(_)
                | Error::NotConfigured { .. }
                | Error::Classes(_)
                | Error::StartAgain(_)
                | Error::NotChanged(_)
                | Error::Hold(hold::Error::Refused { .. } | hold::Error::Record { .. })
        )
    }
}

/// The error that ended it, with what could not be put back afterwards.
pub(crate) fn both(ended: Result<(), Error>, removed: Result<(), Error>) -> Result<(), Error> {
    match (ended, removed) {
        (Err(first), Err(then)) => Err(Error::NotPutBack {
            first: Box::new(first),
            then: Box::new(then),
        }),
        (ended, removed) => ended.and(removed),
    }
}
