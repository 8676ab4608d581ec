//! The path of a packet that leaves: parse, key, bucket, stamp or drop, count.

use aya_ebpf::bindings::{TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::programs::TcContext;
use leaky_core::abi::{Policy, SharedBucket};
use leaky_core::rate::Unit;
use leaky_core::slot;
use leaky_core::time::{Moment, Span};
use leaky_core::wire::{self, FlowKey, Layer, OnWire, Parsed};

use crate::count::Count;
use crate::frame::Packet;
use crate::keys;
use crate::policy;
use crate::skb::{Skb, Stamp};

/// What keeps a packet until its start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// fq: by the departure time stamped on it.
    DepartureTime,
    /// htb: by the queue it is put into.
    Queue,
}

/// Lets programs that come after this one see the packet too.
const NEXT: i32 = TC_ACT_UNSPEC;
const DROP: i32 = TC_ACT_SHOT as i32;
/// Bytes pulled into the readable part when headers go on behind it: more than Ethernet, two tags,
/// IPv6 and its usual extensions take.
const PULL: u32 = 256;

/// Decides on one packet. Returns what the TC layer shall do with it.
#[inline(always)]
pub fn egress(ctx: &TcContext, hold: Hold) -> i32 {
    let Some(policy) = policy::active() else {
        return NEXT;
    };
    let mut flow = FlowKey::default();
    let parsed = read(ctx, policy.layer(), &mut flow);
    let skb = Skb(ctx);
    let buffer = skb.buffer();
    match parsed {
        Parsed::Control => {
            if hold == Hold::Queue
                && let Some(class) = keys::shared(SharedBucket::Class)
            {
                skb.leave_queue(class.queue() & 0xffff_0000);
            }
            let wire = wire::on_wire(buffer, 0);
            if let Some(count) = Count::of(wire, buffer.length) {
                count.passed();
            }
            NEXT
        }
        Parsed::Traffic { headers } | Parsed::Truncated { headers } => {
            let wire = wire::on_wire(buffer, headers);
            match Count::of(wire, buffer.length) {
                Some(count) => shape(&skb, policy, &flow, wire, hold, count),
                None => NEXT,
            }
        }
    }
}

/// Parses, and where headers lie outside the readable part, pulls them in and parses again.
#[inline(always)]
fn read(ctx: &TcContext, layer: Layer, flow: &mut FlowKey) -> Parsed {
    let parsed = wire::parse(&Packet::new(ctx), layer, flow);
    if !matches!(parsed, Parsed::Truncated { .. }) {
        return parsed;
    }
    let length = ctx.len();
    let want = if length < PULL { length } else { PULL };
    if ctx.pull_data(want).is_err() {
        return parsed;
    }
    *flow = FlowKey::default();
    wire::parse(&Packet::new(ctx), layer, flow)
}

#[inline(always)]
fn shape(
    skb: &Skb,
    policy: &Policy,
    flow: &FlowKey,
    wire: OnWire,
    hold: Hold,
    mut count: Count,
) -> i32 {
    let limits = &policy.limits;
    // SAFETY: the helper has no preconditions.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let now = Moment::from_ns(now_ns);
    let queues = hold == Hold::Queue;
    let Some(bucket) = keys::find(policy.key(), flow, queues, now, &mut count) else {
        return NEXT;
    };
    count.offered();

    let not_before = match hold {
        Hold::DepartureTime => skb.asked_for(now_ns, limits.max_wait),
        Hold::Queue => Span::ZERO,
    };
    let amount = match limits.rate.unit() {
        Unit::Bytes => wire.bytes,
        Unit::Packets => wire.packets,
    };
    match slot::offer(&bucket.cell(), limits, amount, not_before, now) {
        Ok(wait) => {
            if hold == Hold::Queue {
                skb.enter_queue(bucket.queue());
            } else {
                let stamp = skb.stamp(now_ns, not_before);
                if stamp == Stamp::Ignored {
                    count.stamp_ignored();
                }
                // A packet that may leave at once and has no time on it is not touched. One that
                // has: fq would sort it by that time, before an earlier packet that is just due.
                if wait > Span::ZERO || stamp != Stamp::Absent {
                    skb.leave_at(now_ns + wait.ns_ceil());
                    skb.leave_bypass();
                }
            }
            count.accepted(wait);
            NEXT
        }
        Err(why) => {
            count.dropped(why);
            DROP
        }
    }
}
