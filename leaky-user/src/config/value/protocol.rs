//! Protocols above IP.

use super::{ValueError, small};
use crate::config::error::quoted;

/// Names and numbers (IANA's registry of protocol numbers). The first name of a number is the one
/// that is shown.
const NAMES: &[(&str, u8)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ipv6-icmp", 58),
    ("eigrp", 88),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("udplite", 136),
    ("udp-lite", 136),
];

/// IPv6 extension headers. The program looks behind them, so no packet has them as its protocol.
const EXTENSION_HEADERS: &[u8] = &[0, 43, 44, 60, 135];

/// A protocol: a name in lower case, such as `udp`, or a number from 1 to 255.
///
/// # Errors
/// Unknown names, and numbers of IPv6 extension headers, which are not what a packet carries.
pub fn protocol(text: &str) -> Result<u8, ValueError> {
    let named = NAMES.iter().find(|(name, _)| *name == text);
    let number = match named {
        Some((_, number)) => Some(*number),
        None => small(text),
    };
    match number {
        Some(number) if EXTENSION_HEADERS.contains(&number) => Err(ValueError::new(format!(
            "protocol {number} is an IPv6 extension header: name the protocol that follows it, such \
             as \"udp\""
        ))),
        Some(number) => Ok(number),
        None => Err(ValueError::new(format!(
            "unknown protocol {}: write a name such as \"tcp\", \"udp\", \"sctp\", \"icmp\", \
             \"icmpv6\", \"esp\" or \"gre\", or a number from 1 to 255",
            quoted(text)
        ))),
    }
}

/// The name of a protocol, or its number; [`protocol`] reads it back.
pub fn protocol_name(protocol: u8) -> String {
    match NAMES.iter().find(|(_, number)| *number == protocol) {
        Some((name, _)) => (*name).to_owned(),
        None => protocol.to_string(),
    }
}
