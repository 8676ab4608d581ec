//! What a packet is and whose it is, read from its headers without reading past its end.
//!
//! The parser is written once over [`Frame`]: the kernel program reads packet memory under the
//! verifier's eyes, tests and fuzzers read a slice.

use crate::control;

/// Bytes of one frame. Reads beyond the readable part give `None`, never a panic.
pub trait Frame {
    /// The byte at offset `at`.
    fn u8(&self, at: u32) -> Option<u8>;
    /// Two bytes at offset `at`, in network order.
    fn u16(&self, at: u32) -> Option<u16>;
    /// Four bytes at offset `at`, as they stand in the frame.
    fn word(&self, at: u32) -> Option<u32>;
    /// Sixteen bytes at offset `at`, as they stand in the frame.
    fn address(&self, at: u32) -> Option<[u32; 4]>;
}

impl Frame for [u8] {
    fn u8(&self, at: u32) -> Option<u8> {
        self.get(usize::try_from(at).ok()?).copied()
    }

    fn u16(&self, at: u32) -> Option<u16> {
        self.get(usize::try_from(at).ok()?..)?
            .first_chunk()
            .copied()
            .map(u16::from_be_bytes)
    }

    fn word(&self, at: u32) -> Option<u32> {
        self.get(usize::try_from(at).ok()?..)?
            .first_chunk()
            .copied()
            .map(u32::from_ne_bytes)
    }

    fn address(&self, at: u32) -> Option<[u32; 4]> {
        Some([
            self.word(at)?,
            self.word(at + 4)?,
            self.word(at + 8)?,
            self.word(at + 12)?,
        ])
    }
}

/// Where the network header of a frame is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Behind an Ethernet header.
    Ethernet,
    /// At the very start: tun, ppp, WireGuard and other devices without a link header.
    Ip,
}

/// What the headers of a packet say. Read once, then matched and keyed.
///
/// Addresses are the bytes of the packet, in words because the kernel program copies words. An
/// IPv4 address is the first word of its field, the rest is zero; `version` tells the two apart.
/// All fragments of a datagram, the first included, have ports 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(C)]
pub struct Headers {
    /// Source address.
    pub source: [u32; 4],
    /// Destination address.
    pub destination: [u32; 4],
    /// VLAN tags from the outermost on, wherever they stand: the first in the low 12 bits of the
    /// low half, the second in those of the high half. 0 for a tag that is not there.
    pub vlans: u32,
    /// Source port, or 0.
    pub source_port: u16,
    /// Destination port, or 0.
    pub destination_port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// 4, 6, or 0 for what could not be read as IP.
    pub version: u8,
    /// DSCP in the upper six bits, ECN in the lower two; 0 for what could not be read as IP.
    pub traffic_class: u8,
    /// 1 where extension headers go on behind those that are followed: then `protocol` is that of an
    /// extension header and there are no ports. Else 0.
    pub cut_short: u8,
}

impl Headers {
    /// The number of the outermost VLAN, 0 for none.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    pub const fn outer_vlan(&self) -> u16 {
        self.vlans as u16
    }

    /// The DSCP, 0 to 63.
    #[inline(always)]
    pub const fn dscp(&self) -> u8 {
        self.traffic_class >> 2
    }

    /// Whether the sender understands the ECN mark (RFC 3168): ECT(0), ECT(1) or already CE.
    #[inline(always)]
    pub const fn is_ecn_capable(&self) -> bool {
        self.traffic_class & 3 != 0
    }

    /// Whether it was read as IP. Everything else, and what is broken or too deep, is not.
    #[inline(always)]
    pub const fn is_readable(&self) -> bool {
        self.version != 0
    }
}

/// What the parser found, with the bytes up to the end of the transport header as far as it was
/// understood: what every segment of a GSO packet carries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Traffic. What could not be read as IP is traffic all the same, with headers that are all
    /// zero: nothing is unlimited by accident.
    Traffic(u32),
    /// Traffic whose headers go on behind the readable part. [`Headers`] say what was found so far.
    Truncated(u32),
    /// Control traffic that keeps links, neighbours and routes alive ([`crate::control`]).
    Control(u32),
}

const ETHERNET_HEADER: u32 = 14;
const VLAN_TAG: u32 = 4;
/// The bits of a tag that are the VLAN's number.
const VLAN_ID: u16 = 0x0fff;
/// Tags followed in the frame. A frame with more is shaped as unreadable.
const VLAN_DEPTH: u32 = 2;
/// IPv6 extension headers followed. A packet with more keeps its addresses, by which it is limited, and
/// is counted as unreadable ([`Headers::cut_short`]).
const EXTENSION_DEPTH: u32 = 8;

/// Below this, what stands in the place of the EtherType is a length, and LLC follows.
const FIRST_ETHERTYPE: u16 = 0x0600;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;

const HOP_BY_HOP: u8 = 0;
const IGMP: u8 = 2;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const ICMPV6: u8 = 58;
const DESTINATION_OPTIONS: u8 = 60;
const SCTP: u8 = 132;
const MOBILITY: u8 = 135;
const UDP_LITE: u8 = 136;

/// Whether an EtherType is a VLAN tag: 802.1Q, 802.1ad, and the older 0x9100.
const fn is_vlan(ethertype: u16) -> bool {
    matches!(ethertype, 0x8100 | 0x88a8 | 0x9100)
}

const fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS | MOBILITY
    )
}

/// Reads the headers of `frame` and writes them to `headers`, which must come all zero. `tag` is the
/// VLAN id of the outermost tag where the kernel keeps that beside the frame.
#[inline(always)]
pub fn parse<F: Frame + ?Sized>(
    frame: &F,
    layer: Layer,
    tag: Option<u16>,
    headers: &mut Headers,
) -> Parsed {
    if let Some(tag) = tag {
        headers.vlans = u32::from(tag & VLAN_ID);
    }
    let (ethertype, at) = match layer {
        Layer::Ethernet => match ethertype(frame, tag.is_some(), headers) {
            Some(found) => found,
            None => return Parsed::Truncated(ETHERNET_HEADER),
        },
        Layer::Ip => match frame.u8(0) {
            Some(first) if first >> 4 == 4 => (ETHERTYPE_IPV4, 0),
            Some(first) if first >> 4 == 6 => (ETHERTYPE_IPV6, 0),
            Some(_) => return Parsed::Traffic(0),
            None => return Parsed::Truncated(0),
        },
    };
    match ethertype {
        ETHERTYPE_IPV4 => ipv4(frame, at, headers),
        ETHERTYPE_IPV6 => ipv6(frame, at, headers),
        length if length < FIRST_ETHERTYPE => {
            if control::is_to_bridge_group(frame) {
                Parsed::Control(at)
            } else {
                Parsed::Traffic(at)
            }
        }
        other if control::is_ethertype(other) => Parsed::Control(at),
        _ => Parsed::Traffic(at),
    }
}

/// The EtherType behind at most [`VLAN_DEPTH`] tags, and where its payload starts.
#[inline(always)]
fn ethertype<F: Frame + ?Sized>(
    frame: &F,
    behind_tag: bool,
    headers: &mut Headers,
) -> Option<(u16, u32)> {
    let mut at = ETHERNET_HEADER;
    let mut ethertype = frame.u16(12)?;
    // Where the next tag belongs in `vlans`; the third has no place.
    let mut place = if behind_tag { 16 } else { 0 };
    for _ in 0..VLAN_DEPTH {
        if !is_vlan(ethertype) {
            break;
        }
        ethertype = frame.u16(at + 2)?;
        let tag = u64::from(frame.u16(at)? & VLAN_ID);
        headers.vlans |= low_half(tag << place);
        place += 16;
        at += VLAN_TAG;
    }
    Some((ethertype, at))
}

/// The lower 32 bits.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
const fn low_half(word: u64) -> u32 {
    word as u32
}

#[inline(always)]
fn ipv4<F: Frame + ?Sized>(frame: &F, at: u32, headers: &mut Headers) -> Parsed {
    // The furthest first, and one at a time: the kernel's verifier does not see that a later test
    // of the same condition has the same outcome.
    let Some(destination) = frame.word(at + 16) else {
        return Parsed::Truncated(at);
    };
    let Some(source) = frame.word(at + 12) else {
        return Parsed::Truncated(at);
    };
    let Some(life) = frame.u16(at + 8) else {
        return Parsed::Truncated(at);
    };
    let Some(fragment) = frame.u16(at + 6) else {
        return Parsed::Truncated(at);
    };
    let Some(first) = frame.u16(at) else {
        return Parsed::Truncated(at);
    };
    let header = u32::from(first >> 8 & 0x0f) * 4;
    if first >> 12 != 4 || header < 20 {
        return Parsed::Traffic(at);
    }
    let [time_to_live, protocol] = life.to_be_bytes();
    headers.version = 4;
    headers.traffic_class = first.to_be_bytes()[1];
    headers.protocol = protocol;
    headers.source[0] = source;
    headers.destination[0] = destination;
    let local = control::is_local_group_v4(destination);
    if protocol == IGMP && control::is_multicast(destination)
        || control::is_routing(protocol, local, time_to_live)
    {
        return Parsed::Control(at + header);
    }
    // More fragments, or not the first one.
    if fragment & 0x3fff != 0 {
        return Parsed::Traffic(at + header);
    }
    transport(frame, at + header, local, headers)
}

#[inline(always)]
fn ipv6<F: Frame + ?Sized>(frame: &F, at: u32, headers: &mut Headers) -> Parsed {
    let Some(destination) = frame.address(at + 24) else {
        return Parsed::Truncated(at);
    };
    let Some(source) = frame.address(at + 8) else {
        return Parsed::Truncated(at);
    };
    let Some(hop_limit) = frame.u8(at + 7) else {
        return Parsed::Truncated(at);
    };
    let Some(mut next) = frame.u8(at + 6) else {
        return Parsed::Truncated(at);
    };
    let Some(first) = frame.u16(at) else {
        return Parsed::Truncated(at);
    };
    if first >> 12 != 6 {
        return Parsed::Traffic(at);
    }
    headers.version = 6;
    headers.traffic_class = (first >> 4).to_be_bytes()[1];
    headers.source = source;
    headers.destination = destination;
    let mut at = at + 40;
    for _ in 0..EXTENSION_DEPTH {
        if !is_extension(next) {
            break;
        }
        headers.protocol = next;
        let Some(units) = frame.u8(at + 1) else {
            return Parsed::Truncated(at);
        };
        let Some(following) = frame.u8(at) else {
            return Parsed::Truncated(at);
        };
        if next == FRAGMENT {
            headers.protocol = following;
            return Parsed::Traffic(at + 8);
        }
        // RFC 8200: in units of 8 bytes without the first; RFC 4302: in units of 4 bytes less 2.
        at += match next {
            AUTHENTICATION => (u32::from(units) + 2) * 4,
            _ => (u32::from(units) + 1) * 8,
        };
        next = following;
    }
    headers.protocol = next;
    headers.cut_short = u8::from(is_extension(next));
    if next == ICMPV6 {
        let Some(kind) = frame.u8(at) else {
            return Parsed::Truncated(at);
        };
        if control::is_icmpv6(kind, hop_limit) {
            return Parsed::Control(at);
        }
    }
    let local = control::is_local_group_v6(destination[0]);
    if control::is_routing(next, local, hop_limit) {
        return Parsed::Control(at);
    }
    transport(frame, at, local, headers)
}

/// `local`: whether it goes to a multicast group that no router forwards.
#[inline(always)]
fn transport<F: Frame + ?Sized>(frame: &F, at: u32, local: bool, headers: &mut Headers) -> Parsed {
    if !has_ports(headers.protocol) {
        return Parsed::Traffic(at);
    }
    let Some(destination) = frame.u16(at + 2) else {
        return Parsed::Truncated(at);
    };
    let Some(source) = frame.u16(at) else {
        return Parsed::Truncated(at);
    };
    headers.source_port = source;
    headers.destination_port = destination;
    let header = match headers.protocol {
        TCP => match frame.u8(at + 12) {
            Some(offset) => u32::from(offset >> 4) * 4,
            None => return Parsed::Truncated(at),
        },
        SCTP => 12,
        _ => 8,
    };
    if headers.protocol == UDP && local && control::is_hello_port(destination) {
        return Parsed::Control(at + header);
    }
    Parsed::Traffic(at + header)
}

/// Whether ports are read from a packet of this protocol: TCP, UDP, SCTP, UDP-Lite.
#[inline(always)]
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP | UDP_LITE)
}
