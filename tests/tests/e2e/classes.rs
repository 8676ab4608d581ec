//! Which class a packet is in: the first that matches, by every dimension. L06.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::lab::{client, source};
use leaky_tests::stats::{self, deliveries, percentile, us};
use leaky_tests::{Pace, Packet, Sizes, Udp};

use crate::Case;
use crate::configured::{Configured, OTHER_PORT};
use crate::host::Need;
use crate::judge::{between, near};
use crate::rig::PORT;

pub(crate) const CASES: &[Case] = &[
    Case::timed(
        "l06_a_key_frame_does_not_hold_up_audio",
        &[Need::Root, Need::Leaky],
        l06,
    ),
    Case::timed(
        "the_first_class_that_matches_is_the_one",
        &[Need::Root, Need::Leaky],
        first_match,
    ),
    Case::new(
        "every_dimension_of_a_match_is_looked_at",
        &[Need::Root, Need::Leaky],
        dimensions,
    ),
];

fn of(stream: u32) -> impl Fn(&Packet) -> bool {
    move |packet| packet.mark.is_some_and(|mark| mark.stream == stream)
}

/// Video frames of 290 KB at 10 Mbit/s take 240 ms each; audio of 64 kbit/s has a class of its own.
fn l06() -> Result<()> {
    const VIDEO: u32 = 1;
    const AUDIO: u32 = 2;
    const FRAME: u64 = 290_679 / 1_000 + 1;
    let classes = r#"
[[interface.class]]
name = "audio"
match = { protocol = ["udp"], destination-port = ["5006"] }
rate = "96kbit"

[[interface.class]]
name = "video"
match = { protocol = ["udp"], destination-port = ["5004"] }
rate = "10mbit"
capacity = "320kB"
max-wait = "300ms"
"#;
    let [quiet, loud] = [0, 6].map(|frames| -> Result<u64> {
        let configured = Configured::start(classes, &[])?;
        let video = (frames > 0).then(|| {
            Udp {
                count: frames * FRAME,
                pace: Pace::Every {
                    packets: FRAME,
                    period: Duration::from_millis(500),
                },
                sizes: Sizes::Frame(1_000),
                ..Udp::burst(VIDEO, configured.lab.far(false, PORT), 1_000, 0)
            }
            .start(&configured.lab.a)
        });
        let audio = configured.lab.far(false, PORT + 2);
        Udp::stream(AUDIO, audio, 160, 8_000, Duration::from_secs(3)).send(&configured.lab.a)?;
        if let Some(video) = video {
            video.join()?;
        }
        let found = configured.finish(Duration::from_millis(500))?;
        let sent = [(VIDEO, frames * FRAME)].into();
        let delivery = deliveries(&found.captured.packets, &sent)[&VIDEO];
        ensure!(
            (delivery.lost, delivery.reordered, delivery.changed) == (0, 0, 0),
            "a frame was cut: {delivery:?}"
        );
        found.accepted_arrived("video", of(VIDEO))?;
        found.accepted_arrived("audio", of(AUDIO))?;
        percentile(&stats::delays(&found.captured.stream(AUDIO)), 99).context("no audio")
    });
    let (quiet, loud) = (quiet?, loud?);
    println!(
        "audio delay p99 alone {} us, beside key frames {} us",
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

/// Two classes that both match; the rate of the first holds, and the other order gives the other rate.
fn first_match() -> Result<()> {
    let narrow = "[[interface.class]]\nname = \"narrow\"\nmatch = { destination-port = [\"5000-5010\"] }\nrate = \"2mbit\"\n";
    let wide = "[[interface.class]]\nname = \"wide\"\nmatch = { protocol = [\"udp\"] }\nrate = \"6mbit\"\n";
    let configured = Configured::start(&format!("{narrow}{wide}"), &[])?;
    let lab = &configured.lab;
    let time = Duration::from_secs(3);
    let senders = [(1, PORT), (2, OTHER_PORT)].map(|(stream, port)| {
        Udp::stream(stream, lab.far(false, port), 1_000, 1_000_000, time).start(&lab.a)
    });
    for sender in senders {
        sender.join()?;
    }
    let found = configured.finish(Duration::from_millis(400))?;
    for (stream, class, wanted) in [(1, "narrow", 250_000), (2, "wide", 750_000)] {
        let packets = found.captured.stream(stream);
        let rate = stats::rate(&packets[packets.len() / 3..]).context("nothing arrived")?;
        println!("{class}: {rate} B/s");
        near(&format!("rate of {class}"), rate, wanted, 20)?;
        found.accepted_arrived(class, of(stream))?;
    }
    Ok(())
}

/// One class for each dimension, and one packet kind for each; what matches nothing is in "rest".
fn dimensions() -> Result<()> {
    let matches = [
        ("dscp", "dscp = [\"ef\", \"cs3\", 34]"),
        ("mark", "mark = [1, \"0x10\"]"),
        (
            "source",
            "source = [\"10.79.1.0/24\", \"fd79:0:0:101::/64\"]",
        ),
        (
            "destination",
            "destination = [\"10.78.2.0/24\", \"fd78:0:0:201::/64\"]",
        ),
        ("source-port", "source-port = [\"7000-7009\"]"),
        (
            "both",
            "destination = [\"10.78.3.0/24\"], destination-port = [\"5006\"]",
        ),
    ];
    let classes: String = matches
        .iter()
        .map(|(name, how)| {
            format!(
                "[[interface.class]]\nname = \"{name}\"\nmatch = {{ {how} }}\nrate = \"100mbit\"\n"
            )
        })
        .collect();
    let configured = Configured::start(&format!("mark-mask = \"0xff\"\n{classes}"), &[])?;
    let lab = &configured.lab;
    let to = |v6, number, port| SocketAddr::new(client(v6, number), port);
    let from = |v6, number, port| Some(SocketAddr::new(source(v6, number), port));
    let plain = |stream, to| Udp::burst(stream, to, 200, 10);
    let rest = to(false, 0x0900, PORT);
    let packets = [
        (
            "dscp",
            Udp {
                tos: Some(0xb8),
                ..plain(1, rest)
            },
        ),
        (
            "dscp",
            Udp {
                tos: Some(0x60),
                ..plain(2, to(true, 0x900, PORT))
            },
        ),
        // The mask leaves 0x10 of it.
        (
            "mark",
            Udp {
                mark: Some(0xff10),
                ..plain(3, rest)
            },
        ),
        (
            "source",
            Udp {
                from: from(false, 0x0105, 0),
                ..plain(4, rest)
            },
        ),
        (
            "source",
            Udp {
                from: from(true, 0x0101, 0),
                ..plain(5, to(true, 0x900, PORT))
            },
        ),
        ("destination", plain(6, to(false, 0x0205, PORT))),
        ("destination", plain(7, to(true, 0x0201, PORT))),
        (
            "source-port",
            Udp {
                from: from(false, 0x0900, 7_009),
                ..plain(8, rest)
            },
        ),
        ("both", plain(9, to(false, 0x0301, PORT + 2))),
        ("rest", plain(10, to(false, 0x0301, PORT))),
        ("rest", plain(11, rest)),
        (
            "rest",
            Udp {
                mark: Some(0x11),
                ..plain(12, rest)
            },
        ),
        (
            "rest",
            Udp {
                from: from(false, 0x0900, 7_010),
                ..plain(13, rest)
            },
        ),
    ];
    for (_, udp) in &packets {
        udp.send(&lab.a)?;
    }
    let found = configured.finish(Duration::from_millis(200))?;
    let sent = |class| packets.iter().filter(|(of, _)| *of == class).count() * 10;
    for (class, _) in matches {
        let (wanted, counted) = (sent(class), found.summary.class(class)?.offered_packets);
        ensure!(
            counted == u64::try_from(wanted)?,
            "class {class} counted {counted} packets, {wanted} were sent: {:?}",
            found.summary.classes
        );
    }
    // The rest passes, and so does control traffic.
    let rest = u64::try_from(sent("rest"))?;
    between(
        "packets that passed",
        found.summary.passed_packets,
        rest,
        rest + 5,
    )?;
    Ok(())
}
