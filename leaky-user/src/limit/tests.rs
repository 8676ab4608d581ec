#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

const MEMORY: u64 = 24 << 30;

pub(crate) fn link() -> Link {
    Link {
        index: 3,
        name: "eth0".into(),
        mtu: 1_500,
        layer: Layer::Ethernet,
        loopback: false,
        up: true,
        tx_queues: 1,
        gso_max_segs: 1,
        gso_max_size: 65_536,
    }
}

fn asked(rate: &str) -> Asked {
    Asked {
        rate: rate.parse().unwrap(),
        capacity: None,
        max_wait: None,
        burst: None,
        ecn: None,
    }
}

#[test]
fn l18_a_rate_alone_is_enough() {
    let limit = resolve(&asked("10mbit"), &link(), Framing::default(), MEMORY).unwrap();
    assert_eq!(limit.capacity, Content::Bytes(250_000));
    assert_eq!(limit.capacity_time.as_nanos() / 1_000, 200_000);
    assert_eq!(limit.max_wait, DEFAULT_MAX_WAIT);
    assert_eq!(limit.burst, Duration::ZERO);
    assert_eq!(limit.notices, Vec::<String>::new());
}

#[test]
fn a_capacity_alone_is_its_own_bound_on_the_wait() {
    let capacity = Some(Capacity::Bytes(4_000_000));
    let limit = resolve(
        &Asked {
            capacity,
            ..asked("5mbit")
        },
        &link(),
        Framing::default(),
        MEMORY,
    )
    .unwrap();
    assert_eq!(limit.max_wait.as_nanos() / 1_000_000, 6_400);
}

#[test]
fn the_worked_example_five_per_second_and_at_most_two_seconds() {
    let max_wait = Some(Duration::from_nanos(2_000_000_000));
    let limit = resolve(
        &Asked {
            max_wait,
            ..asked("5pps")
        },
        &link(),
        Framing::default(),
        MEMORY,
    )
    .unwrap();
    assert_eq!(limit.capacity, Content::Packets(10));
}

#[test]
fn l47_a_capacity_below_one_frame_is_raised_with_a_notice() {
    for mtu in [1_500, 9_000, 65_536] {
        let capacity = Some(Capacity::Bytes(1_214));
        let link = Link { mtu, ..link() };
        let limit = resolve(
            &Asked {
                capacity,
                ..asked("10mbit")
            },
            &link,
            Framing::default(),
            MEMORY,
        )
        .unwrap();
        assert_eq!(limit.capacity, Content::Bytes(3 * (u64::from(mtu) + 22)));
        assert_eq!(limit.notices.len(), 1, "{:?}", limit.notices);
    }
}

#[test]
fn the_default_is_raised_to_three_frames_at_the_lowest_rates() {
    let limit = resolve(&asked("8kbit"), &link(), Framing::default(), MEMORY).unwrap();
    assert_eq!(limit.capacity, Content::Bytes(4_566));
    // Else the third one would always be too late.
    assert_eq!(limit.max_wait.as_nanos() / 1_000_000, 4_566);
    assert_eq!(limit.notices.len(), 1);
}

#[test]
fn bytes_and_packets_do_not_mix() {
    let packets = Some(Capacity::Packets(100));
    let bytes = Some(Capacity::Bytes(100_000));
    for wrong in [
        Asked {
            capacity: packets,
            ..asked("10mbit")
        },
        Asked {
            capacity: bytes,
            ..asked("10pps")
        },
        Asked {
            burst: packets,
            ..asked("10mbit")
        },
    ] {
        let error = resolve(&wrong, &link(), Framing::default(), MEMORY).unwrap_err();
        assert!(matches!(error, Error::Unit { .. }), "{error}");
    }
}

#[test]
fn a_capacity_of_days_is_refused_and_nothing_overflows() {
    let capacity = Some(Capacity::Bytes(Capacity::MAX_BYTES));
    let error = resolve(
        &Asked {
            capacity,
            ..asked("1kbit")
        },
        &link(),
        Framing::default(),
        MEMORY,
    )
    .unwrap_err();
    assert!(matches!(error, Error::TooLong { .. }), "{error}");
    let error = resolve(
        &Asked {
            capacity,
            ..asked("400gbit")
        },
        &link(),
        Framing::default(),
        MEMORY,
    )
    .unwrap_err();
    assert!(matches!(error, Error::Memory { .. }), "{error}");
    let limit = resolve(
        &Asked {
            capacity: Some(Capacity::Bytes(MEMORY / 3)),
            ..asked("400gbit")
        },
        &link(),
        Framing::default(),
        MEMORY,
    )
    .unwrap();
    assert!(limit.limits.stale_after < Span::MAX);
}

#[test]
fn what_the_link_adds_makes_the_largest_packet_larger() {
    let framing = Framing {
        overhead: 24,
        minimum: 84,
    };
    let tiny = Asked {
        capacity: Some(Capacity::Bytes(1)),
        ..asked("10mbit")
    };
    let limit = resolve(&tiny, &link(), framing, MEMORY).unwrap();
    assert_eq!(limit.capacity, Content::Bytes(3 * (1_522 + 24)));
}
