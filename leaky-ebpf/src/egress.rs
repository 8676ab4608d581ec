//! The path of a packet that leaves: parse, class, key, bucket, link, stamp or drop, count.

use aya_ebpf::bindings::{TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::programs::TcContext;
use leaky_core::abi::SharedBucket;
use leaky_core::bucket::Refusal;
use leaky_core::classify::{classify, uses};
use leaky_core::policy::{Action, Class, Client, Policy, REST};
use leaky_core::rate::Unit;
use leaky_core::size::{OnWire, on_wire};
use leaky_core::slot;
use leaky_core::time::{Moment, Span};
use leaky_core::wire::{self, Headers, Layer, Parsed};

use crate::count::Count;
use crate::frame;
use crate::keys::{self, Found};
use crate::link;
use crate::policy;
use crate::scratch::{self, Said, Scratch};
use crate::skb::{Skb, Stamp};
use crate::tables::{self, InKernel};

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
/// The half of a queue's name that says whose it is.
const WHOSE_QUEUE: u32 = 0xffff_0000;

/// Decides on one packet. Returns what the TC layer shall do with it.
#[inline(always)]
pub fn egress(ctx: &TcContext, hold: Hold) -> i32 {
    let Some((bank, policy)) = policy::active() else {
        return NEXT;
    };
    let skb = Skb(ctx);
    let Some(scratch) = scratch::get() else {
        return NEXT;
    };
    let parsed = read(ctx, policy.layer(), skb.tag(), &mut scratch.headers);
    let buffer = skb.buffer();
    let (Parsed::Traffic(repeated) | Parsed::Truncated(repeated) | Parsed::Control(repeated)) =
        parsed;
    let wire = on_wire(buffer, repeated);
    let is_control = matches!(parsed, Parsed::Control(_)) && policy.classify_control == 0;

    let (place, client) = if is_control || policy.classifier.classes == 0 {
        (REST as u32, None)
    } else {
        find_class(bank, policy, &skb, &scratch.headers)
    };
    let Some(class) = policy::class(policy, place) else {
        return NEXT;
    };
    let Some(mut count) = Count::of(class.id, wire, buffer.length) else {
        return NEXT;
    };
    if is_control {
        leave_hold(&skb, policy, hold, &mut count);
        count.passed();
        return NEXT;
    }
    if !scratch.headers.is_readable() || scratch.headers.cut_short != 0 {
        count.unreadable();
    }
    let packet = Packet {
        wire,
        charge: policy.framing.charged(wire),
        client,
    };
    decide(&skb, policy, class, &packet, scratch, hold, &mut count)
}

/// Parses, and where headers lie outside the readable part, pulls them in and parses again.
#[inline(always)]
fn read(ctx: &TcContext, layer: Layer, tag: Option<u16>, headers: &mut Headers) -> Parsed {
    *headers = Headers::default();
    let parsed = wire::parse(&frame::Packet::new(ctx), layer, tag, headers);
    if !matches!(parsed, Parsed::Truncated(_)) {
        return parsed;
    }
    let length = ctx.len();
    let want = if length < PULL { length } else { PULL };
    if ctx.pull_data(want).is_err() {
        return parsed;
    }
    *headers = Headers::default();
    wire::parse(&frame::Packet::new(ctx), layer, tag, headers)
}

/// Where its class stands in the policy, and the client that it belongs to.
#[inline(always)]
fn find_class(
    bank: u32,
    policy: &Policy,
    skb: &Skb,
    headers: &Headers,
) -> (u32, Option<&'static Client>) {
    let client = tables::client(&policy.classifier, headers);
    let tables = InKernel { bank, skb };
    let mark = skb.mark();
    let place = classify(&policy.classifier, headers, mark, client.is_some(), &tables);
    (place, client)
}

/// A packet that is not control traffic.
struct Packet {
    wire: OnWire,
    /// Bytes to be paid for.
    charge: u64,
    client: Option<&'static Client>,
}

/// Its bucket, then that of the link, then what follows from both.
///
/// There is one place for each of the two compare-exchange loops, whatever the action: the kernel's
/// verifier walks every place by itself.
#[inline(always)]
fn decide(
    skb: &Skb,
    policy: &Policy,
    class: &Class,
    packet: &Packet,
    scratch: &mut Scratch,
    hold: Hold,
    count: &mut Count,
) -> i32 {
    let action = class.action();
    let has_link = policy.has_link != 0;
    if action == Action::Drop {
        count.offered();
        count.dropped(Refusal::Denied);
        return DROP;
    }
    if action == Action::Pass && !has_link {
        enter_rest(skb, policy, hold, count);
        count.passed();
        return NEXT;
    }
    // SAFETY: the helper has no preconditions.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let said = if action == Action::Pass {
        Said::FREE
    } else {
        match own_bucket(
            skb,
            policy,
            class,
            packet,
            &scratch.headers,
            hold,
            now_ns,
            count,
        ) {
            Some(said) => said,
            None => return NEXT,
        }
    };
    let said = scratch.forget(said);
    count.offered();

    // What has no bucket of its own, or is only watched, is limited by the link alone.
    let untouched = class.action() != Action::Shape;
    let held_up = said.wait > said.not_before;
    if has_link && (untouched || said.refusal().is_none()) {
        let now = Moment::from_ns(now_ns);
        let waits = untouched || held_up;
        if let Err(why) = link::offer(&policy.link, packet.charge, waits, now) {
            count.dropped(why);
            return DROP;
        }
    }
    if untouched {
        enter_rest(skb, policy, hold, count);
        if class.action() == Action::Monitor {
            count.passed();
        }
    }
    if let Some(why) = said.refusal() {
        count.dropped(why);
        return if untouched { NEXT } else { DROP };
    }
    if !untouched {
        leave(skb, hold, now_ns, &said, count);
    }
    // A wait that the sender asked for itself is no congestion.
    if said.wait > said.mark_above
        && held_up
        && scratch.headers.is_ecn_capable()
        && (untouched || skb.mark_congestion())
    {
        count.marked();
    }
    count.accepted(said.wait);
    NEXT
}

/// Offers a packet to its own bucket.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "inlined; a struct would be on the stack"
)]
fn own_bucket(
    skb: &Skb,
    policy: &Policy,
    class: &Class,
    packet: &Packet,
    headers: &Headers,
    hold: Hold,
    now_ns: u64,
    count: &mut Count,
) -> Option<Said> {
    let now = Moment::from_ns(now_ns);
    let (bucket, limits, mark_above, queue);
    if class.clients != 0
        && let Some(client) = packet.client
    {
        bucket = keys::client(client.slot)?;
        (limits, mark_above, queue) = (&client.limits, client.mark_above, client.queue);
    } else {
        (bucket, queue) = find_bucket(skb, policy, class, headers, hold, now, count)?;
        (limits, mark_above) = (&class.limits, class.mark_above);
    }
    if class.single == 0 && headers.is_readable() {
        count.source(headers);
    }
    let not_before = match hold {
        Hold::DepartureTime => skb.asked_for(now_ns, limits.max_wait),
        Hold::Queue => Span::ZERO,
    };
    let amount = match limits.rate.unit() {
        Unit::Bytes => packet.charge,
        Unit::Packets => packet.wire.packets,
    };
    let outcome = slot::offer(&bucket.cell(), limits, amount, not_before, now);
    Some(Said::new(outcome, not_before, mark_above, queue))
}

/// Its bucket in the class, and the hold's queue for it.
#[inline(always)]
fn find_bucket(
    skb: &Skb,
    policy: &Policy,
    class: &Class,
    headers: &Headers,
    hold: Hold,
    now: Moment,
    count: &mut Count,
) -> Option<(Found, u32)> {
    if class.single != 0 {
        return Some((keys::shared(SharedBucket::Class(class.id))?, class.queue));
    }
    let cgroup = if policy.classifier.uses & uses::CGROUP_KEYS != 0 {
        skb.cgroup()
    } else {
        0
    };
    let key = class.key.key(headers, skb.mark(), cgroup, class.id as u16);
    // What is only watched has no queue of its own.
    let queues = hold == Hold::Queue && class.queue != 0;
    match keys::find(&key, class, queues, now, count) {
        Some(found) => {
            // A key from when the class was only watched has none.
            let queue = match found.queue() {
                0 => class.queue,
                queue => queue,
            };
            Some((found, queue))
        }
        None => {
            count.beyond_table();
            Some((keys::shared(SharedBucket::Overflow(class.id))?, class.queue))
        }
    }
}

/// Tells the hold when, or in which order, an accepted packet leaves.
#[inline(always)]
fn leave(skb: &Skb, hold: Hold, now_ns: u64, said: &Said, count: &mut Count) {
    if hold == Hold::Queue {
        skb.enter_queue(said.queue);
        return;
    }
    let stamp = skb.stamp(now_ns, said.not_before);
    if stamp == Stamp::Ignored {
        count.stamp_ignored();
    }
    // A packet that may leave at once and has no time on it is not touched. One that has: fq would
    // sort it by that time, before an earlier packet that is just due.
    if said.wait > Span::ZERO || stamp != Stamp::Absent {
        skb.leave_at(now_ns + said.wait.ns_ceil());
        skb.leave_bypass();
    }
}

/// Puts what only the link limits into the hold's queue for it, if there is one.
#[inline(always)]
fn enter_rest(skb: &Skb, policy: &Policy, hold: Hold, count: &mut Count) {
    if hold == Hold::Queue && policy.rest_queue & !WHOSE_QUEUE != 0 {
        skb.enter_queue(policy.rest_queue);
    } else {
        leave_hold(skb, policy, hold, count);
    }
}

/// Sees to it that the hold does not keep a packet: a sender could have named one of its queues with
/// SO_PRIORITY, or a time far ahead.
#[inline(always)]
fn leave_hold(skb: &Skb, policy: &Policy, hold: Hold, count: &mut Count) {
    if hold == Hold::Queue {
        skb.leave_queue(policy.rest_queue & WHOSE_QUEUE);
    } else if skb.forget_odd_time() {
        count.stamp_ignored();
    }
}
