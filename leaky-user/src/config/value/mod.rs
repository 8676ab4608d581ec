//! The values of a match, each read from the text that stands in the config file or behind an
//! option of the command line.

mod cgroup;
mod dscp;
mod number;
mod ports;
mod prefix;
mod protocol;

pub use cgroup::cgroup;
pub use dscp::{dscp, dscp_name};
pub use leaky_core::wire::has_ports;
pub use number::{frame_bytes, mark, vlan};
pub use ports::{ports, show_ports};
pub use prefix::{prefix, show_prefix};
pub use protocol::{protocol, protocol_name};

/// Why a text is not a value, in one line that says what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(String);

impl ValueError {
    pub(super) fn new(text: impl Into<String>) -> ValueError {
        ValueError(text.into())
    }
}

/// A whole number in decimal, without sign, leading zero or separators.
fn decimal(text: &str) -> Option<u64> {
    let plain = !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

/// A whole number up to 255, as [`decimal`].
pub(super) fn small(text: &str) -> Option<u8> {
    decimal(text).and_then(|number| u8::try_from(number).ok())
}
