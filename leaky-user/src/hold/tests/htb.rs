use super::{ask, group, many};
use crate::hold::{Ask, Content, Error, FLOW_SLOTS, Hold, HtbHold, Slots, queue, slots};
use crate::net::{Class, ClassConfig, Op, Qdisc, QdiscConfig, ROOT, Stats};
use crate::units::Rate;
use proptest::prelude::*;

#[test]
fn the_limits_of_a_slot() {
    let (class, leaf) = HtbHold::limits(&ask(), &group()).expect("it can be held");
    assert_eq!((class.ceil, class.ceil_burst), (class.rate, class.burst));
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
    slow.groups[0].rate = Rate::BytesPerSecond(125);
    let (class, _) = HtbHold::limits(&slow, &slow.groups[0]).expect("it can be held");
    assert_eq!(class.burst, 3_044, "two frames");
    let mut jumbo = ask();
    jumbo.link.mtu = 9_000;
    let (class, leaf) = HtbHold::limits(&jumbo, &jumbo.groups[0]).expect("it can be held");
    assert_eq!(
        (class.burst, class.quantum, leaf.burst),
        (18_044, 9_022, 9_022)
    );
    assert!(leaf.rate > 70_000_000_000, "{leaf:?}");
    let mut lo = ask();
    lo.link.mtu = 65_536;
    let (_, leaf) = HtbHold::limits(&lo, &lo.groups[0]).expect("it can be held");
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
        a.groups[0].rate = Rate::PacketsPerSecond(5);
        a.groups[0].capacity = Content::Packets(20);
    });
    assert!(packets.contains("need fq"), "{packets}");
    // 65,558 B twice in 60 s.
    let slow = refused(|a| {
        a.link.mtu = 65_536;
        a.groups[0].rate = Rate::BytesPerSecond(2_185);
    });
    assert!(slow.contains("2186 B/s"), "{slow}");
    let large = refused(|a| a.groups[0].capacity = Content::Bytes(4_294_896_760));
    assert!(large.contains("4294896759 B"), "{large}");
    let mut just = ask();
    just.groups[0].capacity = Content::Bytes(4_294_896_759);
    HtbHold.plan(&just).expect("the largest capacity");
    just.link.mtu = 65_536;
    just.groups[0].capacity = Content::Bytes(250_000);
    just.groups[0].rate = Rate::BytesPerSecond(2_186);
    HtbHold.plan(&just).expect("the lowest rate");
}

#[test]
fn slots_have_class_ids() {
    assert_eq!(queue(0), 0x1eaf_0001);
    assert_eq!(queue(FLOW_SLOTS), 0x1eaf_0401);
    let plan = HtbHold.plan(&ask()).expect("a plan");
    assert_eq!(plan.ops.len(), 3);
    let mut flows = ask();
    flows.groups = vec![many()];
    let plan = HtbHold.plan(&flows).expect("a plan");
    assert_eq!(plan.ops.len(), 1 + 2 * (FLOW_SLOTS as usize + 1));
    assert!(plan.notices[0].contains("1024 keys"), "{:?}", plan.notices);
    assert_eq!(
        HtbHold.change(&flows, &flows).expect("a plan").ops,
        plan.ops[1..]
    );
}

#[test]
fn each_group_has_its_slots() {
    let with = |ones: usize, manys: usize| {
        let mut asked = ask();
        asked.groups = [vec![group(); ones], vec![many(); manys]].concat();
        slots(&asked)
    };
    let one = |n| Slots {
        own: Some(n),
        keys: n..n,
        overflow: n,
    };
    let keys = |start, n| Slots {
        own: None,
        keys: start..start + n,
        overflow: start + n,
    };
    assert_eq!(with(0, 0).expect("slots"), []);
    assert_eq!(with(2, 0).expect("slots"), [one(0), one(1)]);
    assert_eq!(
        with(1, 2).expect("slots"),
        [one(0), keys(1, 1_024), keys(1_026, 1_024)]
    );
    assert_eq!(with(0, 3).expect("slots")[2], keys(2_050, 1_024));
    // Four share what there is.
    assert_eq!(with(0, 4).expect("slots")[3], keys(3_072, 1_023));
    assert_eq!(with(64, 4).expect("slots")[4 + 63], keys(3_088, 1_007));
    // Configured clients come first; 4,000 of them leave 95 for others.
    assert_eq!(with(4_000, 1).expect("slots")[4_000], keys(4_000, 95));
    assert_eq!(with(4_096, 0).expect("slots").len(), 4_096);
    for (ones, manys) in [(4_097, 0), (0, 5), (4_064, 1), (4_000, 3)] {
        let error = with(ones, manys).expect_err("too many").to_string();
        assert!(
            error.contains("fq (module sch_fq) has no such limit"),
            "{error}"
        );
        assert!(error.contains(&format!("{manys} and {ones}")), "{error}");
    }
}

#[test]
fn groups_can_only_be_added_behind() {
    let with = |groups: &[crate::hold::Group]| Ask {
        groups: groups.to_vec(),
        ..ask()
    };
    let was = with(&[group(), many()]);
    let grown = with(&[group(), many(), group(), many()]);
    let plan = HtbHold.change(&was, &grown).expect("a plan");
    assert_eq!(plan.ops.len(), 2 * (1 + 1_025 + 1 + 1_025));
    for other in [
        with(&[group()]),
        with(&[many(), group()]),
        with(&[group(), group(), many()]),
        // The slots of the second would move.
        with(&[group(), many(), many(), many(), many()]),
    ] {
        let error = HtbHold.change(&was, &other).expect_err("it would move");
        assert!(error.to_string().contains("start leaky again"), "{error}");
    }
}

/// The state that the operations of a plan make, with some counters.
pub(super) fn kernel(asked: &Ask) -> (Vec<Qdisc>, Vec<Class>) {
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
                classid,
                parent,
                config,
            } => classes.push(Class {
                kind: "htb".to_owned(),
                classid,
                parent: if parent & 0xffff == 0 { ROOT } else { parent },
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
fn l39_what_runs_is_compared_field_by_field() {
    let mut flows = ask();
    flows.groups = vec![many()];
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
        verify(&qdiscs[..FLOW_SLOTS as usize + 1], &classes),
        "class 1eaf:401 has no tbf",
    );
    let mut other = qdiscs.clone();
    other[0].options = QdiscConfig::Htb {
        default: 1,
        direct_packets: 1_000,
    }
    .encode();
    says(
        verify(&other, &classes),
        "of the root htb, default is 1 instead of 0",
    );
    other[0].kind = "pfifo".to_owned();
    says(verify(&other, &classes), "pfifo 1eaf: instead of htb");
    let mut other = qdiscs.clone();
    other[9].kind = "pfifo".to_owned();
    says(verify(&other, &classes), "class 1eaf:9 has no tbf");
    let mut faster = flows.clone();
    faster.groups[0].rate = Rate::BytesPerSecond(1_250_001);
    let mut wrong = classes.clone();
    let (class, _) = HtbHold::limits(&faster, &faster.groups[0]).expect("limits");
    wrong[700].options = Some(ClassConfig::Htb(class).encode().1);
    says(
        verify(&qdiscs, &wrong),
        "of the class 1eaf:2bd, rate in B/s is 1250001 instead of 1250000",
    );
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
        asked.groups[0].rate = Rate::BytesPerSecond(rate);
        asked.groups[0].capacity = Content::Bytes(capacity);
        asked.link.mtu = mtu;
        asked.largest_packet = largest_packet;
        let Ok((class, leaf)) = HtbHold::limits(&asked, &asked.groups[0]) else {
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
        prop_assert_eq!(class.compare(&class.encode()), Ok(()));
    }
}
