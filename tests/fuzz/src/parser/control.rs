//! Which packets are control traffic, written from the list in the documentation and not from the
//! parser.

use std::net::IpAddr;

/// EtherTypes of protocols that keep links and neighbours alive: ARP, wake-on-LAN, RARP, flow control,
/// slow protocols, PPPoE discovery, EAPOL, LLDP, PTP, CFM, loop test.
const LINK_PROTOCOLS: [u16; 11] = [
    0x0806, 0x0842, 0x8035, 0x8808, 0x8809, 0x8863, 0x888e, 0x88cc, 0x88f7, 0x8902, 0x9000,
];
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// RIP, RIPng, LDP, HSRP, GLBP, Babel.
const HELLO_PORTS: [u16; 6] = [520, 521, 646, 1985, 3222, 6696];

/// Whether an Ethernet frame passes without being IP: one of the above behind at most two tags, or
/// LLC to the group that spanning tree uses.
pub(super) fn is_link(frame: &[u8]) -> bool {
    let kinds: Vec<u16> = [12, 16, 20]
        .iter()
        .filter_map(|at| frame.get(*at..at + 2))
        .map(|kind| u16::from_be_bytes([kind[0], kind[1]]))
        .collect();
    let behind_tags = kinds
        .iter()
        .enumerate()
        .find(|(at, kind)| *at == 2 || !TAGS.contains(kind));
    behind_tags.is_some_and(|(_, kind)| {
        LINK_PROTOCOLS.contains(kind)
            || *kind < 0x0600 && frame.starts_with(&[0x01, 0x80, 0xc2, 0, 0])
    })
}

/// What of an IP packet decides whether it is control traffic.
#[derive(Debug)]
pub(super) struct Datagram {
    pub(super) destination: IpAddr,
    /// As in [`leaky_core::wire::Headers`].
    pub(super) protocol: u8,
    pub(super) hops: u8,
    pub(super) fragment: bool,
    /// 0 where it has none.
    pub(super) destination_port: u16,
    /// The first byte behind the IP headers.
    pub(super) kind: Option<u8>,
}

impl Datagram {
    pub(super) fn is_control(&self) -> bool {
        match self.destination {
            IpAddr::V4(to) => {
                let local = to.octets().starts_with(&[224, 0, 0]);
                self.protocol == 2 && to.is_multicast() || self.is_routing(local)
            }
            IpAddr::V6(to) => {
                let local = to.segments()[0] == 0xff02;
                // The parser stops at a fragment header.
                !self.fragment && (self.is_discovery() || self.is_routing(local))
            }
        }
    }

    fn is_discovery(&self) -> bool {
        let listener = [130, 131, 132, 143];
        self.protocol == 58
            && self.kind.is_some_and(|kind| {
                (133..=137).contains(&kind) && self.hops == 255
                    || listener.contains(&kind) && self.hops == 1
            })
    }

    fn is_routing(&self, local: bool) -> bool {
        match self.protocol {
            // EIGRP, PIM, VRRP.
            88 | 103 | 112 => local,
            // OSPF, also to a neighbour.
            89 => local || self.hops == 1,
            17 => local && HELLO_PORTS.contains(&self.destination_port),
            _ => false,
        }
    }
}
