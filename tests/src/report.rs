//! What `leaky run --json` prints, read with types of the lab's own: a key that is renamed or goes missing fails a test.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One line.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// The limit is in force.
    Installed(Box<Installed>),
    /// Once a second.
    Counters(Counters),
    /// Something worth knowing happened.
    Notice {
        /// In words.
        text: String,
    },
    /// At the end.
    Summary(Counters),
}

/// What was installed.
#[derive(Debug, Clone, Deserialize)]
pub struct Installed {
    /// Interface name.
    pub interface: String,
    /// Its index.
    pub ifindex: u32,
    /// The limit, with a rate in bytes.
    pub rate_bytes_per_second: Option<u64>,
    /// The limit, with a rate in packets.
    pub rate_packets_per_second: Option<u64>,
    /// What the bucket holds, in bytes.
    pub capacity_bytes: Option<u64>,
    /// What the bucket holds, in packets; with a rate in bytes, in full frames.
    pub capacity_packets: Option<u64>,
    /// What the bucket holds, as time at the rate.
    pub capacity_seconds: f64,
    /// Longest wait.
    pub max_wait_seconds: f64,
    /// How much earlier than its start a packet may leave.
    pub burst_seconds: f64,
    /// Whose bucket a packet falls into.
    pub key: String,
    /// `fq` or `htb`.
    pub hold: String,
    /// Why that one.
    pub hold_reason: String,
    /// How the program is attached.
    pub attach: String,
    /// GSO limit of the interface while leaky runs.
    pub gso_max_segs: Option<u64>,
    /// What the user should know.
    pub notices: Vec<String>,
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct Amount {
    /// Packets.
    pub packets: u64,
    /// Bytes on a wire.
    pub bytes: u64,
}

/// Counters since the start.
#[derive(Debug, Clone, Deserialize)]
pub struct Counters {
    /// Packets that fell into a bucket.
    pub offered_packets: u64,
    /// Their bytes on a wire.
    pub offered_bytes: u64,
    /// Their bytes as the interface counts them.
    pub offered_skb_bytes: u64,
    /// Packets that got a start.
    pub accepted_packets: u64,
    /// Their bytes on a wire.
    pub accepted_bytes: u64,
    /// Their bytes as the interface counts them.
    pub accepted_skb_bytes: u64,
    /// Accepted packets as the interface counts them: a GSO packet is one.
    pub accepted_buffers: u64,
    /// Accepted packets whose start was later than their arrival.
    pub delayed_packets: u64,
    /// Their bytes.
    pub delayed_bytes: u64,
    /// By reason.
    pub dropped: BTreeMap<String, Amount>,
    /// Control traffic that was not limited.
    pub passed_packets: u64,
    /// Accepted, and then dropped by the hold.
    pub hold_dropped_packets: u64,
    /// Waiting in the hold, packets.
    pub hold_backlog_packets: u64,
    /// Waiting in the hold, bytes.
    pub hold_backlog_bytes: u64,
    /// Sum of the waits of accepted packets.
    pub wait_sum_seconds: f64,
    /// Longest wait of an accepted packet.
    pub wait_max_seconds: f64,
    /// Segments of the largest GSO packet.
    pub largest_lump_packets: u64,
    /// Wire bytes of the largest packet.
    pub largest_lump_bytes: u64,
}

impl Counters {
    /// All drops of the program, whatever the reason.
    #[must_use]
    pub fn dropped_total(&self) -> Amount {
        self.dropped
            .values()
            .fold(Amount::default(), |sum, one| Amount {
                packets: sum.packets + one.packets,
                bytes: sum.bytes + one.bytes,
            })
    }

    /// Drops for one reason; none if the reason is not listed.
    #[must_use]
    pub fn dropped_for(&self, reason: &str) -> Amount {
        self.dropped.get(reason).copied().unwrap_or_default()
    }
}
