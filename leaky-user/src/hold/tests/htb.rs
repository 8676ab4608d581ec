use super::ask;
use crate::hold::{Ask, Content, Error, Hold, HtbHold, OVERFLOW_SLOT, SLOTS, queue};
use crate::net::{Class, ClassConfig, Op, Qdisc, QdiscConfig, ROOT, Stats};
use crate::units::Rate;
use proptest::prelude::*;

#[test]
fn the_limits_of_a_slot() {
    let (class, leaf) = HtbHold::limits(&ask()).expect("it can be held");
    // 4 ms of 1.25 MB/s.
    assert_eq!(
        (class.rate, class.burst, class.quantum),
        (1_250_000, 5_000, 1_522)
    );
    assert_eq!(
        (leaf.rate, leaf.burst, leaf.limit),
        (12_500_000_000, 3_100, 320_536)
    );
    let mut slow = ask();
    slow.rate = Rate::BytesPerSecond(125);
    let (class, _) = HtbHold::limits(&slow).expect("it can be held");
    assert_eq!(class.burst, 3_044, "two frames");
    let mut jumbo = ask();
    jumbo.link.mtu = 9_000;
    let (class, leaf) = HtbHold::limits(&jumbo).expect("it can be held");
    assert_eq!(
        (class.burst, class.quantum, leaf.burst),
        (18_044, 9_022, 9_022)
    );
    assert!(leaf.rate > 70_000_000_000, "{leaf:?}");
    let mut lo = ask();
    lo.link.mtu = 65_536;
    let (_, leaf) = HtbHold::limits(&lo).expect("it can be held");
    assert_eq!(leaf.burst, 65_558);
}

#[test]
fn what_it_cannot_keep_is_refused_by_name() {
    let refused = |change: fn(&mut Ask)| {
        let mut asked = ask();
        change(&mut asked);
        match HtbHold.plan(&asked).expect_err("it cannot be held") {
            error @ Error::Refused { .. } => error.to_string(),
            other => panic!("{other}"),
        }
    };
    let packets = refused(|a| {
        a.rate = Rate::PacketsPerSecond(5);
        a.capacity = Content::Packets(20);
    });
    assert!(packets.contains("need fq"), "{packets}");
    // 65,558 B twice in 60 s.
    let slow = refused(|a| {
        a.link.mtu = 65_536;
        a.rate = Rate::BytesPerSecond(2_185);
    });
    assert!(slow.contains("2186 B/s"), "{slow}");
    let large = refused(|a| a.capacity = Content::Bytes(4_294_896_760));
    assert!(large.contains("4294896759 B"), "{large}");
    let mut just = ask();
    just.capacity = Content::Bytes(4_294_896_759);
    HtbHold.plan(&just).expect("the largest capacity");
    just.link.mtu = 65_536;
    just.capacity = Content::Bytes(250_000);
    just.rate = Rate::BytesPerSecond(2_186);
    HtbHold.plan(&just).expect("the lowest rate");
}

#[test]
fn slots_have_class_ids() {
    assert_eq!(queue(0), 0x1eaf_0001);
    assert_eq!(queue(OVERFLOW_SLOT), 0x1eaf_0401);
    let plan = HtbHold.plan(&ask()).expect("a plan");
    assert_eq!(plan.ops.len(), 3);
    let mut flows = ask();
    flows.per_flow = true;
    let plan = HtbHold.plan(&flows).expect("a plan");
    assert_eq!(plan.ops.len(), 1 + 2 * SLOTS as usize);
    assert!(plan.notices[0].contains("1024 flows"), "{:?}", plan.notices);
    assert_eq!(HtbHold.change(&flows).expect("a plan").ops, plan.ops[1..]);
}

/// The state that the operations of a plan make, with some counters.
fn kernel(asked: &Ask) -> (Vec<Qdisc>, Vec<Class>) {
    let (mut qdiscs, mut classes) = (Vec::new(), Vec::new());
    let stats = Stats {
        dropped: 3,
        backlog_packets: 2,
        backlog_bytes: 200,
        ..Stats::default()
    };
    for op in HtbHold.plan(asked).expect("a plan").ops {
        match op {
            Op::SetQdisc {
                parent,
                handle,
                config,
            } => qdiscs.push(Qdisc {
                kind: config.kind().to_owned(),
                handle: if parent == ROOT { handle } else { parent << 16 },
                parent,
                options: config.encode(),
                stats,
                fq: None,
            }),
            Op::SetClass {
                classid, config, ..
            } => classes.push(Class {
                kind: "htb".to_owned(),
                classid,
                parent: ROOT,
                leaf: 0,
                options: Some(config.encode().1),
                stats: Stats {
                    dropped: 1,
                    ..Stats::default()
                },
            }),
            _ => {}
        }
    }
    (qdiscs, classes)
}

#[test]
fn what_runs_is_compared() {
    let mut flows = ask();
    flows.per_flow = true;
    let (qdiscs, classes) = kernel(&flows);
    let verify = |q: &[Qdisc], c: &[Class]| HtbHold.verify(&flows, q, c).map_err(|e| e.to_string());
    assert_eq!(verify(&qdiscs, &classes), Ok(()));
    let says = |error: Result<(), String>, text: &str| {
        let error = error.expect_err(text);
        assert!(error.contains(text), "{error}");
    };
    says(verify(&[], &classes), "no root");
    says(verify(&qdiscs, &classes[1..]), "class 1eaf:1 is missing");
    says(
        verify(&qdiscs[..SLOTS as usize], &classes),
        "class 1eaf:401 has no tbf",
    );
    let mut other = qdiscs.clone();
    other[0].options = QdiscConfig::Htb {
        default: 1,
        direct_packets: 1_000,
    }
    .encode();
    says(verify(&other, &classes), "other options");
    other[0].kind = "pfifo".to_owned();
    says(verify(&other, &classes), "pfifo 1eaf: instead of htb");
    let mut other = qdiscs.clone();
    other[9].kind = "pfifo".to_owned();
    says(verify(&other, &classes), "class 1eaf:9 has no tbf");
    let mut faster = flows.clone();
    faster.rate = Rate::BytesPerSecond(1_250_001);
    let mut wrong = classes.clone();
    let (class, _) = HtbHold::limits(&faster).expect("limits");
    wrong[700].options = Some(ClassConfig::Htb(class).encode().1);
    says(verify(&qdiscs, &wrong), "class 1eaf:2bd has other limits");
}

#[test]
fn counters_of_leaves_classes_and_root() {
    let (mut qdiscs, mut classes) = kernel(&ask());
    qdiscs[0].stats.dropped = 6;
    // A GSO packet of three segments was refused: three for the leaf, one for the class.
    classes[0].stats.dropped = 1;
    let stats = HtbHold.stats(&qdiscs, &classes);
    assert_eq!((stats.backlog_packets, stats.backlog_bytes), (2, 200));
    assert_eq!(
        (stats.dropped_packets, stats.passed_dropped_packets),
        (3, 5)
    );
    assert_eq!(stats.drops, [("htb_limit", 3)]);
}

proptest! {
    #[test]
    fn every_accepted_ask_has_room(
        rate in 125..50_000_000_000_u64,
        capacity in 1..1_u64 << 33,
        mtu in 68..65_536_u32,
        largest_packet in 60..200_000_u64,
    ) {
        let mut asked = ask();
        asked.rate = Rate::BytesPerSecond(rate);
        asked.capacity = Content::Bytes(capacity);
        asked.link.mtu = mtu;
        asked.largest_packet = largest_packet;
        let Ok((class, leaf)) = HtbHold::limits(&asked) else {
            // Only for the two reasons there are.
            let two_frames = 2 * u64::from(asked.link.full_frame());
            let burst = two_frames.max(rate / 250 + 1);
            prop_assert!(
                two_frames > 60 * rate - rate / 1_000
                    || capacity.max(largest_packet) + burst + 65_536 > u64::from(u32::MAX)
            );
            return Ok(());
        };
        prop_assert!(u64::from(leaf.limit) >= capacity + class.burst + 65_536);
        prop_assert!(class.burst >= 2 * u64::from(asked.link.full_frame()));
        prop_assert!(class.burst * 250 >= rate);
        prop_assert!(leaf.burst >= asked.link.full_frame(), "full frames pass");
        prop_assert!(leaf.rate > rate);
        prop_assert!(class.reads_back(&class.encode()));
    }
}
