//! Whose bucket: the key of a packet inside its class.
//!
//! Which parts of the headers make up the key is a mask, so that every kind of key (flow, address,
//! prefix, mark, cgroup, port) is the same few instructions without a branch.

use crate::wire::Headers;

/// The key of a bucket. Laid out for the map that is keyed by it, without padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(C)]
pub struct Key {
    /// Source address as far as the mask goes; or, in the first word, the packet mark; or, in the
    /// first two, the cgroup.
    pub source: [u32; 4],
    /// Destination address as far as the mask goes.
    pub destination: [u32; 4],
    /// VLAN tags: the same address in two VLANs is two clients.
    pub vlans: u32,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol.
    pub protocol: u8,
    /// 4, 6 or 0.
    pub version: u8,
    /// The class, by [`crate::policy::Class::id`].
    pub class: u16,
}

/// Which parts of the headers make up the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct KeyMask {
    /// Of the source address: IPv4 (in the first word), IPv6.
    pub source: [[u32; 4]; 2],
    /// Of the destination address.
    pub destination: [[u32; 4]; 2],
    /// Of the VLAN tags.
    pub vlans: u32,
    /// Of the source port.
    pub source_port: u16,
    /// Of the destination port.
    pub destination_port: u16,
    /// Of the packet mark.
    pub mark: u32,
    /// Of both halves of the cgroup's id.
    pub cgroup: u32,
    /// Of the protocol.
    pub protocol: u8,
    /// Of the IP version.
    pub version: u8,
    /// Always zero: no padding.
    pub reserved: [u16; 3],
}

/// The words of a mask of `length` bits from the front of an address, as they stand in a packet.
/// Lengths beyond 128 are 128.
#[expect(clippy::cast_possible_truncation, reason = "the words of it are meant")]
pub const fn prefix_mask(length: u8) -> [u32; 4] {
    let length = if length > 128 { 128 } else { length as u32 };
    let bits = if length == 0 {
        0
    } else {
        u128::MAX << (128 - length)
    };
    [
        ((bits >> 96) as u32).to_be(),
        ((bits >> 64) as u32).to_be(),
        ((bits >> 32) as u32).to_be(),
        (bits as u32).to_be(),
    ]
}

const NO_ADDRESS: [[u32; 4]; 2] = [[0; 4]; 2];
const WHOLE_ADDRESS: [[u32; 4]; 2] = [prefix_mask(32), prefix_mask(128)];

impl KeyMask {
    /// Nothing: all packets have the same key.
    pub const NOTHING: KeyMask = KeyMask {
        source: NO_ADDRESS,
        destination: NO_ADDRESS,
        vlans: 0,
        source_port: 0,
        destination_port: 0,
        mark: 0,
        cgroup: 0,
        protocol: 0,
        version: 0,
        reserved: [0; 3],
    };
    /// Addresses, ports and protocol.
    pub const FLOW: KeyMask = KeyMask {
        source: WHOLE_ADDRESS,
        destination: WHOLE_ADDRESS,
        vlans: u32::MAX,
        source_port: u16::MAX,
        destination_port: u16::MAX,
        protocol: u8::MAX,
        version: u8::MAX,
        ..Self::NOTHING
    };
    /// The cgroup of the sending socket.
    pub const CGROUP: KeyMask = KeyMask {
        cgroup: u32::MAX,
        ..Self::NOTHING
    };
    /// The source port, of each protocol.
    pub const SOURCE_PORT: KeyMask = KeyMask {
        source_port: u16::MAX,
        protocol: u8::MAX,
        ..Self::NOTHING
    };
    /// The destination port, of each protocol.
    pub const DESTINATION_PORT: KeyMask = KeyMask {
        destination_port: u16::MAX,
        protocol: u8::MAX,
        ..Self::NOTHING
    };

    /// The source address as far as these prefixes go, in bits of IPv4 and IPv6.
    pub const fn source(v4: u8, v6: u8) -> KeyMask {
        KeyMask {
            source: [first_word(v4), prefix_mask(v6)],
            vlans: u32::MAX,
            version: u8::MAX,
            ..Self::NOTHING
        }
    }

    /// The destination address as far as these prefixes go.
    pub const fn destination(v4: u8, v6: u8) -> KeyMask {
        KeyMask {
            destination: [first_word(v4), prefix_mask(v6)],
            vlans: u32::MAX,
            version: u8::MAX,
            ..Self::NOTHING
        }
    }

    /// These bits of the packet mark.
    pub const fn mark(bits: u32) -> KeyMask {
        KeyMask {
            mark: bits,
            ..Self::NOTHING
        }
    }

    /// The key of a packet in class `class`.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are meant")]
    pub fn key(&self, headers: &Headers, mark: u32, cgroup: u64, class: u16) -> Key {
        // 4 and 6 differ in the second bit; what is not IP has no address to mask.
        let family = usize::from(headers.version >> 1 & 1);
        let (source, destination) = (&self.source[family], &self.destination[family]);
        let other = [
            (mark & self.mark) | (cgroup as u32 & self.cgroup),
            (cgroup >> 32) as u32 & self.cgroup,
        ];
        Key {
            source: [
                (headers.source[0] & source[0]) | other[0],
                (headers.source[1] & source[1]) | other[1],
                headers.source[2] & source[2],
                headers.source[3] & source[3],
            ],
            destination: [
                headers.destination[0] & destination[0],
                headers.destination[1] & destination[1],
                headers.destination[2] & destination[2],
                headers.destination[3] & destination[3],
            ],
            vlans: headers.vlans & self.vlans,
            source_port: headers.source_port & self.source_port,
            destination_port: headers.destination_port & self.destination_port,
            protocol: headers.protocol & self.protocol,
            version: headers.version & self.version,
            class,
        }
    }
}

/// An IPv4 mask: the first word alone.
const fn first_word(length: u8) -> [u32; 4] {
    let length = if length > 32 { 32 } else { length };
    prefix_mask(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_in_the_order_of_the_packet() {
        assert_eq!(prefix_mask(0), [0; 4]);
        assert_eq!(prefix_mask(128), [u32::MAX; 4]);
        assert_eq!(prefix_mask(200), [u32::MAX; 4]);
        assert_eq!(prefix_mask(9)[0].to_ne_bytes(), [0xff, 0x80, 0, 0]);
        assert_eq!(prefix_mask(33)[1].to_ne_bytes(), [0x80, 0, 0, 0]);
        assert_eq!(first_word(64), [u32::MAX, 0, 0, 0]);
    }

    fn packet() -> Headers {
        Headers {
            source: [1, 2, 3, 4].map(u32::to_be),
            destination: [5, 6, 7, 8].map(u32::to_be),
            vlans: 100,
            source_port: 1000,
            destination_port: 53,
            protocol: 17,
            version: 6,
            traffic_class: 3,
            cut_short: 0,
        }
    }

    #[test]
    fn a_key_has_what_its_kind_says_and_nothing_else() {
        let packet = packet();
        let nothing = Key {
            class: 7,
            ..Key::default()
        };
        let key = |mask: KeyMask| mask.key(&packet, 0xabcd, 0x1_0000_0002, 7);
        let flow = Key {
            source: packet.source,
            destination: packet.destination,
            vlans: 100,
            source_port: 1000,
            destination_port: 53,
            protocol: 17,
            version: 6,
            class: 7,
        };
        assert_eq!(key(KeyMask::FLOW), flow);
        let with_source = |source| Key {
            source,
            vlans: 100,
            version: 6,
            ..nothing
        };
        assert_eq!(key(KeyMask::source(32, 64)), {
            let [a, b, _, _] = packet.source;
            with_source([a, b, 0, 0])
        });
        assert_eq!(key(KeyMask::source(32, 0)), with_source([0; 4]));
        assert_eq!(
            key(KeyMask::destination(32, 128)),
            Key {
                destination: packet.destination,
                ..with_source([0; 4])
            }
        );
        assert_eq!(
            key(KeyMask::mark(0xff)),
            Key {
                source: [0xcd, 0, 0, 0],
                ..nothing
            }
        );
        assert_eq!(
            key(KeyMask::CGROUP),
            Key {
                source: [2, 1, 0, 0],
                ..nothing
            }
        );
        let port = |source_port, destination_port| Key {
            source_port,
            destination_port,
            protocol: 17,
            ..nothing
        };
        assert_eq!(key(KeyMask::SOURCE_PORT), port(1000, 0));
        assert_eq!(key(KeyMask::DESTINATION_PORT), port(0, 53));
    }

    /// Case L41: two customers that use the same addresses in two VLANs do not share a bucket.
    #[test]
    fn l41_the_same_address_in_another_vlan_is_another_key() {
        let mut other = packet();
        other.vlans = 200;
        for mask in [
            KeyMask::FLOW,
            KeyMask::source(32, 64),
            KeyMask::destination(32, 64),
        ] {
            assert_ne!(mask.key(&packet(), 0, 0, 0), mask.key(&other, 0, 0, 0));
        }
    }
}
