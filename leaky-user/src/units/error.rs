//! Why a text is not a rate, a capacity or a duration, in one line that names what to write.

use std::fmt::{self, Display};

use super::number::MAX_DECIMALS;

/// More of a bad input than this is not repeated in a message.
const EXCERPT_CHARS: usize = 40;

/// What the text was supposed to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// A [`Rate`](super::Rate).
    Rate,
    /// A [`Capacity`](super::Capacity).
    Capacity,
    /// A [`Duration`](super::Duration).
    Duration,
}

impl Quantity {
    /// The accepted form, with an example.
    fn form(self) -> &'static str {
        match self {
            Self::Rate => {
                "a number and a unit, such as 20mbit or 2.5MB/s \
                 (bit kbit mbit gbit; B/s kB/s MB/s GB/s KiB/s MiB/s GiB/s; pps kpps mpps)"
            }
            Self::Capacity => {
                "a number and a unit, such as 250kB, 100p or 200ms \
                 (B kB MB GB kib mib gib; p for packets; ns us ms s min h)"
            }
            Self::Duration => "a number and a unit, such as 200ms or 1.5s (ns us ms s min h)",
        }
    }
}

impl Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rate => "rate",
            Self::Capacity => "capacity",
            Self::Duration => "duration",
        })
    }
}

/// What is wrong with the text. Texts inside are shortened and escaped: safe to print on one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Nothing was given.
    #[error("it is empty")]
    Empty,
    /// White space other than one space between number and unit.
    #[error("only one space, between number and unit, is accepted")]
    WhiteSpace,
    /// It begins with `+` or `-`.
    #[error("a sign is not accepted")]
    Sign,
    /// It does not begin with an ASCII digit (`NaN`, `inf`, `.5mbit`, digits of other scripts).
    #[error("it does not begin with a digit 0-9")]
    NoDigit,
    /// `010mbit`: octal to some programs.
    #[error("a leading zero is not accepted")]
    LeadingZero,
    /// A point without digits after it, or two points.
    #[error("the decimal point must be followed by digits, once")]
    Fraction,
    /// More decimals than are read exactly.
    #[error("more than {MAX_DECIMALS} decimals; use a smaller unit")]
    TooManyDecimals,
    /// `1,250,000`, `1_000`, `1 000` or a decimal comma.
    #[error("separators are not accepted; write plain digits, and a point before decimals")]
    Separator,
    /// `1e30`.
    #[error("exponents are not accepted; write the digits out")]
    Exponent,
    /// A bare number.
    #[error("the unit is missing; write {choices}")]
    MissingUnit {
        /// The given number with the units to choose from.
        choices: String,
    },
    /// A unit that means different things to different programs.
    #[error("'{unit}' does not mean the same everywhere; write {choices}")]
    AmbiguousUnit {
        /// The unit as given.
        unit: String,
        /// The given number with the units to choose from.
        choices: String,
    },
    /// A unit of nothing known, or trailing text.
    #[error("unknown unit '{unit}'")]
    UnknownUnit {
        /// What follows the number.
        unit: String,
    },
    /// Less than the lowest accepted value.
    #[error("less than the lowest accepted, {minimum}")]
    BelowMinimum {
        /// The bound, as it can be typed.
        minimum: String,
    },
    /// More than the highest accepted value.
    #[error("more than the highest accepted, {maximum}")]
    AboveMaximum {
        /// The bound, as it can be typed.
        maximum: String,
    },
    /// Between two values that can be kept exactly.
    #[error("not a whole number of {base}; the nearest are {below} and {above}")]
    NotWhole {
        /// The unit that values are kept in, for people.
        base: &'static str,
        /// The next lower accepted value, as it can be typed.
        below: String,
        /// The next higher accepted value, as it can be typed.
        above: String,
    },
}

/// A text that is not an accepted rate, capacity or duration.
///
/// Displays as one line: what was given, what is wrong with it, and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{quantity} '{given}': {problem}; accepted: {form}", form = .quantity.form())]
pub struct UnitError {
    quantity: Quantity,
    given: String,
    problem: Problem,
}

impl UnitError {
    pub(super) fn new(quantity: Quantity, given: &str, problem: Problem) -> Self {
        Self {
            quantity,
            given: excerpt(given),
            problem,
        }
    }

    /// What the text was supposed to be.
    pub fn quantity(&self) -> Quantity {
        self.quantity
    }

    /// What is wrong with the text.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

/// The beginning of a foreign text, without anything that could break a line or a terminal.
pub(crate) fn excerpt(text: &str) -> String {
    let mut chars = text.chars();
    let mut shown: String = chars
        .by_ref()
        .take(EXCERPT_CHARS)
        .flat_map(char::escape_debug)
        .collect();
    if chars.next().is_some() {
        shown.push_str("...");
    }
    shown
}
