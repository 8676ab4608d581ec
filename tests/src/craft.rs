//! UDP packets put together byte by byte: any addresses, tags, IPv4 options, IPv6 extension headers.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::lab::{MAC_A, MAC_B, V4_A, V4_B};
use crate::payload::{self, Mark};
use crate::raw::{RawSocket, checksum};

/// IPv6 hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// IPv6 routing header (of an experimental type, with no segments left: nobody acts on it).
pub const ROUTING: u8 = 43;
/// IPv6 fragment header, of the first of several fragments.
pub const FRAGMENT: u8 = 44;
/// IPv6 destination options.
pub const DESTINATION: u8 = 60;

/// What a packet from `a` to `b` is made of.
#[derive(Debug, Clone)]
pub struct Craft {
    /// Tags in the frame: EtherType of the tag and VLAN id, outermost first.
    pub tags: Vec<(u16, u16)>,
    /// Source address, of the same family as the destination.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source and destination port.
    pub ports: (u16, u16),
    /// DSCP and ECN.
    pub tos: u8,
    /// IPv4 options in words of 4 bytes, all "no operation"; at most 10.
    pub option_words: u8,
    /// IPv6 extension headers in their order, 8 bytes each.
    pub chain: Vec<u8>,
    /// Bytes of the frame from the Ethernet header to the end, tags not counted.
    pub bytes: u32,
}

impl Craft {
    /// An ordinary packet from `a` to `b`.
    #[must_use]
    pub fn plain(port: u16, bytes: u32) -> Self {
        Self {
            tags: Vec::new(),
            source: V4_A.into(),
            destination: V4_B.into(),
            ports: (40_000, port),
            tos: 0,
            option_words: 0,
            chain: Vec::new(),
            bytes,
        }
    }

    /// The frame with its marked payload. Without a mark the payload is zeros and may be as short as it likes.
    ///
    /// # Errors
    /// When the headers and the mark do not fit in, or the families differ.
    pub fn frame(&self, mark: Option<Mark>) -> Result<Vec<u8>> {
        let mut frame = [MAC_B, MAC_A].concat();
        for (kind, id) in &self.tags {
            frame.extend(kind.to_be_bytes());
            frame.extend(id.to_be_bytes());
        }
        let network = match (self.source, self.destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) => 20 + usize::from(self.option_words) * 4,
            (IpAddr::V6(_), IpAddr::V6(_)) => 40 + self.chain.len() * 8,
            _ => bail!("source and destination of different families: {self:?}"),
        };
        let headers = 14 + network + 8;
        let Some(room) = usize::try_from(self.bytes)?.checked_sub(headers) else {
            bail!("{} B have no room for {headers} B of headers", self.bytes);
        };
        let mut payload = vec![0; room];
        if let Some(mark) = mark {
            ensure!(
                room >= payload::SMALLEST,
                "{} B have no room for the mark",
                self.bytes
            );
            payload::write(&mut payload, mark);
        }
        let udp = self.udp(&payload)?;
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                frame.extend(0x0800u16.to_be_bytes());
                let words = 5 + self.option_words;
                let mut ip = vec![0x40 | words, self.tos];
                ip.extend(u16::try_from(network + udp.len())?.to_be_bytes());
                ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
                ip.extend(source.octets());
                ip.extend(destination.octets());
                ip.resize(network, 1); // "no operation"
                let sum = checksum(&ip);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
                frame.extend(ip);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend(0x86ddu16.to_be_bytes());
                frame.extend((0x6000_0000 | u32::from(self.tos) << 20).to_be_bytes());
                frame.extend(u16::try_from(network - 40 + udp.len())?.to_be_bytes());
                let next = |at: usize| self.chain.get(at).copied().unwrap_or(17);
                frame.extend([next(0), 64]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
                for (at, kind) in self.chain.iter().enumerate() {
                    frame.extend(extension(*kind, next(at + 1)));
                }
            }
            _ => bail!("source and destination of different families: {self:?}"),
        }
        frame.extend(udp);
        Ok(frame)
    }

    fn udp(&self, payload: &[u8]) -> Result<Vec<u8>> {
        let length = u16::try_from(payload.len() + 8)?;
        let mut udp = Vec::with_capacity(payload.len() + 8);
        for field in [self.ports.0, self.ports.1, length, 0] {
            udp.extend(field.to_be_bytes());
        }
        udp.extend(payload);
        let mut pseudo = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                [source.octets(), destination.octets()].concat()
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                [source.octets(), destination.octets()].concat()
            }
            _ => Vec::new(),
        };
        pseudo.extend([0, 17]);
        pseudo.extend(length.to_be_bytes());
        pseudo.extend(&udp);
        let sum = match checksum(&pseudo) {
            0 => u16::MAX, // 0 would mean "not used"
            sum => sum,
        };
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
        Ok(udp)
    }
}

fn extension(kind: u8, next: u8) -> [u8; 8] {
    match kind {
        // Offset 0, more to come, identification 7.
        FRAGMENT => [next, 0, 0, 1, 0, 0, 0, 7],
        // Experimental type, no segments left.
        ROUTING => [next, 0, 253, 0, 0, 0, 0, 0],
        // Filled by one padding option of 6 bytes.
        _ => [next, 0, 1, 4, 0, 0, 0, 0],
    }
}

/// Sends one frame after the other at a constant number per second, as many as are due at each millisecond. Returns how many.
///
/// # Errors
/// When a frame cannot be made or sent.
pub fn send_paced(
    socket: &RawSocket,
    count: u64,
    per_second: u64,
    mut frame: impl FnMut(u64) -> Result<Vec<u8>>,
) -> Result<u64> {
    let begin = Instant::now();
    let mut next = 0;
    while next < count {
        let passed = u64::try_from(begin.elapsed().as_micros())?;
        let due = (passed * per_second / 1_000_000 + 1).min(count);
        while next < due {
            socket.send(&frame(next)?)?;
            next += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(next)
}

/// The mark of a packet that is sent now.
#[must_use]
pub fn mark_now(stream: u32, sequence: u64) -> Mark {
    Mark {
        stream,
        sequence,
        sent_ns: payload::now_ns(),
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{SlicedPacket, TransportSlice};

    use super::{Craft, DESTINATION, HOP_BY_HOP, mark_now};
    use crate::frame::{Beside, decode};
    use crate::lab::{V6_A, V6_B};

    #[test]
    fn another_parser_reads_what_is_put_together() {
        let v4 = Craft {
            tags: vec![(0x88a8, 10), (0x8100, 20)],
            option_words: 10,
            tos: 0xb8,
            ..Craft::plain(5004, 200)
        };
        let v6 = Craft {
            source: V6_A.into(),
            destination: V6_B.into(),
            chain: vec![HOP_BY_HOP, DESTINATION],
            tos: 0xb8,
            ..Craft::plain(5004, 200)
        };
        for (craft, length) in [(v4, 208), (v6, 200)] {
            let frame = craft.frame(Some(mark_now(3, 9))).expect("a frame");
            assert_eq!(frame.len(), length);
            let sliced = SlicedPacket::from_ethernet(&frame).expect("etherparse reads it");
            let Some(TransportSlice::Udp(udp)) = sliced.transport else {
                panic!("not UDP: {sliced:?}");
            };
            assert_eq!((udp.source_port(), udp.destination_port()), (40_000, 5004));
            let beside = Beside {
                length: u32::try_from(length).expect("a length"),
                ..Beside::default()
            };
            let packet = decode(&frame, beside);
            assert_eq!(packet.destination, Some(craft.destination));
            assert_eq!((packet.tos, packet.protocol), (0xb8, 17));
            assert_eq!(packet.mark.map(|mark| mark.sequence), Some(9));
            assert!(packet.intact && packet.header_right);
        }
    }
}
