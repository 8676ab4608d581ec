//! What a packet takes of the wire, and what it is charged for it.

/// What a packet counts as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnWire {
    /// Bytes, with the headers of every segment.
    pub bytes: u64,
    /// Frames.
    pub packets: u64,
    /// Bytes of each frame but the last.
    pub full: u64,
    /// Bytes of the last frame.
    pub last: u64,
}

/// What the kernel says of a buffer, as far as its size on the wire goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Buffer {
    /// `skb->len`: bytes of the buffer, link header included.
    pub length: u32,
    /// `wire_len`: the same with the headers of every segment, as qdiscs count it.
    pub wire_length: u32,
    /// Payload of one segment, 0 when the buffer is one frame.
    pub gso_size: u32,
    /// Segments, 0 when the buffer is one frame, or when nobody counted them.
    pub gso_segments: u32,
    /// Bytes that every frame carries and the buffer does not: a VLAN tag kept beside it.
    pub beside: u32,
}

/// The frames and bytes that a buffer leaves as. `headers` is what every segment repeats.
///
/// `gso_segments` can be 0 although the buffer is to be cut (virtio and tun devices hand such in).
/// The kernel's `wire_len` is then wrong, since it adds headers for `0 - 1` segments
/// (qdisc_pkt_len_init in net/core/dev.c), and both numbers are computed here instead.
#[inline(always)]
pub fn on_wire(buffer: Buffer, headers: u32) -> OnWire {
    let Buffer {
        length,
        wire_length,
        gso_size,
        gso_segments,
        beside,
    } = buffer;
    let beside = beside as u64;
    if gso_size == 0 {
        let bytes = length as u64 + beside;
        return OnWire {
            bytes,
            packets: 1,
            full: bytes,
            last: bytes,
        };
    }
    let payload = length.saturating_sub(headers);
    let full = gso_size as u64 + headers as u64 + beside;
    if gso_segments != 0 {
        let packets = gso_segments as u64;
        let before = (packets - 1).wrapping_mul(gso_size as u64);
        let last = (payload as u64).saturating_sub(before) + headers as u64;
        return OnWire {
            bytes: wire_length as u64 + beside * packets,
            packets,
            full,
            last: last + beside,
        };
    }
    let packets = (payload.div_ceil(gso_size)).max(1) as u64;
    let before = (packets - 1) * gso_size as u64;
    OnWire {
        bytes: length as u64 + (packets - 1) * headers as u64 + beside * packets,
        packets,
        full,
        last: (payload as u64).saturating_sub(before) + headers as u64 + beside,
    }
}

/// What the link adds to a frame, and the least that a frame takes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Framing {
    /// Bytes that every frame takes beside what the kernel sees of it (preamble, gap, checksum,
    /// cells, tunnels further on).
    pub overhead: u32,
    /// The least that a frame is charged, overhead included, in bytes.
    pub minimum: u32,
}

impl Framing {
    /// What a packet is charged, in bytes: each frame with the overhead, and at least the minimum.
    #[inline(always)]
    pub fn charged(&self, wire: OnWire) -> u64 {
        let overhead = self.overhead as u64;
        let lacks = |frame: u64| (self.minimum as u64).saturating_sub(frame + overhead);
        let short = lacks(wire.full) * (wire.packets - 1) + lacks(wire.last);
        wire.bytes + overhead * wire.packets + short
    }
}
