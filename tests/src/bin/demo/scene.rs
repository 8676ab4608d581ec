//! One comparison: some traffic, and what arrives.

use std::time::Duration;

use anyhow::{Context, Result};
use leaky_tests::capture::{Capture, HEADERS_ONLY};
use leaky_tests::lab::FAR;
use leaky_tests::report::{Counters, Installed};
use leaky_tests::stats::{Gaps, largest_window, percentile, windows, wire_bytes};
use leaky_tests::tcp::{CUBIC, Transfer};
use leaky_tests::udp::Sink;
use leaky_tests::{Lab, Leaky, Pace, Packet, Udp};

const PORT: u16 = 5004;
/// Left out of the figures: TCP's start, and what the htb hold lets out at once after a pause.
const SETTLE: Duration = Duration::from_millis(200);

/// What a scene shows.
pub(crate) struct Scene {
    pub(crate) title: &'static str,
    pub(crate) what: &'static str,
    pub(crate) rate: &'static str,
    pub(crate) rate_bytes_per_second: u64,
    pub(crate) traffic: Traffic,
    pub(crate) time: Duration,
    pub(crate) look: &'static str,
}

/// Who sends.
pub(crate) enum Traffic {
    /// So many packets back to back, once in each period.
    Bursts {
        frame_bytes: u32,
        packets: u64,
        period: Duration,
    },
    /// One connection, as fast as it goes.
    Tcp,
}

/// What was measured in one pass.
pub(crate) struct Pass {
    /// Bytes per second that the sender offered; `None` for TCP, which offers what is taken.
    pub(crate) offered: Option<u64>,
    /// Bytes per second that arrived, over the time in which they were sent.
    pub(crate) delivered: u64,
    pub(crate) gaps: Gaps,
    /// Bytes in each millisecond: 99 % hold at most this.
    pub(crate) full_millisecond: u64,
    /// Most bytes in any millisecond.
    pub(crate) fullest_millisecond: u64,
    /// Bytes and frames of the largest piece that arrived at once.
    pub(crate) largest_lump: (u32, u32),
    /// Bytes that arrived in each 10 ms.
    pub(crate) each_10_ms: Vec<u64>,
    pub(crate) leaky: Option<(Installed, Counters)>,
}

impl Scene {
    /// Plays the traffic through the lab.
    pub(crate) fn play(&self, lab: &Lab, with_leaky: bool) -> Result<Pass> {
        let _sink = Sink::open(&lab.b, PORT)?;
        let leaky = if with_leaky {
            Some(Leaky::start(lab, &["--rate", self.rate])?)
        } else {
            None
        };
        let capture = Capture::start(&lab.b, FAR, HEADERS_ONLY)?;
        // Without a limit TCP moves gigabits: a second of that is enough to see it.
        let time = if with_leaky {
            self.time
        } else {
            self.time.min(Duration::from_millis(1_500))
        };
        let offered = match self.traffic {
            Traffic::Bursts {
                frame_bytes,
                packets,
                period,
            } => {
                let to = lab.far(false, PORT);
                let sender = Udp {
                    pace: Pace::Every { packets, period },
                    ..Udp::stream(1, to, frame_bytes, self.rate_bytes_per_second, time)
                };
                sender.send(&lab.a)?;
                let per_period = u128::from(packets) * u128::from(frame_bytes) * 1_000_000_000;
                Some(u64::try_from(per_period / period.as_nanos())?)
            }
            Traffic::Tcp => {
                Transfer::start(&lab.a, &lab.b, lab.far(false, PORT), CUBIC, time)?.join()?;
                None
            }
        };
        // What still waits is not thrown away by ending too early.
        let _ = capture.wait_quiet(Duration::from_millis(250), Duration::from_secs(3));
        let captured = capture.stop()?;
        let leaky = match leaky {
            Some(leaky) => Some((leaky.installed().clone(), leaky.summary()?)),
            None => None,
        };
        let packets = captured.only(|packet| packet.destination_port == PORT);
        measure(&packets, time, offered, leaky)
            .context("too few packets arrived to measure anything")
    }
}

fn measure(
    packets: &[Packet],
    time: Duration,
    offered: Option<u64>,
    leaky: Option<(Installed, Counters)>,
) -> Option<Pass> {
    let begin = packets.first()?.time_ns + leaky_tests::stats::ns(SETTLE);
    let end = packets.first()?.time_ns + leaky_tests::stats::ns(time);
    let steady: Vec<Packet> = packets
        .iter()
        .filter(|packet| (begin..end).contains(&packet.time_ns))
        .copied()
        .collect();
    let lump = steady.iter().max_by_key(|packet| packet.wire_bytes)?;
    let mut milliseconds = windows(&steady, begin, Duration::from_millis(1));
    milliseconds.sort_unstable();
    let nanoseconds = u128::from(end.checked_sub(begin)?.max(1));
    Some(Pass {
        offered,
        delivered: u64::try_from(u128::from(wire_bytes(&steady)) * 1_000_000_000 / nanoseconds)
            .ok()?,
        gaps: Gaps::of(&steady)?,
        full_millisecond: percentile(&milliseconds, 99)?,
        fullest_millisecond: largest_window(&steady, Duration::from_millis(1)).0,
        largest_lump: (lump.wire_bytes, lump.segments),
        each_10_ms: windows(&steady, begin, Duration::from_millis(10)),
        leaky,
    })
}
