//! Ports and ranges of ports.

use super::{ValueError, decimal};
use crate::config::error::quoted;
use std::ops::RangeInclusive;

/// A port or a range: `5004` or `6000-6100`, from 1 to 65535. Port 0 is not sent by anybody.
///
/// # Errors
/// Anything else, with what to write.
pub fn ports(text: &str) -> Result<RangeInclusive<u16>, ValueError> {
    let port = |part: &str| {
        decimal(part)
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port > 0)
            .ok_or_else(|| {
                let given = quoted(text);
                ValueError::new(format!(
                    "port {given}: write a port from 1 to 65535, or a range such as \"6000-6100\""
                ))
            })
    };
    let Some((first, last)) = text.split_once('-') else {
        let port = port(text)?;
        return Ok(port..=port);
    };
    let (first, last) = (port(first)?, port(last)?);
    if first > last {
        return Err(ValueError::new(format!(
            "port range {first}-{last} runs backwards: write \"{last}-{first}\""
        )));
    }
    Ok(first..=last)
}

/// A range as it is written; [`ports`] reads it back.
pub fn show_ports(ports: &RangeInclusive<u16>) -> String {
    match (ports.start(), ports.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    }
}
