//! What a packet is and whose it is, read from its headers without reading past its end.
//!
//! The parser is written once over [`Frame`]: the kernel program reads packet memory under the
//! verifier's eyes, tests and fuzzers read a slice.

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

/// The flow a packet belongs to. Laid out for the map that is keyed by it, without padding.
///
/// Addresses are the bytes of the packet, in words because the kernel program copies words. An
/// IPv4 address is the first word of its field, the rest is zero; `version` tells the two apart.
/// All fragments of a datagram, the first included, have ports 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(C)]
pub struct FlowKey {
    /// Source address.
    pub source: [u32; 4],
    /// Destination address.
    pub destination: [u32; 4],
    /// Source port, or 0.
    pub source_port: u16,
    /// Destination port, or 0.
    pub destination_port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// 4, 6, or 0 for what could not be read as IP.
    pub version: u8,
    /// Always zero.
    pub reserved: u16,
}

/// What the parser found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Traffic to shape. What could not be read as IP is shaped all the same, in a flow that is
    /// all zero: nothing is unlimited by accident.
    Traffic {
        /// Bytes up to the end of the transport header as far as it was understood: what every
        /// segment of a GSO packet carries again.
        headers: u32,
    },
    /// Traffic whose headers go on behind the readable part. The flow says what was found so far.
    Truncated {
        /// As above.
        headers: u32,
    },
    /// Control traffic that keeps links and neighbours alive and is never delayed: ARP, neighbour
    /// discovery, IGMP, MLD, LLDP, spanning tree and the like.
    Control,
}

const ETHERNET_HEADER: u32 = 14;
const VLAN_TAG: u32 = 4;
/// Tags followed in the frame. A frame with more is shaped as unreadable.
const VLAN_DEPTH: u32 = 2;
/// IPv6 extension headers followed. A packet with more is keyed by addresses and the protocol
/// number reached.
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

/// Whether an Ethernet frame goes to 01:80:c2:00:00:xx, which spanning tree and its like use and no
/// user's frame does (IEEE 802.1Q, table 8-1).
#[inline(always)]
fn is_to_bridge_group<F: Frame + ?Sized>(frame: &F) -> bool {
    frame.u16(0) == Some(0x0180) && frame.u16(2) == Some(0xc200) && frame.u8(4) == Some(0)
}

const fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS | MOBILITY
    )
}

/// Whether an EtherType is that of a protocol which keeps links and neighbours alive and carries no
/// user traffic. Every other non-IP protocol (PPPoE sessions, MPLS, MACsec, batman-adv, ...) may carry
/// some and is shaped.
///
/// ARP, wake-on-LAN, RARP, flow control, slow protocols (LACP), PPPoE discovery, EAPOL, LLDP, PTP,
/// CFM, loop tests.
const fn is_control(ethertype: u16) -> bool {
    matches!(
        ethertype,
        0x0806
            | 0x0842
            | 0x8035
            | 0x8808
            | 0x8809
            | 0x8863
            | 0x888e
            | 0x88cc
            | 0x88f7
            | 0x8902
            | 0x9000
    )
}

/// Whether an ICMPv6 message is neighbour discovery (133-137, sent with hop limit 255: RFC 4861) or
/// multicast listener discovery (130-132, 143, sent with hop limit 1: RFC 2710, RFC 3810). With
/// another hop limit it is not valid, or crossed a router, and is traffic like any other.
const fn is_icmpv6_control(kind: u8, hop_limit: u8) -> bool {
    matches!((kind, hop_limit), (133..=137, 255) | (130..=132 | 143, 1))
}

/// Whether an IPv4 address is multicast, where IGMP goes (RFC 3376).
const fn is_multicast(address: u32) -> bool {
    address.to_ne_bytes()[0] >> 4 == 0xe
}

/// Reads the headers of `frame` and writes its flow to `flow`, which must come all zero.
#[inline(always)]
pub fn parse<F: Frame + ?Sized>(frame: &F, layer: Layer, flow: &mut FlowKey) -> Parsed {
    let (ethertype, at) = match layer {
        Layer::Ethernet => match ethertype(frame) {
            Some(found) => found,
            None => {
                return Parsed::Truncated {
                    headers: ETHERNET_HEADER,
                };
            }
        },
        Layer::Ip => match frame.u8(0) {
            Some(first) if first >> 4 == 4 => (ETHERTYPE_IPV4, 0),
            Some(first) if first >> 4 == 6 => (ETHERTYPE_IPV6, 0),
            Some(_) => return Parsed::Traffic { headers: 0 },
            None => return Parsed::Truncated { headers: 0 },
        },
    };
    match ethertype {
        ETHERTYPE_IPV4 => ipv4(frame, at, flow),
        ETHERTYPE_IPV6 => ipv6(frame, at, flow),
        length if length < FIRST_ETHERTYPE => {
            if is_to_bridge_group(frame) {
                Parsed::Control
            } else {
                Parsed::Traffic { headers: at }
            }
        }
        other if is_control(other) => Parsed::Control,
        _ => Parsed::Traffic { headers: at },
    }
}

/// The EtherType behind at most [`VLAN_DEPTH`] tags, and where its payload starts.
#[inline(always)]
fn ethertype<F: Frame + ?Sized>(frame: &F) -> Option<(u16, u32)> {
    let mut at = ETHERNET_HEADER;
    let mut ethertype = frame.u16(12)?;
    for _ in 0..VLAN_DEPTH {
        if !is_vlan(ethertype) {
            break;
        }
        ethertype = frame.u16(at + 2)?;
        at += VLAN_TAG;
    }
    Some((ethertype, at))
}

#[inline(always)]
fn ipv4<F: Frame + ?Sized>(frame: &F, at: u32, flow: &mut FlowKey) -> Parsed {
    // The furthest first, and one at a time: the kernel's verifier does not see that a later test
    // of the same condition has the same outcome.
    let Some(destination) = frame.word(at + 16) else {
        return Parsed::Truncated { headers: at };
    };
    let Some(source) = frame.word(at + 12) else {
        return Parsed::Truncated { headers: at };
    };
    let Some(protocol) = frame.u8(at + 9) else {
        return Parsed::Truncated { headers: at };
    };
    let Some(fragment) = frame.u16(at + 6) else {
        return Parsed::Truncated { headers: at };
    };
    let Some(first) = frame.u8(at) else {
        return Parsed::Truncated { headers: at };
    };
    let header = u32::from(first & 0x0f) * 4;
    if first >> 4 != 4 || header < 20 {
        return Parsed::Traffic { headers: at };
    }
    if protocol == IGMP && is_multicast(destination) {
        return Parsed::Control;
    }
    flow.version = 4;
    flow.protocol = protocol;
    flow.source[0] = source;
    flow.destination[0] = destination;
    // More fragments, or not the first one.
    if fragment & 0x3fff != 0 {
        return Parsed::Traffic {
            headers: at + header,
        };
    }
    transport(frame, at + header, flow)
}

#[inline(always)]
fn ipv6<F: Frame + ?Sized>(frame: &F, at: u32, flow: &mut FlowKey) -> Parsed {
    let Some(destination) = frame.address(at + 24) else {
        return Parsed::Truncated { headers: at };
    };
    let Some(source) = frame.address(at + 8) else {
        return Parsed::Truncated { headers: at };
    };
    let Some(hop_limit) = frame.u8(at + 7) else {
        return Parsed::Truncated { headers: at };
    };
    let Some(mut next) = frame.u8(at + 6) else {
        return Parsed::Truncated { headers: at };
    };
    let Some(first) = frame.u8(at) else {
        return Parsed::Truncated { headers: at };
    };
    if first >> 4 != 6 {
        return Parsed::Traffic { headers: at };
    }
    flow.version = 6;
    flow.source = source;
    flow.destination = destination;
    let mut at = at + 40;
    for _ in 0..EXTENSION_DEPTH {
        if !is_extension(next) {
            break;
        }
        flow.protocol = next;
        let Some(units) = frame.u8(at + 1) else {
            return Parsed::Truncated { headers: at };
        };
        let Some(following) = frame.u8(at) else {
            return Parsed::Truncated { headers: at };
        };
        if next == FRAGMENT {
            flow.protocol = following;
            return Parsed::Traffic { headers: at + 8 };
        }
        // RFC 8200: in units of 8 bytes without the first; RFC 4302: in units of 4 bytes less 2.
        at += match next {
            AUTHENTICATION => (u32::from(units) + 2) * 4,
            _ => (u32::from(units) + 1) * 8,
        };
        next = following;
    }
    flow.protocol = next;
    if next == ICMPV6 {
        let Some(kind) = frame.u8(at) else {
            return Parsed::Truncated { headers: at };
        };
        if is_icmpv6_control(kind, hop_limit) {
            return Parsed::Control;
        }
    }
    transport(frame, at, flow)
}

#[inline(always)]
fn transport<F: Frame + ?Sized>(frame: &F, at: u32, flow: &mut FlowKey) -> Parsed {
    if !matches!(flow.protocol, TCP | UDP | SCTP | UDP_LITE) {
        return Parsed::Traffic { headers: at };
    }
    let Some(destination) = frame.u16(at + 2) else {
        return Parsed::Truncated { headers: at };
    };
    let Some(source) = frame.u16(at) else {
        return Parsed::Truncated { headers: at };
    };
    flow.source_port = source;
    flow.destination_port = destination;
    let header = match flow.protocol {
        TCP => match frame.u8(at + 12) {
            Some(offset) => u32::from(offset >> 4) * 4,
            None => return Parsed::Truncated { headers: at },
        },
        SCTP => 12,
        _ => 8,
    };
    Parsed::Traffic {
        headers: at + header,
    }
}

/// What a packet counts as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnWire {
    /// Bytes, with the headers of every segment.
    pub bytes: u64,
    /// Frames.
    pub packets: u64,
}

/// What the kernel says of a buffer, as far as its size on the wire goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Buffer {
    /// `skb->len`: bytes of the buffer, link header included.
    pub length: u32,
    /// `wire_len`: the same with the headers of every segment, as qdiscs count it.
    pub wire_length: u32,
    /// Payload of one segment, 0 when the buffer is one frame.
    pub gso_size: u32,
    /// Segments, 0 when the buffer is one frame, or when nobody counted them.
    pub gso_segments: u32,
}

/// The frames and bytes that a buffer leaves as. `headers` is what every segment repeats.
///
/// `gso_segments` can be 0 although the buffer is to be cut (virtio and tun devices hand such in).
/// The kernel's `wire_len` is then wrong, since it adds headers for `0 - 1` segments
/// (qdisc_pkt_len_init in net/core/dev.c), and both numbers are computed here instead.
#[inline(always)]
pub fn on_wire(buffer: Buffer, headers: u32) -> OnWire {
    let Buffer {
        length,
        wire_length,
        gso_size,
        gso_segments,
    } = buffer;
    if gso_size == 0 {
        return OnWire {
            bytes: length as u64,
            packets: 1,
        };
    }
    if gso_segments != 0 {
        return OnWire {
            bytes: wire_length as u64,
            packets: gso_segments as u64,
        };
    }
    let payload = length.saturating_sub(headers);
    let segments = (payload.div_ceil(gso_size)).max(1) as u64;
    OnWire {
        bytes: length as u64 + (segments - 1) * headers as u64,
        packets: segments,
    }
}
