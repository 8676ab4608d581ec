//! What `leaky run --json` prints, read with types of the lab's own: a key that is renamed or goes missing fails a test.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
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
    /// What the bucket holds, as time at the rate. This and the next three are 0 or empty where there are several classes.
    #[serde(default)]
    pub capacity_seconds: f64,
    /// Longest wait.
    #[serde(default)]
    pub max_wait_seconds: f64,
    /// How much earlier than its start a packet may leave.
    #[serde(default)]
    pub burst_seconds: f64,
    /// Whose bucket a packet falls into.
    #[serde(default)]
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
    /// The classes, in their order.
    #[serde(default)]
    pub classes: Vec<Class>,
    /// The bucket of the whole interface, if there is one.
    #[serde(default)]
    pub link: Option<LinkBucket>,
    /// What the limits charge, in words.
    #[serde(default)]
    pub counted: String,
}

/// One class as it was installed.
#[derive(Debug, Clone, Deserialize)]
pub struct Class {
    /// Its name; that of the one class made from flags is `all`.
    pub class: String,
    /// Whose bucket a packet falls into, as in the config file.
    pub key: String,
    /// The same in words.
    pub key_words: String,
    /// Its rate; none where it is not shaped.
    #[serde(default)]
    pub rate_bytes_per_second: Option<u64>,
    /// What its bucket holds.
    #[serde(default)]
    pub capacity_bytes: Option<u64>,
    /// Longest wait.
    #[serde(default)]
    pub max_wait_seconds: Option<f64>,
    /// `shape`, `pass`, `drop` or `monitor`.
    pub action: String,
    /// Clients with limits of their own.
    #[serde(default)]
    pub clients: u64,
}

/// The bucket of the whole interface.
#[derive(Debug, Clone, Deserialize)]
pub struct LinkBucket {
    /// Its rate.
    pub rate_bytes_per_second: u64,
    /// What it holds.
    pub capacity_bytes: u64,
}

impl Installed {
    /// A class by its name.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&Class> {
        self.classes.iter().find(|class| class.class == name)
    }
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
    /// Departure times on packets that were ignored or taken off.
    pub stamps_ignored_packets: u64,
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
    /// The same for each class, and `rest` for what matches none.
    #[serde(default)]
    pub classes: Vec<ClassCounters>,
    /// Packets whose headers could not be read to their end.
    #[serde(default)]
    pub unreadable_packets: u64,
    /// Packets that were marked CE.
    #[serde(default)]
    pub marked_packets: u64,
}

/// Counters of one class since the start.
#[derive(Debug, Clone, Deserialize)]
pub struct ClassCounters {
    /// Its name.
    pub class: String,
    /// Packets that matched it.
    pub offered_packets: u64,
    /// Their bytes on a wire.
    pub offered_bytes: u64,
    /// Packets that got a start.
    pub accepted_packets: u64,
    /// Their bytes on a wire.
    pub accepted_bytes: u64,
    /// Accepted packets whose start was later than their arrival.
    pub delayed_packets: u64,
    /// Their bytes.
    pub delayed_bytes: u64,
    /// By reason.
    pub dropped: BTreeMap<String, Amount>,
    /// Packets that were marked CE.
    pub marked_packets: u64,
    /// Their bytes.
    pub marked_bytes: u64,
    /// Keys that have a bucket in the table.
    pub keys: u64,
    /// Packets of keys for which the table had no room.
    pub keys_beyond_table_packets: u64,
}

impl ClassCounters {
    /// All drops, whatever the reason.
    #[must_use]
    pub fn dropped_total(&self) -> Amount {
        total(&self.dropped)
    }

    /// Drops for one reason; none if the reason is not listed.
    #[must_use]
    pub fn dropped_for(&self, reason: &str) -> Amount {
        self.dropped.get(reason).copied().unwrap_or_default()
    }
}

fn total(dropped: &BTreeMap<String, Amount>) -> Amount {
    dropped.values().fold(Amount::default(), |sum, one| Amount {
        packets: sum.packets + one.packets,
        bytes: sum.bytes + one.bytes,
    })
}

impl Counters {
    /// The counters of one class.
    ///
    /// # Errors
    /// When leaky did not report that class.
    pub fn class(&self, name: &str) -> Result<&ClassCounters> {
        self.classes
            .iter()
            .find(|class| class.class == name)
            .with_context(|| format!("no counters for class {name}: {self:?}"))
    }

    /// All drops of the program, whatever the reason.
    #[must_use]
    pub fn dropped_total(&self) -> Amount {
        total(&self.dropped)
    }

    /// Drops for one reason; none if the reason is not listed.
    #[must_use]
    pub fn dropped_for(&self, reason: &str) -> Amount {
        self.dropped.get(reason).copied().unwrap_or_default()
    }
}
