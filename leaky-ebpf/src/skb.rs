//! What the program reads from and writes to the packet's metadata.

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::helpers::generated::bpf_skb_set_tstamp;
use aya_ebpf::programs::TcContext;
use leaky_core::time::Span;
use leaky_core::wire::Buffer;

/// Departure time on the monotonic clock (`BPF_SKB_TSTAMP_DELIVERY_MONO` in linux/bpf.h).
const BPF_SKB_TSTAMP_DELIVERY_MONO: u32 = 1;
/// `TC_PRIO_CONTROL`: fq sends what has it in the low four bits at once, whatever its departure
/// time (fq_classify in net/sched/sch_fq.c).
const PRIORITY_CONTROL: u32 = 7;
const PRIORITY_MASK: u32 = 15;
/// `TC_PRIO_INTERACTIVE`: the same band of fq as control, without the bypass.
const PRIORITY_INTERACTIVE: u32 = 6;

/// A packet's metadata.
pub struct Skb<'a>(pub &'a TcContext);

/// What became of the time that a packet carried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// It carried none.
    Absent,
    /// A departure time that was honoured, or has passed.
    Honoured,
    /// Of another clock, or further ahead than a packet may wait.
    Ignored,
}

impl Skb<'_> {
    #[inline(always)]
    fn raw(&self) -> *mut __sk_buff {
        self.0.as_ptr().cast()
    }

    /// Its size, as far as the kernel knows.
    #[inline(always)]
    pub fn buffer(&self) -> Buffer {
        let skb = self.raw();
        // SAFETY: the context of a TC program is a valid __sk_buff.
        unsafe {
            Buffer {
                length: (*skb).len,
                wire_length: (*skb).wire_len,
                gso_size: (*skb).gso_size,
                gso_segments: (*skb).gso_segs,
            }
        }
    }

    #[inline(always)]
    fn raw_stamp(&self) -> (u64, bool) {
        let skb = self.raw();
        // SAFETY: the context of a TC program is a valid __sk_buff.
        let (stamp, kind) = unsafe { ((*skb).tstamp, (*skb).tstamp_type) };
        (stamp, kind as u32 == BPF_SKB_TSTAMP_DELIVERY_MONO)
    }

    /// How long from now it must not leave, by the departure time that the local stack gave it; 0
    /// where it gave none, or one that has passed, or one further ahead than a packet may wait.
    ///
    /// Forwarded packets can carry a receive timestamp in the same field: the kernel tells the two
    /// apart by `tstamp_type`, which is 1 for a departure time on the monotonic clock on every
    /// kernel that has the field.
    #[inline(always)]
    pub fn asked_for(&self, now_ns: u64, max_wait: Span) -> Span {
        let (stamp, departure) = self.raw_stamp();
        let ahead = Span::from_ns(stamp.saturating_sub(now_ns));
        if departure && ahead <= max_wait {
            ahead
        } else {
            Span::ZERO
        }
    }

    /// What became of the time it carries, given what [`Skb::asked_for`] made of it.
    #[inline(always)]
    pub fn stamp(&self, now_ns: u64, not_before: Span) -> Stamp {
        match self.raw_stamp() {
            (0, _) => Stamp::Absent,
            (ns, true) if ns <= now_ns || not_before > Span::ZERO => Stamp::Honoured,
            _ => Stamp::Ignored,
        }
    }

    /// Gives it the departure time `ns` on the monotonic clock.
    #[inline(always)]
    pub fn leave_at(&self, ns: u64) {
        let skb = self.raw();
        // SAFETY: the context of a TC program is a valid __sk_buff.
        unsafe {
            if bpf_skb_set_tstamp(skb, ns, BPF_SKB_TSTAMP_DELIVERY_MONO) != 0 {
                // The helper takes packets whose outermost protocol is IP only (net/core/filter.c).
                // A frame that carries its VLAN tag, PPPoE or MPLS header inside is stamped
                // directly: fq takes that too.
                (*skb).tstamp = ns;
            }
        }
    }

    /// Sees to it that fq keeps it until its departure time.
    #[inline(always)]
    pub fn leave_bypass(&self) {
        let skb = self.raw();
        // SAFETY: the context of a TC program is a valid __sk_buff.
        unsafe {
            if (*skb).priority & PRIORITY_MASK == PRIORITY_CONTROL {
                (*skb).priority = PRIORITY_INTERACTIVE;
            }
        }
    }

    /// Puts it into the hold's queue `queue` (htb: a class of that name).
    #[inline(always)]
    pub fn enter_queue(&self, queue: u32) {
        // SAFETY: the context of a TC program is a valid __sk_buff.
        unsafe { (*self.raw()).priority = queue };
    }

    /// Takes it out of any queue of a hold whose queues start with `major`: a sender could have
    /// named one with SO_PRIORITY.
    #[inline(always)]
    pub fn leave_queue(&self, major: u32) {
        let skb = self.raw();
        // SAFETY: the context of a TC program is a valid __sk_buff.
        unsafe {
            if (*skb).priority & 0xffff_0000 == major {
                (*skb).priority = 0;
            }
        }
    }
}
