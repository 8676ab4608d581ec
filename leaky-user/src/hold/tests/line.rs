//! The link's limit, and what a frame is charged.

use super::htb::kernel;
use super::{ask, group, line, many};
use crate::hold::{Ask, Content, Error, FqHold, HANDLE, Hold, HtbHold, Line, queue, rest_slot};
use crate::net::{
    Class, ClassConfig, FqStats, HtbClassConfig, Op, PerPacket, Qdisc, QdiscConfig, ROOT, Stats,
    TbfConfig,
};
use crate::units::Rate;

fn limited() -> Ask {
    Ask {
        line: Some(line()),
        ..ask()
    }
}

/// The tbf at the root of the fq hold.
fn tbf(asked: &Ask) -> TbfConfig {
    match &FqHold.plan(asked).expect("a plan").ops[0] {
        Op::SetQdisc {
            parent: ROOT,
            handle: HANDLE,
            config: QdiscConfig::Tbf(tbf),
        } => *tbf,
        other => panic!("{other}"),
    }
}

#[test]
fn fq_goes_below_a_tbf_whatever_the_queues() {
    for tx_queues in [1, 8] {
        let mut asked = limited();
        asked.link.tx_queues = tx_queues;
        let plan = FqHold.plan(&asked).expect("a plan");
        let [
            _,
            Op::SetQdisc {
                parent,
                handle,
                config: QdiscConfig::Fq(fq),
            },
        ] = &plan.ops[..]
        else {
            panic!("{:?}", plan.ops);
        };
        assert_eq!((*parent, *handle), (HANDLE | 1, 0));
        // What two buckets of small packets hold is less than what there is for full frames.
        assert_eq!(fq.limit, 117_220);
        assert_eq!(FqHold.change(&asked, &asked).expect("a plan").ops, plan.ops);
    }
    let mut large = limited();
    large.line = Some(Line {
        rate: 125_000_000,
        capacity: 6_000_000,
    });
    let (fq, notices) = FqHold::config(&large).expect("it can be held");
    // (6,000,000 + 500,000) / 34 + 255,000 / 34 + 1,000.
    assert_eq!(fq.limit, 191_177 + 7_500 + 1_000);
    assert_eq!(notices.len(), 1, "{notices:?}");
}

#[test]
fn the_burst_of_the_link_is_one_frame_or_250_us() {
    let at = |mbit: u64| {
        let mut asked = limited();
        asked.line = Some(Line {
            rate: mbit * 125_000,
            ..line()
        });
        tbf(&asked).burst
    };
    assert_eq!((at(1), at(20), at(48)), (1_522, 1_522, 1_522));
    assert_eq!((at(100), at(1_000)), (3_125, 31_250));
    let notices = FqHold.plan(&limited()).expect("a plan").notices;
    assert_eq!(notices.len(), 1, "{notices:?}");
    let mut fast = limited();
    fast.line = Some(Line {
        rate: 125_000_000,
        ..line()
    });
    fast.overhead = 24;
    let notices = FqHold.plan(&fast).expect("a plan").notices.join("; ");
    assert!(notices.contains("31250 B leave at once"), "{notices}");
    assert!(notices.contains("count once for a GSO packet"), "{notices}");
}

#[test]
fn only_the_link() {
    let mut asked = limited();
    asked.groups.clear();
    assert_eq!(FqHold.plan(&asked).expect("a plan").ops.len(), 2);
    // Root, class of the link, class and leaf of the rest.
    assert_eq!(HtbHold.plan(&asked).expect("a plan").ops.len(), 4);
    let (qdiscs, classes) = kernel(&asked);
    HtbHold.verify(&asked, &qdiscs, &classes).expect("as asked");
}

#[test]
fn a_frame_is_charged_more() {
    let mut asked = limited();
    (asked.overhead, asked.mpu) = (24, 84);
    let per_packet = PerPacket {
        overhead: 24,
        mpu: 84,
    };
    assert_eq!((per_packet.charge(40), per_packet.charge(61)), (84, 85));
    assert_eq!(tbf(&asked).per_packet, per_packet);
    let (class, leaf) = HtbHold::limits(&asked, &group()).expect("limits");
    assert_eq!((class.per_packet, class.ceil_burst), (per_packet, 5_000));
    // The leaf only cuts, all that is longer than a frame.
    assert_eq!((leaf.per_packet, leaf.burst), (PerPacket::default(), 1_522));
    assert_eq!(leaf.rate, 24_950_819_672);
    // (250,000 + 5,000) B in packets of 84 B.
    asked.line = None;
    assert_eq!(
        FqHold::config(&asked).expect("it can be held").0.limit,
        4_036
    );
    let mut slow = group();
    slow.rate = Rate::BytesPerSecond(125);
    let (class, _) = HtbHold::limits(&asked, &slow).expect("limits");
    assert_eq!(class.burst, 2 * (1_522 + 24));
    asked.mpu = 65_536;
    let error = HtbHold.plan(&asked).expect_err("16 bits").to_string();
    assert!(error.contains("mpu of 65536 B"), "{error}");
}

#[test]
fn a_link_that_is_too_slow_is_refused() {
    let mut asked = limited();
    asked.link.mtu = 65_536;
    asked.line = Some(Line {
        rate: 1_000,
        capacity: 1,
    });
    let [fq, htb] =
        [FqHold.plan(&asked), HtbHold.plan(&asked)].map(|plan| match plan.expect_err("too slow") {
            error @ Error::Refused { .. } => error.to_string(),
            other => panic!("{other}"),
        });
    assert!(
        fq.contains("one frame of 65558 B") && fq.contains("1093 B/s"),
        "{fq}"
    );
    assert!(
        htb.contains("two frames of 65558 B") && htb.contains("2186 B/s"),
        "{htb}"
    );
}

#[test]
fn htb_puts_all_slots_below_the_link() {
    let mut asked = limited();
    asked.groups.push(many());
    let plan = HtbHold.plan(&asked).expect("a plan");
    let classes: Vec<_> = plan
        .ops
        .iter()
        .filter_map(|op| match op {
            Op::SetClass {
                classid,
                parent,
                config: ClassConfig::Htb(config),
            } => Some((*classid, *parent, *config)),
            _ => None,
        })
        .collect();
    let link_class = HANDLE | 0xffff;
    let rest = queue(rest_slot(&asked).expect("a link"));
    assert_eq!(classes.len(), 2 + 1 + 1_025);
    let (id, parent, config) = classes[0];
    assert_eq!((id, parent), (link_class, HANDLE));
    // 4 ms of 2.5 MB/s.
    assert_eq!(
        (config.rate, config.ceil, config.burst),
        (2_500_000, 2_500_000, 10_000)
    );
    let (id, parent, config) = classes[1];
    assert_eq!((id, parent, id), (rest, link_class, 0x1eaf_fffe));
    assert_eq!(
        (config.rate, config.ceil, config.ceil_burst),
        (1, 2_500_000, 10_000)
    );
    // Each asks the link before it sends.
    for (_, parent, config) in &classes[2..] {
        let HtbClassConfig {
            rate,
            burst,
            ceil,
            ceil_burst,
            ..
        } = *config;
        assert_eq!((*parent, rate, burst), (link_class, 1, 0));
        assert_eq!((ceil, ceil_burst), (1_250_000, 5_000));
    }
    // A key's queue can be full of what waits for the link.
    let (_, leaf) = HtbHold::limits(&asked, &group()).expect("limits");
    assert_eq!(leaf.limit, 250_000 + 5_000 + 65_536 + 1_000_000);
    let text = plan.notices.join("; ");
    assert!(
        text.contains("10000 B leave at once") && text.contains("1024 keys"),
        "{text}"
    );
    assert_eq!(rest_slot(&ask()), None);
}

#[test]
fn l39_a_difference_of_the_link_is_named() {
    let asked = limited();
    let (qdiscs, classes) = kernel(&asked);
    let verify = |classes: &[Class]| match HtbHold.verify(&asked, &qdiscs, classes) {
        Err(error) => error.to_string(),
        Ok(()) => String::new(),
    };
    assert_eq!(verify(&classes), "");
    let changed = |at: usize, change: fn(&mut HtbClassConfig)| {
        let (line, mut classes) = (line(), classes.clone());
        let mut config = match at {
            0 => HtbClassConfig {
                rate: line.rate,
                burst: 10_000,
                ceil: line.rate,
                ceil_burst: 10_000,
                quantum: 1_500,
                per_packet: PerPacket::default(),
            },
            _ => HtbHold::limits(&asked, &group()).expect("limits").0,
        };
        change(&mut config);
        classes[at].options = Some(config.encode());
        verify(&classes)
    };
    assert_eq!(changed(0, |_| {}), "");
    assert_eq!(changed(2, |_| {}), "");
    for (at, change, says) in [
        (
            0,
            (|c| c.rate = 7) as fn(&mut HtbClassConfig),
            "1eaf:ffff, rate in B/s is 7 instead of 2500000",
        ),
        (
            0,
            |c| c.ceil = 7,
            "1eaf:ffff, ceil in B/s is 7 instead of 2500000",
        ),
        (2, |c| c.rate = 2, "1eaf:1, rate in B/s is 2 instead of 1"),
        (
            2,
            |c| c.ceil_burst = 9_000,
            "1eaf:1, cburst is 7200000 ns instead of 4000000 ns",
        ),
        (2, |c| c.quantum = 1, "1eaf:1, quantum is 1 instead of 1522"),
        (
            2,
            |c| c.per_packet.overhead = 4,
            "1eaf:1, overhead is 4 instead of 0",
        ),
        (
            2,
            |c| c.per_packet.mpu = 64,
            "1eaf:1, mpu is 64 instead of 0",
        ),
    ] {
        let error = changed(at, change);
        assert!(
            error.starts_with("not enforced on v0") && error.contains(says),
            "{error}"
        );
    }
    let mut moved = classes.clone();
    moved[2].parent = ROOT;
    let error = verify(&moved);
    assert!(
        error.contains("1eaf:1, parent is root instead of 1eaf:ffff"),
        "{error}"
    );
}

fn placed(kind: &str, parent: u32, config: QdiscConfig, dropped: u32) -> Qdisc {
    Qdisc {
        kind: kind.to_owned(),
        handle: if parent == ROOT { HANDLE } else { 0x8001_0000 },
        parent,
        options: config.encode(),
        stats: Stats {
            sent_packets: u64::from(100 - dropped),
            dropped,
            backlog_packets: 4,
            backlog_bytes: 400,
        },
        fq: Some(FqStats {
            flow_limit_drops: 1,
            horizon_drops: 2,
        }),
    }
}

#[test]
fn what_runs_with_fq_is_compared_and_counted_once() {
    let asked = limited();
    let config = FqHold::config(&asked).expect("it can be held").0;
    let tree = |tbf: TbfConfig, parent| {
        [
            placed("tbf", ROOT, QdiscConfig::Tbf(tbf), 9),
            placed("fq", parent, QdiscConfig::Fq(config.clone()), 7),
        ]
    };
    let verify = |qdiscs: &[Qdisc]| match FqHold.verify(&asked, qdiscs, &[]) {
        Err(error) => error.to_string(),
        Ok(()) => String::new(),
    };
    let right = tbf(&asked);
    assert_eq!(verify(&tree(right, HANDLE | 1)), "");
    for (wrong, says) in [
        (
            TbfConfig { rate: 9, ..right },
            "of the root tbf, rate in B/s is 9",
        ),
        (
            TbfConfig {
                burst: 9_000,
                ..right
            },
            "of the root tbf, burst is 3600000 ns instead of",
        ),
        (
            TbfConfig { limit: 9, ..right },
            "of the root tbf, limit is 9 instead of 1000000",
        ),
        (
            TbfConfig {
                per_packet: PerPacket {
                    overhead: 9,
                    mpu: 0,
                },
                ..right
            },
            "of the root tbf, overhead is 9 instead of 0",
        ),
    ] {
        // The burst in time has the overhead in it; it is the field that is named first.
        let error = verify(&tree(wrong, HANDLE | 1));
        assert!(
            error.contains(says) || wrong.per_packet != right.per_packet,
            "{error}"
        );
        assert!(!error.is_empty());
    }
    let error = verify(&tree(right, 0x8001_0001));
    assert!(error.contains("no fq where it should be"), "{error}");
    let mut fifo = tree(right, HANDLE | 1);
    fifo[1].kind = "bfifo".to_owned();
    assert!(
        verify(&fifo).contains("class 1eaf:1 has the qdisc bfifo"),
        "{}",
        verify(&fifo)
    );

    let stats = FqHold.stats(&tree(right, HANDLE | 1), &[]);
    assert_eq!((stats.backlog_packets, stats.backlog_bytes), (4, 400));
    // tbf's nine are the seven of fq and two of its own.
    assert_eq!((stats.dropped_packets, stats.sent_packets), (9, 91));
    let by_reason = [
        ("fq_limit", 4),
        ("fq_flow_limit", 1),
        ("fq_horizon", 2),
        ("tbf", 2),
    ];
    assert_eq!(stats.drops, by_reason);
}

#[test]
fn a_kernel_that_does_not_know_the_mpu_is_told_of() {
    let mut asked = limited();
    (asked.overhead, asked.mpu) = (24, 84);
    let (qdiscs, mut classes) = kernel(&asked);
    assert_eq!(HtbHold.left_out(&asked, &qdiscs, &classes), None);
    for class in &mut classes {
        let options = class.options.as_mut().expect("options");
        // Attribute header (4), then two rate specs with the mpu at 6.
        for at in [4 + 6, 4 + 12 + 6] {
            options[at..at + 2].copy_from_slice(&[0, 0]);
        }
    }
    HtbHold
        .verify(&asked, &qdiscs, &classes)
        .expect("no difference");
    let notice = HtbHold
        .left_out(&asked, &qdiscs, &classes)
        .expect("a notice");
    assert!(notice.contains("without the mpu of 84 B"), "{notice}");

    let mut root = placed("tbf", ROOT, QdiscConfig::Tbf(tbf(&asked)), 0);
    assert_eq!(
        FqHold.left_out(&asked, std::slice::from_ref(&root), &[]),
        None
    );
    root.options.as_mut().expect("options")[4 + 6..4 + 8].copy_from_slice(&[0, 0]);
    assert!(FqHold.left_out(&asked, &[root], &[]).is_some());
}

#[test]
fn a_capacity_in_packets_goes_with_a_limited_link_on_fq() {
    let mut asked = limited();
    asked.groups[0].rate = Rate::PacketsPerSecond(100);
    asked.groups[0].capacity = Content::Packets(20);
    assert_eq!(
        FqHold::config(&asked).expect("it can be held").0.limit,
        117_220
    );
}
