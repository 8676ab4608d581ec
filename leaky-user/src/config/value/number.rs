//! Marks, VLAN ids, and numbers of bytes of a frame.

use super::{ValueError, decimal};
use crate::config::error::quoted;
use crate::units::Capacity;

/// A packet mark, or a mask of one: 32 bits, decimal or hexadecimal with `0x`.
///
/// # Errors
/// Anything else, with what to write.
pub fn mark(text: &str) -> Result<u32, ValueError> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u32::from_str_radix(hex, 16).ok()
        }
        Some(_) => None,
        None => decimal(text).and_then(|number| u32::try_from(number).ok()),
    };
    number.ok_or_else(|| {
        let given = quoted(text);
        ValueError::new(format!(
            "mark {given}: write a number of at most 32 bits, such as 16 or \"0x10\""
        ))
    })
}

/// A VLAN id: 1 to 4094.
///
/// # Errors
/// Anything else; 0 and 4095 are reserved by IEEE 802.1Q and name no VLAN.
pub fn vlan(text: &str) -> Result<u16, ValueError> {
    decimal(text)
        .filter(|id| (1..=4094).contains(id))
        .and_then(|id| u16::try_from(id).ok())
        .ok_or_else(|| {
            let given = quoted(text);
            ValueError::new(format!("vlan {given}: write an id from 1 to 4094"))
        })
}

/// Bytes that are added to a frame or that it takes at least: 0 to `most`, such as `24B`.
///
/// # Errors
/// Anything else, with what to write.
pub fn frame_bytes(text: &str, most: u32) -> Result<u32, ValueError> {
    if matches!(text, "0" | "0B" | "0 B") {
        return Ok(0);
    }
    let accepted = format!("write 0B to {most}B, such as \"24B\"");
    let given = quoted(text);
    match text.parse() {
        Ok(Capacity::Bytes(bytes)) => u32::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes <= most)
            .ok_or_else(|| ValueError::new(format!("{given} is too much: {accepted}"))),
        _ => Err(ValueError::new(format!(
            "{given} is not a number of bytes: {accepted}"
        ))),
    }
}
