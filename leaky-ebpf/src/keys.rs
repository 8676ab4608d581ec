//! Whose bucket a packet falls into.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, Queue};
use leaky_core::abi::{Bucket, CLIENT_TABLE, KEY_TABLE, MAX_QUEUES, SHARED_BUCKETS, SharedBucket};
use leaky_core::key::Key;
use leaky_core::policy::Class;
use leaky_core::time::Moment;

use crate::cell::MapCell;
use crate::count::Count;

#[map]
static SHARED: Array<Bucket> = Array::with_max_entries(SHARED_BUCKETS, 0);
#[map]
static KEYS: HashMap<Key, Bucket> = HashMap::with_max_entries(KEY_TABLE, 0);
#[map]
static CLIENT_BUCKETS: Array<Bucket> = Array::with_max_entries(CLIENT_TABLE, 0);
/// Queues of the hold that no key uses (htb), for each class whose keys take some. User space fills
/// them and returns what idle keys had.
#[map]
static FREE_QUEUES_0: Queue<u32> = Queue::with_max_entries(MAX_QUEUES, 0);
#[map]
static FREE_QUEUES_1: Queue<u32> = Queue::with_max_entries(MAX_QUEUES, 0);
#[map]
static FREE_QUEUES_2: Queue<u32> = Queue::with_max_entries(MAX_QUEUES, 0);
#[map]
static FREE_QUEUES_3: Queue<u32> = Queue::with_max_entries(MAX_QUEUES, 0);

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

/// A bucket that several keys share.
#[inline(always)]
pub fn shared(which: SharedBucket) -> Option<Found> {
    SHARED.get_ptr_mut(which.index()).map(Found)
}

/// The bucket of a configured client, which is never given to anybody else.
#[inline(always)]
pub fn client(slot: u32) -> Option<Found> {
    CLIENT_BUCKETS.get_ptr_mut(slot).map(Found)
}

/// The bucket of a key, made if it is new; `None` if the table or the hold's queues are used up.
/// `queues`: whether each key needs a queue of the hold.
#[inline(always)]
pub fn find(
    key: &Key,
    class: &Class,
    queues: bool,
    now: Moment,
    count: &mut Count,
) -> Option<Found> {
    if let Some(bucket) = KEYS.get_ptr_mut(key) {
        return Some(Found(bucket));
    }
    let pool = free_queues(class.pool);
    let queue = if queues { pool.pop().ok()?? } else { 0 };
    // Empty as of now: a state of 0 could lie just ahead of a clock that is modulo 78 h.
    let bucket = Bucket {
        free_at: now.0,
        queue: queue as u64,
    };
    if KEYS.insert(key, &bucket, BPF_NOEXIST as u64).is_ok() {
        count.key_made();
    } else if queues {
        // The table is full, or another CPU was faster: the queue goes back. It came from there,
        // so there is room for it.
        let _ = pool.push(&queue, 0);
    }
    KEYS.get_ptr_mut(key).map(Found)
}

#[inline(always)]
fn free_queues(pool: u32) -> &'static Queue<u32> {
    match pool {
        0 => &FREE_QUEUES_0,
        1 => &FREE_QUEUES_1,
        2 => &FREE_QUEUES_2,
        _ => &FREE_QUEUES_3,
    }
}
