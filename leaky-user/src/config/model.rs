//! What a config file says, checked: every value is in its range and the values fit together.

use super::Per;
use crate::hold::HoldMode;
use crate::units::{Capacity, Duration, Rate};
use ipnet::IpNet;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

pub use leaky_core::policy::MAX_CLASSES;

/// Prefixes in the matches of all classes of an interface together.
pub const MAX_PREFIXES: usize = 10_000;
/// Marks in the matches of all classes of an interface together: half of the kernel program's table,
/// which also holds those from before a change.
pub const MAX_MARKS: usize = 2_048;
/// cgroups likewise.
pub const MAX_CGROUPS: usize = 2_048;
/// Clients of an interface.
pub const MAX_CLIENTS: usize = 100_000;
/// The most that `overhead` adds to a frame, in bytes.
pub const MAX_OVERHEAD: u32 = 1_000;
/// The most that `mpu` makes of a frame, in bytes.
pub const MAX_MPU: u32 = 2_000;

/// A config file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its interfaces, in order; no name twice.
    pub interfaces: Vec<Interface>,
}

/// What happens to the traffic that leaves by an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The bucket for everything that passes the classes.
    pub link: Option<LinkBucket>,
    /// Bytes that are added to every frame before it is charged, 0 to [`MAX_OVERHEAD`].
    pub overhead: u32,
    /// Bytes that a frame is charged at least, overhead included, 0 to [`MAX_MPU`].
    pub mpu: u32,
    /// What keeps packets.
    pub hold: HoldMode,
    /// Whether to keep the local stack's packets small.
    pub smooth: Smooth,
    /// The bits of the packet mark that are looked at; all by default.
    pub mark_mask: u32,
    /// What happens to control traffic.
    pub control: Control,
    /// What happens to packets of no class.
    pub fallback: Fallback,
    /// The classes, in order: a packet is of the first that matches. At most [`MAX_CLASSES`].
    pub classes: Vec<Class>,
}

/// Whether to lower the interface's GSO limit, so that what leaves at once is short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Smooth {
    /// If one rate rules the interface and a full GSO packet takes more than 1 ms at it.
    #[default]
    Auto,
    /// If a full GSO packet takes more than 1 ms at the lowest rate there is.
    On,
    /// Never.
    Off,
}

/// One bucket for everything that leaves by an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkBucket {
    /// Its drain; always in bytes per second.
    pub rate: Rate,
    /// What it holds, in bytes or as time; default: what drains in the max wait.
    pub capacity: Option<Capacity>,
    /// The longest wait.
    pub max_wait: Option<Duration>,
}

/// What happens to ARP, neighbour discovery, IGMP, MLD and the hellos of routing protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// They pass, unshaped.
    #[default]
    Pass,
    /// They are matched like other traffic.
    Class,
}

/// What happens to a packet that no class matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// It passes, unshaped (but through the link's bucket).
    #[default]
    Pass,
    /// It is dropped.
    Drop,
    /// It is of this class, by its place in [`Interface::classes`].
    Class(usize),
}

/// Some of the traffic, and what happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name, `[a-z0-9_-]{1,32}`, once in an interface.
    pub name: String,
    /// Which packets.
    pub matching: Match,
    /// Whose bucket a packet falls into.
    pub per: Per,
    /// What happens to them.
    pub action: Action,
    /// The limits of each bucket. `None` with [`Action::Pass`] and [`Action::Drop`], and where only
    /// the clients have limits.
    pub limits: Option<Asked>,
    /// Prefixes that have one bucket each, sorted by prefix, none twice; the longest that contains the
    /// packet's address is its client. With clients a class matches no other packets. `per` is
    /// [`Per::SOURCE`] or [`Per::DESTINATION`] and says whose address is looked up.
    pub clients: Option<Vec<Client>>,
}

/// What happens to the packets of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// They leave at the rate.
    #[default]
    Shape,
    /// They pass.
    Pass,
    /// They are dropped.
    Drop,
    /// They pass, and it is counted what shaping would have delayed and dropped.
    Monitor,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Action::Shape => "shape",
            Action::Pass => "pass",
            Action::Drop => "drop",
            Action::Monitor => "monitor",
        })
    }
}

/// Which packets a class takes: those that every list that is not empty has a value for. All lists
/// are sorted, and no value is in another of its list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Protocols above IP.
    pub protocols: Vec<u8>,
    /// Prefixes of the source address.
    pub sources: Vec<IpNet>,
    /// Prefixes of the destination address.
    pub destinations: Vec<IpNet>,
    /// Source ports.
    pub source_ports: Vec<RangeInclusive<u16>>,
    /// Destination ports.
    pub destination_ports: Vec<RangeInclusive<u16>>,
    /// Differentiated services code points, 0 to 63.
    pub dscps: Vec<u8>,
    /// Packet marks, within the interface's mask.
    pub marks: Vec<u32>,
    /// VLAN ids, 1 to 4094.
    pub vlans: Vec<u16>,
    /// Paths of cgroups, from the root of the hierarchy.
    pub cgroups: Vec<PathBuf>,
}

impl Match {
    /// Whether it takes every packet.
    pub fn is_all(&self) -> bool {
        *self == Match::default()
    }
}

/// What is asked of a bucket. Units fit: a rate in bytes has no capacity in packets and the other way
/// round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The drain.
    pub rate: Rate,
    /// How much it holds; default: what drains in the max wait.
    pub capacity: Option<Capacity>,
    /// The longest wait; default: the time that the capacity takes to drain, or 200 ms.
    pub max_wait: Option<Duration>,
    /// How much may leave early after a pause; default: nothing.
    pub burst: Option<Capacity>,
    /// The wait from which on packets are marked (CE); default: never.
    pub ecn: Option<Duration>,
}

/// Somebody with a bucket of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Whose addresses.
    pub prefix: IpNet,
    /// Their bucket; what they do not say themselves is their class's.
    pub asked: Asked,
}
