//! Frames come out as they went in: L02, and frames that carry tags.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::capture::WHOLE;
use leaky_tests::lab::SHAPED;
use leaky_tests::payload::{Mark, now_ns};
use leaky_tests::raw::{RawSocket, tagged_udp};
use leaky_tests::{LabOptions, Pace, Sizes, Udp, stats};

use crate::Case;
use crate::host::{Host, Need};
use crate::judge::near;
use crate::rig::{PORT, Rig};

/// Bytes per second of 10 Mbit/s.
const RATE: u64 = 1_250_000;

pub(crate) const CASES: &[Case] = &[
    Case::timed(
        "tagged_frames_are_limited",
        &[Need::Root, Need::Leaky],
        tagged,
    ),
    Case::new(
        "l02_datagrams_stay_what_they_are",
        &[Need::Root, Need::Leaky],
        l02_integrity,
    ),
];

/// Frames with one and with two tags inside, sent as they are: no VLAN device is needed for that. Tags count.
fn tagged() -> Result<()> {
    let rig = Rig::new(&["--rate", "10mbit", "--max-wait", "500ms"])?;
    let raw = RawSocket::open(&rig.lab.a, SHAPED, 0)?;
    for sequence in 0..300 {
        let tags: &[(u16, u16)] = if sequence % 2 == 0 {
            &[(0x8100, 5)]
        } else {
            &[(0x88a8, 7), (0x8100, 5)]
        };
        let mark = Mark {
            stream: 1,
            sequence,
            sent_ns: now_ns(),
        };
        raw.send(&tagged_udp(mark, 1_000, PORT, tags)?)?;
    }
    let measured = rig.finish(Duration::from_millis(300))?;
    let delivery = measured.deliveries(&[(1, 300)])[&1];
    ensure!(
        (delivery.received, delivery.reordered) == (300, 0),
        "{delivery:?}"
    );
    let packets = measured.settled(1);
    ensure!(
        packets
            .iter()
            .all(|packet| matches!(packet.wire_bytes, 1_004 | 1_008)),
        "tags were not counted"
    );
    near("rate", stats::rate(&packets).context("no rate")?, RATE, 5)
}

/// Sizes, order and payloads of three senders, in groups of 50, some of which have to wait. The case says 1,000,000
/// datagrams; here 150,000 natively and 15,000 in the VM.
fn l02_integrity() -> Result<()> {
    let each = if Host::get().vm { 5_000 } else { 50_000 };
    let rig = Rig::with(LabOptions::default(), &["--rate", "500mbit"], WHOLE)?;
    let senders: Vec<_> = [(1, false), (2, true), (3, false)]
        .into_iter()
        .map(|(stream, v6)| {
            Udp {
                sizes: Sizes::Between(110, 1_514),
                pace: Pace::Every {
                    packets: 50,
                    period: Duration::from_micros(3_000),
                },
                ..Udp::burst(stream, rig.lab.far(v6, PORT), 0, each)
            }
            .start(&rig.lab.a)
        })
        .collect();
    for sender in senders {
        let sent = sender.join()?;
        ensure!(sent.packets == each, "{sent:?}");
    }
    let measured = rig.finish(Duration::from_millis(100))?;
    for (stream, delivery) in measured.deliveries(&[(1, each), (2, each), (3, each)]) {
        ensure!(
            (
                delivery.lost,
                delivery.duplicated,
                delivery.reordered,
                delivery.changed
            ) == (0, 0, 0, 0),
            "stream {stream}: {delivery:?}"
        );
    }
    ensure!(
        measured.summary.delayed_packets > 0,
        "nothing had to wait, so nothing was shown"
    );
    Ok(())
}
