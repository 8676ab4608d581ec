//! Packet memory as a [`Frame`], read directly and checked the way the verifier understands.

use aya_ebpf::programs::TcContext;
use leaky_core::wire::Frame;

use crate::opaque::opaque;

/// The readable part of a packet. Any helper that may move packet memory ends its life.
pub struct Packet {
    data: usize,
    end: usize,
}

/// No header chain that is followed reaches beyond this; the verifier wants to see a bound.
const FURTHEST: u32 = 2_048;

impl Packet {
    /// The readable part of what `ctx` stands for, as of now.
    #[inline(always)]
    pub fn new(ctx: &TcContext) -> Packet {
        Packet {
            data: ctx.data(),
            end: ctx.data_end(),
        }
    }

    #[inline(always)]
    fn at<T: Copy>(&self, at: u32) -> Option<T> {
        if at > FURTHEST {
            return None;
        }
        // Opaque, or LLVM rewrites the comparison below into a form that proves nothing to the verifier
        // (`p + 1 > end` into `p >= end`), or hoists `end - size`, which the verifier forbids.
        let first = opaque(self.data + at as usize);
        let past = opaque(first + size_of::<T>());
        if past > self.end {
            return None;
        }
        // SAFETY: `first..past` lies in the packet by the comparison, which the verifier checks
        // again; packet memory may be unaligned.
        Some(unsafe { (first as *const T).read_unaligned() })
    }
}

impl Frame for Packet {
    #[inline(always)]
    fn u8(&self, at: u32) -> Option<u8> {
        self.at(at)
    }

    #[inline(always)]
    fn u16(&self, at: u32) -> Option<u16> {
        self.at(at).map(u16::from_be)
    }

    #[inline(always)]
    fn word(&self, at: u32) -> Option<u32> {
        self.at(at)
    }

    #[inline(always)]
    fn address(&self, at: u32) -> Option<[u32; 4]> {
        self.at(at)
    }
}
