//! Capacities: what a bucket holds, in bytes, packets or time at its rate.

use std::fmt;
use std::str::FromStr;

use super::error::{Problem, Quantity, UnitError};
use super::number::{Bounds, Choice, Parts, Printed, Scale, shortest};
use super::time::{self, Duration};

/// How much a bucket holds. Bytes go with rates in bytes, packets with rates in packets, time with
/// either; that pairing is checked where both are known, not here.
///
/// Parses every spelling in the [module's table](super), at least 1 of the base unit (0 could mean
/// "nothing" or "no limit", so it is refused), and prints the shortest exact one: `250kB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capacity {
    /// Bytes, parsed from 1 to [`Capacity::MAX_BYTES`].
    Bytes(u64),
    /// Packets, parsed from 1 to [`Capacity::MAX_PACKETS`].
    Packets(u64),
    /// As time at the rate, parsed from 1 ns to [`Duration::MAX`].
    Time(Duration),
}

impl Capacity {
    /// 1 TiB, more than any host keeps in packets. A hold's own limit is lower.
    pub const MAX_BYTES: u64 = 1 << 40;
    /// A billion packets: one second at the highest rate in packets.
    pub const MAX_PACKETS: u64 = 1_000_000_000;

    /// The capacity for a report: `256 KiB = 262144 B`, `100 p` or `200 ms`.
    /// Either side can be typed and gives the same capacity.
    pub fn echo(self) -> String {
        match self {
            Self::Bytes(n) => match shortest(n, BYTE_UNITS) {
                (_, unit) if unit.scale == BYTE_UNITS[0].scale => format!("{n} B"),
                (number, unit) => format!("{number} {} = {n} B", unit.prose),
            },
            Self::Packets(n) => format!("{n} p"),
            Self::Time(duration) => duration.echo(),
        }
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bytes(n) => {
                let (number, unit) = shortest(n, BYTE_UNITS);
                f.pad(&format!("{number}{}", unit.typed))
            }
            Self::Packets(n) => f.pad(&format!("{n}p")),
            Self::Time(duration) => duration.fmt(f),
        }
    }
}

impl FromStr for Capacity {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text).map_err(|problem| UnitError::new(Quantity::Capacity, text, problem))
    }
}

/// Both families; the shorter text wins, so 250,000 is `250kB` and 262,144 is `256KiB`.
const BYTE_UNITS: &[Printed] = &[
    Printed::new("B", "B", Scale::whole(1)),
    Printed::new("kB", "kB", Scale::whole(1_000)),
    Printed::new("MB", "MB", Scale::whole(1_000_000)),
    Printed::new("GB", "GB", Scale::whole(1_000_000_000)),
    Printed::new("KiB", "KiB", Scale::whole(1 << 10)),
    Printed::new("MiB", "MiB", Scale::whole(1 << 20)),
    Printed::new("GiB", "GiB", Scale::whole(1 << 30)),
];

const BYTES: Bounds = Bounds {
    base: "bytes",
    minimum: 1,
    maximum: Capacity::MAX_BYTES,
    show: |n| Capacity::Bytes(n).to_string(),
};

const PACKETS: Bounds = Bounds {
    base: "packets",
    minimum: 1,
    maximum: Capacity::MAX_PACKETS,
    show: |n| Capacity::Packets(n).to_string(),
};

const TIME: Bounds = Bounds {
    base: "nanoseconds",
    minimum: 1,
    maximum: Duration::MAX.as_nanos(),
    show: |n| Duration::from_nanos(n).to_string(),
};

fn parse(text: &str) -> Result<Capacity, Problem> {
    let parts = Parts::split(text)?;
    if parts.unit.is_empty() {
        return Err(parts.missing_unit(BYTES_PACKETS_OR_TIME));
    }
    if let Some(scale) = byte_unit(parts.unit) {
        return parts.value.times(scale, &BYTES).map(Capacity::Bytes);
    }
    if parts.unit == "p" {
        return parts
            .value
            .times(Scale::whole(1), &PACKETS)
            .map(Capacity::Packets);
    }
    if let Some(scale) = time::unit(parts.unit) {
        let nanoseconds = parts.value.times(scale, &TIME)?;
        return Ok(Capacity::Time(Duration::from_nanos(nanoseconds)));
    }
    Err(match ambiguous(parts.unit) {
        Some(choices) => parts.ambiguous_unit(choices),
        None => parts.unknown_unit(),
    })
}

fn byte_unit(unit: &str) -> Option<Scale> {
    Some(Scale::whole(match unit {
        "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => match unit.to_ascii_lowercase().as_str() {
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            _ => return None,
        },
    }))
}

const BYTES_PACKETS_OR_TIME: &[Choice] = &[
    Choice("kB", "1000 bytes"),
    Choice("p", "packets"),
    Choice("ms", "time at the rate"),
];
const BYTES_OR_PACKETS: &[Choice] = &[Choice("B", "bytes"), Choice("p", "packets")];
const KB_OR_KIB: &[Choice] = &[Choice("kB", "1000 bytes"), Choice("KiB", "1024 bytes")];
const MB_OR_MIB: &[Choice] = &[Choice("MB", "1000^2 bytes"), Choice("MiB", "1024^2 bytes")];
const GB_OR_GIB: &[Choice] = &[Choice("GB", "1000^3 bytes"), Choice("GiB", "1024^3 bytes")];

/// Spellings that mean bits, 1000 or 1024 bytes from one program to the next.
fn ambiguous(unit: &str) -> Option<&'static [Choice]> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "b" => BYTES_OR_PACKETS,
        "k" | "kb" | "ki" => KB_OR_KIB,
        "m" | "mb" | "mi" => MB_OR_MIB,
        "g" | "gb" | "gi" => GB_OR_GIB,
        _ => return None,
    })
}
