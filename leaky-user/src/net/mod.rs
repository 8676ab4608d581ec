//! The only place that speaks netlink: interfaces, qdiscs and classes, and changes to them that
//! are taken back when one of them fails.
//!
//! Everything else works on the plain values of this module and on the trait [`Net`], which has
//! two implementations: [`kernel::Kernel`] and, for tests, a fake in memory. Facts about an
//! interface come from netlink and never from `/sys`, which may show another network namespace.

mod config;
#[cfg(test)]
mod config_tests;
mod error;
#[cfg(test)]
pub mod fake;
pub mod kernel;
mod op;
mod parse;
#[cfg(test)]
mod parse_tests;
mod undo;
#[cfg(test)]
mod undo_tests;
mod watch;
mod wire;

pub(crate) use config::compare_htb;
pub use config::{
    Difference, FqConfig, HtbClassConfig, PerPacket, QdiscConfig, TICK_NS, TbfConfig, ticks,
};
pub use error::{ApplyError, Error};
pub use leaky_core::wire::Layer;
pub use op::{ClassConfig, Op};

/// The parent of a root qdisc, as the kernel writes it.
pub const ROOT: u32 = 0xffff_ffff;

/// Bytes that up to two VLAN tags add to a frame.
const TWO_VLAN_TAGS: u32 = 8;
/// Bytes of an Ethernet header.
const ETHERNET_HEADER: u32 = 14;
/// Bytes of headers that each segment of a GSO packet repeats, at most: Ethernet, two VLAN tags,
/// IP and TCP with all their options.
const LARGEST_HEADERS: u64 = 142;
/// The payload of the smallest segment that is normal on the internet (RFC 9293, 3.7.1).
const SMALL_SEGMENT: u64 = 536;

/// What the kernel says about a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Interface index; stays the same over a rename, never reused while the interface lives.
    pub index: u32,
    /// Name at the time of the reading.
    pub name: String,
    /// Largest network-layer packet in bytes.
    pub mtu: u32,
    /// Whether frames start with an Ethernet header.
    pub layer: Layer,
    /// The loopback interface.
    pub loopback: bool,
    /// Administratively up.
    pub up: bool,
    /// Transmit queues the device was made with (those in use may be fewer).
    pub tx_queues: u32,
    /// Most segments the local stack puts in one GSO packet.
    pub gso_max_segs: u32,
    /// Most bytes the local stack puts in one GSO packet.
    pub gso_max_size: u32,
}

impl Link {
    /// The largest frame without GSO, in bytes: the MTU, the link header and two VLAN tags.
    pub fn full_frame(&self) -> u32 {
        match self.layer {
            Layer::Ethernet => self.mtu.saturating_add(ETHERNET_HEADER + TWO_VLAN_TAGS),
            Layer::Ip => self.mtu,
        }
    }

    /// An upper bound for what one GSO packet takes on the wire, in bytes, headers counted for
    /// each segment, as long as segments carry at least 536 B.
    pub fn largest_gso_packet(&self) -> u64 {
        let frame = u64::from(self.full_frame());
        let by_segments = u64::from(self.gso_max_segs.max(1)).saturating_mul(frame);
        let size = u64::from(self.gso_max_size);
        let segments = size / SMALL_SEGMENT.min(u64::from(self.mtu).max(1)) + 1;
        let by_size = size + segments * LARGEST_HEADERS;
        by_segments.min(by_size).max(frame)
    }

    /// The most segments that one GSO packet has, as long as segments carry at least 536 B.
    pub fn largest_gso_segments(&self) -> u64 {
        let by_size = u64::from(self.gso_max_size) / SMALL_SEGMENT + 1;
        u64::from(self.gso_max_segs.max(1)).min(by_size)
    }
}

/// The counters every qdisc and class has. They start at 0 when it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets that left; a GSO packet counts as its segments.
    pub sent_packets: u64,
    /// Packets dropped; a GSO packet counts once. The kernel's counter has 32 bits.
    pub dropped: u32,
    /// Bytes waiting.
    pub backlog_bytes: u32,
    /// Packets waiting; a GSO packet counts once.
    pub backlog_packets: u32,
}

/// Counters only fq has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FqStats {
    /// Packets dropped because one flow had its limit of packets waiting.
    pub flow_limit_drops: u64,
    /// Packets dropped because their departure time was beyond the horizon.
    pub horizon_drops: u64,
}

/// A qdisc as dumped by the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// Its kind: `fq`, `htb`, `mq`, ...
    pub kind: String,
    /// Its handle; 0 is a qdisc the kernel put there by itself.
    pub handle: u32,
    /// [`ROOT`], or the class it is the leaf of.
    pub parent: u32,
    /// The raw options (`TCA_OPTIONS`), if it has any.
    pub options: Option<Vec<u8>>,
    /// Its counters.
    pub stats: Stats,
    /// The further counters of an fq.
    pub fq: Option<FqStats>,
}

/// A class as dumped by the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The kind of its qdisc.
    pub kind: String,
    /// Its class id, major and minor.
    pub classid: u32,
    /// The class or qdisc it is in.
    pub parent: u32,
    /// The raw options, if it has any.
    pub options: Option<Vec<u8>>,
    /// Its counters. `dropped` counts what the leaf refused, a GSO packet once.
    pub stats: Stats,
}

/// What happened to a watched interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// Something in it is different; here it is as it is now.
    Changed(Link),
    /// It is gone (deleted, or moved to another network namespace).
    Removed,
}

/// Reports changes of one interface, see [`Net::watch`].
pub trait LinkWatch {
    /// Waits for the next change. Cancel safe.
    ///
    /// # Errors
    /// [`Error`] if the kernel cannot be asked any more.
    fn next(&mut self) -> impl Future<Output = Result<LinkEvent, Error>> + Send;
}

/// What can be asked of, and done to, the network interfaces of one network namespace.
pub trait Net: Sync {
    /// See [`Net::watch`].
    type Watch: LinkWatch + Send;

    /// The interface of this name (or alternative name).
    ///
    /// # Errors
    /// [`Error::NoSuchInterface`]; [`Error::UnsupportedLink`] if its frames are neither Ethernet
    /// nor bare IP packets.
    fn link_by_name(&self, name: &str) -> impl Future<Output = Result<Link, Error>> + Send;

    /// The interface of this index. Errors as [`Net::link_by_name`].
    fn link_by_index(&self, index: u32) -> impl Future<Output = Result<Link, Error>> + Send;

    /// All qdiscs of an interface that the kernel shows, with counters.
    fn qdiscs(&self, index: u32) -> impl Future<Output = Result<Vec<Qdisc>, Error>> + Send;

    /// All classes of an interface, with counters.
    fn classes(&self, index: u32) -> impl Future<Output = Result<Vec<Class>, Error>> + Send;

    /// How many filters are attached to a qdisc, by its handle.
    fn filters(&self, index: u32, handle: u32)
    -> impl Future<Output = Result<usize, Error>> + Send;

    /// Whether the kernel knows this kind of qdisc, loading its module if it can. Changes
    /// nothing: the kernel is asked for one with a rate estimator that no kernel accepts, and
    /// looks the kind up before it finds that out.
    ///
    /// # Errors
    /// [`Error::Refused`] when not allowed to change the interface.
    fn has_kind(&self, index: u32, kind: &str) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Executes a list of operations in order, and stops at the first that fails. Returns how
    /// many were done; operations behind the failed one may have been executed too when they
    /// were sent together with it, so `done` lists them all.
    ///
    /// Prefer [`Net::apply`], which takes back what was done.
    fn execute(&self, index: u32, ops: &[Op]) -> impl Future<Output = Executed> + Send;

    /// Reports changes of one interface from now on: deletion, MTU, name, state. (Of a change of
    /// the GSO limits alone the kernel tells nobody; it comes with the next event.)
    /// When the kernel's messages overflow, the interface is read again, so that nothing is
    /// missed for long.
    ///
    /// # Errors
    /// [`Error`] if the interface is not there or the kernel cannot be asked.
    fn watch(&self, index: u32) -> impl Future<Output = Result<Self::Watch, Error>> + Send;

    /// Executes a list of operations in order. At the first failure, takes back those that were
    /// done, last first, so that the interface is as it was.
    ///
    /// # Errors
    /// [`ApplyError`] with the operation, its object, the kernel's error number and text, and
    /// what could not be taken back, if anything.
    fn apply(&self, index: u32, ops: &[Op]) -> impl Future<Output = Result<(), ApplyError>> + Send {
        undo::apply(self, index, ops)
    }
}

/// The outcome of [`Net::execute`].
#[derive(Debug)]
pub struct Executed {
    /// The indexes of the operations that took effect, in order.
    pub done: Vec<usize>,
    /// The first failure: index of the operation and reason.
    pub failed: Option<(usize, Error)>,
}

/// A handle or class id as people write it: `1eaf:3`.
pub fn id_text(id: u32) -> String {
    match id {
        ROOT => "root".to_owned(),
        0 => "none".to_owned(),
        _ if id & 0xffff == 0 => format!("{:x}:", id >> 16),
        _ => format!("{:x}:{:x}", id >> 16, id & 0xffff),
    }
}
