//! Addresses and prefixes.

use super::{ValueError, small};
use crate::config::error::quoted;
use ipnet::IpNet;
use std::net::IpAddr;

/// A prefix such as `10.0.0.0/8` or `fd00::/8`, or one address, whose prefix is all of its bits.
///
/// # Errors
/// Anything else, and a prefix with bits behind its length: whether the network or the address is
/// meant is not for leaky to guess.
pub fn prefix(text: &str) -> Result<IpNet, ValueError> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return Err(ValueError::new(format!(
            "{} is not a prefix: write an address or a prefix, such as 192.0.2.7, 10.0.0.0/8 or \
             fd00::/8",
            quoted(text)
        )));
    };
    if let IpAddr::V6(six) = address
        && let Some(four) = six.to_ipv4_mapped()
    {
        return Err(ValueError::new(format!(
            "{} stands for an IPv4 address, and no IPv6 packet has it: write {four}",
            quoted(text)
        )));
    }
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let Some(length) = length else {
        return Ok(IpNet::from(address));
    };
    let net = small(length)
        .and_then(|length| IpNet::new(address, length).ok())
        .ok_or_else(|| {
            ValueError::new(format!(
                "{} has no prefix length from 0 to {bits} behind its slash",
                quoted(text)
            ))
        })?;
    if net.network() != address {
        return Err(ValueError::new(format!(
            "{} has bits set behind its prefix length: write {} for the network, or {address} for \
             the one address",
            quoted(text),
            net.trunc()
        )));
    }
    Ok(net)
}

/// A prefix as it is written: one address without its length. [`prefix`] reads it back.
pub fn show_prefix(prefix: &IpNet) -> String {
    if prefix.prefix_len() == prefix.max_prefix_len() {
        prefix.addr().to_string()
    } else {
        prefix.to_string()
    }
}
