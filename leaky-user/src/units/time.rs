//! Durations in whole nanoseconds.

use std::fmt;
use std::str::FromStr;

use super::error::{Problem, Quantity, UnitError};
use super::number::{Bounds, Choice, Parts, Printed, Scale, shortest};

/// A time in nanoseconds: max wait, burst, or a capacity given as time.
///
/// Parses `ns us ms s min h` (lower case) from 0 to [`Duration::MAX`] and prints the shortest exact
/// spelling: `200ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// 24 hours, the longest that is parsed: a bucket compares times modulo 78 hours.
    pub const MAX: Self = Self(86_400_000_000_000);

    /// From nanoseconds; any value, also beyond [`Duration::MAX`].
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The duration for a report: `200 ms`. It can be typed and gives the same duration.
    pub fn echo(self) -> String {
        let (number, unit) = self.shortest();
        format!("{number} {}", unit.prose)
    }

    fn shortest(self) -> (String, &'static Printed) {
        match self.0 {
            0 => ("0".to_owned(), &UNITS[UNITS.len() - 1]),
            n => shortest(n, UNITS),
        }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = self.shortest();
        f.pad(&format!("{number}{}", unit.typed))
    }
}

impl FromStr for Duration {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text).map_err(|problem| UnitError::new(Quantity::Duration, text, problem))
    }
}

impl From<Duration> for std::time::Duration {
    fn from(duration: Duration) -> Self {
        Self::from_nanos(duration.0)
    }
}

/// Ends with the second, which also shows 0. Minutes and hours are read but not printed.
const UNITS: &[Printed] = &[
    Printed::new("ns", "ns", Scale::whole(1)),
    Printed::new("us", "us", Scale::whole(1_000)),
    Printed::new("ms", "ms", Scale::whole(1_000_000)),
    Printed::new("s", "s", Scale::whole(1_000_000_000)),
];

const BOUNDS: Bounds = Bounds {
    base: "nanoseconds",
    minimum: 0,
    maximum: Duration::MAX.0,
    show: |n| Duration(n).to_string(),
};

fn parse(text: &str) -> Result<Duration, Problem> {
    let parts = Parts::split(text)?;
    if parts.unit.is_empty() {
        return Err(parts.missing_unit(MILLISECONDS_OR_SECONDS));
    }
    match unit(parts.unit) {
        Some(scale) => parts.value.times(scale, &BOUNDS).map(Duration),
        None if matches!(parts.unit, "m" | "M") => {
            Err(parts.ambiguous_unit(MILLISECONDS_OR_MINUTES))
        }
        None => Err(parts.unknown_unit()),
    }
}

/// Nanoseconds in a unit of time.
pub(super) fn unit(unit: &str) -> Option<Scale> {
    Some(Scale::whole(match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    }))
}

const MILLISECONDS_OR_SECONDS: &[Choice] = &[Choice("ms", "milliseconds"), Choice("s", "seconds")];

const MILLISECONDS_OR_MINUTES: &[Choice] =
    &[Choice("ms", "milliseconds"), Choice("min", "minutes")];
