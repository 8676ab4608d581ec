//! The packets that are sent: 1,000 B of payload in UDP.
//!
//! The measuring programs rotate the two bytes at offset 34: the source port behind Ethernet and IPv4,
//! the first half of the source address behind two tags and IPv4.

/// Over IPv4 and Ethernet.
pub(crate) fn udp() -> Vec<u8> {
    let mut frame = vec![0u8; 1_042];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&1_028u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..38].copy_from_slice(&[0x10, 0, 0x20, 0]);
    frame[38..40].copy_from_slice(&1_008u16.to_be_bytes());
    frame
}

/// The same behind 802.1ad and 802.1Q, from the addresses `*.*.10.block`.
pub(crate) fn qinq(block: u8) -> Vec<u8> {
    let mut frame = udp();
    frame[28..30].copy_from_slice(&[10, block]);
    frame.splice(12..12, [0x88, 0xa8, 0, 5, 0x81, 0x00, 0, 6]);
    frame
}

/// The `n`-th address of such a block that the measuring program makes.
pub(crate) fn rotated(n: u16, block: u8) -> [u8; 4] {
    let [first, second] = n.to_ne_bytes();
    [first, second, 10, block]
}

/// Over IPv6 behind seven extension headers.
pub(crate) fn extended() -> Vec<u8> {
    let mut frame = vec![0u8; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend((7 * 8 + 1_008u16).to_be_bytes());
    frame.extend([60, 64]);
    frame.extend([0xfd; 32]);
    for next in [60, 60, 60, 60, 60, 60, 17] {
        frame.extend([next, 0, 1, 4, 0, 0, 0, 0]);
    }
    frame.extend([0x10, 0, 0x20, 0]);
    frame.extend(1_008u16.to_be_bytes());
    frame.resize(frame.len() + 1_002, 0);
    frame
}
