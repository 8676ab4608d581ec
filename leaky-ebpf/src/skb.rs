//! What the program reads from and writes to the packet's metadata.

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::helpers::generated::{bpf_skb_cgroup_id, bpf_skb_ecn_set_ce, bpf_skb_set_tstamp};
use aya_ebpf::programs::TcContext;
use leaky_core::size::Buffer;
use leaky_core::time::Span;

/// Departure time on the monotonic clock (`BPF_SKB_TSTAMP_DELIVERY_MONO` in linux/bpf.h).
const BPF_SKB_TSTAMP_DELIVERY_MONO: u32 = 1;
/// `TC_PRIO_CONTROL`: fq sends what has it in the low four bits at once, whatever its departure
/// time (fq_classify in net/sched/sch_fq.c).
const PRIORITY_CONTROL: u32 = 7;
const PRIORITY_MASK: u32 = 15;
/// `TC_PRIO_INTERACTIVE`: the same band of fq as control, without the bypass.
const PRIORITY_INTERACTIVE: u32 = 6;

/// `skb->protocol` of IP packets, in network order.
const ETHERTYPE_IPV4: u32 = 0x0800_u16.to_be() as u32;
const ETHERTYPE_IPV6: u32 = 0x86dd_u16.to_be() as u32;
/// How far ahead the departure time of a packet may lie that passes without a bucket: as much as a
/// sender paces ahead, and too little to fill fq with. 10 ms.
const FURTHEST_PASSING_NS: u64 = 10_000_000;
/// Bytes of a VLAN tag.
const VLAN_TAG: u32 = 4;

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
    /// The kernel's view of it.
    #[inline(always)]
    pub fn raw(&self) -> *mut __sk_buff {
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
                beside: if (*skb).vlan_present != 0 {
                    VLAN_TAG
                } else {
                    0
                },
            }
        }
    }

    /// The VLAN tag that the kernel keeps beside the frame.
    #[inline(always)]
    pub fn tag(&self) -> Option<u16> {
        let skb = self.raw();
        // SAFETY: the context of a TC program is a valid __sk_buff.
        unsafe { ((*skb).vlan_present != 0).then_some((*skb).vlan_tci as u16) }
    }

    /// The packet mark.
    #[inline(always)]
    pub fn mark(&self) -> u32 {
        // SAFETY: the context of a TC program is a valid __sk_buff.
        unsafe { (*self.raw()).mark }
    }

    /// The cgroup of the socket that sent it, 0 where there is none.
    #[inline(always)]
    pub fn cgroup(&self) -> u64 {
        // SAFETY: the context of a TC program is a valid __sk_buff.
        unsafe { bpf_skb_cgroup_id(self.raw()) }
    }

    /// Takes off a time that is no departure time on the monotonic clock, or one that lies further ahead
    /// than [`FURTHEST_PASSING_NS`]. Returns whether there was one.
    ///
    /// What passes without a bucket shares fq with what is shaped, and any user may send packets that
    /// fq is to keep for long (SO_TXTIME): they would fill it.
    #[inline(always)]
    pub fn forget_odd_time(&self) -> bool {
        let (stamp, departure) = self.raw_stamp();
        if stamp == 0 {
            return false;
        }
        // SAFETY: the helper has no preconditions.
        let now_ns = unsafe { bpf_ktime_get_ns() };
        if departure && stamp <= now_ns + FURTHEST_PASSING_NS {
            return false;
        }
        // SAFETY: the context of a TC program is a valid __sk_buff.
        unsafe { (*self.raw()).tstamp = 0 };
        true
    }

    /// Marks it as having met congestion, if its sender understands that. The kernel mends the checksum.
    /// Returns whether it carries the mark now.
    ///
    /// Frames with a VLAN tag inside are left alone: the kernel looks behind the tag for the protocol,
    /// but writes at the network header, which can stand at the tag (INET_ECN_set_ce in
    /// include/net/inet_ecn.h): VLAN 101 became 103.
    #[inline(always)]
    pub fn mark_congestion(&self) -> bool {
        // SAFETY: the context of a TC program is a valid __sk_buff.
        let protocol = unsafe { (*self.raw()).protocol };
        if protocol != ETHERTYPE_IPV4 && protocol != ETHERTYPE_IPV6 {
            return false;
        }
        // SAFETY: the context of a TC program is a valid __sk_buff. It may move packet memory, which
        // nobody looks at any more.
        unsafe { bpf_skb_ecn_set_ce(self.raw()) == 1 }
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
