//! What etherparse makes of a frame that it can read to the end.

use super::control::Datagram;
use etherparse::{
    Ipv4Slice, Ipv6ExtensionSlice, Ipv6Slice, LinkExtSlice, NetSlice, SlicedPacket, TransportSlice,
};
use leaky_core::wire::{Headers, Layer, Parsed};
use std::net::IpAddr;

/// Tags that the parser follows.
const TAGS: usize = 2;
/// Extension headers that the parser follows.
const EXTENSIONS: usize = 8;

const AUTHENTICATION: u8 = 51;
const SCTP: u8 = 132;
const MOBILITY: u8 = 135;
const UDP_LITE: u8 = 136;

pub(super) struct Opinion {
    headers: Headers,
    /// Where the headers end.
    end: usize,
    control: bool,
}

/// The network layer's part of it, and what is behind.
struct Network<'a> {
    headers: Headers,
    datagram: Datagram,
    /// What follows the IP headers, empty if the parser does not look at it.
    payload: &'a [u8],
    end: usize,
}

impl Opinion {
    /// `None` where etherparse cannot read the frame, or reads what the parser does not claim to: a
    /// third tag, MACsec, a ninth extension header; or the other way round.
    pub(super) fn of(frame: &[u8], layer: Layer) -> Option<Opinion> {
        let packet = match layer {
            Layer::Ethernet => SlicedPacket::from_ethernet(frame),
            Layer::Ip => SlicedPacket::from_ip(frame),
        }
        .ok()?;
        let mut vlans = 0;
        for (at, extension) in packet.link_exts.iter().enumerate() {
            match extension {
                LinkExtSlice::Vlan(tag) if at < TAGS => {
                    vlans |= u32::from(tag.vlan_identifier().value()) << (16 * at);
                }
                _ => return None,
            }
        }
        let offset = |part: &[u8]| part.as_ptr() as usize - frame.as_ptr() as usize;
        let mut network = match packet.net.as_ref()? {
            NetSlice::Ipv4(ip) => ipv4(ip, offset),
            NetSlice::Ipv6(ip) => ipv6(ip, offset)?,
            NetSlice::Arp(_) => return None,
        };
        network.headers.vlans = vlans;
        let transport = packet.transport.as_ref();
        transport_of(network, transport, offset)
    }

    pub(super) fn agrees(&self, frame: &[u8], found: (Parsed, Headers)) {
        let end = u32::try_from(self.end).unwrap_or(u32::MAX);
        let parsed = if self.control {
            Parsed::Control(end)
        } else {
            Parsed::Traffic(end)
        };
        assert_eq!(
            found,
            (parsed, self.headers),
            "not as etherparse has it (right): {frame:02x?}"
        );
    }
}

fn transport_of(
    network: Network,
    transport: Option<&TransportSlice>,
    offset: impl Fn(&[u8]) -> usize,
) -> Option<Opinion> {
    let Network {
        mut headers,
        mut datagram,
        payload,
        mut end,
    } = network;
    // A fragment has no ports, nor has what is behind a header that the parser does not follow.
    if !payload.is_empty() {
        match transport {
            Some(TransportSlice::Udp(udp)) => {
                headers.source_port = udp.source_port();
                headers.destination_port = udp.destination_port();
                end = offset(udp.payload());
            }
            Some(TransportSlice::Tcp(tcp)) => {
                headers.source_port = tcp.source_port();
                headers.destination_port = tcp.destination_port();
                end = offset(tcp.payload());
            }
            _ if matches!(headers.protocol, SCTP | UDP_LITE) => {
                let ports = payload.first_chunk::<4>()?;
                headers.source_port = u16::from_be_bytes([ports[0], ports[1]]);
                headers.destination_port = u16::from_be_bytes([ports[2], ports[3]]);
                end += if headers.protocol == SCTP { 12 } else { 8 };
            }
            _ => {}
        }
    } else if matches!(headers.protocol, SCTP | UDP_LITE) && !datagram.fragment {
        // Behind the end that the IP header says; etherparse refuses it with TCP and UDP.
        return None;
    }
    datagram.destination_port = headers.destination_port;
    datagram.kind = payload.first().copied();
    Some(Opinion {
        headers,
        end,
        control: datagram.is_control(),
    })
}

fn ipv4<'a>(ip: &Ipv4Slice<'a>, offset: impl Fn(&[u8]) -> usize) -> Network<'a> {
    let header = ip.header();
    let fragment = ip.payload().fragmented;
    let start = offset(header.slice());
    // The parser follows no authentication header in IPv4.
    let authenticated = ip.extensions().auth.is_some();
    let protocol = if authenticated {
        AUTHENTICATION
    } else {
        header.protocol().0
    };
    Network {
        headers: Headers {
            source: words(&header.source()),
            destination: words(&header.destination()),
            protocol,
            version: 4,
            traffic_class: header.dcp().value() << 2 | header.ecn().value(),
            ..Headers::default()
        },
        datagram: Datagram {
            destination: IpAddr::from(header.destination()),
            protocol,
            hops: header.ttl(),
            fragment,
            destination_port: 0,
            kind: None,
        },
        payload: if fragment || authenticated {
            &[]
        } else {
            ip.payload().payload
        },
        end: start + header.slice().len(),
    }
}

fn ipv6<'a>(ip: &Ipv6Slice<'a>, offset: impl Fn(&[u8]) -> usize) -> Option<Network<'a>> {
    let header = ip.header();
    let extensions = ip.extensions().clone().into_iter();
    // The parser stops at a fragment header, even one of a packet that is whole.
    let stop = extensions
        .take(EXTENSIONS)
        .find_map(|extension| match extension {
            Ipv6ExtensionSlice::Fragment(fragment) => {
                Some((fragment.next_header().0, offset(fragment.slice()) + 8))
            }
            _ => None,
        });
    let count = ip.extensions().clone().into_iter().count();
    let last = ip.payload().ip_number.0;
    if stop.is_none() && (count > EXTENSIONS || last == MOBILITY) {
        return None;
    }
    let (protocol, end) = stop.unwrap_or((last, offset(ip.payload().payload)));
    Some(Network {
        headers: Headers {
            source: words(&header.source()),
            destination: words(&header.destination()),
            protocol,
            version: 6,
            traffic_class: header.traffic_class(),
            ..Headers::default()
        },
        datagram: Datagram {
            destination: IpAddr::from(header.destination()),
            protocol,
            hops: header.hop_limit(),
            fragment: stop.is_some(),
            destination_port: 0,
            kind: None,
        },
        payload: if stop.is_some() {
            &[]
        } else {
            ip.payload().payload
        },
        end,
    })
}

fn words(address: &[u8]) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(address.chunks_exact(4)) {
        *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    words
}
