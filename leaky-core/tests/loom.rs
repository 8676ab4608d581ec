//! Every interleaving of a few CPUs on one bucket: no debit is lost, no two packets share a start.
//! Run with `RUSTFLAGS="--cfg loom" cargo test --release -p leaky-core --test loom`.
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use leaky_core::bucket::Limits;
use leaky_core::rate::{Rate, span_of};
use leaky_core::slot::{self, Cell};
use leaky_core::time::{Moment, Span};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};

struct Shared(AtomicU64);

impl Cell for Shared {
    fn load(&self) -> u64 {
        self.0.load(SeqCst)
    }

    fn compare_exchange(&self, current: u64, new: u64) -> u64 {
        match self.0.compare_exchange(current, new, SeqCst, SeqCst) {
            Ok(was) | Err(was) => was,
        }
    }
}

fn limits(capacity: u64) -> Limits {
    let mut limits = Limits {
        rate: Rate::packets_per_second(1_000).unwrap(),
        capacity: span_of(capacity, 1_000, 1).unwrap(),
        max_wait: Span::from_ns(1_000_000_000),
        ..Limits::default()
    };
    limits.stale_after = limits.furthest();
    limits
}

/// `cpus` CPUs offer `each` packets at the same moment. The waits of those accepted, in ms and
/// sorted, and the content of the bucket afterwards, in ms.
fn race(cpus: usize, each: usize, capacity: u64) -> (Vec<u64>, u64) {
    let limits = limits(capacity);
    let now = Moment::from_ns(5_000_000);
    let cell = Arc::new(Shared(AtomicU64::new(now.0)));
    let threads: Vec<_> = (0..cpus)
        .map(|_| {
            let cell = Arc::clone(&cell);
            loom::thread::spawn(move || {
                (0..each)
                    .filter_map(|_| slot::offer(&*cell, &limits, 1, Span::ZERO, now).ok())
                    .map(|wait| wait.ns_ceil() / 1_000_000)
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let mut waits: Vec<u64> = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect();
    waits.sort_unstable();
    (waits, Moment(cell.load()).since(now).ns_ceil() / 1_000_000)
}

#[test]
fn each_packet_gets_its_own_start_and_every_debit_counts() {
    loom::model(|| assert_eq!(race(2, 2, 100), (vec![0, 1, 2, 3], 4)));
}

#[test]
fn three_cpus_at_once() {
    loom::model(|| assert_eq!(race(3, 1, 100), (vec![0, 1, 2], 3)));
}

#[test]
fn a_full_bucket_takes_no_more_whoever_comes_first() {
    loom::model(|| assert_eq!(race(2, 2, 3), (vec![0, 1, 2], 3)));
}
