//! Changes to an interface as plain data.

use super::{HtbClassConfig, QdiscConfig, id_text};
use std::fmt;

/// One change to an interface. A list of them is executed in order by [`super::Net::apply`],
/// which knows how to take each of them back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Makes a qdisc, in place of what is there; or changes it in place, keeping what waits in
    /// it, if one of the same kind is there (at the root: of the same kind and handle).
    SetQdisc {
        /// [`super::ROOT`], or the class it is to be the leaf of.
        parent: u32,
        /// Its handle; 0 lets the kernel choose, for leaves.
        handle: u32,
        /// Kind and options.
        config: QdiscConfig,
    },
    /// Removes a qdisc and all that is in it; the kernel puts its default there.
    DeleteQdisc {
        /// Where it is.
        parent: u32,
        /// Its handle. The kernel refuses if another one is there; 0 takes whatever a class has.
        handle: u32,
    },
    /// Makes a class, or changes it in place.
    SetClass {
        /// Its id.
        classid: u32,
        /// The qdisc or class it is in.
        parent: u32,
        /// Its limits.
        config: ClassConfig,
    },
    /// Removes a class with its leaf.
    DeleteClass {
        /// Its id.
        classid: u32,
    },
    /// Sets how many segments the local stack puts in one GSO packet at most.
    SetGsoMaxSegs(u32),
}

/// The limits of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassConfig {
    /// An HTB class.
    Htb(HtbClassConfig),
    /// A class as it was dumped, to be put back.
    Raw {
        /// The kind of its qdisc.
        kind: String,
        /// Its options.
        options: Vec<u8>,
    },
}

impl Op {
    /// The handle major of the qdisc that the object of this operation is inside of, if it is
    /// inside of one.
    pub(super) fn inside_major(&self) -> Option<u32> {
        match self {
            Op::SetQdisc { parent, .. } | Op::DeleteQdisc { parent, .. } => {
                (*parent != super::ROOT).then_some(*parent >> 16)
            }
            Op::SetClass { classid, .. } | Op::DeleteClass { classid } => Some(*classid >> 16),
            Op::SetGsoMaxSegs(_) => None,
        }
    }
}

impl ClassConfig {
    /// The kind and the raw options.
    pub fn encode(&self) -> (&str, Vec<u8>) {
        match self {
            ClassConfig::Htb(config) => ("htb", config.encode()),
            ClassConfig::Raw { kind, options } => (kind, options.clone()),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::SetQdisc {
                parent: super::ROOT,
                handle,
                config,
            } => {
                write!(
                    f,
                    "set the root qdisc to {} ({})",
                    config.kind(),
                    id_text(*handle)
                )
            }
            Op::SetQdisc { parent, config, .. } => {
                write!(
                    f,
                    "set the qdisc of class {} to {}",
                    id_text(*parent),
                    config.kind()
                )
            }
            Op::DeleteQdisc {
                parent: super::ROOT,
                handle,
            } => {
                write!(f, "delete the root qdisc {}", id_text(*handle))
            }
            Op::DeleteQdisc { parent, .. } => {
                write!(f, "delete the qdisc of class {}", id_text(*parent))
            }
            Op::SetClass {
                classid, config, ..
            } => {
                write!(
                    f,
                    "set the {} class {}",
                    config.encode().0,
                    id_text(*classid)
                )
            }
            Op::DeleteClass { classid } => write!(f, "delete the class {}", id_text(*classid)),
            Op::SetGsoMaxSegs(segments) => write!(f, "set gso_max_segs to {segments}"),
        }
    }
}
