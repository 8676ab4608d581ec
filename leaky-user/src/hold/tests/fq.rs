use super::{ask, group, many};
use crate::hold::{Ask, Content, Error, FqHold, Group, HANDLE, Hold, LARGEST_WAIT};
use crate::net::{FqConfig, FqStats, Layer, Link, Op, Qdisc, QdiscConfig, ROOT, Stats};
use crate::units::{Duration, Rate};
use proptest::prelude::*;

fn config(ask: &Ask) -> FqConfig {
    FqHold::config(ask).expect("it can be held").0
}

#[test]
fn room_for_a_bucket_of_the_smallest_packets() {
    // (250,000 + 4 ms of rate) / 34 + 1,000 that pass.
    assert_eq!(config(&ask()).limit, 8_500);
    assert_eq!(config(&ask()).flow_limit, 8_500);
    let mut bare = ask();
    bare.link.layer = Layer::Ip;
    assert_eq!(config(&bare).limit, 13_750);
    // A capacity below one GSO packet: that packet may be small ones.
    let mut small = ask();
    small.groups[0].capacity = Content::Bytes(1);
    assert_eq!(config(&small).limit, 3_589);
    let mut packets = ask();
    packets.groups[0].rate = Rate::PacketsPerSecond(2);
    packets.groups[0].capacity = Content::Packets(5);
    assert_eq!(config(&packets).limit, 1_006);
    assert!(!config(&packets).pacing && config(&packets).horizon_drop);
}

#[test]
fn memory_bounds_it_and_that_is_said() {
    let mut large = ask();
    large.groups[0].rate = Rate::BytesPerSecond(1_250_000_000);
    large.groups[0].capacity = Content::Bytes(250_000_000);
    let (config, notices) = FqHold::config(&large).expect("it can be held");
    // (256 MiB + 2 x 250 MB) / 768 + 1,000.
    assert_eq!(config.limit, 1_001_567);
    assert_eq!(notices.len(), 1);
    assert!(
        notices[0].contains("255 B or more on average"),
        "{}",
        notices[0]
    );
    assert!(FqHold::config(&ask()).expect("it can be held").1.is_empty());
}

#[test]
fn by_flow_there_is_room_for_many() {
    let mut flows = ask();
    flows.groups = vec![many()];
    let (config, notices) = FqHold::config(&flows).expect("it can be held");
    // 256 MiB / (1,522 + 768).
    assert_eq!((config.limit, config.flow_limit), (117_220, 117_220));
    assert!(
        notices[0].contains("117220 packets over all keys"),
        "{}",
        notices[0]
    );
    flows.link.tx_queues = 64;
    let (config, notices) = FqHold::config(&flows).expect("it can be held");
    assert_eq!(config.limit, 8_500, "one full bucket always fits");
    assert!(
        notices[0].contains("in each transmit queue"),
        "{}",
        notices[0]
    );
}

#[test]
fn the_horizon_is_never_nearer_than_the_kernels() {
    let horizon = |seconds: u64| {
        let mut asked = ask();
        asked.groups[0].bound = Duration::from_nanos(seconds * 1_000_000_000);
        FqHold::config(&asked).map(|(config, _)| config.horizon_us)
    };
    assert_eq!(horizon(0).ok(), Some(10_000_000));
    assert_eq!(horizon(9).ok(), Some(10_000_000));
    assert_eq!(horizon(10).ok(), Some(11_000_000));
    assert_eq!(horizon(4_293).ok(), Some(4_294_000_000));
    let error = horizon(4_294).expect_err("beyond 32 bits");
    assert!(matches!(error, Error::Refused { .. }));
    assert!(
        error.to_string().contains(&LARGEST_WAIT.to_string()),
        "{error}"
    );
    let mut longest = ask();
    longest.groups[0].bound = LARGEST_WAIT;
    assert_eq!(config(&longest).horizon_us, u32::MAX);
    longest.groups[0].bound = Duration::from_nanos(LARGEST_WAIT.as_nanos() + 1);
    assert!(FqHold::config(&longest).is_err());
}

#[test]
fn one_queue_or_many() {
    let one = FqHold.plan(&ask()).expect("a plan");
    assert!(matches!(
        &one.ops[..],
        [Op::SetQdisc {
            parent: ROOT,
            handle: HANDLE,
            config: QdiscConfig::Fq(_)
        }]
    ));
    let mut asked = ask();
    asked.link.tx_queues = 3;
    let many = FqHold.plan(&asked).expect("a plan");
    assert_eq!(many.ops.len(), 4);
    assert!(matches!(
        &many.ops[0],
        Op::SetQdisc {
            parent: ROOT,
            config: QdiscConfig::Mq,
            ..
        }
    ));
    let change = FqHold.change(&asked, &asked).expect("a plan");
    assert_eq!(change.ops, many.ops[1..]);
}

fn qdisc(kind: &str, handle: u32, parent: u32, config: Option<&FqConfig>) -> Qdisc {
    let options = config.and_then(|c| QdiscConfig::Fq(c.clone()).encode());
    let fq = config.map(|_| FqStats {
        flow_limit_drops: 1,
        horizon_drops: 2,
    });
    let stats = Stats {
        sent_packets: 10,
        dropped: 7,
        backlog_bytes: 300,
        backlog_packets: 3,
    };
    Qdisc {
        kind: kind.to_owned(),
        handle,
        parent,
        options,
        stats,
        fq,
    }
}

#[test]
fn l39_what_runs_is_compared_field_by_field() {
    let wanted = config(&ask());
    let verify = |qdiscs: &[Qdisc]| {
        FqHold
            .verify(&ask(), qdiscs, &[])
            .map_err(|e| e.to_string())
    };
    assert_eq!(verify(&[qdisc("fq", HANDLE, ROOT, Some(&wanted))]), Ok(()));
    for (qdiscs, says) in [
        (vec![], "no root"),
        (
            vec![qdisc("fq", 0x8001_0000, ROOT, Some(&wanted))],
            "fq 8001: instead of fq 1eaf:",
        ),
        (
            vec![qdisc("htb", HANDLE, ROOT, None)],
            "htb 1eaf: instead of fq",
        ),
        (vec![qdisc("fq", HANDLE, ROOT, None)], "does not say"),
    ] {
        let error = verify(&qdiscs).expect_err(says);
        assert!(
            error.starts_with("not enforced on v0") && error.contains(says),
            "{error}"
        );
    }
    type Change = fn(&mut FqConfig);
    let changes: [(Change, &str); 5] = [
        (|c| c.limit -= 1, "limit is 8499 instead of 8500"),
        (|c| c.flow_limit = 100, "flow_limit is 100 instead of 8500"),
        (|c| c.horizon_us -= 1, "horizon in us is 9999999 instead of"),
        (|c| c.horizon_drop = false, "horizon_drop is false"),
        (|c| c.pacing = true, "pacing is true instead of false"),
    ];
    for (change, says) in changes {
        let mut other = wanted.clone();
        change(&mut other);
        let error = verify(&[qdisc("fq", HANDLE, ROOT, Some(&other))]).expect_err(says);
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn many_queues_are_compared_and_added_up() {
    let mut asked = ask();
    asked.link.tx_queues = 2;
    let wanted = config(&asked);
    let leaf = |n| qdisc("fq", (0x8001 + n) << 16, HANDLE | n, Some(&wanted));
    let root = || qdisc("mq", HANDLE, ROOT, None);
    let verify = |qdiscs: &[Qdisc]| FqHold.verify(&asked, qdiscs, &[]);
    verify(&[root(), leaf(1), leaf(2)]).expect("both");
    // The kernel does not list queues that are not in use.
    verify(&[root(), leaf(1)]).expect("one in use");
    assert!(verify(&[root()]).is_err());
    let default = qdisc("pfifo_fast", 0, HANDLE | 2, None);
    let error = verify(&[root(), leaf(1), default]).expect_err("a queue without fq");
    assert!(error.to_string().contains("transmit queue 2"), "{error}");

    let stats = FqHold.stats(&[root(), leaf(1), leaf(2)], &[]);
    assert_eq!((stats.backlog_packets, stats.backlog_bytes), (6, 600));
    assert_eq!((stats.sent_packets, stats.dropped_packets), (20, 14));
    assert_eq!(
        stats.drops,
        [("fq_limit", 8), ("fq_flow_limit", 2), ("fq_horizon", 4)]
    );
    let alone = FqHold.stats(&[qdisc("fq", HANDLE, ROOT, Some(&wanted))], &[]);
    assert_eq!(alone.dropped_packets, 7);
}

proptest! {
    #[test]
    fn fq_never_drops_what_fits_into_memory(
        rate in 125..50_000_000_000_u64,
        capacity in 1..1_u64 << 40,
        bound_ns in 0..4_292_000_000_000_u64,
        per_flow: bool,
        tx_queues in 1..512_u32,
        packet in 34..65_000_u64,
    ) {
        let asked = Ask {
            groups: vec![Group {
                rate: Rate::BytesPerSecond(rate),
                capacity: Content::Bytes(capacity),
                bound: Duration::from_nanos(bound_ns),
                ..if per_flow { many() } else { group() }
            }],
            link: Link { tx_queues, ..ask().link },
            ..ask()
        };
        let (config, notices) = FqHold::config(&asked).expect("it can be held");
        prop_assert!(u64::from(config.horizon_us) * 1_000 > bound_ns);
        prop_assert!(config.flow_limit >= config.limit);
        // A bucket full of packets of one size: either it fits, or a notice names a larger size.
        let fits = capacity.div_ceil(packet) <= u64::from(config.limit);
        let smaller = notices.iter().any(|notice| {
            let words: Vec<&str> = notice.split(' ').collect();
            words.windows(4).any(|w| {
                w[1..] == ["B", "or", "more"] && w[0].parse::<u64>().is_ok_and(|mean| mean > packet)
            })
        });
        prop_assert!(fits || smaller, "{:?} {:?}", config, notices);
    }
}
