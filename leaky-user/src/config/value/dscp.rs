//! Differentiated services code points.

use super::{ValueError, decimal, small};
use crate::config::error::quoted;

/// Names and code points: RFC 2474 (CS), RFC 2597 (AF), RFC 3246 (EF), RFC 5865 (VOICE-ADMIT), RFC
/// 8622 (LE). The first name of a code point is the one that is shown.
const NAMES: &[(&str, u8)] = &[
    ("be", 0),
    ("df", 0),
    ("default", 0),
    ("le", 1),
    ("cs0", 0),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("voice-admit", 44),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

/// A code point: a name in lower case, such as `ef`, or a number from 0 to 63.
///
/// # Errors
/// Unknown names and other numbers.
pub fn dscp(text: &str) -> Result<u8, ValueError> {
    if let Some((_, point)) = NAMES.iter().find(|(name, _)| *name == text) {
        return Ok(*point);
    }
    if let Some(number) = small(text).filter(|number| *number <= 63) {
        return Ok(number);
    }
    match decimal(text) {
        Some(number) => Err(ValueError::new(format!(
            "dscp {number} is not from 0 to 63 (a value of the whole TOS byte is four times as large: \
             write {})",
            (number / 4).min(63)
        ))),
        None => Err(ValueError::new(format!(
            "unknown dscp {}: write a name (be, le, cs0 to cs7, af11 to af43, voice-admit, ef) or a \
             number from 0 to 63",
            quoted(text)
        ))),
    }
}

/// The name of a code point, or its number; [`dscp`] reads it back.
pub fn dscp_name(dscp: u8) -> String {
    match NAMES.iter().find(|(_, point)| *point == dscp) {
        Some((name, _)) => (*name).to_owned(),
        None => dscp.to_string(),
    }
}
