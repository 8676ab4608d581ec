//! The lab's devices by themselves: what the other cases stand on works without the product.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::bulk::{Bulk, Way};
use leaky_tests::capture::{Capture, WHOLE};
use leaky_tests::lab::{FAR, client, source};
use leaky_tests::router::{Router, SERVER};
use leaky_tests::stats::deliveries;
use leaky_tests::udp::Sink;
use leaky_tests::{Count, Kind, Lab, Link, Udp};

use crate::Case;
use crate::host::Need;
use crate::rig::PORT;

pub(crate) const CASES: &[Case] = &[
    Case::new("veth_carries", &[Need::Root], || carries(Kind::Veth)),
    Case::new(
        "vlan_carries",
        &[Need::Root, Need::Device(Kind::Vlan)],
        || carries(Kind::Vlan),
    ),
    Case::new(
        "qinq_carries",
        &[Need::Root, Need::Device(Kind::QinQ)],
        || carries(Kind::QinQ),
    ),
    Case::new(
        "tun_carries",
        &[Need::Root, Need::Device(Kind::Tun)],
        || carries(Kind::Tun),
    ),
    Case::new(
        "wireguard_carries",
        &[Need::Root, Need::Device(Kind::WireGuard)],
        || carries(Kind::WireGuard),
    ),
    Case::new(
        "ppp_carries",
        &[Need::Root, Need::Device(Kind::Ppp)],
        || carries(Kind::Ppp),
    ),
    Case::new(
        "bond_carries",
        &[Need::Root, Need::Device(Kind::Bond)],
        || carries(Kind::Bond),
    ),
    Case::new("many_clients_and_senders", &[Need::Root], many),
    Case::new("bulk_from_processes", &[Need::Root], processes),
    Case::new("fragments_arrive_whole", &[Need::Root], fragments),
    Case::new(
        "a_router_translates",
        &[Need::Root, Need::Translation],
        router,
    ),
];

/// 100 packets over v4 and v6, all read and unchanged; sizes as the device sees them.
fn carries(kind: Kind) -> Result<()> {
    let lab = Lab::new()?;
    let link = Link::add(&lab, kind)?;
    let _sink = Sink::open(&lab.b, PORT)?;
    let capture = Capture::start(&lab.b, &link.far, WHOLE)?;
    for (stream, v6) in [(1, false), (2, true)] {
        Udp::burst(stream, link.far_address(v6, PORT), 500, 100).send(&lab.a)?;
    }
    let _ = capture.wait_quiet(Duration::from_millis(300), Duration::from_secs(5));
    let captured = capture.stop()?;
    for (stream, delivery) in deliveries(&captured.packets, &[(1, 100), (2, 100)].into()) {
        ensure!(
            (delivery.lost, delivery.changed) == (0, 0),
            "stream {stream}: {delivery:?}"
        );
    }
    for packet in captured.only(|packet| packet.mark.is_some()) {
        ensure!(
            packet.wire_bytes == 500 - 14 + kind.link_header() && packet.header_right,
            "{packet:?}"
        );
    }
    println!("{} -> {}: 200 packets", link.near, link.far);
    Ok(())
}

/// Addresses that are on no interface send and receive, over UDP and TCP.
fn many() -> Result<()> {
    let lab = Lab::new()?;
    lab.many_addresses()?;
    let count = Count::open(&lab.b, PORT)?;
    for v6 in [false, true] {
        for number in [0, 1, 63, 40_000] {
            Udp {
                from: Some(SocketAddr::new(source(v6, number), 0)),
                ..Udp::burst(1, SocketAddr::new(client(v6, number), PORT), 200, 5)
            }
            .send(&lab.a)?;
        }
        let bulk = Bulk {
            from: Some(source(v6, 9)),
            ..Bulk::up(
                SocketAddr::new(client(v6, 8), PORT),
                4,
                Duration::from_millis(300),
            )
        };
        let got = bulk.start(&lab.a, &lab.b)?.join()?;
        ensure!(got.bytes() > 100_000, "{} B over TCP", got.bytes());
    }
    let counted = count.stop()?;
    ensure!(counted.get(&1) == Some(&40), "{counted:?}");
    Ok(())
}

fn processes() -> Result<()> {
    let lab = Lab::new()?;
    let bulk = Bulk::up(lab.far(false, PORT), 7, Duration::from_millis(500));
    let got = bulk.start_in_processes(&lab.a, &lab.b, 3)?.join()?;
    ensure!(got.bytes() > 100_000, "{} B", got.bytes());
    Ok(())
}

fn fragments() -> Result<()> {
    let lab = Lab::new()?;
    let count = Count::open(&lab.b, PORT)?;
    let capture = Capture::start(&lab.b, FAR, WHOLE)?;
    for (stream, v6) in [(1, false), (2, true)] {
        Udp::burst(stream, lab.far(v6, PORT), 8_192 + 42, 20).send(&lab.a)?;
    }
    let _ = capture.wait_quiet(Duration::from_millis(200), Duration::from_secs(5));
    let pieces = capture.stop()?.only(|packet| packet.fragment);
    let counted = count.stop()?;
    ensure!(counted == [(1, 20), (2, 20)].into(), "{counted:?}");
    ensure!(pieces.len() == 240, "{} fragments", pieces.len());
    ensure!(
        pieces.iter().all(|piece| piece.protocol == 17),
        "{:?}",
        pieces.first()
    );
    Ok(())
}

/// Both ways through translation; the server sees one address.
fn router() -> Result<()> {
    let router = Router::new(2)?;
    let _sink = Sink::open(&router.server, PORT)?;
    let capture = Capture::start(&router.server, "s0", WHOLE)?;
    for (stream, host) in (1..).zip(&router.clients) {
        Udp::burst(stream, SocketAddr::new(SERVER.into(), PORT), 300, 10).send(host)?;
        let bulk = Bulk {
            way: Way::Down,
            ..Bulk::up(
                SocketAddr::new(SERVER.into(), PORT),
                2,
                Duration::from_millis(300),
            )
        };
        let got = bulk.start(host, &router.server)?.join()?;
        ensure!(got.bytes() > 100_000, "{} B to a client", got.bytes());
    }
    let packets = capture.stop()?.only(|packet| packet.mark.is_some());
    ensure!(packets.len() == 20, "{} of 20 arrived", packets.len());
    let first = packets.first().context("nothing arrived")?.source;
    ensure!(
        packets.iter().all(|packet| packet.source == first),
        "the server sees several addresses"
    );
    println!("the server sees {first:?}");
    Ok(())
}
