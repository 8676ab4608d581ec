//! What the capture remembers of a frame. A parser of its own, so that the product's parser is not judged by itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use crate::payload::{self, Mark};

/// Bytes of an Ethernet header without tags.
pub const ETHERNET: u32 = 14;
/// Bytes in front of the payload of a UDP packet over IPv4, Ethernet header included.
pub const UDP4_HEADERS: u32 = ETHERNET + 20 + 8;
/// The same over IPv6.
pub const UDP6_HEADERS: u32 = ETHERNET + 40 + 8;

/// One packet as the receiving kernel saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// When the kernel received it, ns since 1970.
    pub time_ns: u64,
    /// Bytes on a wire: the frame with its headers, counted once for each segment of a GSO packet, tags included.
    pub wire_bytes: u32,
    /// Bytes of the frame as one piece, as tx_bytes of a virtual interface counts it.
    pub skb_bytes: u32,
    /// Frames that it is on a wire: 1, or the number of segments of a GSO packet.
    pub segments: u32,
    /// EtherType behind any tags.
    pub ethertype: u16,
    /// VLAN id, outermost.
    pub vlan: Option<u16>,
    /// Source address, if it is IP.
    pub source: Option<IpAddr>,
    /// Destination address, if it is IP.
    pub destination: Option<IpAddr>,
    /// Type of service or traffic class: DSCP and ECN. 0 if it is not IP.
    pub tos: u8,
    /// The header checksum of IPv4 is right; true for everything else.
    pub header_right: bool,
    /// IP protocol number behind any extension headers; 0 if it is not IP.
    pub protocol: u8,
    /// One of several pieces of a datagram.
    pub fragment: bool,
    /// Source port of UDP or TCP, else 0; 0 in all but the first fragment.
    pub source_port: u16,
    /// Destination port of UDP or TCP, else 0.
    pub destination_port: u16,
    /// What the lab's own senders put into the packet.
    pub mark: Option<Mark>,
    /// The payload of a marked packet is what was sent. Only known if the whole packet was kept; true otherwise.
    pub intact: bool,
}

/// What the kernel says about a frame beside its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside {
    /// Receive time, ns since 1970.
    pub time_ns: u64,
    /// Length of the frame, which may be more than the bytes kept.
    pub length: u32,
    /// Payload bytes of each GSO segment; 0 if it is an ordinary packet.
    pub gso_size: u16,
    /// The tag that the kernel took out of the frame.
    pub tag: Option<u16>,
    /// The device has no link header: the frame begins with IP.
    pub bare: bool,
}

struct Headers {
    ethertype: u16,
    inline_tag: Option<u16>,
    addresses: Option<(IpAddr, IpAddr)>,
    tos: u8,
    header_right: bool,
    protocol: u8,
    fragment: bool,
    ports: (u16, u16),
    /// Where the payload of UDP or TCP begins.
    payload: usize,
}

/// Reads a frame of which at least the headers were kept. What cannot be read stays 0.
#[must_use]
pub fn decode(frame: &[u8], beside: Beside) -> Packet {
    let headers = headers(frame, beside.bare);
    let header_bytes = u32::try_from(headers.payload).unwrap_or(u32::MAX);
    let segments = match u32::from(beside.gso_size) {
        0 => 1,
        size => beside
            .length
            .saturating_sub(header_bytes)
            .div_ceil(size)
            .max(1),
    };
    let tag_bytes = if beside.tag.is_some() { 4 } else { 0 };
    let mark = (headers.protocol == 17)
        .then(|| frame.get(headers.payload..))
        .flatten()
        .and_then(payload::read);
    let whole = segments == 1 && u32::try_from(frame.len()) == Ok(beside.length);
    Packet {
        time_ns: beside.time_ns,
        wire_bytes: beside.length + (segments - 1) * header_bytes + segments * tag_bytes,
        skb_bytes: beside.length + tag_bytes,
        segments,
        ethertype: headers.ethertype,
        vlan: beside.tag.or(headers.inline_tag).map(|tag| tag & 0x0fff),
        source: headers.addresses.map(|(source, _)| source),
        destination: headers.addresses.map(|(_, destination)| destination),
        tos: headers.tos,
        header_right: headers.header_right,
        protocol: headers.protocol,
        fragment: headers.fragment,
        source_port: headers.ports.0,
        destination_port: headers.ports.1,
        mark: mark.map(|(mark, _)| mark),
        intact: !whole || mark.is_none_or(|(_, intact)| intact),
    }
}

fn headers(frame: &[u8], bare: bool) -> Headers {
    let (ethertype, inline_tag, network) = link(frame, bare);
    let ip = match ethertype {
        0x0800 => ipv4(frame, network),
        0x86dd => ipv6(frame, network),
        _ => Ip {
            addresses: None,
            tos: 0,
            header_right: true,
            protocol: 0,
            fragment: false,
            later_fragment: false,
            transport: network,
        },
    };
    let has_ports = matches!(ip.protocol, 6 | 17) && !ip.later_fragment;
    let payload = match ip.protocol {
        6 if has_ports => ip.transport + usize::from(byte(frame, ip.transport + 12) >> 4) * 4,
        17 if has_ports => ip.transport + 8,
        _ => ip.transport,
    };
    let ports = if has_ports {
        (be16(frame, ip.transport), be16(frame, ip.transport + 2))
    } else {
        (0, 0)
    };
    Headers {
        ethertype,
        inline_tag,
        addresses: ip.addresses,
        tos: ip.tos,
        header_right: ip.header_right,
        protocol: ip.protocol,
        fragment: ip.fragment,
        ports,
        payload,
    }
}

fn byte(frame: &[u8], at: usize) -> u8 {
    frame.get(at).copied().unwrap_or(0)
}

fn be16(frame: &[u8], at: usize) -> u16 {
    u16::from(byte(frame, at)) << 8 | u16::from(byte(frame, at + 1))
}

fn bytes<const N: usize>(frame: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|index| byte(frame, at + index))
}

/// EtherType behind the tags, the outermost tag in the frame, and where the network header begins.
fn link(frame: &[u8], bare: bool) -> (u16, Option<u16>, usize) {
    if bare {
        let ethertype = match byte(frame, 0) >> 4 {
            4 => 0x0800,
            6 => 0x86dd,
            _ => 0,
        };
        return (ethertype, None, 0);
    }
    let mut at = 12;
    let mut inline_tag = None;
    while matches!(be16(frame, at), 0x8100 | 0x88a8) {
        inline_tag = inline_tag.or(Some(be16(frame, at + 2)));
        at += 4;
    }
    (be16(frame, at), inline_tag, at + 2)
}

struct Ip {
    addresses: Option<(IpAddr, IpAddr)>,
    tos: u8,
    header_right: bool,
    protocol: u8,
    fragment: bool,
    later_fragment: bool,
    transport: usize,
}

fn ipv4(frame: &[u8], at: usize) -> Ip {
    let header = usize::from(byte(frame, at) & 0x0f) * 4;
    let place = be16(frame, at + 6);
    let whole = frame.get(at..at + header);
    Ip {
        addresses: Some((
            Ipv4Addr::from(bytes::<4>(frame, at + 12)).into(),
            Ipv4Addr::from(bytes::<4>(frame, at + 16)).into(),
        )),
        tos: byte(frame, at + 1),
        header_right: whole.is_some_and(|header| crate::raw::checksum(header) == 0),
        protocol: byte(frame, at + 9),
        fragment: place & 0x3fff != 0,
        later_fragment: place & 0x1fff != 0,
        transport: at + header,
    }
}

fn ipv6(frame: &[u8], at: usize) -> Ip {
    let mut protocol = byte(frame, at + 6);
    let mut transport = at + 40;
    let (mut fragment, mut later_fragment) = (false, false);
    while matches!(protocol, 0 | 43 | 44 | 60) && transport < frame.len() && !later_fragment {
        let units = usize::from(byte(frame, transport + 1));
        if protocol == 44 {
            let place = be16(frame, transport + 2);
            fragment = place & 0xfff9 != 0;
            later_fragment = place & 0xfff8 != 0;
        }
        let length = if protocol == 44 { 8 } else { units * 8 + 8 };
        protocol = byte(frame, transport);
        transport += length;
    }
    Ip {
        addresses: Some((
            Ipv6Addr::from(bytes::<16>(frame, at + 8)).into(),
            Ipv6Addr::from(bytes::<16>(frame, at + 24)).into(),
        )),
        tos: u8::try_from((be16(frame, at) >> 4) & 0xff).unwrap_or(0),
        header_right: true,
        protocol,
        fragment,
        later_fragment,
        transport,
    }
}

/// The packets of one sender.
pub fn of_stream(packets: &[Packet], stream: u32) -> Vec<Packet> {
    packets
        .iter()
        .filter(|packet| packet.mark.is_some_and(|mark| mark.stream == stream))
        .copied()
        .collect()
}

/// The sequence numbers that a marked packet covers: one for each segment.
#[must_use]
pub fn sequences(packet: &Packet) -> Range<u64> {
    packet.mark.map_or(0..0, |mark| {
        mark.sequence..mark.sequence + u64::from(packet.segments)
    })
}

#[cfg(test)]
mod tests {
    use super::{Beside, decode};

    fn tcp_frame() -> Vec<u8> {
        let mut frame = vec![0; 14];
        frame[12] = 0x08;
        let mut ip = vec![0; 20];
        ip[0] = 0x45;
        ip[9] = 6;
        let mut tcp = vec![0; 32];
        tcp[..4].copy_from_slice(&[0x12, 0x34, 0x00, 0x50]);
        tcp[12] = 0x80;
        frame.extend(ip);
        frame.extend(tcp);
        frame
    }

    #[test]
    fn a_gso_packet_counts_the_headers_of_every_segment() {
        let frame = tcp_frame();
        let length = 66 + 3 * 1448 + 1;
        let packet = decode(
            &frame,
            Beside {
                length,
                gso_size: 1448,
                ..Beside::default()
            },
        );
        assert_eq!(packet.segments, 4);
        assert_eq!(packet.wire_bytes, length + 3 * 66);
        assert_eq!(
            (packet.protocol, packet.source_port, packet.destination_port),
            (6, 0x1234, 80)
        );
    }

    #[test]
    fn a_tag_counts_wherever_it_is() {
        let mut frame = tcp_frame();
        let taken_out = decode(
            &frame,
            Beside {
                length: 66,
                tag: Some(0x2005),
                ..Beside::default()
            },
        );
        frame.splice(12..12, [0x81, 0x00, 0x20, 0x05]);
        let inline = decode(
            &frame,
            Beside {
                length: 70,
                ..Beside::default()
            },
        );
        for packet in [taken_out, inline] {
            assert_eq!(
                (packet.wire_bytes, packet.vlan, packet.protocol),
                (70, Some(5), 6)
            );
        }
    }

    #[test]
    fn a_torn_frame_is_no_panic() {
        for length in 0..66 {
            for bare in [false, true] {
                let beside = Beside {
                    bare,
                    ..Beside::default()
                };
                let _ = decode(&tcp_frame()[..length], beside);
            }
        }
    }
}
