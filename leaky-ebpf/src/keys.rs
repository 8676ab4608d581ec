//! Whose bucket a packet falls into.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, Queue};
use leaky_core::abi::{Bucket, FLOW_TABLE, Key, MAX_QUEUES, SHARED_BUCKETS, SharedBucket};
use leaky_core::time::Moment;
use leaky_core::wire::FlowKey;

use crate::cell::MapCell;
use crate::count::Count;

#[map]
static SHARED: Array<Bucket> = Array::with_max_entries(SHARED_BUCKETS, 0);
#[map]
static FLOWS: HashMap<FlowKey, Bucket> = HashMap::with_max_entries(FLOW_TABLE, 0);
/// Queues of the hold that no key uses (htb). User space fills it and returns what idle keys had.
#[map]
static FREE_QUEUES: Queue<u32> = Queue::with_max_entries(MAX_QUEUES, 0);

/// A bucket in its map.
pub struct Found(*mut Bucket);

impl Found {
    /// Its state.
    #[inline(always)]
    pub fn cell(&self) -> MapCell {
        // SAFETY: `self.0` is a map value of this program run, and `free_at` its aligned first
        // field. A hash element deleted meanwhile may be reused for another key: the debit of
        // this one packet is then lost or lands there, which user space makes rare by deleting
        // only keys that were idle for long.
        unsafe { MapCell::new(&raw mut (*self.0).free_at) }
    }

    /// The hold's queue for it, 0 if the hold needs none.
    #[inline(always)]
    pub fn queue(&self) -> u32 {
        // SAFETY: as above; `queue` is written before the value can be found, and never after.
        unsafe { (*self.0).queue as u32 }
    }
}

/// The bucket that all packets of the class share, or all that found no place of their own.
#[inline(always)]
pub fn shared(which: SharedBucket) -> Option<Found> {
    SHARED.get_ptr_mut(which as u32).map(Found)
}

/// The bucket of a packet of `flow`. `queues`: whether each key needs a queue of the hold.
#[inline(always)]
pub fn find(
    key: Key,
    flow: &FlowKey,
    queues: bool,
    now: Moment,
    count: &mut Count,
) -> Option<Found> {
    match key {
        Key::Class => shared(SharedBucket::Class),
        Key::Flow => match FLOWS.get_ptr_mut(flow) {
            Some(bucket) => Some(Found(bucket)),
            None => add(flow, queues, now).or_else(|| {
                count.beyond_table();
                shared(SharedBucket::Overflow)
            }),
        },
    }
}

/// Makes the bucket of a new flow, unless the table or the hold's queues are used up.
#[inline(always)]
fn add(flow: &FlowKey, queues: bool, now: Moment) -> Option<Found> {
    let queue = if queues { FREE_QUEUES.pop().ok()?? } else { 0 };
    // Empty as of now: a state of 0 could lie just ahead of a clock that is modulo 78 h.
    let bucket = Bucket {
        free_at: now.0,
        queue: queue as u64,
    };
    if FLOWS.insert(flow, &bucket, BPF_NOEXIST as u64).is_err() && queues {
        // The table is full, or another CPU was faster: the queue goes back. It came from there,
        // so there is room for it.
        let _ = FREE_QUEUES.push(&queue, 0);
    }
    FLOWS.get_ptr_mut(flow).map(Found)
}
