//! Holds: the kernel part that keeps a packet until its start.
//!
//! The eBPF program decides and stamps, a qdisc keeps. A [`Hold`] is pure: from an [`Ask`] it
//! computes the operations that install it, and from a dump it says whether the kernel really
//! runs what was asked and what it dropped. [`install`] puts that together with the kernel:
//!
//! ```no_run
//! # use leaky_user::{hold::{self, Ask, Content, Group, HoldMode, Keys, Setup}, net::{kernel::Kernel, Net}, units};
//! # async fn example() -> anyhow::Result<()> {
//! let net = Kernel::open()?;
//! let link = net.link_by_name("eth0").await?;
//! let rate = units::Rate::BytesPerSecond(2_500_000);
//! let group = Group {
//!     rate,
//!     capacity: Content::Bytes(500_000),
//!     bound: units::Duration::from_nanos(226_000_000),
//!     burst: 0,
//!     keys: Keys::One,
//! };
//! let mut ask = Ask {
//!     groups: vec![group],
//!     line: None,
//!     overhead: 0,
//!     mpu: 0,
//!     largest_packet: link.largest_gso_packet(),
//!     gso_max_segs: hold::smooth(&link, rate),
//!     link,
//! };
//! let setup = Setup { mode: HoldMode::Auto, replace_root: false, record: "/run/leaky/3.json".into() };
//! let mut installed = hold::install(&net, ask.clone(), setup).await?;
//! println!("{}: {}", installed.kind(), installed.reason());
//! // Attach the program now; for htb, a key's packets go to `hold::queue(slot)`, see `hold::slots`.
//! // Once a second:
//! let stats = installed.stats(&net).await?;
//! // When `net.watch(index)` reports another MTU:
//! ask.link = net.link_by_index(ask.link.index).await?;
//! installed.adapt(&net, ask).await?;
//! // At the end:
//! installed.remove(&net).await?;
//! # Ok(())
//! # }
//! ```
//!
//! All of leaky's qdiscs hang below a root with the handle [`HANDLE`] (`1eaf:`), which is how
//! they are recognised, also after a crash.

mod choose;
mod claim;
mod error;
mod fq;
mod htb;
mod installed;
mod line;
mod previous;
mod record;
mod smooth;

#[cfg(test)]
mod tests;

pub use choose::{Choice, HoldMode, choose};
pub use error::Error;
pub use fq::{FqHold, LARGEST_WAIT};
pub use htb::{FLOW_SLOTS, HtbHold, Slots, queue, rest_slot, slots};
pub use installed::{Cleared, Installed, Setup, clear, install, is_busy};
pub use previous::{Previous, previous};
pub use record::Record;
pub use smooth::smooth;

use crate::net::{Class, Link, Op, Qdisc, ROOT, id_text};
use crate::units::{Duration, Rate};

/// The handle of leaky's root qdiscs, `1eaf:`. The kernel itself gives out handles from `8001:`
/// on, so only somebody who types this one can collide.
pub const HANDLE: u32 = 0x1eaf_0000;

/// How much a bucket holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes of frames as sent, with a rate in bytes.
    Bytes(u64),
    /// Packets, with a rate in packets.
    Packets(u64),
}

/// What is asked of a hold: groups of buckets, and what they may take together. Where there is a
/// line and no group, only the link is limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The interface, as it is now.
    pub link: Link,
    /// The buckets. Slots of the htb hold are given out in this order.
    pub groups: Vec<Group>,
    /// The limit of the link: what all keys, and what belongs to none, may take together.
    pub line: Option<Line>,
    /// Bytes that every frame is charged besides its own.
    pub overhead: u32,
    /// The least that a frame is charged, overhead included, in bytes.
    pub mpu: u32,
    /// The most that one packet can take on the wire, in bytes: what
    /// [`Link::largest_gso_packet`] says, or more for forwarded traffic.
    pub largest_packet: u64,
    /// What the interface's `gso_max_segs` is to be, if it is to be changed.
    pub gso_max_segs: Option<u32>,
}

impl Ask {
    /// What a frame of so many bytes is charged.
    fn charged(&self, bytes: u64) -> u64 {
        bytes
            .saturating_add(u64::from(self.overhead))
            .max(u64::from(self.mpu))
    }
}

/// Buckets with the same limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The rate of each bucket.
    pub rate: Rate,
    /// The capacity of each bucket, in the unit of the rate.
    pub capacity: Content,
    /// How far ahead of now the latest departure time can be.
    pub bound: Duration,
    /// How much may leave early after a pause, in bytes.
    pub burst: u64,
    /// How many buckets there are.
    pub keys: Keys,
}

/// How many buckets a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// One.
    One,
    /// One for each key, and nobody knows how many.
    Many,
}

/// The limit of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Bytes per second.
    pub rate: u64,
    /// What may wait for the link, over all keys, in bytes.
    pub capacity: u64,
}

/// Which hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldKind {
    /// fq with departure times.
    Fq,
    /// HTB classes as slots.
    Htb,
}

impl std::fmt::Display for HoldKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            HoldKind::Fq => "fq",
            HoldKind::Htb => "htb",
        })
    }
}

/// What installs a hold, and what the user should know about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// For [`crate::net::Net::apply`].
    pub ops: Vec<Op>,
    /// Sentences for the install report.
    pub notices: Vec<String>,
}

/// What a hold counted since it was installed. A GSO packet that is dropped or waits as a whole
/// counts once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HoldStats {
    /// Shaped packets waiting (for fq: all packets waiting).
    pub backlog_packets: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// Packets that left.
    pub sent_packets: u64,
    /// Packets dropped that the program had accepted.
    pub dropped_packets: u64,
    /// `dropped_packets` by reason.
    pub drops: Vec<(&'static str, u64)>,
    /// Unshaped packets dropped because their own queue was full.
    pub passed_dropped_packets: u64,
}

/// A kernel part that keeps packets.
pub trait Hold: Send + Sync {
    /// Which one.
    fn kind(&self) -> HoldKind;

    /// The operations that make it on an interface whose root is the kernel's default.
    ///
    /// # Errors
    /// [`Error::Refused`] if it cannot keep what is asked, naming the limit.
    fn plan(&self, ask: &Ask) -> Result<Plan, Error>;

    /// The operations that change a hold made for the ask `was` in place, keeping what waits. The
    /// interface must be the same.
    ///
    /// # Errors
    /// As [`Hold::plan`], and [`Error::Refused`] for what cannot be changed in place: whether the
    /// link has a limit, and with htb the groups there are (more can come behind them).
    fn change(&self, was: &Ask, ask: &Ask) -> Result<Plan, Error>;

    /// Compares what the kernel runs with what was asked.
    ///
    /// # Errors
    /// [`Error::NotEnforced`] with the first difference.
    fn verify(&self, ask: &Ask, qdiscs: &[Qdisc], classes: &[Class]) -> Result<(), Error>;

    /// What this kernel does not do of what was asked although [`Hold::verify`] is content, for
    /// the install report.
    fn left_out(&self, ask: &Ask, qdiscs: &[Qdisc], classes: &[Class]) -> Option<String>;

    /// Reads its counters out of a dump.
    fn stats(&self, qdiscs: &[Qdisc], classes: &[Class]) -> HoldStats;
}

/// Whether a qdisc is leaky's: the root with our handle, or below it.
pub fn ours(qdisc: &Qdisc) -> bool {
    match qdisc.parent {
        ROOT => qdisc.handle == HANDLE,
        parent => parent & 0xffff_0000 == HANDLE,
    }
}

/// The root among the qdiscs of an interface.
fn root(qdiscs: &[Qdisc]) -> Option<&Qdisc> {
    qdiscs.iter().find(|q| q.parent == ROOT)
}

/// The root, which must be ours and of this kind.
fn expect_root<'a>(ask: &Ask, qdiscs: &'a [Qdisc], kind: &str) -> Result<&'a Qdisc, Error> {
    let differs = |difference: String| Err(Error::not_enforced(&ask.link.name, difference));
    match root(qdiscs) {
        Some(root) if root.handle == HANDLE && root.kind == kind => Ok(root),
        Some(root) => differs(format!(
            "the root qdisc is {} {} instead of {kind} {}",
            root.kind,
            id_text(root.handle),
            id_text(HANDLE)
        )),
        None => differs("there is no root qdisc".to_owned()),
    }
}
