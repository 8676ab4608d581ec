//! Whose bucket a packet falls into.

use super::error::quoted;
use super::value::ValueError;
use std::fmt;
use std::str::FromStr;

/// Whose bucket a packet falls into, within its class.
///
/// Reads `class`, `flow`, `src`, `dst`, `src/NN` (an IPv4 prefix; IPv6 stays at
/// /64), `src/NN,src/NNN` (IPv4, IPv6), the same with `dst`, `cgroup`, `mark`, `src-port`, `dst-port` and
/// `port` (`dst-port`). What is shown reads back as the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Per {
    /// One bucket for the class.
    #[default]
    Class,
    /// One for each flow: addresses, protocol and ports.
    Flow,
    /// One for each prefix of source addresses.
    Source {
        /// Length of the IPv4 prefix, 1 to 32.
        v4: u8,
        /// Length of the IPv6 prefix, 1 to 128.
        v6: u8,
    },
    /// One for each prefix of destination addresses.
    Destination {
        /// Length of the IPv4 prefix, 1 to 32.
        v4: u8,
        /// Length of the IPv6 prefix, 1 to 128.
        v6: u8,
    },
    /// One for each cgroup that sends.
    Cgroup,
    /// One for each packet mark, as far as the mask goes.
    Mark,
    /// One for each source port.
    SourcePort,
    /// One for each destination port.
    DestinationPort,
}

/// One IPv4 address.
const V4: u8 = 32;
/// What one IPv6 client usually has: it can send from each of its 2^64 addresses.
const V6: u8 = 64;

impl Per {
    /// `src` as it is without lengths: /32 and /64.
    pub const SOURCE: Per = Per::Source { v4: V4, v6: V6 };
    /// `dst` as it is without lengths: /32 and /64.
    pub const DESTINATION: Per = Per::Destination { v4: V4, v6: V6 };

    /// Whose bucket, in words: `each source address (IPv4 /32, IPv6 /64) has a bucket of its own`.
    pub fn in_words(self) -> String {
        let each = match self {
            Per::Class => return "one bucket for all of it".to_owned(),
            Per::Flow => "flow (addresses, protocol and ports; of a fragment no ports)".to_owned(),
            Per::Source { v4, v6 } => prefixes("source", v4, v6),
            Per::Destination { v4, v6 } => prefixes("destination", v4, v6),
            Per::Cgroup => "cgroup that sends".to_owned(),
            Per::Mark => "packet mark".to_owned(),
            Per::SourcePort => "source port".to_owned(),
            Per::DestinationPort => "destination port".to_owned(),
        };
        format!("each {each} has a bucket of its own")
    }
}

fn prefixes(whose: &str, v4: u8, v6: u8) -> String {
    let what = if v4 == V4 { "address" } else { "prefix" };
    format!("{whose} {what} (IPv4 /{v4}, IPv6 /{v6})")
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefixes = |whose: &str, v4: u8, v6: u8| match (v4, v6) {
            (V4, V6) => whose.to_owned(),
            (_, V6) => format!("{whose}/{v4}"),
            _ => format!("{whose}/{v4},{whose}/{v6}"),
        };
        f.pad(&match *self {
            Per::Class => "class".to_owned(),
            Per::Flow => "flow".to_owned(),
            Per::Source { v4, v6 } => prefixes("src", v4, v6),
            Per::Destination { v4, v6 } => prefixes("dst", v4, v6),
            Per::Cgroup => "cgroup".to_owned(),
            Per::Mark => "mark".to_owned(),
            Per::SourcePort => "src-port".to_owned(),
            Per::DestinationPort => "dst-port".to_owned(),
        })
    }
}

impl FromStr for Per {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Per, ValueError> {
        Ok(match text {
            "class" => Per::Class,
            "flow" => Per::Flow,
            "cgroup" => Per::Cgroup,
            "mark" => Per::Mark,
            "src-port" => Per::SourcePort,
            "port" | "dst-port" => Per::DestinationPort,
            _ => {
                if let Some(rest) = text.strip_prefix("src") {
                    let (v4, v6) = lengths(text, "src", rest)?;
                    Per::Source { v4, v6 }
                } else if let Some(rest) = text.strip_prefix("dst") {
                    let (v4, v6) = lengths(text, "dst", rest)?;
                    Per::Destination { v4, v6 }
                } else {
                    return Err(unknown(text));
                }
            }
        })
    }
}

/// The lengths in what follows `src` or `dst`.
fn lengths(text: &str, whose: &str, rest: &str) -> Result<(u8, u8), ValueError> {
    if rest.is_empty() {
        return Ok((V4, V6));
    }
    let length = |part: &str| part.strip_prefix('/').and_then(super::value::small);
    let lengths = match rest.split_once(',') {
        None => (length(rest).ok_or_else(|| unknown(text))?, V6),
        Some((v4, v6)) => {
            let v6 = v6.trim_start().strip_prefix(whose).and_then(length);
            length(v4).zip(v6).ok_or_else(|| unknown(text))?
        }
    };
    match lengths {
        (1..=V4, 1..=128) => Ok(lengths),
        (0, _) | (_, 0) => Err(ValueError::new(format!(
            "per {}: a prefix of length 0 is everybody; write \"class\" for one bucket for all",
            quoted(text)
        ))),
        _ => Err(ValueError::new(format!(
            "per {}: an IPv4 prefix is from /1 to /32 and an IPv6 prefix from /1 to /128: write \
             both, such as \"{whose}/24,{whose}/56\"",
            quoted(text)
        ))),
    }
}

fn unknown(text: &str) -> ValueError {
    ValueError::new(format!(
        "per {} is unknown: write class, flow, src, dst, src/NN or src/NN,src/NNN (IPv4 and IPv6 \
         prefix; likewise dst), cgroup, mark, src-port or dst-port",
        quoted(text)
    ))
}
