//! Whose bucket: a client is an address or a prefix, whatever it opens. L10, L11, L66, L68 and the flood.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::bulk::{Bulk, Running};
use leaky_tests::craft::{mark_now, send_paced};
use leaky_tests::lab::{client, source};
use leaky_tests::raw::RawSocket;
use leaky_tests::stats::{self, largest_window, per_destination, percentile, us};
use leaky_tests::{Craft, Packet, Udp, lab};

use crate::Case;
use crate::host::{Host, Need};
use crate::judge::{between, near};
use crate::rig::{PORT, Rig};

pub(crate) const CASES: &[Case] = &[
    Case::timed(
        "l11_1_4_and_16_connections_to_a_client_get_the_same",
        &[Need::Root, Need::Leaky],
        || connections("dst"),
    ),
    Case::timed(
        "l11_1_4_and_16_connections_from_a_client_get_the_same",
        &[Need::Root, Need::Leaky],
        || connections("src"),
    ),
    Case::timed(
        "l11_sixteen_connections_take_nothing_from_one",
        &[Need::Root, Need::Leaky],
        l11_against,
    ),
    Case::timed(
        "a_client_that_floods_delays_no_other",
        &[Need::Root, Need::Leaky],
        flood,
    ),
    Case::timed(
        "l10_ten_viewers_get_their_rate_and_no_more",
        &[Need::Root, Need::Leaky],
        l10,
    ),
    Case::timed(
        "l68_two_thousand_addresses_of_a_prefix_are_one_client",
        &[Need::Root, Need::Leaky],
        l68,
    ),
    Case::timed(
        "l68_the_prefix_is_a_setting",
        &[Need::Root, Need::Leaky],
        l68_prefix,
    ),
];

/// The rate of one client, as asked and in bytes per second. What TCP delivers of it: 1,448 of every 1,514 B.
const RATE: &str = "8mbit";
const RATE_BYTES: u64 = 1_000_000;
const GOODPUT: u64 = RATE_BYTES * 1_448 / 1_514;

fn to(number: u16) -> SocketAddr {
    SocketAddr::new(client(false, number), PORT)
}

/// Starts a download of `connections` to a client address.
fn download(
    rig: &Rig,
    to: SocketAddr,
    from: Option<IpAddr>,
    connections: usize,
) -> Result<Running> {
    let seconds = if Host::get().vm { 4 } else { 6 };
    Bulk {
        from,
        ..Bulk::up(to, connections, Duration::from_secs(seconds))
    }
    .start(&rig.lab.a, &rig.lab.b)
}

fn goodput(running: Running) -> Result<u64> {
    running
        .join()?
        .goodput(Duration::from_secs(1))
        .context("nothing was transferred")
}

/// One after the other, to or from the same address. The case says 30 s.
fn connections(per: &str) -> Result<()> {
    let rig = Rig::many(&["--rate", RATE, "--per", per])?;
    let mut rates = Vec::new();
    for (port, connections) in (PORT..).zip([1, 4, 16]) {
        let (to, from) = if per == "src" {
            (rig.lab.far(false, port), Some(source(false, 7)))
        } else {
            (SocketAddr::new(client(false, 7), port), None)
        };
        rates.push(goodput(download(&rig, to, from, connections)?)?);
    }
    let measured = rig.finish(Duration::from_millis(400))?;
    println!(
        "{} per {}: goodput of 1, 4 and 16 connections {rates:?} B/s, wanted {GOODPUT}",
        RATE, measured.installed.key
    );
    ensure!(
        measured.installed.key.starts_with(per),
        "the key is not reported: {:?}",
        measured.installed
    );
    for rate in &rates {
        near("goodput", *rate, GOODPUT, 30)?;
        near("goodput beside that of one connection", *rate, rates[0], 30)?;
    }
    Ok(())
}

fn l11_against() -> Result<()> {
    let rig = Rig::many(&["--rate", RATE, "--per", "dst"])?;
    let many = download(&rig, to(1), None, 16)?;
    let one = download(&rig, to(2), None, 1)?;
    let (many, one) = (goodput(many)?, goodput(one)?);
    rig.finish(Duration::from_millis(400))?;
    println!("16 connections of one client {many} B/s, the one of another {one} B/s");
    near("goodput of the one", one, GOODPUT, 30)?;
    near("goodput of the sixteen", many, one, 30)
}

/// 99 % of a client's packets wait no longer than this when another client offers ten times its limit.
fn flood() -> Result<()> {
    let [quiet, loud] = [false, true].map(|flooded| -> Result<u64> {
        let rig = Rig::many(&["--rate", "4mbit", "--per", "dst"])?;
        let seconds = Duration::from_secs(3);
        let flooding =
            flooded.then(|| Udp::stream(2, to(2), 1_000, 5_000_000, seconds).start(&rig.lab.a));
        Udp::stream(1, to(1), 500, 125_000, seconds).send(&rig.lab.a)?;
        if let Some(flooding) = flooding {
            flooding.join()?;
        }
        let measured = rig.finish(Duration::from_millis(400))?;
        let packets = measured.captured.stream(1);
        ensure!(packets.len() > 700, "only {} arrived", packets.len());
        percentile(&stats::delays(&packets), 99).context("no delays")
    });
    let (quiet, loud) = (quiet?, loud?);
    println!(
        "delay p99 alone {} us, beside a flood {} us",
        us(quiet),
        us(loud)
    );
    between(
        "added delay p99, ns",
        loud.saturating_sub(quiet),
        0,
        5_000_000,
    )
}

/// Ten viewers of 4 Mbit/s each; nothing above them. A segment of 6 s of video at 1.7 Mbit/s is 10.2 Mbit.
fn l10() -> Result<()> {
    const SEGMENT: u64 = 10_200_000 / 8;
    let rig = Rig::many(&["--rate", "4mbit", "--per", "dst"])?;
    let viewers: Vec<Running> = (1..=10)
        .map(|viewer| download(&rig, to(viewer), None, 1))
        .collect::<Result<_>>()?;
    let mut segments = Vec::new();
    for viewer in viewers {
        let transferred = viewer.join()?;
        let (begin, _) = *transferred.progress.first().context("nothing came")?;
        let (end, _) = *transferred
            .progress
            .iter()
            .find(|(_, bytes)| *bytes >= SEGMENT)
            .context("a segment did not arrive")?;
        segments.push((end - begin) / 1_000_000);
    }
    let measured = rig.finish(Duration::from_millis(400))?;
    let packets = measured.captured.only(|packet| packet.protocol == 6);
    let begin = packets.first().context("nothing arrived")?.time_ns;
    let during = |from: u64, to: u64| {
        let range = begin + from * 1_000_000_000..begin + to * 1_000_000_000;
        measured
            .captured
            .only(|packet| packet.protocol == 6 && range.contains(&packet.time_ns))
    };
    let last = if Host::get().vm { 3 } else { 5 };
    let rates: Vec<u64> = per_destination(&during(1, last))
        .values()
        .map(|packets| stats::rate(packets).unwrap_or(0))
        .collect();
    println!("rates of the viewers {rates:?} B/s; a segment took {segments:?} ms");
    ensure!(rates.len() == 10, "{} viewers", rates.len());
    for rate in rates {
        between(
            "rate of a viewer, B/s",
            rate,
            3_900_000 / 8,
            4_000_000 / 8 + 1_000,
        )?;
    }
    for segment in segments {
        between("time of a segment, ms", segment, 1, 2_700)?;
    }
    let (most, _) = largest_window(&during(1, last), Duration::from_secs(1));
    between("bytes in any second", most, 1, 5_000_000 / 100 * 102)
}

/// Raw frames from many IPv6 addresses to one.
fn from_many(rig: &Rig, per_second: u64, from: impl Fn(u64) -> Ipv6Addr) -> Result<()> {
    let socket = RawSocket::open(&rig.lab.a, lab::SHAPED, 0)?;
    send_paced(&socket, per_second * 4, per_second, |number| {
        Craft {
            source: from(number).into(),
            destination: lab::V6_B.into(),
            ..Craft::plain(PORT, 500)
        }
        .frame(Some(mark_now(1, number)))
    })?;
    Ok(())
}

/// Two thousand addresses (more than htb has classes) of one /64, together twice the rate.
fn l68() -> Result<()> {
    let rig = Rig::many(&["--rate", "4mbit", "--per", "src"])?;
    from_many(&rig, 2_000, |number| {
        let last = u16::try_from(number % 2_000).unwrap_or(0);
        Ipv6Addr::new(0xfd79, 0, 0, 7, 0, 0, 0, last)
    })?;
    let measured = rig.finish(Duration::from_millis(400))?;
    let rate = stats::rate(&measured.settled(1)).context("nothing arrived")?;
    println!("{rate} B/s for 2,000 addresses of one /64");
    near("rate of the prefix", rate, 500_000, 30)?;
    let beyond = measured.summary.class("all")?.keys_beyond_table_packets;
    ensure!(beyond == 0, "{beyond} packets found no bucket of their own");
    Ok(())
}

/// With /128 two addresses of a /64 are two clients; with /48 two of its /64 are one.
fn l68_prefix() -> Result<()> {
    for (per, wanted, step) in [
        ("src/32,src/128", 1_000_000, 0),
        ("src/24,src/48", 500_000, 1),
    ] {
        let rig = Rig::many(&["--rate", "4mbit", "--per", per])?;
        from_many(&rig, 4_000, |number| {
            let odd = u16::try_from(number % 2).unwrap_or(0);
            Ipv6Addr::new(0xfd79, 0, 0, odd * step, 0, 0, 0, odd)
        })?;
        let measured = rig.finish(Duration::from_millis(400))?;
        let packets: Vec<Packet> = measured.settled(1);
        let rate = stats::rate(&packets).context("nothing arrived")?;
        println!("per {per} ({}): {rate} B/s", measured.installed.key);
        near("rate of two addresses", rate, wanted, 30)?;
    }
    Ok(())
}
