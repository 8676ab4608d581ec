//! Messages of the kernel, built by hand.

use super::parse;
use super::{Error, Layer, Link};
use nlink::netlink::{MessageBuilder, NLMSG_HDRLEN};

fn link_message(arphrd: u16, flags: u32) -> Vec<u8> {
    let mut message = MessageBuilder::new(0, 0);
    let mut header = [0; parse::LINK_HEADER];
    header[2..4].copy_from_slice(&arphrd.to_ne_bytes());
    header[4..8].copy_from_slice(&42_u32.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    message.append_bytes(&header);
    message.append_attr_str(3, "some0");
    message.append_attr_u32(4, 1_492);
    message.append_attr_u32(31, 4);
    message.append_attr_u32(40, 100);
    message.append_attr_u32(41, 65_536);
    message.finish().split_off(NLMSG_HDRLEN)
}

#[test]
fn link_types() {
    let layer = |arphrd| {
        parse::link(&link_message(arphrd, 1), "read")
            .map(|l| l.layer)
            .ok()
    };
    assert_eq!(layer(1), Some(Layer::Ethernet));
    assert_eq!(layer(772), Some(Layer::Ethernet));
    for bare in [512, 519, 768, 769, 776, 0xfffe] {
        assert_eq!(layer(bare), Some(Layer::Ip), "{bare}");
    }
    // InfiniBand, 802.11 with radiotap, GRE with its own header.
    for other in [32, 803, 778] {
        let error = parse::link(&link_message(other, 1), "read").expect_err("unknown");
        assert!(matches!(error, Error::UnsupportedLink { arphrd, .. } if arphrd == other));
        assert!(
            error.to_string().contains(&format!("link type {other}")),
            "{error}"
        );
    }
}

#[test]
fn link_facts() {
    let link = parse::link(&link_message(512, 0x9), "read").expect("a link");
    let expected = Link {
        index: 42,
        name: "some0".to_owned(),
        mtu: 1_492,
        layer: Layer::Ip,
        loopback: true,
        up: true,
        tx_queues: 4,
        gso_max_segs: 100,
        gso_max_size: 65_536,
    };
    assert_eq!(link, expected);
    let whole = link_message(1, 0);
    for cut in [0, 8, 16, 24, whole.len() - 1] {
        assert!(parse::link(&whole[..cut], "read").is_err(), "cut at {cut}");
    }
}

#[test]
fn qdisc_counters() {
    let mut message = MessageBuilder::new(0, 0);
    let mut header = [0; parse::TC_HEADER];
    header[8..12].copy_from_slice(&0x1eaf_0000_u32.to_ne_bytes());
    header[12..16].copy_from_slice(&super::ROOT.to_ne_bytes());
    message.append_bytes(&header);
    message.append_attr_str(1, "fq");
    let stats = message.nest_start(7);
    message.append_attr(
        1,
        &[&5_000_000_000_u64.to_ne_bytes()[..], &7_u32.to_ne_bytes()].concat(),
    );
    let queue: Vec<u8> = [3_u32, 4_500, 11, 0, 13]
        .iter()
        .flat_map(|w| w.to_ne_bytes())
        .collect();
    message.append_attr(3, &queue);
    let app: Vec<u8> = (0..13_u64).flat_map(u64::to_ne_bytes).collect();
    message.append_attr(4, &app);
    message.append_attr_u64(8, 4_294_967_303);
    message.nest_end(stats);
    let body = message.finish().split_off(NLMSG_HDRLEN);

    let qdisc = parse::qdisc(&body).expect("a qdisc");
    assert_eq!((qdisc.handle, qdisc.parent), (0x1eaf_0000, super::ROOT));
    assert_eq!(qdisc.stats.sent_packets, 4_294_967_303);
    assert_eq!(
        (qdisc.stats.backlog_packets, qdisc.stats.backlog_bytes),
        (3, 4_500)
    );
    assert_eq!(qdisc.stats.dropped, 11);
    let fq = qdisc.fq.expect("fq");
    assert_eq!((fq.flow_limit_drops, fq.horizon_drops), (4, 11));
}

#[test]
fn largest_packets() {
    let link = |mtu, gso_max_segs, layer| Link {
        index: 1,
        name: "x".to_owned(),
        mtu,
        layer,
        loopback: false,
        up: true,
        tx_queues: 1,
        gso_max_segs,
        gso_max_size: 65_536,
    };
    assert_eq!(link(1_500, 1, Layer::Ethernet).largest_gso_packet(), 1_522);
    assert_eq!(link(1_500, 2, Layer::Ethernet).largest_gso_packet(), 3_044);
    // 65,536 B in segments of 536 B: 123 headers of 142 B.
    assert_eq!(
        link(1_500, 65_535, Layer::Ethernet).largest_gso_packet(),
        83_002
    );
    assert_eq!(link(1_500, 0, Layer::Ip).largest_gso_packet(), 1_500);
    assert_eq!(link(u32::MAX, 1, Layer::Ethernet).full_frame(), u32::MAX);
}
