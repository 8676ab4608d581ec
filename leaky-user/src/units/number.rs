//! Exact decimal numbers with a unit: reading them into integers and writing integers as the
//! shortest such number.

use super::error::{Problem, excerpt};

/// Decimals that are read. With [`MAX_WHOLE`] and the largest unit (an hour, 3.6e12 ns) every
/// product stays below 2^128: 1e16 x 1e9 x 3.6e12 = 3.6e37.
pub(super) const MAX_DECIMALS: usize = 9;

/// Whole parts from here on are read as this number: it is beyond every maximum in every unit.
const MAX_WHOLE: u128 = 10_u128.pow(MAX_WHOLE_DIGITS);
const MAX_WHOLE_DIGITS: u32 = 16;

/// `digits / 10^decimals`, exactly as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: u128,
    decimals: u32,
}

/// How many base units (bytes, packets, nanoseconds) one unit is, as a fraction: a bit is 1/8 byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    pub(super) numerator: u64,
    pub(super) denominator: u64,
}

impl Scale {
    pub(super) const fn whole(numerator: u64) -> Self {
        Self {
            numerator,
            denominator: 1,
        }
    }
}

/// What one kind of value may be, and what it is called.
pub(super) struct Bounds {
    pub(super) base: &'static str,
    pub(super) minimum: u64,
    pub(super) maximum: u64,
    /// Writes a value the way it is typed.
    pub(super) show: fn(u64) -> String,
}

/// A unit offered instead of one that is missing or ambiguous, and what it means.
pub(super) struct Choice(pub(super) &'static str, pub(super) &'static str);

/// A text taken apart; the unit is not yet known to be one.
pub(super) struct Parts<'a> {
    pub(super) value: Decimal,
    number: &'a str,
    pub(super) unit: &'a str,
}

impl<'a> Parts<'a> {
    /// Splits `NUMBER[ ]UNIT`. The unit may come out empty.
    pub(super) fn split(text: &'a str) -> Result<Self, Problem> {
        match text.chars().next() {
            None => return Err(Problem::Empty),
            Some('+' | '-') => return Err(Problem::Sign),
            Some(c) if c.is_whitespace() => return Err(Problem::WhiteSpace),
            Some(c) if !c.is_ascii_digit() => return Err(Problem::NoDigit),
            Some(_) => {}
        }
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        let unit = rest.strip_prefix(' ').unwrap_or(rest);
        check_after_number(unit, unit.len() < rest.len())?;
        Ok(Self {
            value: Decimal::read(number)?,
            number,
            unit,
        })
    }

    pub(super) fn missing_unit(&self, choices: &[Choice]) -> Problem {
        Problem::MissingUnit {
            choices: self.spell(choices),
        }
    }

    pub(super) fn ambiguous_unit(&self, choices: &[Choice]) -> Problem {
        Problem::AmbiguousUnit {
            unit: excerpt(self.unit),
            choices: self.spell(choices),
        }
    }

    pub(super) fn unknown_unit(&self) -> Problem {
        Problem::UnknownUnit {
            unit: excerpt(self.unit),
        }
    }

    /// The given number in every unit to choose from: `5kbit (bits/s) or 5kB/s (bytes/s)`.
    fn spell(&self, choices: &[Choice]) -> String {
        let number = excerpt(self.number);
        let spelled: Vec<String> = choices
            .iter()
            .map(|Choice(unit, meaning)| format!("{number}{unit} ({meaning})"))
            .collect();
        spelled.join(" or ")
    }
}

/// Names the usual mistakes, which would otherwise all be called unknown units.
fn check_after_number(unit: &str, spaced: bool) -> Result<(), Problem> {
    let mut chars = unit.chars();
    let (first, second) = (chars.next(), chars.next());
    match first {
        Some(',' | '_' | '\'' | '\u{2019}') => Err(Problem::Separator),
        Some(c) if c.is_ascii_digit() => Err(Problem::Separator),
        Some('e' | 'E') if second.is_some_and(|c| c.is_ascii_digit() || "+-".contains(c)) => {
            Err(Problem::Exponent)
        }
        None if spaced => Err(Problem::WhiteSpace),
        _ if unit.starts_with(char::is_whitespace) || unit.ends_with(char::is_whitespace) => {
            Err(Problem::WhiteSpace)
        }
        _ => Ok(()),
    }
}

impl Decimal {
    /// Reads digits and at most one point; `number` holds nothing else and begins with a digit.
    fn read(number: &str) -> Result<Self, Problem> {
        let (whole, fraction) = match number.split_once('.') {
            None => (number, ""),
            Some((_, fraction)) if fraction.is_empty() || fraction.contains('.') => {
                return Err(Problem::Fraction);
            }
            Some(parts) => parts,
        };
        if whole.len() > 1 && whole.starts_with('0') {
            return Err(Problem::LeadingZero);
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > MAX_DECIMALS {
            return Err(Problem::TooManyDecimals);
        }
        let read = |digits: &str| digits.bytes().fold(0, |n, b| n * 10 + u128::from(b - b'0'));
        if whole.len() > MAX_WHOLE_DIGITS as usize {
            return Ok(Self {
                digits: MAX_WHOLE,
                decimals: 0,
            });
        }
        let decimals = u32::try_from(fraction.len()).map_err(|_| Problem::TooManyDecimals)?;
        Ok(Self {
            digits: read(whole) * 10_u128.pow(decimals) + read(fraction),
            decimals,
        })
    }

    /// This many units of `scale`, as a whole number of base units within `bounds`.
    pub(super) fn times(self, scale: Scale, bounds: &Bounds) -> Result<u64, Problem> {
        let dividend = self.digits * u128::from(scale.numerator);
        let divisor = 10_u128.pow(self.decimals) * u128::from(scale.denominator);
        let (floor, rest) = (dividend / divisor, dividend % divisor);
        let above = || Problem::AboveMaximum {
            maximum: (bounds.show)(bounds.maximum),
        };
        let floor = u64::try_from(floor).map_err(|_| above())?;
        if floor < bounds.minimum {
            Err(Problem::BelowMinimum {
                minimum: (bounds.show)(bounds.minimum),
            })
        } else if floor > bounds.maximum || (floor == bounds.maximum && rest > 0) {
            Err(above())
        } else if rest > 0 {
            Err(Problem::NotWhole {
                base: bounds.base,
                below: (bounds.show)(floor),
                above: (bounds.show)(floor + 1),
            })
        } else {
            Ok(floor)
        }
    }
}

/// A unit that values are printed in.
pub(super) struct Printed {
    /// As typed: `mbit`.
    pub(super) typed: &'static str,
    /// As read in prose after a space: `Mbit/s`.
    pub(super) prose: &'static str,
    pub(super) scale: Scale,
}

impl Printed {
    pub(super) const fn new(typed: &'static str, prose: &'static str, scale: Scale) -> Self {
        Self {
            typed,
            prose,
            scale,
        }
    }
}

/// The shortest exact way to write `value` base units in one of `units`, with at most three
/// decimals and not below 1. On a tie the earlier unit is taken; without any such way, the first
/// unit, in which every value must be exact.
pub(super) fn shortest(value: u64, units: &'static [Printed]) -> (String, &'static Printed) {
    let mut best = (
        in_thousandths(value, units[0].scale).unwrap_or_default(),
        &units[0],
    );
    for unit in &units[1..] {
        let one = unit.scale.numerator / unit.scale.denominator;
        let number = if value < one {
            None
        } else {
            in_thousandths(value, unit.scale)
        };
        if let Some(number) = number
            && number.len() + unit.typed.len() < best.0.len() + best.1.typed.len()
        {
            best = (number, unit);
        }
    }
    best
}

/// `value` base units in units of `scale`, if three decimals suffice.
fn in_thousandths(value: u64, scale: Scale) -> Option<String> {
    let dividend = u128::from(value) * u128::from(scale.denominator) * 1000;
    let divisor = u128::from(scale.numerator);
    if !dividend.is_multiple_of(divisor) {
        return None;
    }
    let thousandths = dividend / divisor;
    let (whole, rest) = (thousandths / 1000, thousandths % 1000);
    if rest == 0 {
        return Some(whole.to_string());
    }
    Some(
        format!("{whole}.{rest:03}")
            .trim_end_matches('0')
            .to_owned(),
    )
}
