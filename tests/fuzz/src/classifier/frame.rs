//! The bytes of a packet.

use super::case::{Ip, Packet};

const DESTINATION_OPTIONS: u8 = 60;
const FRAGMENT: u8 = 44;

pub(super) fn of(packet: &Packet) -> Vec<u8> {
    let mut frame = Vec::new();
    if !packet.bare {
        frame.extend([2; 12]);
        for tag in &packet.tags[usize::from(packet.beside).min(packet.tags.len())..] {
            frame.extend([0x81, 0x00]);
            // With a priority in front, which does not count.
            frame.extend((0xa000 | tag).to_be_bytes());
        }
    }
    match &packet.ip {
        None if packet.bare => frame.extend([0xff; 60]),
        // An MPLS label.
        None => frame.extend([0x88, 0x47, 0x45, 0, 0x11, 64]),
        Some(ip) => {
            if !packet.bare {
                let kind: u16 = if ip.source.six { 0x86dd } else { 0x0800 };
                frame.extend(kind.to_be_bytes());
            }
            if ip.source.six {
                ipv6(&mut frame, ip);
            } else {
                ipv4(&mut frame, ip);
            }
            transport(&mut frame, ip);
        }
    }
    frame.resize(frame.len() + 46, 0x55);
    frame
}

fn ipv4(frame: &mut Vec<u8>, ip: &Ip) {
    frame.extend([0x45 + ip.extensions, ip.traffic_class, 0, 60, 0, 0]);
    frame.extend([
        if ip.fragment { 0x20 } else { 0x40 },
        0,
        64,
        ip.protocol,
        0,
        0,
    ]);
    frame.extend(&ip.source.bits.to_be_bytes()[..4]);
    frame.extend(&ip.destination.bits.to_be_bytes()[..4]);
    for _ in 0..ip.extensions {
        frame.extend([1; 4]);
    }
}

fn ipv6(frame: &mut Vec<u8>, ip: &Ip) {
    let mut chain = vec![DESTINATION_OPTIONS; usize::from(ip.extensions)];
    if ip.fragment {
        chain.push(FRAGMENT);
    }
    chain.push(ip.protocol);
    let first = 0x6000_0000 | u32::from(ip.traffic_class) << 20 | 0x0001_2345;
    frame.extend(first.to_be_bytes());
    frame.extend([0, 60, chain[0], 64]);
    frame.extend(ip.source.bits.to_be_bytes());
    frame.extend(ip.destination.bits.to_be_bytes());
    for pair in chain.windows(2) {
        let more_fragments = u8::from(pair[0] == FRAGMENT);
        frame.extend([pair[1], 0, 0, more_fragments, 0, 0, 0, 0]);
    }
}

fn transport(frame: &mut Vec<u8>, ip: &Ip) {
    frame.extend(ip.source_port.to_be_bytes());
    frame.extend(ip.destination_port.to_be_bytes());
    // Where TCP says how long its header is: 20 bytes.
    frame.extend([0x50; 16]);
}
