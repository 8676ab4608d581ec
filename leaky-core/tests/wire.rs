//! The parser against etherparse as second opinion, and against bytes that are no packet at all.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use etherparse::{
    IpFragOffset, IpHeaders, IpNumber, Ipv4Header, NetSlice, PacketBuilder, SlicedPacket,
    TransportSlice, UdpHeader,
};
use leaky_core::size::{Buffer, Framing, OnWire, on_wire};
use leaky_core::wire::{Headers, Layer, Parsed, parse};
use proptest::prelude::*;

fn read(frame: &[u8], layer: Layer) -> (Parsed, Headers) {
    read_behind(None, frame, layer)
}

/// With a VLAN tag that the kernel keeps beside the frame.
fn read_behind(tag: Option<u16>, frame: &[u8], layer: Layer) -> (Parsed, Headers) {
    let mut headers = Headers::default();
    (parse(frame, layer, tag, &mut headers), headers)
}

fn is_control(frame: &[u8]) -> bool {
    matches!(read(frame, Layer::Ethernet).0, Parsed::Control(_))
}

fn words(address: &[u8]) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(address.chunks(4)) {
        *word = u32::from_ne_bytes(bytes.try_into().unwrap());
    }
    words
}

/// What etherparse makes of a frame that it can read to the end: the flow and the headers' length.
fn second_opinion(frame: &[u8]) -> (Headers, usize) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let mut flow = Headers::default();
    for (tag, id) in packet.vlan_ids().iter().enumerate() {
        flow.vlans |= u32::from(id.value()) << (16 * tag);
    }
    match packet.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            flow.version = 4;
            let dscp = ip.header().dcp().value();
            flow.traffic_class = dscp << 2 | ip.header().ecn().value();
            flow.source = words(&ip.header().source());
            flow.destination = words(&ip.header().destination());
            flow.protocol = ip.payload_ip_number().0;
        }
        NetSlice::Ipv6(ip) => {
            flow.version = 6;
            flow.traffic_class = ip.header().traffic_class();
            flow.source = words(&ip.header().source());
            flow.destination = words(&ip.header().destination());
            flow.protocol = ip.payload().ip_number.0;
        }
        NetSlice::Arp(_) => panic!("built as IP"),
    }
    let payload = match packet.transport.as_ref().unwrap() {
        TransportSlice::Udp(udp) => {
            flow.source_port = udp.source_port();
            flow.destination_port = udp.destination_port();
            udp.payload().len()
        }
        TransportSlice::Tcp(tcp) => {
            flow.source_port = tcp.source_port();
            flow.destination_port = tcp.destination_port();
            tcp.payload().len()
        }
        other => panic!("{other:?}"),
    };
    (flow, frame.len() - payload)
}

#[derive(Clone, Copy, Debug)]
enum Tags {
    None,
    One,
    Two,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_etherparse(
        tags in prop_oneof![Just(Tags::None), Just(Tags::One), Just(Tags::Two)],
        six: bool,
        addresses in prop::array::uniform32(any::<u8>()),
        ports: (u16, u16),
        tcp: bool,
        options in 0usize..=10,
        payload in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let id = |n: u16| n.try_into().unwrap();
        let (source, destination) = addresses.split_at(16);
        let four = |address: &[u8]| <[u8; 4]>::try_from(&address[..4]).unwrap();
        let sixteen = |address: &[u8]| <[u8; 16]>::try_from(address).unwrap();
        let (v4, v6) = (
            (four(source), four(destination)), (sixteen(source), sixteen(destination)),
        );
        let ip = match (tags, six) {
            (Tags::None, false) => ethernet.ipv4(v4.0, v4.1, 9),
            (Tags::None, true) => ethernet.ipv6(v6.0, v6.1, 9),
            (Tags::One, false) => ethernet.single_vlan(id(5)).ipv4(v4.0, v4.1, 9),
            (Tags::One, true) => ethernet.single_vlan(id(5)).ipv6(v6.0, v6.1, 9),
            (Tags::Two, false) => ethernet.double_vlan(id(5), id(6)).ipv4(v4.0, v4.1, 9),
            (Tags::Two, true) => ethernet.double_vlan(id(5), id(6)).ipv6(v6.0, v6.1, 9),
        };
        let mut frame = Vec::new();
        if tcp {
            let header = ip.tcp(ports.0, ports.1, 7, 8);
            header.options_raw(&vec![1; options * 4]).unwrap().write(&mut frame, &payload).unwrap();
        } else {
            ip.udp(ports.0, ports.1).write(&mut frame, &payload).unwrap();
        }
        let (flow, length) = second_opinion(&frame);
        let (parsed, found) = read(&frame, Layer::Ethernet);
        prop_assert_eq!(found, flow);
        prop_assert_eq!(parsed, Parsed::Traffic(u32::try_from(length).unwrap()));
    }

    #[test]
    fn no_bytes_make_it_panic_or_read_beyond_the_end(
        frame in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        read(&frame, Layer::Ethernet);
        read(&frame, Layer::Ip);
    }

    #[test]
    fn nor_do_packets_that_end_anywhere(six: bool, length in 0usize..=74) {
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let ip = if six { ethernet.ipv6([1; 16], [2; 16], 9) } else { ethernet.ipv4([1; 4], [2; 4], 9) };
        let mut frame = Vec::new();
        ip.tcp(1, 2, 3, 4).write(&mut frame, &[]).unwrap();
        frame.truncate(length);
        let whole = if six { 74 } else { 54 };
        // The data offset of TCP is in its 13th byte; the checksum and what follows is not read.
        let needed = whole - 7;
        let (parsed, _) = read(&frame, Layer::Ethernet);
        prop_assert_eq!(matches!(parsed, Parsed::Truncated(_)), frame.len() < needed);
    }
}

/// Frames beginning with these EtherType and payload bytes.
fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame.resize(frame.len().max(60), 0);
    frame
}

#[test]
fn non_ip_control_passes_and_user_traffic_in_other_wrappings_does_not() {
    for kind in [0x0806, 0x8035, 0x88cc, 0x888e, 0x8863, 0x8809, 0x88f7] {
        assert!(is_control(&ethernet(kind, &[])), "{kind:#x}");
    }
    for kind in [0x8864, 0x8847, 0x8848, 0x88e5, 0x4305, 0x0bad] {
        let (parsed, flow) = read(&ethernet(kind, &[]), Layer::Ethernet);
        assert_eq!(
            (parsed, flow),
            (Parsed::Traffic(14), Headers::default()),
            "{kind:#x}"
        );
    }
}

#[test]
fn l41_frames_with_more_tags_than_are_followed_are_shaped() {
    let mut tags = Vec::new();
    for _ in 0..3 {
        tags.extend([0, 5, 0x81, 0x00]);
    }
    let (parsed, flow) = read(&ethernet(0x8100, &tags), Layer::Ethernet);
    // Limited as what it is, in the VLANs that were read.
    let in_vlans = Headers {
        vlans: 5 << 16 | 5,
        ..Headers::default()
    };
    assert_eq!((parsed, flow), (Parsed::Traffic(22), in_vlans));
}

#[test]
fn fragments_are_keyed_by_addresses_and_protocol_the_first_included() {
    let fragment = |offset: u16, more: bool| {
        let mut header = Ipv4Header::new(108, 9, IpNumber::UDP, [1; 4], [2; 4]).unwrap();
        header.fragment_offset = IpFragOffset::try_new(offset).unwrap();
        header.more_fragments = more;
        let mut frame = Vec::new();
        let udp = UdpHeader {
            source_port: 5,
            destination_port: 6,
            length: 108,
            checksum: 0,
        };
        let mut payload = udp.to_bytes().to_vec();
        payload.extend([9; 100]);
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ip(IpHeaders::Ipv4(header, Default::default()))
            .write(&mut frame, IpNumber::UDP, &payload)
            .unwrap();
        read(&frame, Layer::Ethernet).1
    };
    let (first, middle, last) = (fragment(0, true), fragment(13, true), fragment(26, false));
    assert_eq!((first, middle), (middle, last));
    assert_eq!(
        (first.source_port, first.destination_port, first.protocol),
        (0, 0, 17)
    );
}

/// An IPv6 packet with these extension headers (type, bytes behind the next-header field) and a
/// UDP header.
fn ipv6_with(extensions: &[(u8, &[u8])], last: u8) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0];
    packet.push(extensions.first().map_or(last, |extension| extension.0));
    packet.push(64);
    packet.extend([1; 16]);
    packet.extend([2; 16]);
    for (at, (_, body)) in extensions.iter().enumerate() {
        packet.push(extensions.get(at + 1).map_or(last, |next| next.0));
        packet.extend(*body);
    }
    packet.extend([0, 5, 0, 6, 0, 8, 0, 0]);
    ethernet(0x86dd, &packet)
}

#[test]
fn ipv6_extension_headers_are_followed() {
    let eight: &[u8] = &[0; 7];
    let sixteen: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // 24 B: an authentication header counts in fours.
    let authentication: &[u8] = &[
        4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let chains: [&[(u8, &[u8])]; 4] = [
        &[],
        &[(0, eight)],
        &[(0, sixteen), (60, eight), (43, sixteen)],
        &[
            (0, eight),
            (60, eight),
            (43, eight),
            (51, authentication),
            (60, eight),
            (135, eight),
            (60, eight),
        ],
    ];
    for chain in chains {
        let frame = ipv6_with(chain, 17);
        let (parsed, flow) = read(&frame, Layer::Ethernet);
        let length: usize = chain.iter().map(|(_, body)| body.len() + 1).sum();
        assert_eq!(
            (flow.source_port, flow.destination_port, flow.protocol),
            (5, 6, 17)
        );
        assert_eq!(
            parsed,
            Parsed::Traffic(u32::try_from(14 + 40 + length + 8).unwrap())
        );
    }
}

/// Cases L41, L43.2: beyond eight extension headers there are no ports, and the addresses stay.
#[test]
fn l43_a_ninth_extension_header_is_told() {
    let body: &[u8] = &[0; 7];
    for (count, cut_short) in [(8, 0), (9, 1), (12, 1)] {
        let chain = vec![(60, body); count];
        let (parsed, headers) = read(&ipv6_with(&chain, 17), Layer::Ethernet);
        assert!(matches!(parsed, Parsed::Traffic(_)), "{parsed:?}");
        assert_eq!(headers.cut_short, cut_short, "{count}");
        assert_eq!(headers.version, 6);
        assert_eq!(headers.source, words(&[1; 16]));
        let port = if cut_short == 0 { 5 } else { 0 };
        assert_eq!(headers.source_port, port);
    }
}

#[test]
fn ipv6_fragments_have_no_ports_and_the_protocol_of_the_datagram() {
    let (parsed, flow) = read(
        &ipv6_with(&[(44, &[0, 0, 1, 0, 0, 0, 9])], 17),
        Layer::Ethernet,
    );
    assert_eq!((flow.source_port, flow.protocol), (0, 17));
    assert_eq!(parsed, Parsed::Traffic(14 + 40 + 8));
}

#[test]
fn neighbour_and_listener_discovery_are_control_and_a_ping_is_not() {
    for kind in [130u8, 131, 132, 133, 134, 135, 136, 137, 143] {
        let mut frame = ipv6_with(&[(0, &[0; 7])], 58);
        frame[14 + 40 + 8] = kind;
        let hop_limit = if (133..=137).contains(&kind) { 255 } else { 1 };
        // With another hop limit it came from beyond this link, or is made up.
        assert!(
            matches!(read(&frame, Layer::Ethernet).0, Parsed::Traffic(_)),
            "{kind}"
        );
        frame[14 + 7] = hop_limit;
        assert!(is_control(&frame), "{kind}");
    }
    for kind in [1u8, 2, 3, 128, 129] {
        let mut frame = ipv6_with(&[], 58);
        frame[14 + 40] = kind;
        assert!(
            matches!(read(&frame, Layer::Ethernet).0, Parsed::Traffic(_)),
            "{kind}"
        );
    }
}

#[test]
fn spanning_tree_is_control_and_other_llc_frames_are_not() {
    let mut frame = ethernet(0x0026, &[0x42, 0x42, 3]);
    assert!(matches!(
        read(&frame, Layer::Ethernet).0,
        Parsed::Traffic(_)
    ));
    frame[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0]);
    assert!(is_control(&frame));
}

#[test]
fn igmp_is_control_only_where_it_belongs() {
    for (destination, control) in [
        ([224, 0, 0, 22], true),
        ([239, 1, 2, 3], true),
        ([10, 0, 0, 2], false),
    ] {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([1; 4], destination, 1)
            .write(&mut frame, IpNumber::IGMP, &[0x22; 16])
            .unwrap();
        let parsed = read(&frame, Layer::Ethernet).0;
        assert_eq!(
            matches!(parsed, Parsed::Control(_)),
            control,
            "{destination:?}: {parsed:?}"
        );
    }
}

#[test]
fn a_bare_ip_packet_has_the_flow_of_the_same_packet_behind_ethernet() {
    for six in [false, true] {
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let ip = if six {
            ethernet.ipv6([1; 16], [2; 16], 9)
        } else {
            ethernet.ipv4([1; 4], [2; 4], 9)
        };
        let mut frame = Vec::new();
        ip.udp(5, 6).write(&mut frame, &[0; 10]).unwrap();
        assert_eq!(
            read(&frame, Layer::Ethernet).1,
            read(&frame[14..], Layer::Ip).1
        );
    }
    assert!(matches!(read(&[0xff; 40], Layer::Ip).0, Parsed::Traffic(0)));
}

/// Case L40: a tag that the kernel keeps beside the frame and one inside it are the same.
#[test]
fn l40_a_tag_beside_the_frame_counts_like_one_inside() {
    let packet = |tags: &[u16]| {
        let id = |n: u16| n.try_into().unwrap();
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let ip = match tags {
            [] => ethernet.ipv4([1; 4], [2; 4], 9),
            [one] => ethernet.single_vlan(id(*one)).ipv4([1; 4], [2; 4], 9),
            [one, two, ..] => ethernet
                .double_vlan(id(*one), id(*two))
                .ipv4([1; 4], [2; 4], 9),
        };
        let mut frame = Vec::new();
        ip.udp(5, 6).write(&mut frame, &[0; 10]).unwrap();
        frame
    };
    let inside = read(&packet(&[100]), Layer::Ethernet).1;
    assert_eq!(inside.vlans, 100);
    let priority = 5 << 13;
    let beside = read_behind(Some(100 | priority), &packet(&[]), Layer::Ethernet).1;
    assert_eq!(beside, inside);
    let both = read(&packet(&[100, 200]), Layer::Ethernet).1;
    assert_eq!(both.vlans, 200 << 16 | 100);
    assert_eq!(
        read_behind(Some(100), &packet(&[200]), Layer::Ethernet).1,
        both
    );
    // Beside two inside there is no place for the third number; the packet behind is still read.
    let three = read_behind(Some(100), &packet(&[200, 300]), Layer::Ethernet).1;
    assert_eq!(three, both);
}

/// Case L42: options move the ports, and a header that cannot be is no IP.
#[test]
fn l42_ipv4_headers_of_every_length() {
    let plain = {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([1; 4], [2; 4], 9)
            .udp(5, 6)
            .write(&mut frame, &[0; 10])
            .unwrap();
        frame
    };
    let key = read(&plain, Layer::Ethernet).1;
    for words in 5u8..=15 {
        let mut frame = plain[..34].to_vec();
        frame[14] = 0x40 | words;
        // No-operation options, then the transport header.
        frame.extend(vec![1; (usize::from(words) - 5) * 4]);
        frame.extend(&plain[34..]);
        let (parsed, headers) = read(&frame, Layer::Ethernet);
        assert_eq!(headers, key, "{words} words");
        assert_eq!(parsed, Parsed::Traffic(14 + u32::from(words) * 4 + 8));
    }
    for words in 0u8..5 {
        let mut frame = plain.clone();
        frame[14] = 0x40 | words;
        let (parsed, headers) = read(&frame, Layer::Ethernet);
        assert_eq!(
            (parsed, headers.is_readable()),
            (Parsed::Traffic(14), false)
        );
    }
}

/// Case L43.3: protocols without ports are keyed by addresses and protocol, and nothing in them is
/// taken for ports.
#[test]
fn l43_icmp_esp_and_others_have_no_ports_and_sctp_has() {
    for protocol in [1u8, 4, 41, 47, 50, 51, 58, 94, 108, 255] {
        for six in [false, true] {
            let mut frame = Vec::new();
            let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
            let ip = if six {
                ethernet.ipv6([1; 16], [2; 16], 9)
            } else {
                ethernet.ipv4([1; 4], [2; 4], 9)
            };
            // An authentication header (51) of 8 B in IPv6 is followed to the protocol 0xff in it.
            ip.write(&mut frame, IpNumber(protocol), &[0xff; 64])
                .unwrap();
            let headers = read(&frame, Layer::Ethernet).1;
            assert_eq!(
                (headers.source_port, headers.destination_port),
                (0, 0),
                "{protocol} {six}"
            );
            if !(six && protocol == 51) {
                assert_eq!(headers.protocol, protocol);
            }
        }
    }
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([1; 4], [2; 4], 9)
        .write(
            &mut frame,
            IpNumber::SCTP,
            &[0, 5, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0],
        )
        .unwrap();
    let (parsed, headers) = read(&frame, Layer::Ethernet);
    assert_eq!((headers.source_port, headers.destination_port), (5, 6));
    assert_eq!(parsed, Parsed::Traffic(14 + 20 + 12));
}

/// Case L65: what routers need to keep each other passes.
#[test]
fn l65_routing_hellos_are_control_and_the_same_protocol_elsewhere_is_not() {
    let ip = |destination: [u8; 4], hops: u8, protocol: u8, payload: &[u8]| {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], destination, hops)
            .write(&mut frame, IpNumber(protocol), payload)
            .unwrap();
        frame
    };
    for protocol in [88u8, 89, 103, 112] {
        assert!(is_control(&ip([224, 0, 0, 5], 1, protocol, &[0; 40])));
        assert!(!is_control(&ip([10, 0, 0, 2], 64, protocol, &[0; 40])));
    }
    assert!(
        is_control(&ip([10, 0, 0, 2], 1, 89, &[0; 40])),
        "OSPF to a neighbour"
    );
    let udp = |port: u16| {
        let mut payload = vec![0; 20];
        payload[2..4].copy_from_slice(&port.to_be_bytes());
        payload
    };
    for port in [520, 646, 1985, 3222] {
        assert!(is_control(&ip([224, 0, 0, 9], 1, 17, &udp(port))), "{port}");
        assert!(
            !is_control(&ip([10, 0, 0, 2], 64, 17, &udp(port))),
            "{port}"
        );
    }
    assert!(
        !is_control(&ip([224, 0, 0, 251], 255, 17, &udp(5353))),
        "mDNS"
    );
    let six = |destination: [u8; 16], port: u16| {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv6([1; 16], destination, 1)
            .udp(5, port)
            .write(&mut frame, &[0; 10])
            .unwrap();
        frame
    };
    let mut group = [0; 16];
    (group[0], group[1], group[15]) = (0xff, 0x02, 9);
    assert!(is_control(&six(group, 521)));
    assert!(!is_control(&six(group, 5353)));
    assert!(!is_control(&six([3; 16], 521)));
}

#[test]
fn dscp_and_ecn_are_read_from_both_versions() {
    let mut four = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([1; 4], [2; 4], 9)
        .udp(5, 6)
        .write(&mut four, &[0; 10])
        .unwrap();
    four[15] = 46 << 2 | 1;
    let mut six = ipv6_with(&[], 17);
    six[14] = 0x60 | 46 >> 2;
    six[15] = (46 & 3) << 6 | 1 << 4;
    for frame in [four, six] {
        let headers = read(&frame, Layer::Ethernet).1;
        assert_eq!((headers.dscp(), headers.is_ecn_capable()), (46, true));
    }
}

#[test]
fn overhead_and_minimum_are_charged_for_every_frame() {
    let framing = |overhead, minimum| Framing { overhead, minimum };
    let frame = |length| {
        on_wire(
            Buffer {
                length,
                wire_length: length,
                ..Buffer::default()
            },
            42,
        )
    };
    assert_eq!(framing(0, 0).charged(frame(60)), 60);
    assert_eq!(framing(24, 84).charged(frame(60)), 84);
    assert_eq!(framing(24, 100).charged(frame(60)), 100);
    assert_eq!(framing(24, 84).charged(frame(1_514)), 1_538);
    // Ten frames of 142 B, then one with 1 B of payload: 43 B.
    let gso = on_wire(
        Buffer {
            length: 1_043,
            wire_length: 1_043 + 10 * 42,
            gso_size: 100,
            gso_segments: 11,
            beside: 0,
        },
        42,
    );
    assert_eq!((gso.packets, gso.full, gso.last), (11, 142, 43));
    // Segments shorter than the minimum are filled up each.
    assert_eq!(framing(0, 150).charged(gso), 11 * 150);
    assert_eq!(
        framing(24, 84).charged(gso),
        10 * (142 + 24) + 84,
        "the last is filled up"
    );
}

#[test]
fn a_tag_beside_the_frame_is_charged() {
    let buffer = Buffer {
        length: 1_000,
        wire_length: 1_000,
        beside: 4,
        ..Buffer::default()
    };
    assert_eq!(on_wire(buffer, 42).bytes, 1_004);
    let gso = Buffer {
        length: 1_042,
        wire_length: 1_420,
        gso_size: 100,
        gso_segments: 10,
        beside: 4,
    };
    assert_eq!(on_wire(gso, 42).bytes, 1_460);
}

#[test]
fn l22_every_segment_of_a_gso_packet_counts_with_its_headers() {
    let gso = |wire_length, gso_segments| {
        on_wire(
            Buffer {
                length: 1_042,
                wire_length,
                gso_size: 100,
                gso_segments,
                beside: 0,
            },
            42,
        )
    };
    let wanted = OnWire {
        bytes: 1_420,
        packets: 10,
        full: 142,
        last: 142,
    };
    assert_eq!(gso(1_420, 10), wanted);
    // Nobody counted the segments, and the kernel's wire_len is wrong then.
    assert_eq!(gso(1_000, 0), wanted);
    let plain = Buffer {
        length: 1_042,
        wire_length: 1_042,
        ..Buffer::default()
    };
    assert_eq!(
        on_wire(plain, 42),
        OnWire {
            bytes: 1_042,
            packets: 1,
            full: 1_042,
            last: 1_042,
        }
    );
    // Headers longer than the packet, as odd input can claim: no wrap, at least one frame.
    let odd = Buffer {
        length: 20,
        wire_length: 20,
        gso_size: 100,
        gso_segments: 0,
        beside: 0,
    };
    assert_eq!(
        on_wire(odd, 42),
        OnWire {
            bytes: 20,
            packets: 1,
            full: 142,
            last: 42,
        }
    );
}
