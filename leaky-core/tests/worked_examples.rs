//! The worked examples that leaky promises (see ARCHITECTURE.md), with rates in packets.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use leaky_core::bucket::{Limits, Refusal};
use leaky_core::rate::{Rate, amount_in, span_of};
use leaky_core::slot::{self, Cell};
use leaky_core::time::{Moment, Span};
use std::sync::atomic::AtomicU64;

const SECOND: u64 = 1_000_000_000;

/// A bucket with a capacity in packets and no other bound.
struct Bucket {
    free_at: AtomicU64,
    limits: Limits,
    packets_per_second: u64,
}

impl Bucket {
    fn new(capacity: u64, packets_per_second: u64) -> Bucket {
        let mut limits = Limits {
            rate: Rate::packets_per_second(packets_per_second).unwrap(),
            capacity: span_of(capacity, packets_per_second, 1).unwrap(),
            max_wait: Span::from_ns(3_600 * SECOND),
            ..Limits::default()
        };
        limits.stale_after = limits.furthest();
        Bucket {
            free_at: AtomicU64::new(0),
            limits,
            packets_per_second,
        }
    }

    /// Offers one packet; its start and when it has drained, in ms from `now`.
    fn offer(&self, now_ns: u64) -> Result<(u64, u64), Refusal> {
        let now = Moment::from_ns(now_ns);
        let wait = slot::offer(&self.free_at, &self.limits, 1, Span::ZERO, now)?;
        let drained = wait.plus(self.limits.rate.cost(1));
        Ok((wait.ns_ceil() / 1_000_000, drained.ns_ceil() / 1_000_000))
    }

    /// Packets that have not drained at `now`.
    fn left(&self, now_ns: u64) -> u64 {
        let content = Moment(Cell::load(&self.free_at)).since(Moment::from_ns(now_ns));
        if content > self.limits.stale_after {
            return 0;
        }
        amount_in(content, self.packets_per_second)
    }
}

#[test]
fn capacity_5_two_per_second_arrivals_4_4_0_0() {
    let bucket = Bucket::new(5, 2);
    let mut now = 1_000 * SECOND;
    let mut left = Vec::new();
    let mut dropped = Vec::new();
    for arrivals in [4, 4, 0, 0] {
        dropped.push((0..arrivals).filter(|_| bucket.offer(now).is_err()).count());
        now += SECOND;
        left.push(bucket.left(now));
    }
    assert_eq!(left, [2, 3, 1, 0]);
    assert_eq!(dropped, [0, 1, 0, 0]);
}

#[test]
fn six_at_once_into_five() {
    let bucket = Bucket::new(5, 2);
    let starts: Vec<_> = (0..6).map(|_| bucket.offer(77 * SECOND)).collect();
    assert!(starts[..5].iter().all(Result::is_ok));
    assert_eq!(starts[4], Ok((2_000, 2_500)));
    assert_eq!(starts[5], Err(Refusal::Overflow));
}

#[test]
fn the_same_six_one_per_second_never_wait() {
    let bucket = Bucket::new(5, 2);
    for second in 10..16 {
        assert_eq!(bucket.offer(second * SECOND), Ok((0, 500)));
    }
}

#[test]
fn twenty_five_at_once_into_twenty() {
    let bucket = Bucket::new(20, 5);
    let starts: Vec<_> = (0..25).map(|_| bucket.offer(9 * SECOND)).collect();
    assert!(starts[..20].iter().all(Result::is_ok));
    assert_eq!(starts[19], Ok((3_800, 4_000)));
    assert!(
        starts[20..]
            .iter()
            .all(|start| *start == Err(Refusal::Overflow))
    );
}

#[test]
fn five_per_second_and_at_most_two_seconds_is_a_capacity_of_ten() {
    assert_eq!(amount_in(Span::from_ns(2 * SECOND), 5), 10);
    let bucket = Bucket::new(10, 5);
    assert_eq!((0..12).filter(|_| bucket.offer(SECOND).is_ok()).count(), 10);
}
