//! The same limit on every kind of device. L37, L38, L40, L69.

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::bulk::{Bulk, Running, Way};
use leaky_tests::capture::{Capture, Captured, HEADERS_ONLY};
use leaky_tests::lab::{FAR, SHAPED};
use leaky_tests::netns::Entry;
use leaky_tests::report::{Counters, Installed};
use leaky_tests::router::{LAN, Router, SERVER, WAN};
use leaky_tests::stats;
use leaky_tests::udp::Sink;
use leaky_tests::witness;
use leaky_tests::{Kind, Lab, Leaky, Link, Packet, Udp};

use crate::Case;
use crate::host::{Host, Need};
use crate::judge::{between, near};
use crate::rig::{PORT, htb_burst_bytes};

pub(crate) const CASES: &[Case] = &[
    Case::timed("l37_veth", &[Need::Root, Need::Leaky], || l37(Kind::Veth)),
    Case::timed(
        "l37_tun",
        &[Need::Root, Need::Leaky, Need::Device(Kind::Tun)],
        || l37(Kind::Tun),
    ),
    Case::timed(
        "l37_wireguard",
        &[Need::Root, Need::Leaky, Need::Device(Kind::WireGuard)],
        || l37(Kind::WireGuard),
    ),
    Case::timed(
        "l37_ppp",
        &[Need::Root, Need::Leaky, Need::Device(Kind::Ppp)],
        || l37(Kind::Ppp),
    ),
    Case::timed(
        "l37_bond",
        &[Need::Root, Need::Leaky, Need::Device(Kind::Bond)],
        || l37(Kind::Bond),
    ),
    Case::timed(
        "l40_vlan_sub_interface",
        &[Need::Root, Need::Leaky, Need::Device(Kind::Vlan)],
        || l37(Kind::Vlan),
    ),
    Case::timed(
        "l40_qinq_sub_interface",
        &[Need::Root, Need::Leaky, Need::Device(Kind::QinQ)],
        || l37(Kind::QinQ),
    ),
    Case::timed(
        "l40_the_parent_covers_its_sub_interfaces",
        &[
            Need::Root,
            Need::Leaky,
            Need::Device(Kind::Vlan),
            Need::Device(Kind::QinQ),
        ],
        l40_parent,
    ),
    Case::timed(
        "l38_a_limit_inside_the_tunnel_sees_the_inner_addresses",
        &[Need::Root, Need::Leaky, Need::Device(Kind::WireGuard)],
        l38_inner,
    ),
    Case::timed(
        "l38_a_limit_below_the_tunnel_sees_one_flow",
        &[Need::Root, Need::Leaky, Need::Device(Kind::WireGuard)],
        l38_outer,
    ),
    Case::timed(
        "l69_per_client_on_the_lan_side_is_exact",
        &[Need::Root, Need::Leaky, Need::Translation],
        l69_lan,
    ),
    Case::new(
        "l69_one_address_behind_translation_is_told",
        &[Need::Root, Need::Leaky, Need::Translation],
        l69_wan,
    ),
];

/// What a limited device did with what was sent over it.
struct Seen {
    captured: Captured,
    installed: Installed,
    summary: Counters,
}

/// Limits `interface`, runs `traffic`, and captures at `far` what arrives.
fn limited(
    lab: &Lab,
    interface: &str,
    far: &str,
    arguments: &[&str],
    traffic: impl FnOnce() -> Result<()>,
) -> Result<Seen> {
    let _sink = Sink::open(&lab.b, PORT)?;
    let before = witness::state(&lab.a, interface)?;
    let leaky = Leaky::start_on(&lab.a, interface, arguments, Entry::NetOnly)?;
    let capture = Capture::start(&lab.b, far, HEADERS_ONLY)?;
    traffic()?;
    let _ = capture.wait_quiet(Duration::from_millis(400), Duration::from_secs(20));
    let captured = capture.stop()?;
    let installed = leaky.installed().clone();
    let outcome = leaky.stop()?;
    ensure!(
        witness::state(&lab.a, interface)? == before,
        "leaky left something on {interface}"
    );
    Ok(Seen {
        captured,
        installed,
        summary: outcome.summary.context("no summary")?,
    })
}

/// The rate without what the hold lets out at once and the first fifth.
fn settled_rate(packets: &[Packet]) -> Result<u64> {
    stats::rate(&packets[packets.len() / 5..]).context("nothing arrived")
}

/// The same 5-tuple to every kind of device, twice the limit in one class by port and per flow, v4 and v6.
fn l37(kind: Kind) -> Result<()> {
    let lab = Lab::new()?;
    let link = Link::add(&lab, kind)?;
    for v6 in [false, true] {
        let to = link.far_address(v6, PORT);
        let from = SocketAddr::new(link.address(v6, 1), 40_000);
        let arguments = [
            "--rate",
            "4mbit",
            "--per",
            "flow",
            "--protocol",
            "udp",
            "--destination-port",
            "5004",
        ];
        let seen = limited(&lab, &link.near, &link.far, &arguments, || {
            Udp {
                from: Some(from),
                ..Udp::stream(1, to, 1_000, 1_000_000, Duration::from_secs(3))
            }
            .send(&lab.a)?;
            Ok(())
        })?;
        let packets = seen.captured.stream(1);
        let rate = settled_rate(&packets)?;
        println!(
            "{kind:?} {} v6 {v6}: {rate} B/s, held by {}; counted: {}",
            link.near, seen.installed.hold, seen.installed.counted
        );
        near("rate", rate, 500_000, 20)?;
        let class = seen.summary.class("all")?;
        ensure!(
            class.accepted_packets == packets.len() as u64
                && class.accepted_bytes == stats::wire_bytes(&packets),
            "{} packets arrived with {} B, leaky accepted {class:?}",
            packets.len(),
            stats::wire_bytes(&packets)
        );
        ensure!(!seen.installed.counted.is_empty(), "the basis is not told");
    }
    Ok(())
}

/// Untagged, tagged and twice tagged traffic through the parent, each half of the limit: together the limit. The tags are counted.
fn l40_parent() -> Result<()> {
    let lab = Lab::new()?;
    let links = [Kind::Veth, Kind::Vlan, Kind::QinQ]
        .map(|kind| Link::add(&lab, kind))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let seen = limited(&lab, SHAPED, FAR, &["--rate", "4mbit"], || {
        let senders: Vec<_> = (1..)
            .zip(&links)
            .map(|(stream, link)| {
                let to = link.far_address(false, PORT);
                Udp::stream(stream, to, 1_000, 250_000, Duration::from_secs(3)).start(&lab.a)
            })
            .collect();
        for sender in senders {
            sender.join()?;
        }
        Ok(())
    })?;
    let packets = seen.captured.only(|packet| packet.mark.is_some());
    let rate = settled_rate(&packets)?;
    let of = |stream| seen.captured.stream(stream).len();
    println!(
        "{rate} B/s through the parent; packets untagged {}, tagged {}, twice {}",
        of(1),
        of(2),
        of(3)
    );
    near("rate of the parent", rate, 500_000, 20)?;
    // One bucket for all, and streams in step under deterministic time: who gets how much of it is chance. That frames of any
    // kind were past the limit would show in the rate.
    for stream in 1..=3 {
        ensure!(of(stream) > 0, "nothing of stream {stream} arrived");
    }
    near(
        "bytes accepted",
        seen.summary.accepted_bytes,
        stats::wire_bytes(&packets),
        5,
    )
}

/// Two inner addresses, each with 50 Mbit/s of its own. In an emulated machine encryption takes its time: 20 there.
fn tunnel_rate() -> (&'static str, u64) {
    if Host::get().vm {
        ("10mbit", 1_250_000)
    } else {
        ("50mbit", 6_250_000)
    }
}

fn through_tunnel(interface: &str, far: &str, per: &str) -> Result<Seen> {
    let lab = Lab::new()?;
    let link = Link::add(&lab, Kind::WireGuard)?;
    let (rate, bytes) = tunnel_rate();
    let second = "10.77.14.6".parse::<IpAddr>()?;
    lab.b
        .ip(&["addr", "add", "10.77.14.6/32", "dev", &link.far])?;
    lab.a
        .ip(&["route", "add", "10.77.14.6/32", "dev", &link.near])?;
    limited(
        &lab,
        interface,
        far,
        &["--rate", rate, "--per", per],
        || {
            let senders = [
                (1, link.far_address(false, PORT)),
                (2, SocketAddr::new(second, PORT)),
            ]
            .map(|(stream, to)| {
                Udp::stream(stream, to, 1_400, bytes / 2 * 3, Duration::from_secs(2)).start(&lab.a)
            });
            for sender in senders {
                sender.join()?;
            }
            Ok(())
        },
    )
}

fn l38_inner() -> Result<()> {
    let seen = through_tunnel("wg0", "wg1", "dst")?;
    for stream in [1, 2] {
        let rate = settled_rate(&seen.captured.stream(stream))?;
        println!("inner address {stream}: {rate} B/s");
        near("rate of an inner address", rate, tunnel_rate().1, 20)?;
    }
    Ok(())
}

/// What the interface below carries is one flow, and leaky says that it looks at the outside.
fn l38_outer() -> Result<()> {
    let seen = through_tunnel(SHAPED, FAR, "flow")?;
    let outer = seen
        .captured
        .only(|packet| packet.destination_port == 51_820);
    let rate = settled_rate(&outer)?;
    let class = seen.summary.class("all")?;
    println!("outer flow: {rate} B/s; {class:?}");
    ensure!(
        class.keys == 1,
        "two flows inside are {} keys outside",
        class.keys
    );
    near("rate of the one outer flow", rate, tunnel_rate().1, 20)
}

/// Three clients behind translation download as much as they can, with 1, 2 and 8 connections; the limit is on the LAN side.
fn l69_lan() -> Result<()> {
    let router = Router::new(3)?;
    let leaky = Leaky::start_on(
        &router.router,
        LAN,
        &["--rate", "8mbit", "--per", "dst"],
        Entry::NetOnly,
    )?;
    let seconds = if Host::get().vm { 4 } else { 6 };
    let mut downloads: Vec<Running> = Vec::new();
    for ((client, port), connections) in router.clients.iter().zip(PORT..).zip([1, 2, 8]) {
        let bulk = Bulk {
            way: Way::Down,
            ..Bulk::up(
                SocketAddr::new(SERVER.into(), port),
                connections,
                Duration::from_secs(seconds),
            )
        };
        downloads.push(bulk.start(client, &router.server)?);
    }
    let rates = downloads
        .into_iter()
        .map(|download| {
            let got = download.join()?;
            got.goodput(Duration::from_secs(1)).context("nothing came")
        })
        .collect::<Result<Vec<_>>>()?;
    let outcome = leaky.stop()?;
    println!(
        "goodput of the clients {rates:?} B/s; notices {:?}",
        outcome.notices
    );
    for rate in rates {
        near("goodput of a client", rate, 1_000_000 * 1_448 / 1_514, 30)?;
    }
    ensure!(
        !told_of_translation(&outcome.notices),
        "a warning where there is nothing to warn of: {:?}",
        outcome.notices
    );
    Ok(())
}

fn told_of_translation(notices: &[String]) -> bool {
    notices.iter().any(|notice| notice.contains("NAT"))
}

/// The same clients send through the WAN side, where all of them are one address: they share one rate, and leaky says why.
fn l69_wan() -> Result<()> {
    let router = Router::new(3)?;
    let leaky = Leaky::start_on(
        &router.router,
        WAN,
        &["--rate", "4mbit", "--per", "src"],
        Entry::NetOnly,
    )?;
    let _sink = Sink::open(&router.server, PORT)?;
    let capture = Capture::start(&router.server, "s0", HEADERS_ONLY)?;
    let to = SocketAddr::new(SERVER.into(), PORT);
    let senders: Vec<_> = (1..)
        .zip(&router.clients)
        .map(|(stream, client)| {
            Udp::stream(stream, to, 1_000, 250_000, Duration::from_secs(6)).start(client)
        })
        .collect();
    for sender in senders {
        sender.join()?;
    }
    thread::sleep(Duration::from_secs(2));
    let packets = capture.stop()?.only(|packet| packet.mark.is_some());
    let outcome = leaky.stop()?;
    let rate = settled_rate(&packets)?;
    println!("{rate} B/s for all; notices {:?}", outcome.notices);
    between(
        "rate of the one address",
        rate,
        480_000,
        500_000 + htb_burst_bytes(500_000),
    )?;
    ensure!(
        told_of_translation(&outcome.notices),
        "nothing is said about clients behind NAT: {:?}",
        outcome.notices
    );
    Ok(())
}
