//! Installing and removing on the kernel in memory.

use super::{ask, group, line, link, many};
use crate::hold::{
    Cleared, Content, Error, HoldKind, HoldMode, Previous, Record, Setup, clear, install, previous,
};
use crate::net::fake::{Fake, Snapshot};
use crate::net::{Link, LinkEvent, LinkWatch, Net, Op, QdiscConfig, ROOT};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

const ALL: [&str; 5] = ["fq", "mq", "htb", "tbf", "pfifo"];

/// A folder for one test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("leaky-hold-{}-{number}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    fn setup(&self, mode: HoldMode) -> Setup {
        Setup {
            mode,
            replace_root: false,
            record: self.0.join("deep/record.json"),
        }
    }

    fn is_empty(&self) -> bool {
        std::fs::read_dir(self.0.join("deep")).map_or(true, |mut files| files.next().is_none())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("runtime")
        .block_on(work)
}

fn with_pfifo(net: &Fake) -> Snapshot {
    let options = Some(9_u32.to_ne_bytes().to_vec());
    let config = QdiscConfig::Raw {
        kind: "pfifo".to_owned(),
        options,
    };
    let op = Op::SetQdisc {
        parent: ROOT,
        handle: 0x0077_0000,
        config,
    };
    wait(net.apply(7, &[op])).expect("pfifo");
    net.snapshot()
}

#[test]
fn each_hold_comes_and_goes() {
    for (kinds, tx_queues, expected) in [
        (&ALL[..], 1, HoldKind::Fq),
        (&ALL[..], 8, HoldKind::Fq),
        (&ALL[2..], 1, HoldKind::Htb),
        (&ALL[2..], 8, HoldKind::Htb),
    ] {
        let folder = Folder::new();
        let net = Fake::new(
            Link {
                tx_queues,
                ..link()
            },
            kinds,
        );
        let before = net.snapshot();
        let mut asked = ask();
        asked.link.tx_queues = tx_queues;
        asked.groups = vec![many()];
        asked.gso_max_segs = Some(2);
        let installed =
            wait(install(&net, asked, folder.setup(HoldMode::Auto))).expect("installed");
        assert_eq!(installed.kind(), expected);
        assert_eq!(net.snapshot().link.map(|l| l.gso_max_segs), Some(2));
        assert_eq!(previous(&net.snapshot().qdiscs), Previous::Ours);
        assert_eq!(
            wait(installed.stats(&net)).expect("stats").dropped_packets,
            0
        );
        wait(installed.remove(&net)).expect("removed");
        assert_eq!(net.snapshot(), before);
        assert!(folder.is_empty());
    }
}

#[test]
fn a_failure_anywhere_leaves_nothing() {
    for kinds in [&ALL[..], &ALL[2..]] {
        let folder = Folder::new();
        let net = Fake::new(link(), kinds);
        let before = with_pfifo(&net);
        let mut setup = folder.setup(HoldMode::Auto);
        setup.replace_root = true;
        let mut asked = ask();
        asked.gso_max_segs = Some(2);
        for at in 0.. {
            net.fail_at(at, libc::ENOMEM);
            match wait(install(&net, asked.clone(), setup.clone())) {
                Err(error) => assert!(matches!(error, Error::Apply(_)), "{error}"),
                Ok(installed) => {
                    assert!(at >= 2, "{at}");
                    net.fail_at(usize::MAX / 2, 0);
                    wait(installed.remove(&net)).expect("removed");
                    break;
                }
            }
            assert_eq!(net.snapshot(), before, "at {at}");
            assert!(folder.is_empty(), "at {at}");
        }
        assert_eq!(net.snapshot(), before);
    }
}

#[test]
fn a_foreign_root_is_respected() {
    let folder = Folder::new();
    let net = Fake::new(link(), &ALL);
    let before = with_pfifo(&net);
    let mut setup = folder.setup(HoldMode::Auto);
    let error = wait(install(&net, ask(), setup.clone()))
        .err()
        .expect("it is somebody's");
    assert!(error.to_string().contains("--replace-root"), "{error}");
    assert_eq!(net.snapshot(), before);
    assert!(folder.is_empty());

    setup.replace_root = true;
    net.set_filters(2);
    let error = wait(install(&net, ask(), setup.clone()))
        .err()
        .expect("it has filters");
    assert!(error.to_string().contains("2 filters"), "{error}");
    net.set_filters(0);
    let installed = wait(install(&net, ask(), setup)).expect("installed");
    wait(installed.remove(&net)).expect("removed");
    assert_eq!(net.snapshot(), before);
}

#[test]
fn what_a_dead_leaky_left_is_taken_over() {
    let folder = Folder::new();
    let net = Fake::new(link(), &ALL);
    let before = with_pfifo(&net);
    let mut setup = folder.setup(HoldMode::Fq);
    setup.replace_root = true;
    let mut asked = ask();
    asked.gso_max_segs = Some(2);
    drop(wait(install(&net, asked.clone(), setup.clone())).expect("installed"));
    let record = Record::read(&setup.record)
        .expect("readable")
        .expect("a record");
    assert_eq!(record.gso_max_segs, Some((65_535, 2)));
    // The next one, with another hold, restores first and replaces then.
    setup.mode = HoldMode::Htb;
    asked.link.gso_max_segs = 2;
    let second = wait(install(&net, asked, setup.clone())).expect("installed");
    assert_eq!(second.kind(), HoldKind::Htb);
    drop(second);
    assert_eq!(
        wait(clear(&net, &link(), &setup.record)).expect("cleared"),
        Cleared::Restored
    );
    assert_eq!(net.snapshot(), before);
    assert_eq!(
        wait(clear(&net, &link(), &setup.record)).expect("cleared"),
        Cleared::Nothing
    );
    assert!(folder.is_empty());
}

#[test]
fn a_broken_record_is_no_obstacle() {
    let folder = Folder::new();
    let net = Fake::new(link(), &ALL);
    let before = net.snapshot();
    let setup = folder.setup(HoldMode::Fq);
    drop(wait(install(&net, ask(), setup.clone())).expect("installed"));
    std::fs::write(&setup.record, "{\"version\":1,").expect("written");
    let cleared = wait(clear(&net, &link(), &setup.record)).expect("cleared");
    assert_eq!(cleared, Cleared::RemovedWithoutRecord);
    assert_eq!(net.snapshot(), before);
    assert!(folder.is_empty());
}

#[test]
fn adapting_changes_in_place_or_not_at_all() {
    let folder = Folder::new();
    let net = Fake::new(link(), &ALL[2..]);
    let before = net.snapshot();
    let mut asked = ask();
    asked.gso_max_segs = Some(2);
    let mut installed =
        wait(install(&net, asked.clone(), folder.setup(HoldMode::Auto))).expect("installed");
    let during = net.snapshot();
    let mut jumbo = asked.clone();
    jumbo.link = Link {
        mtu: 9_000,
        gso_max_segs: 2,
        ..link()
    };
    jumbo.groups[0].capacity = Content::Bytes(1 << 33);
    let error = wait(installed.adapt(&net, jumbo.clone())).expect_err("too much");
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    jumbo.groups[0].capacity = Content::Bytes(500_000);
    net.fail_at(1, libc::ENOBUFS);
    let error = wait(installed.adapt(&net, jumbo.clone())).expect_err("told to fail");
    assert!(matches!(error, Error::Apply(_)), "{error}");
    assert_eq!(net.snapshot(), during);
    wait(installed.verify(&net)).expect("as before");

    let ops = net.executed();
    wait(installed.adapt(&net, jumbo.clone())).expect("adapted");
    assert_eq!(
        net.executed() - ops,
        3,
        "one class, one leaf, the GSO limit"
    );
    assert_eq!(installed.ask(), &jumbo);
    net.count(|qdiscs, _| qdiscs[0].options = None);
    let error = wait(installed.verify(&net)).expect_err("somebody changed it");
    assert!(matches!(error, Error::NotEnforced { .. }), "{error}");
    wait(installed.remove(&net)).expect("removed");
    assert_eq!(net.snapshot(), before);
}

#[test]
fn the_interface_may_go_away() {
    let folder = Folder::new();
    let net = Fake::new(link(), &ALL);
    let mut watch = wait(net.watch(7)).expect("a watch");
    let installed = wait(install(&net, ask(), folder.setup(HoldMode::Auto))).expect("installed");
    net.set_link(None);
    assert_eq!(wait(watch.next()).expect("an event"), LinkEvent::Removed);
    assert!(wait(installed.stats(&net)).is_err());
    wait(installed.remove(&net)).expect("nothing to put back");
    assert!(folder.is_empty());
}

#[test]
fn no_place_for_the_record_is_an_error_before_anything_changes() {
    let net = Fake::new(link(), &ALL);
    let before = net.snapshot();
    let record = PathBuf::from("/dev/null/record.json");
    let setup = Setup {
        mode: HoldMode::Auto,
        replace_root: false,
        record,
    };
    let error = wait(install(&net, ask(), setup))
        .err()
        .expect("no such folder");
    assert!(matches!(error, Error::Record { .. }), "{error}");
    assert!(
        error.to_string().contains("/dev/null/record.json"),
        "{error}"
    );
    assert_eq!(net.snapshot(), before);
}

#[test]
fn with_a_limited_link_too() {
    for (kinds, expected) in [(&ALL[..], HoldKind::Fq), (&ALL[2..], HoldKind::Htb)] {
        let folder = Folder::new();
        let net = Fake::new(
            Link {
                tx_queues: 8,
                ..link()
            },
            kinds,
        );
        let before = with_pfifo(&net);
        let mut setup = folder.setup(HoldMode::Auto);
        setup.replace_root = true;
        let mut asked = ask();
        asked.link.tx_queues = 8;
        asked.line = Some(line());
        for at in 0..3 {
            net.fail_at(at, libc::ENOMEM);
            let error = wait(install(&net, asked.clone(), setup.clone())).err();
            assert!(error.is_some() || at == 2, "at {at}");
            if error.is_none() {
                break;
            }
            assert_eq!(net.snapshot(), before, "at {at}");
        }
        net.fail_at(usize::MAX / 2, 0);
        wait(clear(&net, &link(), &setup.record)).expect("cleared");
        assert_eq!(net.snapshot(), before);

        let mut installed = wait(install(&net, asked.clone(), setup)).expect("installed");
        assert_eq!(installed.kind(), expected);
        let during = net.snapshot();
        // One more group, and one that cannot be done: all or nothing.
        asked.groups.push(group());
        net.fail_at(1, libc::ENOBUFS);
        let error = wait(installed.adapt(&net, asked.clone())).expect_err("told to fail");
        assert!(matches!(error, Error::Apply(_)), "{error}");
        assert_eq!(net.snapshot(), during);
        wait(installed.adapt(&net, asked.clone())).expect("adapted");
        asked.line = None;
        let error = wait(installed.adapt(&net, asked)).expect_err("not under way");
        assert!(error.to_string().contains("start leaky again"), "{error}");
        wait(installed.verify(&net)).expect("as before");
        wait(installed.remove(&net)).expect("removed");
        assert_eq!(net.snapshot(), before);
    }
}
