//! Control traffic: what keeps links, neighbours and routes alive. It is little, and where it waits or
//! is lost the link is lost, so it passes unless a policy says otherwise.
//!
//! The list is short on purpose: whatever is on it can be sent past every limit.

use crate::wire::Frame;

/// Whether an Ethernet frame goes to 01:80:c2:00:00:xx, which spanning tree and its like use and no
/// user's frame does (IEEE 802.1Q, table 8-1).
#[inline(always)]
pub(crate) fn is_to_bridge_group<F: Frame + ?Sized>(frame: &F) -> bool {
    frame.u16(0) == Some(0x0180) && frame.u16(2) == Some(0xc200) && frame.u8(4) == Some(0)
}

/// Whether an EtherType is that of a protocol which keeps links and neighbours alive and carries no
/// user traffic. Every other non-IP protocol (PPPoE sessions, MPLS, MACsec, batman-adv, ...) may carry
/// some and is shaped.
///
/// ARP, wake-on-LAN, RARP, flow control, slow protocols (LACP), PPPoE discovery, EAPOL, LLDP, PTP,
/// CFM, loop tests.
pub(crate) const fn is_ethertype(ethertype: u16) -> bool {
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
pub(crate) const fn is_icmpv6(kind: u8, hop_limit: u8) -> bool {
    matches!((kind, hop_limit), (133..=137, 255) | (130..=132 | 143, 1))
}

/// Whether an IPv4 address is multicast, where IGMP goes (RFC 3376).
#[inline(always)]
pub(crate) const fn is_multicast(address: u32) -> bool {
    address.to_ne_bytes()[0] >> 4 == 0xe
}

/// Whether an IPv4 address is in 224.0.0.0/24, which no router forwards (RFC 5771).
#[inline(always)]
pub(crate) const fn is_local_group_v4(address: u32) -> bool {
    address & u32::from_ne_bytes([255, 255, 255, 0]) == u32::from_ne_bytes([224, 0, 0, 0])
}

/// Whether an IPv6 address with this first word is in ff02::/16, which no router forwards (RFC 4291).
#[inline(always)]
pub(crate) const fn is_local_group_v6(first: u32) -> bool {
    first & u32::from_ne_bytes([255, 255, 0, 0]) == u32::from_ne_bytes([0xff, 0x02, 0, 0])
}

/// Whether an IP protocol is one with which routers keep each other: EIGRP (88), OSPF (89), PIM (103)
/// and VRRP (112) to a group that stays on the link, or OSPF to a neighbour, which is one hop away
/// (RFC 2328, appendix A.1).
#[inline(always)]
pub(crate) const fn is_routing(protocol: u8, to_local_group: bool, hops: u8) -> bool {
    match protocol {
        88 | 103 | 112 => to_local_group,
        89 => to_local_group || hops == 1,
        _ => false,
    }
}

/// Whether datagrams to this UDP port of a group that stays on the link are hellos or routes: RIP (520),
/// RIPng (521), LDP (646), HSRP (1985), GLBP (3222), Babel (6696).
#[inline(always)]
pub(crate) const fn is_hello_port(port: u16) -> bool {
    matches!(port, 520 | 521 | 646 | 1985 | 3222 | 6696)
}
