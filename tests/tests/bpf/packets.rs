//! Every kind of packet: control traffic passes, everything else is limited.

use crate::rig::*;
use etherparse::{IpFragOffset, IpHeaders, IpNumber, Ipv4Header, PacketBuilder};
use leaky_core::key::KeyMask;
use leaky_core::rate::Rate;
use leaky_core::time::Span;
use leaky_core::wire::Layer;
use leaky_user::bpf::Kind;

pub(crate) fn control_traffic_is_neither_delayed_nor_dropped() -> Outcome {
    let mut bench = Bench::new(Kind::DepartureTime, KeyMask::NOTHING, slow())?;
    for _ in 0..20 {
        bench.send(&udp(1, 1_000), &Context::new())?;
    }
    let ethernet = |kind: [u8; 2]| {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, kind[0], kind[1]];
        frame.resize(60, 0);
        frame
    };
    let arp = ethernet([0x08, 0x06]);
    let lldp = ethernet([0x88, 0xcc]);
    let mut igmp = Vec::new();
    PacketBuilder::ethernet2([2; 6], [1; 6])
        .ipv4([10, 0, 0, 1], [224, 0, 0, 22], 1)
        .write(&mut igmp, IpNumber::IGMP, &[0x22; 16])?;
    let icmpv6 = |kind: u8| {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [1; 6])
            .ipv6(
                [0xfe; 16],
                [0xff; 16],
                if (133..=137).contains(&kind) { 255 } else { 1 },
            )
            .icmpv6_raw(kind, 0, [0; 4])
            .write(&mut frame, &[0; 16])
            .map(|()| frame)
    };
    let mut frames = vec![arp, lldp, igmp];
    for kind in [130, 131, 132, 133, 134, 135, 136, 137, 143] {
        frames.push(icmpv6(kind)?);
    }
    let control = frames.len() as u64;
    for frame in frames {
        let (verdict, out) = bench.send(&frame, &Context::new())?;
        equal(
            &format!("{:02x?}", &frame[12..24]),
            (verdict, out.stamp()),
            (NEXT, 0),
        )?;
    }
    equal("passed", bench.counters()?.passed.packets, control)?;
    // A ping is no control traffic.
    let (_, echo) = bench.send(&icmpv6(128)?, &Context::new())?;
    check(echo.stamp() > 0, "an echo request is not delayed")
}

pub(crate) fn every_kind_of_packet_is_limited() -> Outcome {
    let payload = [0u8; 958];
    let write = |step: etherparse::PacketBuilderStep<etherparse::UdpHeader>| {
        let mut frame = Vec::new();
        step.write(&mut frame, &payload).map(|()| frame)
    };
    let ethernet = || PacketBuilder::ethernet2([2; 6], [1; 6]);
    let (v4, v6) = (([10, 0, 0, 1], [10, 0, 0, 2]), ([1; 16], [2; 16]));
    let mut tcp = Vec::new();
    ethernet()
        .ipv4(v4.0, v4.1, 9)
        .tcp(1, 2, 3, 4)
        .write(&mut tcp, &payload)?;
    let mut esp = Vec::new();
    ethernet().ipv4(v4.0, v4.1, 9).write(
        &mut esp,
        IpNumber::ENCAPSULATING_SECURITY_PAYLOAD,
        &payload,
    )?;
    let mut fragment = Vec::new();
    let mut header =
        Ipv4Header::new(958, 9, IpNumber::UDP, v4.0, v4.1).map_err(|e| e.to_string())?;
    header.fragment_offset = IpFragOffset::try_new(185).map_err(|e| e.to_string())?;
    ethernet()
        .ip(IpHeaders::Ipv4(header, Default::default()))
        .write(&mut fragment, IpNumber::UDP, &payload)?;
    let with_type = |kind: [u8; 2]| {
        let mut frame = udp(1, 1_000);
        frame[12..14].copy_from_slice(&kind);
        frame
    };
    let frames = [
        ("udp over ipv4", udp(1, 1_000)),
        (
            "udp over ipv6",
            write(ethernet().ipv6(v6.0, v6.1, 9).udp(1, 2))?,
        ),
        (
            "802.1Q",
            write(
                ethernet()
                    .single_vlan(5.try_into()?)
                    .ipv4(v4.0, v4.1, 9)
                    .udp(1, 2),
            )?,
        ),
        (
            "802.1ad",
            write(
                ethernet()
                    .double_vlan(5.try_into()?, 6.try_into()?)
                    .ipv6(v6.0, v6.1, 9)
                    .udp(1, 2),
            )?,
        ),
        ("tcp", tcp),
        ("esp", esp),
        ("a later fragment", fragment),
        ("pppoe session", with_type([0x88, 0x64])),
        ("mpls", with_type([0x88, 0x47])),
        ("ipv4 with a broken header", with_type([0x86, 0xdd])),
    ];
    for key in [KeyMask::NOTHING, KeyMask::FLOW] {
        // One packet in a second, and room for all of them. One program: loading it is what takes long.
        let rate = Rate::packets_per_second(1).unwrap();
        let capacity = Span::from_ns(100 * SECOND);
        let mut bench = Bench::new(Kind::DepartureTime, key, limits(rate, capacity))?;
        for (name, frame) in &frames {
            let (verdict, first) = bench
                .send(frame, &Context::new())
                .map_err(|error| format!("{name}: {}", error.message().unwrap_or("failed")))?;
            equal(name, verdict, NEXT)?;
            let (verdict, second) = bench.send(frame, &Context::new())?;
            equal(name, verdict, NEXT)?;
            // Whatever it is, it waits for its predecessor.
            check(
                second.stamp() >= first.stamp() + SECOND / 2,
                format!("{name} is not delayed"),
            )?;
        }
    }
    Ok(())
}

pub(crate) fn all_fragments_of_a_datagram_are_one_flow() -> Outcome {
    let mut bench = Bench::new(Kind::DepartureTime, KeyMask::FLOW, slow())?;
    let mut first = udp(1_234, 1_000);
    // More fragments.
    first[20] |= 0x20;
    let mut later = udp(77, 1_000);
    // The rest, at offset 984: where a port would stand is payload.
    later[21] = 123;
    bench.send(&first, &Context::new())?;
    let (_, out) = bench.send(&later, &Context::new())?;
    check(
        out.stamp() > 0,
        "the second fragment has a bucket of its own",
    )
}

pub(crate) fn packets_without_a_link_header() -> Outcome {
    let mut bench = Bench::with_layer(Kind::DepartureTime, KeyMask::FLOW, slow(), Layer::Ip)?;
    let bare = |port| udp(port, 1_000)[14..].to_vec();
    bench.send(&bare(1), &Context::new())?;
    let (_, other) = bench.send(&bare(2), &Context::new())?;
    equal("first of another flow", other.stamp(), 0)?;
    let (_, same) = bench.send(&bare(1), &Context::new())?;
    check(same.stamp() > 0, "the second of the flow is not delayed")
}
