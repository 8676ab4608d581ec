//! Rates: bytes or packets per second.

use std::fmt;
use std::str::FromStr;

use super::error::{Problem, Quantity, UnitError};
use super::number::{Bounds, Choice, Parts, Printed, Scale, shortest};

/// How fast a bucket drains.
///
/// Parses every spelling in the [module's table](super) and prints the shortest exact one, in bits
/// for bytes per second: `Rate::BytesPerSecond(1_250_000)` is `10mbit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rate {
    /// Bytes per second, parsed from [`Rate::MIN_BYTES_PER_SECOND`] to
    /// [`Rate::MAX_BYTES_PER_SECOND`].
    BytesPerSecond(u64),
    /// Packets per second, parsed from [`Rate::MIN_PACKETS_PER_SECOND`] to
    /// [`Rate::MAX_PACKETS_PER_SECOND`].
    PacketsPerSecond(u64),
}

impl Rate {
    /// 1 kbit/s: the lowest rate that the bucket's arithmetic is checked for.
    pub const MIN_BYTES_PER_SECOND: u64 = 125;
    /// 400 Gbit/s: the highest rate that the bucket's arithmetic is checked for.
    pub const MAX_BYTES_PER_SECOND: u64 = 50_000_000_000;
    /// One packet a second.
    pub const MIN_PACKETS_PER_SECOND: u64 = 1;
    /// Above what 400 Gbit/s carry in the smallest Ethernet frames (595 million a second).
    pub const MAX_PACKETS_PER_SECOND: u64 = 1_000_000_000;

    /// The rate in bytes per second, if it is one in bytes.
    pub fn bytes_per_second(self) -> Option<u64> {
        match self {
            Self::BytesPerSecond(n) => Some(n),
            Self::PacketsPerSecond(_) => None,
        }
    }

    /// The rate in packets per second, if it is one in packets.
    pub fn packets_per_second(self) -> Option<u64> {
        match self {
            Self::BytesPerSecond(_) => None,
            Self::PacketsPerSecond(n) => Some(n),
        }
    }

    /// The rate for a report, in bits and bytes: `10 Mbit/s = 1250000 B/s`, or `1500 pps`.
    /// Either side can be typed and gives the same rate.
    pub fn echo(self) -> String {
        match self {
            Self::BytesPerSecond(n) => {
                let (number, unit) = shortest(n, BIT_UNITS);
                format!("{number} {} = {n} B/s", unit.prose)
            }
            Self::PacketsPerSecond(n) => format!("{n} pps"),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match *self {
            Self::BytesPerSecond(n) => shortest(n, BIT_UNITS),
            Self::PacketsPerSecond(n) => shortest(n, PACKET_UNITS),
        };
        f.pad(&format!("{number}{}", unit.typed))
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text).map_err(|problem| UnitError::new(Quantity::Rate, text, problem))
    }
}

/// Whole bytes are whole kbit to three decimals, so the first unit always fits.
const BIT_UNITS: &[Printed] = &[
    Printed::new("kbit", "kbit/s", bits(1_000)),
    Printed::new("mbit", "Mbit/s", bits(1_000_000)),
    Printed::new("gbit", "Gbit/s", bits(1_000_000_000)),
];

const PACKET_UNITS: &[Printed] = &[
    Printed::new("pps", "pps", Scale::whole(1)),
    Printed::new("kpps", "kpps", Scale::whole(1_000)),
    Printed::new("mpps", "Mpps", Scale::whole(1_000_000)),
];

const BYTES: Bounds = Bounds {
    base: "bytes per second",
    minimum: Rate::MIN_BYTES_PER_SECOND,
    maximum: Rate::MAX_BYTES_PER_SECOND,
    show: |n| format!("{} ({n}B/s)", Rate::BytesPerSecond(n)),
};

const PACKETS: Bounds = Bounds {
    base: "packets per second",
    minimum: Rate::MIN_PACKETS_PER_SECOND,
    maximum: Rate::MAX_PACKETS_PER_SECOND,
    show: |n| Rate::PacketsPerSecond(n).to_string(),
};

const fn bits(n: u64) -> Scale {
    Scale {
        numerator: n,
        denominator: 8,
    }
}

fn parse(text: &str) -> Result<Rate, Problem> {
    let parts = Parts::split(text)?;
    if parts.unit.is_empty() {
        return Err(parts.missing_unit(BITS_OR_BYTES_M));
    }
    if let Some(scale) = bit_unit(parts.unit).or_else(|| byte_unit(parts.unit)) {
        return parts.value.times(scale, &BYTES).map(Rate::BytesPerSecond);
    }
    if let Some(scale) = packet_unit(parts.unit) {
        return parts
            .value
            .times(scale, &PACKETS)
            .map(Rate::PacketsPerSecond);
    }
    Err(match ambiguous(parts.unit) {
        Some(choices) => parts.ambiguous_unit(choices),
        None => parts.unknown_unit(),
    })
}

fn bit_unit(unit: &str) -> Option<Scale> {
    let unit = unit.to_ascii_lowercase();
    Some(bits(match unit.strip_suffix("/s").unwrap_or(&unit) {
        "bit" => 1,
        "kbit" => 1_000,
        "mbit" => 1_000_000,
        "gbit" => 1_000_000_000,
        _ => return None,
    }))
}

fn byte_unit(unit: &str) -> Option<Scale> {
    Some(Scale::whole(match unit {
        "B/s" => 1,
        "kB/s" => 1_000,
        "MB/s" => 1_000_000,
        "GB/s" => 1_000_000_000,
        "KiB/s" => 1 << 10,
        "MiB/s" => 1 << 20,
        "GiB/s" => 1 << 30,
        _ => return None,
    }))
}

fn packet_unit(unit: &str) -> Option<Scale> {
    Some(Scale::whole(match unit.to_ascii_lowercase().as_str() {
        "pps" => 1,
        "kpps" => 1_000,
        "mpps" => 1_000_000,
        _ => return None,
    }))
}

const BITS_OR_BYTES: &[Choice] = &[
    Choice("bit", "bits per second"),
    Choice("B/s", "bytes per second"),
];
const BITS_OR_BYTES_K: &[Choice] = &[
    Choice("kbit", "bits per second"),
    Choice("kB/s", "bytes per second"),
];
const BITS_OR_BYTES_M: &[Choice] = &[
    Choice("mbit", "bits per second"),
    Choice("MB/s", "bytes per second"),
];
const BITS_OR_BYTES_G: &[Choice] = &[
    Choice("gbit", "bits per second"),
    Choice("GB/s", "bytes per second"),
];
const BITS_OR_KIB: &[Choice] = &[
    Choice("kbit", "1000 bits per second"),
    Choice("KiB/s", "1024 bytes per second"),
];
const BITS_OR_MIB: &[Choice] = &[
    Choice("mbit", "1000^2 bits per second"),
    Choice("MiB/s", "1024^2 bytes per second"),
];
const BITS_OR_GIB: &[Choice] = &[
    Choice("gbit", "1000^3 bits per second"),
    Choice("GiB/s", "1024^3 bytes per second"),
];
const KB_OR_KIB: &[Choice] = &[
    Choice("kB/s", "1000 bytes per second"),
    Choice("KiB/s", "1024 bytes per second"),
];

/// Spellings in use elsewhere that differ by a factor of 8 or 1.024 from one program to the next.
fn ambiguous(unit: &str) -> Option<&'static [Choice]> {
    if unit == "KB/s" {
        return Some(KB_OR_KIB);
    }
    let unit = unit.to_ascii_lowercase();
    let stem = unit
        .strip_suffix("/s")
        .or_else(|| unit.strip_suffix("ps"))
        .unwrap_or(&unit);
    Some(match stem {
        "b" => BITS_OR_BYTES,
        "k" | "kb" => BITS_OR_BYTES_K,
        "m" | "mb" => BITS_OR_BYTES_M,
        "g" | "gb" => BITS_OR_BYTES_G,
        "ki" | "kib" => BITS_OR_KIB,
        "mi" | "mib" => BITS_OR_MIB,
        "gi" | "gib" => BITS_OR_GIB,
        _ => return None,
    })
}
