//! What every test packet carries, so that the receiver can tell which one it is, when it was sent, and whether
//! it arrived unchanged.
//!
//! Layout, big endian: magic (4), stream (4), sequence number (8), time of sending in ns (8), hash (8), filling.

use std::time::{SystemTime, UNIX_EPOCH};

/// Smallest payload that can carry the mark, bytes.
pub const SMALLEST: usize = 32;

const MAGIC: u32 = 0x6c65_616b;

/// The mark of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Which sender.
    pub stream: u32,
    /// Its packet number, from 0.
    pub sequence: u64,
    /// When it was handed to the kernel, ns since 1970 (CLOCK_REALTIME, the clock of receive timestamps).
    pub sent_ns: u64,
}

/// Now on the clock of receive timestamps, ns since 1970.
#[must_use]
pub fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        })
}

/// Fills a payload: mark, and bytes that depend on it.
pub fn write(payload: &mut [u8], mark: Mark) {
    let mut state = mark.sequence ^ (u64::from(mark.stream) << 40) ^ 0x9e37_79b9_7f4a_7c15;
    if let Some(filling) = payload.get_mut(SMALLEST..) {
        for word in filling.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_be_bytes()[..word.len()]);
        }
    }
    let hash = hash(payload.get(SMALLEST..).unwrap_or_default(), mark);
    let fields = [
        &MAGIC.to_be_bytes()[..],
        &mark.stream.to_be_bytes(),
        &mark.sequence.to_be_bytes(),
        &mark.sent_ns.to_be_bytes(),
        &hash.to_be_bytes(),
    ];
    for (to, from) in payload.iter_mut().zip(fields.concat()) {
        *to = from;
    }
}

/// Reads the mark. The flag says whether the payload is unchanged; it is only meaningful if all of it is given.
#[must_use]
pub fn read(payload: &[u8]) -> Option<(Mark, bool)> {
    let field = |from: usize| -> Option<u64> {
        Some(u64::from_be_bytes(
            payload.get(from..from + 8)?.try_into().ok()?,
        ))
    };
    let first = field(0)?;
    if first >> 32 != u64::from(MAGIC) {
        return None;
    }
    let stream = u32::try_from(first & u64::from(u32::MAX)).ok()?;
    let mark = Mark {
        stream,
        sequence: field(8)?,
        sent_ns: field(16)?,
    };
    let intact = field(24)? == hash(payload.get(SMALLEST..)?, mark);
    Some((mark, intact))
}

/// Any changed, lost or swapped byte changes it; it need not resist an attacker.
fn hash(filling: &[u8], mark: Mark) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(PRIME);
    let mut hash = [
        u64::from(mark.stream),
        mark.sequence,
        mark.sent_ns,
        filling.len() as u64,
    ]
    .into_iter()
    .fold(0xcbf2_9ce4_8422_2325, mix);
    for chunk in filling.chunks(8) {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mix(hash, u64::from_be_bytes(word));
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::{Mark, SMALLEST, read, write};

    #[test]
    fn what_is_written_is_read_and_a_changed_byte_is_seen() {
        let mark = Mark {
            stream: 7,
            sequence: 1 << 40,
            sent_ns: 123_456_789,
        };
        for length in [SMALLEST, 33, 100, 1316] {
            let mut payload = vec![0; length];
            write(&mut payload, mark);
            assert_eq!(read(&payload), Some((mark, true)));
            payload[length - 1] ^= 1;
            assert_eq!(read(&payload).map(|(_, intact)| intact), Some(false));
        }
        assert_eq!(read(&[0; 100]), None);
    }
}
