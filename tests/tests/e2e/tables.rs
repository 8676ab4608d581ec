//! More keys than there is room for, and clients with limits of their own. L66, L67.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use leaky_tests::craft::{mark_now, send_paced};
use leaky_tests::lab::{SHAPED, client, source};
use leaky_tests::raw::RawSocket;
use leaky_tests::stats::{self, largest_window, per_destination};
use leaky_tests::{Craft, Udp};

use crate::Case;
use crate::configured::Configured;
use crate::host::{CannotTell, Need};
use crate::judge::{between, near};
use crate::rig::PORT;

pub(crate) const CASES: &[Case] = &[
    Case::timed(
        "l67_twice_as_many_clients_as_classes_of_htb",
        &[Need::Root, Need::Leaky, Need::NoFq, Need::Htb],
        l67_htb,
    ),
    Case::new(
        "l67_more_clients_than_the_table_has_room_for",
        &[Need::Root, Need::Leaky, Need::Fq, Need::DeterministicTime],
        l67_fq,
    ),
    Case::timed(
        "clients_have_the_rates_of_their_file",
        &[Need::Root, Need::Leaky],
        client_file,
    ),
];

/// 2,048 destinations, each offered twice its 16 kbit/s, over 1,024 classes; and a client that is in the config, which comes last.
fn l67_htb() -> Result<()> {
    const KEYS: u64 = 2_048;
    const RATE: u64 = 2_000;
    let configured = Configured::start(
        r#"
[[interface.class]]
name = "subscribers"
per = "dst"
clients = { "10.78.200.1" = { rate = "1mbit" } }

[[interface.class]]
name = "others"
per = "dst"
rate = "16kbit"
max-wait = "1s"
"#,
        &[],
    )?;
    let lab = &configured.lab;
    let socket = RawSocket::open(&lab.a, SHAPED, 0)?;
    let seconds = 4;
    let per_second = KEYS * RATE * 2 / 250;
    send_paced(&socket, per_second * seconds, per_second, |number| {
        Craft {
            destination: client(false, u16::try_from(number % KEYS)?),
            ..Craft::plain(PORT, 250)
        }
        .frame(Some(mark_now(1, number)))
    })?;
    let configured_client = SocketAddr::new("10.78.200.1".parse::<IpAddr>()?, PORT);
    Udp::stream(2, configured_client, 1_000, 250_000, Duration::from_secs(3)).send(&lab.a)?;
    let found = configured.finish(Duration::from_millis(1_500))?;
    let others = found.summary.class("others")?;
    println!("{others:?}");
    ensure!(
        others.keys_beyond_table_packets > 0,
        "every key found a class: {others:?}"
    );
    let second = Duration::from_secs(1);
    let packets = found.captured.stream(1);
    let (total, _) = largest_window(&packets, second);
    // 1,024 classes and the shared one. htb lets a burst of each out after a pause, which a busy machine may make at any time;
    // frames of 250 B overdraw it by less than one.
    let most_of_one = RATE + 3_100 + 250;
    let limit = 1_025 * most_of_one;
    println!("all together {total} B in a second at most, the limits add up to {limit}");
    between("bytes of all in a second", total, 1, limit)?;
    for (address, packets) in per_destination(&packets) {
        let (most, _) = largest_window(&packets, second);
        between(
            &format!("bytes of {address} in a second"),
            most,
            1,
            most_of_one,
        )?;
    }
    let packets = found.captured.stream(2);
    let rate = stats::rate(&packets[packets.len() / 4..]).context("the client got nothing")?;
    near("rate of the configured client", rate, 125_000, 30)
}

/// One packet from each of 140,000 addresses, where 131,072 have room: the rest share one bucket, limited and counted.
fn l67_fq() -> Result<()> {
    const KEYS: u64 = 140_000;
    const ROOM: u64 = 131_072;
    let configured = Configured::start(
        "[[interface.class]]\nname = \"others\"\nper = \"src\"\nrate = \"16kbit\"\nmax-wait = \"1s\"\n",
        &[],
    )?;
    let socket = RawSocket::open(&configured.lab.a, SHAPED, 0)?;
    send_paced(&socket, KEYS, 100_000, |number| {
        Craft {
            source: Ipv4Addr::from(0x0a80_0000 + u32::try_from(number)?).into(),
            ..Craft::plain(PORT, 74)
        }
        .frame(Some(mark_now(1, number)))
    })?;
    let found = configured.finish(Duration::from_millis(1_500))?;
    let others = found.summary.class("others")?;
    println!("{others:?}");
    between(
        "packets beyond the table",
        others.keys_beyond_table_packets,
        KEYS - ROOM,
        KEYS - ROOM + 64,
    )?;
    let lost = others.dropped_total().packets;
    // The shared bucket takes 2 kB (some 27 packets), and what drains meanwhile.
    between(
        "dropped of what was beyond",
        lost,
        KEYS - ROOM - 150,
        KEYS - ROOM,
    )
}

/// 1,000 clients in a file, four of them active, with the longest prefix that fits; one that is in no line is not limited.
fn client_file() -> Result<()> {
    let mut file = String::from("# address or prefix, rate, capacity, max wait\n\n");
    for number in 0..1_000u16 {
        let _ = writeln!(file, "{}/32, 1mbit", source(false, 0x1000 + number));
    }
    file.push_str("10.78.1.0/24 2mbit 100ms\n10.78.1.9\t4mbit,100ms,200ms # inside the one above\nfd78:0:0:5::/64 3mbit\n10.78.2.0/24 6mbit\n");
    let configured = Configured::start(
        "[[interface.class]]\nname = \"subscribers\"\nper = \"dst\"\nclients = { file = \"clients.txt\" }\n",
        &[("clients.txt", &file)],
    )?;
    let installed = configured.leaky.installed().clone();
    let clients = installed.class("subscribers").context("no class")?.clients;
    ensure!(clients == 1_004, "{clients} clients");
    let lab = &configured.lab;
    let streams = [
        (client(false, 0x0101), 250_000),
        (client(false, 0x0109), 500_000),
        (client(true, 5), 375_000),
        (client(false, 0x0203), 750_000),
        (client(false, 0x0901), 1_000_000), // in no line
    ];
    let senders: Vec<_> = (1..)
        .zip(streams)
        .map(|(stream, (address, _))| {
            Udp::stream(
                stream,
                SocketAddr::new(address, PORT),
                1_000,
                1_000_000,
                Duration::from_secs(4),
            )
            .start(&lab.a)
        })
        .collect();
    for (sender, (address, wanted)) in senders.into_iter().zip(streams) {
        let sent = sender.join()?;
        let offered = sent.bytes * 1_000 / (sent.took_ns / 1_000_000).max(1);
        if offered < wanted / 100 * 98 {
            let why = format!("only {offered} B/s were offered to {address} on this machine, now");
            bail!(CannotTell(why));
        }
    }
    let found = configured.finish(Duration::from_millis(400))?;
    for (stream, (address, wanted)) in (1..).zip(streams) {
        let packets = found.captured.stream(stream);
        let rate = stats::rate(&packets[packets.len() / 4..]).context("nothing arrived")?;
        println!("{address}: {rate} B/s, wanted {wanted}");
        near(&format!("rate of {address}"), rate, wanted, 20)?;
    }
    Ok(())
}
