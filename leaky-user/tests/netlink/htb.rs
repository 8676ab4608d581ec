//! The htb hold on the running kernel.

use crate::lab::{Lab, Outcome, check, many};
use crate::traffic;
use leaky_user::hold::{Content, FLOW_SLOTS, HoldKind, HoldMode, HtbHold};
use leaky_user::net::{Net, ROOT};
use leaky_user::units::Rate;
use std::time::{Duration, Instant};

/// Those of a group with a bucket for each key.
const SLOTS: usize = FLOW_SLOTS as usize + 1;

pub(crate) fn slots_come_and_go(lab: &Lab) -> Outcome {
    let link = lab.link();
    let before = lab.state(&link);
    let mut ask = lab.ask(link.clone());
    ask.groups = vec![many()];
    let start = Instant::now();
    let mut installed = lab.install(ask.clone(), HoldMode::Htb)?;
    println!(
        "1,025 slots installed and read back in {:?}",
        start.elapsed()
    );
    check!(installed.kind() == HoldKind::Htb, "{}", installed.kind());

    let shown = lab.tc("-s -d qdisc show dev v0")?;
    let root = shown.lines().next().unwrap_or_default();
    check!(
        root.starts_with("qdisc htb 1eaf: root") && root.contains("default 0"),
        "{root}"
    );
    check!(root.contains("direct_qlen 1000"), "{root}");
    let leaves = shown.lines().filter(|l| l.contains("qdisc tbf")).count();
    check!(leaves == SLOTS, "{leaves} leaves");
    // 250,000 + 5,000 of burst + 64 KiB.
    let leaf = shown
        .lines()
        .find(|l| l.contains("parent 1eaf:401 "))
        .unwrap_or_default();
    check!(leaf.contains("rate 100Gbit"), "{leaf}");
    let classes = lab.tc("-d class show dev v0")?;
    let class = classes
        .lines()
        .find(|l| l.contains(" 1eaf:401 "))
        .unwrap_or_default();
    check!(class.contains("rate 10Mbit ceil 10Mbit"), "{class}");
    check!(class.contains("quantum 1522"), "{class}");

    // A jumbo MTU: every limit follows, in place.
    lab.ip("link set v0 mtu 9000")?;
    ask.link = lab.link();
    let handles = |lab: &Lab| {
        let mut all: Vec<_> = lab
            .qdiscs(&link)
            .iter()
            .map(|q| (q.parent, q.handle))
            .collect();
        all.sort_unstable();
        all
    };
    let were = handles(lab);
    let start = Instant::now();
    lab.wait(installed.adapt(lab.net(), ask))?;
    println!("all of them changed and read back in {:?}", start.elapsed());
    check!(
        handles(lab) == were,
        "the leaves were replaced instead of changed"
    );
    let classes = lab.tc("-d class show dev v0")?;
    check!(
        classes.matches("quantum 9022").count() == SLOTS,
        "{classes}"
    );

    lab.wait(installed.remove(lab.net()))?;
    lab.ip("link set v0 mtu 1500")?;
    check!(
        lab.state(&link) == before,
        "{:?} instead of {before:?}",
        lab.state(&link)
    );
    check!(lab.no_files(), "files are left");
    Ok(())
}

pub(crate) fn reads_back_extremes(lab: &Lab) -> Outcome {
    let link = lab.link();
    let asks = [
        (125, 1),
        (125, 4_000_000_000),
        (25_000, 250_000),
        (u64::from(u32::MAX), 1_000_000_000),
        (u64::from(u32::MAX) + 1, 1_000_000_000),
        (50_000_000_000, 4_000_000_000),
    ];
    for (rate, capacity) in asks {
        let mut ask = lab.ask(link.clone());
        ask.groups[0].rate = Rate::BytesPerSecond(rate);
        ask.groups[0].capacity = Content::Bytes(capacity);
        let installed = lab
            .install(ask, HoldMode::Htb)
            .map_err(|e| format!("{rate}: {e}"))?;
        let shown = lab.tc("-d class show dev v0")?;
        println!("{rate} B/s: {}", shown.trim());
        lab.wait(installed.remove(lab.net()))?;
    }
    Ok(())
}

pub(crate) fn on_many_queues(lab: &Lab) -> Outcome {
    lab.ip("link add w0 numtxqueues 8 type veth peer name w1 numrxqueues 8")?;
    lab.ip("link set w0 up")?;
    lab.ip("link set w1 up")?;
    let link = lab.link_named("w0");
    check!(link.tx_queues == 8, "{link:?}");
    let before = lab.state(&link);
    let installed = lab.install(lab.ask(link.clone()), HoldMode::Htb)?;
    lab.wait(installed.remove(lab.net()))?;
    check!(
        lab.state(&link) == before,
        "{:?} instead of {before:?}",
        lab.state(&link)
    );
    Ok(())
}

pub(crate) fn change_keeps_what_waits(lab: &Lab) -> Outcome {
    lab.ip("address add 10.9.0.1/24 broadcast 10.9.0.255 dev v0")?;
    let link = lab.link();
    let mut ask = lab.ask(link.clone());
    // 1,042 B every 0.83 s: of 60 about 57 wait, whatever the machine is busy with.
    ask.groups[0].rate = Rate::BytesPerSecond(1_250);
    let mut installed = lab.install(ask.clone(), HoldMode::Htb)?;
    traffic::send("10.9.0.255:9", 60, 1_000, Some(0))?;
    let waiting = lab.wait(installed.stats(lab.net()))?;
    check!(
        waiting.backlog_packets > 50 && waiting.dropped_packets == 0,
        "{waiting:?}"
    );

    lab.ip("link set v0 mtu 9000")?;
    ask.link = lab.link();
    ask.groups[0].capacity = Content::Bytes(500_000);
    lab.wait(installed.adapt(lab.net(), ask.clone()))?;
    let still = lab.wait(installed.stats(lab.net()))?;
    println!(
        "{} packets waited, {} after the change",
        waiting.backlog_packets, still.backlog_packets
    );
    check!(still.dropped_packets == 0, "{still:?}");
    check!(
        still.backlog_packets + 10 > waiting.backlog_packets,
        "{still:?}"
    );
    check!(
        still.backlog_packets + still.sent_packets
            == waiting.backlog_packets + waiting.sent_packets,
        "{waiting:?}, then {still:?}"
    );
    // And a faster rate lets them go.
    ask.groups[0].rate = Rate::BytesPerSecond(12_500_000);
    lab.wait(installed.adapt(lab.net(), ask))?;
    std::thread::sleep(Duration::from_millis(1_000));
    let end = lab.wait(installed.stats(lab.net()))?;
    check!(
        end.sent_packets == 60 && end.backlog_packets == 0,
        "{end:?}"
    );
    lab.wait(installed.remove(lab.net()))?;
    Ok(())
}

pub(crate) fn drops_add_up(lab: &Lab) -> Outcome {
    lab.ip("address add 10.9.0.1/24 broadcast 10.9.0.255 dev v0")?;
    let link = lab.link();
    let mut ask = lab.ask(link.clone());
    ask.groups[0].rate = Rate::BytesPerSecond(1_250);
    ask.groups[0].capacity = Content::Bytes(10_000);
    ask.largest_packet = 1_522;
    let installed = lab.install(ask, HoldMode::Htb)?;
    // 10,000 + 3,044 of burst + 64 KiB hold 75 frames of 1,042 B.
    traffic::send("10.9.0.255:9", 300, 1_000, Some(0))?;
    // Unshaped traffic is not held up by it.
    traffic::send("10.9.0.255:9", 20, 100, None)?;
    let stats = lab.wait(installed.stats(lab.net()))?;
    let leaf = stats.backlog_packets + stats.sent_packets + stats.dropped_packets;
    check!(leaf == 300, "{stats:?}");
    check!((70..=78).contains(&stats.backlog_packets), "{stats:?}");
    check!(stats.passed_dropped_packets == 0, "{stats:?}");
    check!(
        stats.drops == [("htb_limit", stats.dropped_packets)],
        "{stats:?}"
    );
    let qdiscs = lab.qdiscs(&link);
    let root = qdiscs.iter().find(|q| q.parent == ROOT).ok_or("no root")?;
    check!(
        root.stats.sent_packets >= stats.sent_packets + 20,
        "unshaped packets wait: {:?}",
        root.stats
    );
    let shown = lab.tc("-s qdisc show dev v0")?;
    let dropped = format!("dropped {},", stats.dropped_packets);
    check!(
        shown.contains(&dropped),
        "tc does not say {dropped}: {shown}"
    );
    lab.wait(installed.remove(lab.net()))?;
    Ok(())
}

pub(crate) fn lo_passes_its_largest_packets(lab: &Lab) -> Outcome {
    lab.ip("link set lo up")?;
    let link = lab.link_named("lo");
    let before = lab.state(&link);
    let mut ask = lab.ask(link.clone());
    ask.groups[0].rate = Rate::BytesPerSecond(1_250_000_000);
    ask.groups[0].capacity = Content::Bytes(50_000_000);
    let slot = HtbHold::limits(&ask, &ask.groups[0])?;
    check!(slot.1.burst >= 65_550, "{slot:?}");
    let mut installed = lab.install(ask.clone(), HoldMode::Htb)?;
    traffic::send("127.255.255.255:9", 200, 65_000, Some(0))?;
    std::thread::sleep(Duration::from_millis(200));
    let stats = lab.wait(installed.stats(lab.net()))?;
    check!(
        stats.sent_packets == 200 && stats.dropped_packets == 0,
        "{stats:?}"
    );
    // 10 Mbit/s: 52 ms each, never zero.
    ask.groups[0].rate = Rate::BytesPerSecond(1_250_000);
    lab.wait(installed.adapt(lab.net(), ask))?;
    traffic::send("127.255.255.255:9", 20, 65_000, Some(0))?;
    std::thread::sleep(Duration::from_millis(1_300));
    let stats = lab.wait(installed.stats(lab.net()))?;
    check!(
        stats.sent_packets == 220 && stats.dropped_packets == 0,
        "{stats:?}"
    );
    lab.wait(installed.remove(lab.net()))?;
    check!(
        lab.state(&link) == before,
        "{:?} instead of {before:?}",
        lab.state(&link)
    );
    let _ = lab.wait(lab.net().link_by_name("lo"))?;
    Ok(())
}
