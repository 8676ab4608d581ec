//! Two levels: every client has its limit, and all of them share a link. L73 and the two levels.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::lab::client;
use leaky_tests::stats::{self, largest_window, per_destination, percentile, us};
use leaky_tests::udp::Sending;
use leaky_tests::{Udp, payload};

use crate::Case;
use crate::configured::Configured;
use crate::host::{CannotTell, Host, Need};
use crate::judge::{between, near};
use crate::rig::{Measured, PORT, Rig};

pub(crate) const CASES: &[Case] = &[
    Case::timed(
        "ten_clients_under_a_link_never_exceed_either_limit",
        &[Need::Root, Need::Leaky],
        two_levels,
    ),
    Case::timed(
        "a_link_that_is_not_full_takes_nothing_from_a_client",
        &[Need::Root, Need::Leaky],
        roomy_link,
    ),
    Case::timed(
        "l73_a_call_does_not_wait_for_a_full_link",
        &[Need::Root, Need::Leaky],
        l73_delay,
    ),
    Case::timed(
        "l73_best_effort_lives_beside_a_flood_of_priority",
        &[Need::Root, Need::Leaky],
        l73_flood,
    ),
];

/// The width of the windows in which no limit may be exceeded.
const WINDOW: Duration = Duration::from_millis(100);

/// `clients` clients, each offered 5 Mbit/s with a limit of 4, under a link of 20.
fn clients(clients: u16) -> Result<Measured> {
    let rig = Rig::many(&["--rate", "4mbit", "--per", "dst", "--link-rate", "20mbit"])?;
    let link = rig.leaky.installed().link.clone().context("no link")?;
    ensure!(link.rate_bytes_per_second == 2_500_000, "{link:?}");
    let time = Duration::from_secs(if Host::get().vm { 3 } else { 6 });
    let senders: Vec<Sending> = (1..=clients)
        .map(|number| {
            let to = SocketAddr::new(client(false, number), PORT);
            Udp::stream(number.into(), to, 1_000, 625_000, time).start(&rig.lab.a)
        })
        .collect();
    let mut offered = 0;
    for sender in senders {
        let sent = sender.join()?;
        offered += sent.bytes * 1_000 / (sent.took_ns / 1_000_000).max(1);
    }
    if offered < 625_000 * u64::from(clients) / 10 * 9 {
        let why = format!("the senders only reach {offered} B/s together on this machine, now");
        anyhow::bail!(CannotTell(why));
    }
    let measured = rig.finish(Duration::from_millis(600))?;
    let packets = measured.captured.only(|packet| packet.mark.is_some());
    let (most, _) = largest_window(&packets, WINDOW);
    println!("all together: {most} B in 100 ms at most");
    between(
        "bytes of all in 100 ms",
        most,
        1,
        250_000 + measured.beyond(2_500_000),
    )?;
    let beyond = measured.beyond(500_000);
    for (address, packets) in per_destination(&packets) {
        let (most, _) = largest_window(&packets, WINDOW);
        between(
            &format!("bytes of {address} in 100 ms"),
            most,
            1,
            50_000 + beyond,
        )?;
    }
    Ok(measured)
}

/// The rates of the clients from 1 s to the end of sending.
fn rates(measured: &Measured) -> Result<Vec<u64>> {
    let packets = measured.captured.only(|packet| packet.mark.is_some());
    let begin = packets.first().context("nothing arrived")?.time_ns + 1_000_000_000;
    let end = packets
        .iter()
        .filter_map(|packet| packet.mark)
        .map(|mark| mark.sent_ns)
        .max()
        .context("nothing arrived")?;
    let steady = measured
        .captured
        .only(|packet| packet.mark.is_some() && packet.time_ns >= begin && packet.time_ns < end);
    Ok(per_destination(&steady)
        .values()
        .map(|packets| stats::wire_bytes(packets) * 1_000_000 / ((end - begin) / 1_000).max(1))
        .collect())
}

fn two_levels() -> Result<()> {
    let measured = clients(10)?;
    let rates = rates(&measured)?;
    let total: u64 = rates.iter().sum();
    println!("rates under the link {rates:?}, together {total} B/s");
    ensure!(rates.len() == 10, "{} clients", rates.len());
    near("rate of the link", total, 2_500_000, 20)?;
    for rate in rates {
        near("share of a client", rate, total / 10, 50)?;
    }
    let class = measured.summary.class("all")?;
    println!("dropped {:?}", class.dropped);
    ensure!(
        class.dropped_for("link").packets > 0,
        "nothing was dropped because the link was full: {class:?}"
    );
    Ok(())
}

/// Three clients of 4 Mbit/s under 20: the link is not what limits.
fn roomy_link() -> Result<()> {
    let measured = clients(3)?;
    let rates = rates(&measured)?;
    println!("rates {rates:?} B/s");
    ensure!(rates.len() == 3, "{} clients", rates.len());
    for rate in rates {
        near("rate of a client", rate, 500_000, 20)?;
    }
    ensure!(
        measured.summary.class("all")?.dropped_for("link").packets == 0,
        "the link dropped: {:?}",
        measured.summary
    );
    Ok(())
}

/// A class for calls, one for everything else, under a link of 10 Mbit/s.
const PRIORITY: &str = r#"
link = { rate = "10mbit", max-wait = "200ms" }

[[interface.class]]
name = "calls"
match = { dscp = ["ef"] }
rate = "8mbit"

[[interface.class]]
name = "best-effort"
rate = "10mbit"
"#;

const CALL: u32 = 1;
const BULK: u32 = 10;
/// Expedited forwarding with ECT(0); best effort with ECT(1).
const EF: u8 = 0xba;
const BE: u8 = 0x01;

/// Sends a call of `call` bytes per second, and best effort of 15 Mbit/s if asked; checks that DSCP and ECN stay.
fn priority(call: u64, full: bool) -> Result<crate::configured::Found> {
    let configured = Configured::start(PRIORITY, &[])?;
    let to = configured.lab.far(false, PORT);
    let time = Duration::from_secs(3);
    let flooding: Vec<Sending> = (0..4)
        .filter(|_| full)
        .map(|flow| {
            Udp {
                tos: Some(BE),
                ..Udp::stream(
                    BULK + flow,
                    to,
                    1_514,
                    470_000,
                    time + Duration::from_millis(500),
                )
            }
            .start(&configured.lab.a)
        })
        .collect();
    thread::sleep(Duration::from_millis(500));
    Udp {
        tos: Some(EF),
        ..Udp::stream(CALL, to, 250, call, time)
    }
    .send(&configured.lab.a)?;
    for sender in flooding {
        sender.join()?;
    }
    let found = configured.finish(Duration::from_millis(600))?;
    for packet in found.captured.only(|packet| packet.mark.is_some()) {
        let call = packet.mark.is_some_and(|mark| mark.stream == CALL);
        ensure!(
            packet.tos == if call { EF } else { BE } && packet.header_right,
            "DSCP or ECN changed: {packet:?}"
        );
    }
    Ok(found)
}

fn l73_delay() -> Result<()> {
    let [quiet, loud] = [false, true].map(|full| -> Result<u64> {
        let found = priority(12_500, full)?;
        let packets = found.captured.stream(CALL);
        between("packets of the call", packets.len(), 145, 151)?;
        percentile(&stats::delays(&packets), 99).context("no delays")
    });
    let (quiet, loud) = (quiet?, loud?);
    println!(
        "delay p99 of the call alone {} us, in a full link {} us",
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

/// The calls offer twice the link, the rest one and a half times: the rest keeps more than a tenth.
fn l73_flood() -> Result<()> {
    let now = payload::now_ns();
    let found = priority(2_500_000, true)?;
    let packets = found.captured.only(|packet| packet.mark.is_some());
    let begin = packets.first().context("nothing arrived")?.time_ns.max(now);
    let steady = found.captured.only(|packet| {
        packet.mark.is_some()
            && packet.time_ns > begin + 1_000_000_000
            && packet.time_ns < begin + 3_000_000_000
    });
    let (calls, rest): (Vec<_>, Vec<_>) = steady
        .into_iter()
        .partition(|packet| packet.mark.is_some_and(|mark| mark.stream == CALL));
    let (calls, rest) = (stats::wire_bytes(&calls) / 2, stats::wire_bytes(&rest) / 2);
    println!("calls {calls} B/s, best effort {rest} B/s");
    between("bytes per second of best effort", rest, 125_000, 1_250_000)?;
    near("bytes per second of the link", calls + rest, 1_250_000, 20)
}
