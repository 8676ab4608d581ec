//! Two packets have the same key exactly when what the kind of key looks at is the same.

use super::case::{Address, Case, Packet, Prefix};
use super::model::{Seen, SeenIp};
use leaky_core::key::KeyMask;
use leaky_core::wire::Headers;

/// Lengths of IPv4 and IPv6 prefixes that make a key.
const LENGTHS: [(u8, u8); 5] = [(32, 128), (32, 64), (24, 48), (15, 63), (0, 0)];

/// What a kind of key looks at, in a packet.
type Looks = Vec<u128>;

pub(super) fn check(case: &Case, headers: &[Headers; 2]) {
    let mark = case.mark_mask;
    let seen = case.packets.each_ref().map(Seen::of);
    let same = |mask: KeyMask, looks: &dyn Fn(&Packet, &Seen) -> Looks| {
        same(case, headers, &seen, mask, looks);
    };
    same(KeyMask::NOTHING, &|_, _| vec![]);
    same(KeyMask::FLOW, &|_, seen| {
        let mut looks = vlans(seen);
        looks.extend(of_ip(seen, flow));
        looks
    });
    same(KeyMask::mark(mark), &|packet, _| {
        vec![u128::from(packet.mark & mark)]
    });
    same(KeyMask::CGROUP, &|packet, _| {
        vec![u128::from(cgroup_id(packet))]
    });
    same(KeyMask::SOURCE_PORT, &|_, seen| {
        of_ip(seen, |ip| {
            vec![
                ip.protocol.into(),
                ip.ports.map_or(0, |ports| ports.0).into(),
            ]
        })
    });
    same(KeyMask::DESTINATION_PORT, &|_, seen| {
        of_ip(seen, |ip| {
            vec![
                ip.protocol.into(),
                ip.ports.map_or(0, |ports| ports.1).into(),
            ]
        })
    });
    for (four, six) in LENGTHS {
        let address = |seen: &Seen, side: fn(&SeenIp) -> Address| {
            let mut looks = vlans(seen);
            looks.extend(of_ip(seen, |ip| {
                let address = side(ip);
                let length = if address.six { six } else { four };
                let mask = Prefix { address, length }.mask();
                vec![1 + u128::from(address.six), address.bits & mask]
            }));
            looks
        };
        same(KeyMask::source(four, six), &|_, seen| {
            address(seen, |ip| ip.source)
        });
        same(KeyMask::destination(four, six), &|_, seen| {
            address(seen, |ip| ip.destination)
        });
    }
}

fn same(
    case: &Case,
    headers: &[Headers; 2],
    seen: &[Seen; 2],
    mask: KeyMask,
    looks: &dyn Fn(&Packet, &Seen) -> Looks,
) {
    let [first, second] = &case.packets;
    let key = |at: usize, class| {
        let packet = &case.packets[at];
        mask.key(&headers[at], packet.mark, cgroup_id(packet), class)
    };
    assert_eq!(
        key(0, 7) == key(1, 7),
        looks(first, &seen[0]) == looks(second, &seen[1]),
        "{mask:x?}\n{first:?} has {:x?}\n{second:?} has {:x?}",
        key(0, 7),
        key(1, 7)
    );
    assert_ne!(key(0, 7), key(0, 8));
}

fn vlans(seen: &Seen) -> Looks {
    seen.vlans.map(u128::from).to_vec()
}

/// Zeros for what is no IP, as many as there would be numbers.
fn of_ip(seen: &Seen, looks: impl Fn(&SeenIp) -> Looks) -> Looks {
    seen.ip.as_ref().map_or_else(|| vec![0, 0], looks)
}

fn flow(ip: &SeenIp) -> Looks {
    let (source_port, destination_port) = ip.ports.unwrap_or_default();
    vec![
        1 + u128::from(ip.source.six),
        ip.source.bits,
        ip.destination.bits,
        ip.protocol.into(),
        source_port.into(),
        destination_port.into(),
    ]
}

/// Another number for every path, in both halves of the word; 0 without a socket.
fn cgroup_id(packet: &Packet) -> u64 {
    packet.cgroup.as_ref().map_or(0, |path| {
        path.iter()
            .fold(1, |id, folder| (id << 8) | (1 + u64::from(*folder)))
    })
}
