//! The usual set-up of a case: lab, `leaky run`, capture; and at the end what must hold after every run:
//! the counts add up, each side read from its own source, and the kernel is as it was before.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::capture::{Capture, Captured, HEADERS_ONLY};
use leaky_tests::lab::{FAR, SHAPED};
use leaky_tests::report::{Counters, Installed};
use leaky_tests::stats::{Delivery, deliveries, wire_bytes};
use leaky_tests::udp::Sink;
use leaky_tests::witness::{self, KernelState, Link, Qdisc};
use leaky_tests::{Lab, LabOptions, Leaky, Packet};

/// Where the senders of the cases send to.
pub(crate) const PORT: u16 = 5004;

/// A limited interface, and a capture at its far end.
pub(crate) struct Rig {
    pub(crate) lab: Lab,
    pub(crate) leaky: Leaky,
    pub(crate) capture: Capture,
    _sink: Sink,
    before: KernelState,
    link_before: Link,
}

/// What was found.
pub(crate) struct Measured {
    pub(crate) captured: Captured,
    pub(crate) installed: Installed,
    pub(crate) summary: Counters,
    /// The root qdisc, after the last packet.
    pub(crate) qdisc: Qdisc,
    /// tx_bytes of the interface from start to end.
    pub(crate) tx_bytes: u64,
}

impl Rig {
    pub(crate) fn new(arguments: &[&str]) -> Result<Self> {
        Self::with(LabOptions::default(), arguments, HEADERS_ONLY)
    }

    pub(crate) fn with(options: LabOptions, arguments: &[&str], keep: usize) -> Result<Self> {
        Self::on(Lab::with(options)?, arguments, keep)
    }

    /// In a lab with many clients in `b` and many senders in `a`.
    pub(crate) fn many(arguments: &[&str]) -> Result<Self> {
        let lab = Lab::new()?;
        lab.many_addresses()?;
        Self::on(lab, arguments, HEADERS_ONLY)
    }

    /// In a lab that is already there.
    pub(crate) fn on(lab: Lab, arguments: &[&str], keep: usize) -> Result<Self> {
        let sink = Sink::open(&lab.b, PORT)?;
        let before = witness::state(&lab.a, SHAPED)?;
        let leaky = Leaky::start(&lab, arguments)?;
        // After the start: the program counts from its attachment, the capture must not see more than it.
        let capture = Capture::start(&lab.b, FAR, keep)?;
        let link_before = witness::link(&lab.a, SHAPED)?;
        Ok(Self {
            lab,
            leaky,
            capture,
            _sink: sink,
            before,
            link_before,
        })
    }

    /// Waits until nothing has arrived for `quiet`, ends everything, and checks what must hold after every run.
    pub(crate) fn finish(self, quiet: Duration) -> Result<Measured> {
        let is_quiet = self
            .capture
            .wait_quiet(quiet, quiet + Duration::from_secs(20));
        ensure!(
            is_quiet,
            "packets still arrive 20 s after the last was sent"
        );
        let qdisc = witness::root(&self.lab.a, SHAPED)?;
        let tx_bytes = witness::link(&self.lab.a, SHAPED)?.tx_bytes - self.link_before.tx_bytes;
        let captured = self.capture.stop()?;
        let installed = self.leaky.installed().clone();
        let outcome = self.leaky.stop()?;
        let summary = outcome.summary.context("no summary")?;
        check_equations(&captured, &summary, &qdisc).context(Broken)?;
        let after = witness::state(&self.lab.a, SHAPED)?;
        if after != self.before {
            let left = format!("Before: {:?}\nAfter: {after:?}", self.before);
            return Err(anyhow::Error::msg(left).context(Broken));
        }
        Ok(Measured {
            captured,
            installed,
            summary,
            qdisc,
            tx_bytes,
        })
    }
}

/// What is charged may differ from what is sent (overhead, smallest packet); here the counts of packets have to agree, and only those.
impl Rig {
    pub(crate) fn finish_charged(self, quiet: Duration) -> Result<Counters> {
        let _ = self
            .capture
            .wait_quiet(quiet, quiet + Duration::from_secs(20));
        let captured = self.capture.stop()?;
        let summary = self.leaky.summary()?;
        let arrived = captured.only(limited).len() as u64;
        ensure!(
            summary.accepted_packets == arrived,
            "the program accepted {} packets, {arrived} arrived",
            summary.accepted_packets
        );
        Ok(summary)
    }
}

/// Counts that do not add up, or something left behind: no noise on the machine excuses that, so it is not tried again.
#[derive(Debug)]
pub(crate) struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("numbers do not add up or something is left behind")
    }
}

impl Measured {
    /// What every window may hold beyond the rate, of a bucket at `rate` bytes per second: a frame, and what the hold lets out
    /// at once (which is printed, as leaky does).
    pub(crate) fn beyond(&self, rate: u64) -> u64 {
        let burst = match self.installed.hold.as_str() {
            "htb" => htb_burst_bytes(rate),
            _ => 0,
        };
        println!(
            "{} lets {burst} B of {rate} B/s out at once",
            self.installed.hold
        );
        burst + 1_514
    }

    /// What became of each sender's packets.
    pub(crate) fn deliveries(&self, sent: &[(u32, u64)]) -> BTreeMap<u32, Delivery> {
        deliveries(&self.captured.packets, &sent.iter().copied().collect())
    }

    /// Packets of a stream, without those that the htb hold lets out at once after a pause.
    pub(crate) fn settled(&self, stream: u32) -> Vec<Packet> {
        let packets = self.captured.stream(stream);
        let mut burst = hold_burst_bytes(&self.installed);
        let skip = packets
            .iter()
            .take_while(|packet| {
                let inside = burst > 0;
                burst = burst.saturating_sub(u64::from(packet.wire_bytes));
                inside
            })
            .count();
        packets[skip..].to_vec()
    }
}

/// What the hold lets out at once after a pause: nothing for fq; for htb max(2 MTU, 4 ms of the rate), plus the packet that
/// uses the last of it up and one more while the credit is above zero.
pub(crate) fn hold_burst_bytes(installed: &Installed) -> u64 {
    match (installed.hold.as_str(), installed.rate_bytes_per_second) {
        ("htb", Some(rate)) => htb_burst_bytes(rate),
        _ => 0,
    }
}

/// The same for any rate (bytes per second) that htb holds: a class, a client, or the link.
pub(crate) fn htb_burst_bytes(rate: u64) -> u64 {
    (rate / 250).max(3_100) + 2 * 1_514
}

/// Packets that a limit applies to: IP, and neither neighbour discovery nor group membership (which carry an extension header).
pub(crate) fn limited(packet: &Packet) -> bool {
    matches!(packet.protocol, 1 | 6 | 17)
}

/// offered = accepted + dropped, from the program; accepted = received + drops of the hold + backlog, from the capture and the kernel.
fn check_equations(captured: &Captured, summary: &Counters, qdisc: &Qdisc) -> Result<()> {
    let dropped = summary.dropped_total();
    ensure!(
        summary.offered_packets == summary.accepted_packets + dropped.packets
            && summary.offered_bytes == summary.accepted_bytes + dropped.bytes,
        "offered is not accepted + dropped: {summary:?}"
    );
    let received = captured.only(limited);
    let packets: u64 = received
        .iter()
        .map(|packet| u64::from(packet.segments))
        .sum();
    ensure!(
        summary.accepted_packets == packets + qdisc.drops + qdisc.waiting,
        "the program accepted {} packets; {packets} were received, the hold dropped {} and keeps {}",
        summary.accepted_packets,
        qdisc.drops,
        qdisc.waiting
    );
    if qdisc.drops == 0 && qdisc.waiting == 0 {
        let bytes = wire_bytes(&received);
        ensure!(
            summary.accepted_bytes == bytes,
            "the program accepted {} B on the wire, {bytes} B were received",
            summary.accepted_bytes
        );
    }
    ensure!(
        summary.hold_dropped_packets == qdisc.drops,
        "leaky reports {} drops of the hold, the kernel {}",
        summary.hold_dropped_packets,
        qdisc.drops
    );
    Ok(())
}
