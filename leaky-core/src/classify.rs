//! Which class a packet is in: the first in order that it matches.
//!
//! Classes are bits of a word. For each thing that a class can ask for there is a table that says
//! which classes accept the packet's value (those that ask for nothing there accept all). The words are
//! ANDed, and the lowest bit left is the class: the cost does not grow with the number of classes
//! or of prefixes, and there is no branch for each rule that the kernel's verifier would have to walk.

use crate::wire::Headers;

/// Which of the two addresses, or ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where it comes from.
    Source = 0,
    /// Where it goes.
    Destination = 1,
}

/// What some class asks for: the lookups that a packet needs.
pub mod uses {
    /// Source prefixes.
    pub const SOURCES: u32 = 1 << 0;
    /// Destination prefixes.
    pub const DESTINATIONS: u32 = 1 << 1;
    /// Source ports.
    pub const SOURCE_PORTS: u32 = 1 << 2;
    /// Destination ports.
    pub const DESTINATION_PORTS: u32 = 1 << 3;
    /// VLANs.
    pub const VLANS: u32 = 1 << 4;
    /// Packet marks.
    pub const MARKS: u32 = 1 << 5;
    /// cgroups.
    pub const CGROUPS: u32 = 1 << 6;
    /// The table of clients.
    pub const CLIENTS: u32 = 1 << 7;
    /// The key of some class is a cgroup.
    pub const CGROUP_KEYS: u32 = 1 << 8;
}

/// The part of a policy that says which packets are in which class. A bit stands for a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Classifier {
    /// The classes that there are.
    pub classes: u64,
    /// Bits of [`uses`].
    pub uses: u32,
    /// The bits of the packet mark that count.
    pub mark_mask: u32,
    /// Bit `n`: some class asks for a cgroup `n` levels below the root.
    pub cgroup_levels: u32,
    /// Whose address is looked up in the table of clients: 0 the source, 1 the destination.
    pub client_side: u32,
    /// Classes that ask for no source address.
    pub any_source: u64,
    /// Classes that ask for no destination address.
    pub any_destination: u64,
    /// Classes that ask for no mark.
    pub any_mark: u64,
    /// Classes that ask for no cgroup.
    pub any_cgroup: u64,
    /// Classes that ask for no client.
    pub any_client: u64,
    /// Classes that ask for nothing that only IP has: what cannot be read as IP can be in these.
    pub any_protocol: u64,
    /// Classes that accept a protocol.
    pub protocols: [u64; 256],
    /// Classes that accept a DSCP.
    pub dscps: [u64; 64],
}

impl Classifier {
    /// Without classes.
    pub const EMPTY: Classifier = Classifier {
        classes: 0,
        uses: 0,
        mark_mask: 0,
        cgroup_levels: 0,
        client_side: 0,
        any_source: 0,
        any_destination: 0,
        any_mark: 0,
        any_cgroup: 0,
        any_client: 0,
        any_protocol: 0,
        protocols: [0; 256],
        dscps: [0; 64],
    };
}

/// The tables beside the policy. Each answer is the classes that accept the value, those that ask for
/// nothing there included; `None` where the table has no entry: then only the latter do.
pub trait Tables {
    /// By the longest prefix that contains the address.
    fn prefix(&self, side: Side, version: u8, address: &[u32; 4]) -> Option<u64>;
    /// By port, 0 for a packet without ports.
    fn port(&self, side: Side, port: u16) -> u64;
    /// By the number of the outermost VLAN, 0 for none.
    fn vlan(&self, id: u16) -> u64;
    /// By packet mark, already masked.
    fn mark(&self, mark: u32) -> Option<u64>;
    /// By the cgroup of the sending socket and those above it at these levels.
    fn cgroup(&self, levels: u32) -> u64;
}

/// Where the class of a packet stands in the policy; [`crate::policy::REST`] where it is in none.
/// `mark` is the packet's, `client` whether its address is in the table of clients.
#[inline(always)]
pub fn classify<T: Tables>(
    classifier: &Classifier,
    headers: &Headers,
    mark: u32,
    client: bool,
    tables: &T,
) -> u32 {
    let uses = classifier.uses;
    let mut classes = if headers.is_readable() {
        // Both indices are below the lengths by their types; the second is also by the shift.
        classifier.protocols[headers.protocol as usize]
            & classifier.dscps[(headers.dscp() & 63) as usize]
    } else {
        classifier.any_protocol
    };
    if uses & uses::SOURCES != 0 {
        classes &= tables
            .prefix(Side::Source, headers.version, &headers.source)
            .unwrap_or(classifier.any_source);
    }
    if uses & uses::DESTINATIONS != 0 {
        classes &= tables
            .prefix(Side::Destination, headers.version, &headers.destination)
            .unwrap_or(classifier.any_destination);
    }
    if uses & uses::SOURCE_PORTS != 0 {
        classes &= tables.port(Side::Source, headers.source_port);
    }
    if uses & uses::DESTINATION_PORTS != 0 {
        classes &= tables.port(Side::Destination, headers.destination_port);
    }
    if uses & uses::VLANS != 0 {
        classes &= tables.vlan(headers.outer_vlan());
    }
    if uses & uses::MARKS != 0 {
        classes &= tables
            .mark(mark & classifier.mark_mask)
            .unwrap_or(classifier.any_mark);
    }
    if uses & uses::CGROUPS != 0 {
        classes &= tables.cgroup(classifier.cgroup_levels) | classifier.any_cgroup;
    }
    if uses & uses::CLIENTS != 0 && !client {
        classes &= classifier.any_client;
    }
    // 64 where there is none, which is the place of the rest.
    (classes & classifier.classes).trailing_zeros()
}

const _: () = assert!(size_of::<Classifier>() == 24 + 48 + 320 * 8);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::REST;

    #[test]
    fn without_classes_everything_is_the_rest() {
        struct Nothing;
        impl Tables for Nothing {
            fn prefix(&self, _: Side, _: u8, _: &[u32; 4]) -> Option<u64> {
                None
            }
            fn port(&self, _: Side, _: u16) -> u64 {
                0
            }
            fn vlan(&self, _: u16) -> u64 {
                0
            }
            fn mark(&self, _: u32) -> Option<u64> {
                None
            }
            fn cgroup(&self, _: u32) -> u64 {
                0
            }
        }
        let headers = Headers::default();
        let place = classify(&Classifier::EMPTY, &headers, 0, false, &Nothing);
        assert_eq!(place as usize, REST);
    }
}
