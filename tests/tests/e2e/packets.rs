//! Every kind of packet: tags, options, fragments, chains, small ones. L41, L42, L43.

use std::time::Duration;

use anyhow::{Result, ensure};
use leaky_tests::craft::{DESTINATION, HOP_BY_HOP, ROUTING, mark_now};
use leaky_tests::lab::{SHAPED, V6_A, V6_B};
use leaky_tests::netns::Netns;
use leaky_tests::raw::RawSocket;
use leaky_tests::stats;
use leaky_tests::{Count, Craft, Packet, Udp};

use crate::Case;
use crate::configured::Configured;
use crate::host::Need;
use crate::judge::{between, near};
use crate::rig::{PORT, Rig, htb_burst_bytes};

pub(crate) const CASES: &[Case] = &[
    Case::new(
        "l41_frames_that_cannot_be_read_are_limited_and_counted",
        &[Need::Root, Need::Leaky],
        l41,
    ),
    Case::new(
        "l42_options_do_not_move_the_ports",
        &[Need::Root, Need::Leaky],
        l42,
    ),
    Case::timed(
        "l43_datagrams_in_six_fragments_are_not_lost_below_the_limit",
        &[Need::Root, Need::Leaky],
        l43_whole,
    ),
    Case::timed(
        "l43_fragments_of_a_flow_share_its_bucket",
        &[Need::Root, Need::Leaky],
        l43_limit,
    ),
    Case::new(
        "l43_extension_headers_do_not_hide_the_ports",
        &[Need::Root, Need::Leaky],
        l43_chains,
    ),
    Case::new(
        "overhead_and_mpu_are_charged",
        &[Need::Root, Need::Leaky],
        overhead,
    ),
    Case::timed(
        "overhead_and_mpu_slow_small_frames_down",
        &[Need::Root, Need::Leaky],
        overhead_rate,
    ),
];

/// Port 5004 has 100 Mbit/s; what is not readable is not in that class, whatever its ports say.
const TWO: &str = "default = \"small\"\n[[interface.class]]\nname = \"web\"\nmatch = { protocol = [\"udp\"], destination-port = [\"5004\"] }\nrate = \"100mbit\"\n[[interface.class]]\nname = \"small\"\nmatch = { destination-port = [\"1\"] }\nrate = \"80kbit\"\ncapacity = \"10kB\"\nmax-wait = \"2s\"\n";

fn send_all(from: &Netns, frames: impl IntoIterator<Item = Vec<u8>>) -> Result<()> {
    let socket = RawSocket::open(from, SHAPED, 0)?;
    frames.into_iter().try_for_each(|frame| socket.send(&frame))
}

fn crafted(count: u64, craft: &Craft) -> Result<Vec<Vec<u8>>> {
    (0..count)
        .map(|number| craft.frame(Some(mark_now(1, number))))
        .collect()
}

/// Three tags, an IPv4 header of 4 words, an IPv6 chain of ten headers, a cut header: 400 frames of each kind at once into a bucket
/// for some 10 kB.
fn l41() -> Result<()> {
    let plain = Craft::plain(PORT, 500);
    let three_tags = Craft {
        tags: vec![(0x88a8, 1), (0x8100, 2), (0x8100, 3)],
        ..plain.clone()
    };
    let long_chain = Craft {
        source: V6_A.into(),
        destination: V6_B.into(),
        chain: vec![DESTINATION; 10],
        ..plain.clone()
    };
    let broken = |change: fn(&mut Vec<u8>)| -> Result<Vec<Vec<u8>>> {
        let mut frames = crafted(400, &plain)?;
        frames.iter_mut().for_each(change);
        Ok(frames)
    };
    let kinds = [
        ("three tags", crafted(400, &three_tags)?),
        ("ten extension headers", crafted(400, &long_chain)?),
        ("a header of 4 words", broken(|frame| frame[14] = 0x44)?),
        ("version 5", broken(|frame| frame[14] = 0x55)?),
        ("a cut header", broken(|frame| frame.truncate(30))?),
    ];
    let wrong: Vec<String> = kinds
        .into_iter()
        .filter_map(|(kind, frames)| unreadable(kind, frames).err())
        .map(|error| format!("{error:#}"))
        .collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(())
}

fn unreadable(kind: &str, frames: Vec<Vec<u8>>) -> Result<()> {
    let configured = Configured::start(TWO, &[])?;
    let bytes = frames.iter().map(Vec::len).sum::<usize>();
    send_all(&configured.lab.a, frames)?;
    let found = configured.finish(Duration::from_millis(400))?;
    let small = found.summary.class("small")?;
    let capacity = found.fits("small")?;
    println!(
        "{kind}: {} of 400 accepted, {} unreadable, {} B",
        small.accepted_packets, found.summary.unreadable_packets, bytes
    );
    ensure!(
        small.offered_packets == 400,
        "{kind}: {:?}",
        found.summary.classes
    );
    ensure!(
        found.summary.unreadable_packets == 400,
        "{kind}: {} are counted as unreadable",
        found.summary.unreadable_packets
    );
    // What fits in is what leaky says that the bucket holds, and a little drains while they are sent.
    let holds = capacity.min(u64::try_from(bytes)?);
    between(
        "bytes accepted",
        small.accepted_bytes,
        holds.saturating_sub(1_514),
        holds + 1_000,
    )?;
    let arrived = found.captured.packets.len();
    ensure!(
        u64::try_from(arrived)? >= small.accepted_packets,
        "{kind}: {arrived} arrived, {} were accepted",
        small.accepted_packets
    );
    Ok(())
}

fn l42() -> Result<()> {
    let configured = Configured::start(TWO, &[])?;
    let frames = (0..=10)
        .map(|option_words| {
            let craft = Craft {
                option_words,
                ..Craft::plain(PORT, 300)
            };
            craft.frame(Some(mark_now(1, option_words.into())))
        })
        .collect::<Result<Vec<_>>>()?;
    send_all(&configured.lab.a, frames)?;
    let found = configured.finish(Duration::from_millis(200))?;
    let web = found.summary.class("web")?;
    ensure!(
        web.accepted_packets == 11 && found.captured.stream(1).len() == 11,
        "{} of 11 header lengths are in the class: {:?}",
        web.accepted_packets,
        found.summary.classes
    );
    ensure!(found.summary.unreadable_packets == 0, "{:?}", found.summary);
    Ok(())
}

/// 8 KB over an MTU of 1500, v4 and v6, at 9 of 10 Mbit/s each.
fn l43_whole() -> Result<()> {
    let rig = Rig::new(&["--rate", "10mbit", "--per", "flow", "--max-wait", "400ms"])?;
    let count = Count::open(&rig.lab.b, 6_000)?;
    let senders = [(1, false), (2, true)].map(|(stream, v6)| {
        let to = rig.lab.far(v6, 6_000);
        Udp::stream(stream, to, 8_192 + 42, 1_050_000, Duration::from_secs(3)).start(&rig.lab.a)
    });
    let mut sent = Vec::new();
    for sender in senders {
        sent.push(sender.join()?.packets);
    }
    let measured = rig.finish(Duration::from_millis(500))?;
    let counted = count.stop()?;
    println!("sent {sent:?} datagrams, arrived whole {counted:?}");
    for (stream, sent) in (1..).zip(sent) {
        let whole = counted.get(&stream).copied().unwrap_or(0);
        ensure!(
            whole == sent,
            "{} of {sent} datagrams of stream {stream} are lost: {:?}",
            sent - whole,
            measured.summary
        );
    }
    Ok(())
}

/// The first fragment has ports and the others have none: if they had different buckets, more than the rate would pass.
fn l43_limit() -> Result<()> {
    for v6 in [false, true] {
        let rig = Rig::new(&["--rate", "8mbit", "--per", "flow"])?;
        let to = rig.lab.far(v6, PORT);
        Udp::stream(1, to, 8_192 + 42, 2_000_000, Duration::from_secs(3)).send(&rig.lab.a)?;
        let measured = rig.finish(Duration::from_millis(400))?;
        let fragments = measured.captured.only(|packet| packet.fragment);
        let skip = fragments.len() / 4;
        let rate = stats::rate(&fragments[skip..]).unwrap_or(0);
        println!("v6 {v6}: {rate} B/s in {} fragments", fragments.len());
        near("rate of the fragments", rate, 1_000_000, 20)?;
    }
    Ok(())
}

fn l43_chains() -> Result<()> {
    let chains = [
        vec![],
        vec![HOP_BY_HOP],
        vec![HOP_BY_HOP, DESTINATION],
        vec![HOP_BY_HOP, DESTINATION, ROUTING, DESTINATION],
        vec![
            HOP_BY_HOP,
            DESTINATION,
            DESTINATION,
            DESTINATION,
            DESTINATION,
            DESTINATION,
            DESTINATION,
        ],
    ];
    let configured = Configured::start(TWO, &[])?;
    let frames = (0..)
        .zip(&chains)
        .map(|(number, chain)| {
            Craft {
                source: V6_A.into(),
                destination: V6_B.into(),
                chain: chain.clone(),
                ..Craft::plain(PORT, 400)
            }
            .frame(Some(mark_now(1, number)))
        })
        .collect::<Result<Vec<_>>>()?;
    send_all(&configured.lab.a, frames)?;
    let found = configured.finish(Duration::from_millis(200))?;
    let web = found.summary.class("web")?;
    ensure!(
        web.accepted_packets == 5,
        "{} of 5 chains are in the class: {:?}",
        web.accepted_packets,
        found.summary.classes
    );
    Ok(())
}

/// What a frame is charged with overhead 24 B and a minimum of 84 B.
fn charged(bytes: u64) -> u64 {
    (bytes + 24).max(84)
}

/// Frames without a mark: one that carries it is larger than the smallest.
fn small_frames(count: usize, bytes: u32) -> Result<Vec<Vec<u8>>> {
    Ok(vec![Craft::plain(PORT, bytes).frame(None)?; count])
}

fn udp_to_port(packet: &Packet) -> bool {
    packet.protocol == 17 && packet.destination_port == PORT
}

/// 400 frames at once into a bucket of 8,400 B: how many fit in is the formula, whatever the clock says.
fn overhead() -> Result<()> {
    for (bytes, with) in [
        (60, true),
        (60, false),
        (64, true),
        (100, true),
        (100, false),
    ] {
        let mut arguments = vec![
            "--rate",
            "80kbit",
            "--capacity",
            "8400B",
            "--max-wait",
            "2s",
        ];
        if with {
            arguments.extend(["--overhead", "24B", "--mpu", "84B"]);
        }
        let rig = Rig::new(&arguments)?;
        let lab = rig.lab.a.clone();
        send_all(&lab, small_frames(400, bytes)?)?;
        let found = Rig::finish_charged(rig, Duration::from_millis(400))?;
        let cost = if with {
            charged(bytes.into())
        } else {
            bytes.into()
        };
        let fit = 8_400 / cost;
        println!(
            "{bytes} B charged as {cost} B: {} accepted, {fit} fit in",
            found.accepted_packets
        );
        // One more for what drained while they were sent.
        between("accepted packets", found.accepted_packets, fit, fit + 1)?;
    }
    Ok(())
}

/// 60 B charged as 84 at 80 kbit/s: a frame every 8.4 ms.
fn overhead_rate() -> Result<()> {
    let rig = Rig::new(&[
        "--rate",
        "80kbit",
        "--max-wait",
        "2s",
        "--overhead",
        "24B",
        "--mpu",
        "84B",
    ])?;
    let hold = rig.leaky.installed().hold.clone();
    let counted = rig.leaky.installed().counted.clone();
    let capture = leaky_tests::Capture::start(&rig.lab.b, leaky_tests::lab::FAR, 192)?;
    send_all(&rig.lab.a.clone(), small_frames(200, 60)?)?;
    let _ = capture.wait_quiet(Duration::from_millis(300), Duration::from_secs(10));
    let frames = capture.stop()?.only(udp_to_port);
    Rig::finish_charged(rig, Duration::from_millis(100))?;
    let at_once = if hold == "htb" {
        htb_burst_bytes(10_000) / 60
    } else {
        0
    };
    let settled = &frames[usize::try_from(at_once)?.min(frames.len() / 2)..];
    let gaps = u64::try_from(settled.len())? - 1;
    let time = settled[settled.len() - 1].time_ns - settled[0].time_ns;
    println!("{gaps} gaps in {time} ns; counted: {counted}");
    ensure!(frames.len() == 200, "{} frames arrived", frames.len());
    ensure!(
        counted.contains("24") && counted.contains("84"),
        "not told: {counted:?}"
    );
    near(
        "time of a gap, ns",
        time / gaps,
        8_400_000,
        if hold == "htb" { 30 } else { 1 },
    )
}
