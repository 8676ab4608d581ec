//! Lists of operations that fail somewhere, on the kernel in memory.

use super::fake::Fake;
use super::{
    ClassConfig, HtbClassConfig, Layer, Link, Net, Op, PerPacket, QdiscConfig, ROOT, TbfConfig,
};
use proptest::prelude::*;

const MAJOR: u32 = 0x1eaf_0000;

fn link() -> Link {
    Link {
        index: 7,
        name: "v0".to_owned(),
        mtu: 1_500,
        layer: Layer::Ethernet,
        loopback: false,
        up: true,
        tx_queues: 1,
        gso_max_segs: 65_535,
        gso_max_size: 65_536,
    }
}

fn fake() -> Fake {
    Fake::new(link(), &["htb", "tbf", "pfifo", "mq", "fq"])
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("runtime")
        .block_on(work)
}

fn set_root(handle: u32) -> Op {
    let config = QdiscConfig::Htb {
        default: 0,
        direct_packets: 1_000,
    };
    Op::SetQdisc {
        parent: ROOT,
        handle,
        config,
    }
}

fn set_class(classid: u32, rate: u64) -> Op {
    let config = ClassConfig::Htb(HtbClassConfig {
        rate,
        burst: 5_000,
        ceil: rate,
        ceil_burst: 5_000,
        quantum: 1_522,
        per_packet: PerPacket::default(),
    });
    Op::SetClass {
        classid,
        parent: classid & 0xffff_0000,
        config,
    }
}

fn set_leaf(parent: u32, limit: u32) -> Op {
    let config = QdiscConfig::Tbf(TbfConfig {
        rate: 12_500_000_000,
        burst: 3_100,
        limit,
        per_packet: PerPacket::default(),
    });
    Op::SetQdisc {
        parent,
        handle: 0,
        config,
    }
}

fn pfifo(handle: u32) -> Op {
    let options = Some(100_u32.to_ne_bytes().to_vec());
    let config = QdiscConfig::Raw {
        kind: "pfifo".to_owned(),
        options,
    };
    Op::SetQdisc {
        parent: ROOT,
        handle,
        config,
    }
}

/// Applies `ops` once for each operation in it, letting that one fail, and checks that nothing
/// stays.
fn fails_everywhere(before: &[Op], ops: &[Op]) {
    let net = fake();
    wait(net.apply(7, before)).expect("the start");
    let start = net.snapshot();
    for at in 0..ops.len() {
        net.fail_at(at, libc::ENOMEM);
        let error = wait(net.apply(7, ops)).expect_err("it was told to fail");
        assert!(error.undo.is_empty(), "at {at}: {error}");
        assert!(error.to_string().contains("ENOMEM"), "{error}");
        assert!(error.to_string().contains(&ops[at].to_string()), "{error}");
        assert_eq!(net.snapshot(), start, "at {at}");
    }
    wait(net.apply(7, ops)).expect("without a failure");
}

#[test]
fn from_the_kernels_default() {
    let mut ops = vec![Op::SetGsoMaxSegs(2), set_root(MAJOR)];
    ops.extend((1..=20).map(|n| set_class(MAJOR | n, 1_250_000)));
    ops.extend((1..=20).map(|n| set_leaf(MAJOR | n, 300_000)));
    fails_everywhere(&[], &ops);
}

#[test]
fn over_a_foreign_root() {
    fails_everywhere(
        &[pfifo(0x0077_0000)],
        &[set_root(MAJOR), set_class(MAJOR | 1, 125)],
    );
}

#[test]
fn in_place() {
    let start = [
        set_root(MAJOR),
        set_class(MAJOR | 1, 125),
        set_leaf(MAJOR | 1, 1),
    ];
    let change = [
        set_class(MAJOR | 1, 250),
        set_leaf(MAJOR | 1, 2),
        set_class(MAJOR | 2, 250),
    ];
    fails_everywhere(&start, &change);
}

#[test]
fn deleting_a_whole_tree() {
    let mut start = vec![set_root(MAJOR)];
    start.extend((1..=5).map(|n| set_class(MAJOR | n, 1_250_000)));
    start.extend((1..=5).map(|n| set_leaf(MAJOR | n, 300_000)));
    let ops = [
        Op::DeleteClass { classid: MAJOR | 3 },
        Op::DeleteQdisc {
            parent: ROOT,
            handle: MAJOR,
        },
        pfifo(0x0077_0000),
        Op::SetGsoMaxSegs(9),
    ];
    fails_everywhere(&start, &ops);
}

#[test]
fn many_queues() {
    let net = Fake::new(
        Link {
            tx_queues: 4,
            ..link()
        },
        &["mq", "fq"],
    );
    let start = net.snapshot();
    let fq = || QdiscConfig::Raw {
        kind: "fq".to_owned(),
        options: None,
    };
    let mut ops = vec![Op::SetQdisc {
        parent: ROOT,
        handle: MAJOR,
        config: QdiscConfig::Mq,
    }];
    ops.extend((1..=4).map(|n| Op::SetQdisc {
        parent: MAJOR | n,
        handle: 0,
        config: fq(),
    }));
    for at in 0..ops.len() {
        net.fail_at(at, libc::ENOENT);
        wait(net.apply(7, &ops)).expect_err("it was told to fail");
        assert_eq!(net.snapshot(), start, "at {at}");
    }
}

#[test]
fn what_cannot_be_undone_is_said() {
    let net = fake();
    net.fail_from(1, libc::EIO);
    let ops = [Op::SetGsoMaxSegs(2), set_root(MAJOR)];
    let error = wait(net.apply(7, &ops)).expect_err("told to fail");
    assert_eq!(error.undo.len(), 1);
    let text = error.to_string();
    assert!(text.contains("not everything could be put back"), "{text}");
    assert!(text.contains("cannot set gso_max_segs to 65535"), "{text}");
    let gone = Fake::new(link(), &[]);
    gone.set_link(None);
    let error = wait(gone.apply(7, &ops)).expect_err("no interface");
    assert!(error.failed.is_interface_gone(), "{error}");
}

#[test]
fn nothing_to_do_asks_nobody() {
    let gone = fake();
    gone.set_link(None);
    wait(gone.apply(7, &[])).expect("nothing to do");
}

fn any_op() -> impl Strategy<Value = Op> {
    let id = (1..5_u32).prop_map(|n| MAJOR | n);
    prop_oneof![
        1 => Just(set_root(MAJOR)),
        1 => Just(pfifo(0x0077_0000)),
        1 => Just(Op::DeleteQdisc { parent: ROOT, handle: MAJOR }),
        4 => (id.clone(), 125..1_000_u64).prop_map(|(id, rate)| set_class(id, rate)),
        4 => (id.clone(), 1..1_000_u32).prop_map(|(id, limit)| set_leaf(id, limit)),
        1 => id.clone().prop_map(|classid| Op::DeleteClass { classid }),
        1 => id.prop_map(|parent| Op::DeleteQdisc { parent, handle: 0 }),
        1 => (1..100_u32).prop_map(Op::SetGsoMaxSegs),
    ]
}

proptest! {
    #[test]
    fn any_list_is_all_or_nothing(
        start in proptest::collection::vec(any_op(), 0..12),
        ops in proptest::collection::vec(any_op(), 1..12),
        fail in proptest::option::of(0..12_usize),
    ) {
        let net = fake();
        for op in start {
            // Those that make no sense fail, and leave nothing.
            let _ = wait(net.apply(7, &[op]));
        }
        let before = net.snapshot();
        if let Some(at) = fail {
            net.fail_at(at, libc::ENOMEM);
        }
        if let Err(error) = wait(net.apply(7, &ops)) {
            prop_assert!(error.undo.is_empty(), "{}", error);
            let mut after = net.snapshot();
            // Leaves that were made again may have other handles.
            for (qdisc, was) in after.qdiscs.iter_mut().zip(&before.qdiscs) {
                if qdisc.parent != ROOT {
                    qdisc.handle = was.handle;
                }
            }
            prop_assert_eq!(after, before);
        }
    }
}
