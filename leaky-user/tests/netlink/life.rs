//! Installing, crashing, clearing, and others who get in the way.

use crate::lab::{Lab, Outcome, check, many};
use crate::traffic;
use leaky_user::hold::{self, Cleared, Content, HoldMode, LARGEST_WAIT, Previous, Record};
use leaky_user::net::Net;
use leaky_user::units::Rate;

pub(crate) fn no_fq_is_missing(lab: &Lab) -> Outcome {
    let link = lab.link();
    let before = lab.state(&link);
    let error = lab
        .install(lab.ask(link.clone()), HoldMode::Fq)
        .err()
        .ok_or("fq was installed")?;
    check!(matches!(error, hold::Error::Missing { .. }), "{error}");
    check!(error.to_string().contains("modprobe sch_fq"), "{error}");
    check!(
        lab.state(&link) == before && lab.no_files(),
        "something changed"
    );
    let installed = lab.install(lab.ask(link.clone()), HoldMode::Auto)?;
    check!(
        installed.reason().contains("no fq"),
        "{}",
        installed.reason()
    );
    lab.wait(installed.remove(lab.net()))?;
    Ok(())
}

pub(crate) fn fq_comes_and_goes(lab: &Lab) -> Outcome {
    lab.ip("link add w0 numtxqueues 1 type veth peer name w1 numrxqueues 1")?;
    lab.ip("link set w0 up")?;
    lab.ip("link set w1 up")?;
    let link = lab.link_named("w0");
    check!(link.tx_queues == 1, "{link:?}");
    let before = lab.state(&link);
    let mut ask = lab.ask(link.clone());
    let mut installed = lab.install(ask.clone(), HoldMode::Auto)?;
    check!(
        installed.kind() == hold::HoldKind::Fq,
        "{}",
        installed.kind()
    );
    let shown = lab.tc("-s -d qdisc show dev w0")?;
    println!("{shown}");
    check!(shown.starts_with("qdisc fq 1eaf: root"), "{shown}");
    check!(
        shown.contains("nopacing") && shown.contains("horizon_drop"),
        "{shown}"
    );
    check!(shown.contains("horizon 10s"), "{shown}");
    // (250,000 + 5,000) B / 34 + 1,000.
    check!(shown.contains("limit 8500p flow_limit 8500p"), "{shown}");

    ask.groups[0].capacity = Content::Bytes(500_000);
    ask.groups = vec![many()];
    lab.wait(installed.adapt(lab.net(), ask))?;
    let shown = lab.tc("-d qdisc show dev w0")?;
    check!(
        shown.contains("limit 117220p flow_limit 117220p"),
        "{shown}"
    );
    let stats = lab.wait(installed.stats(lab.net()))?;
    check!(
        stats.dropped_packets == 0 && stats.drops.len() == 3,
        "{stats:?}"
    );
    lab.wait(installed.remove(lab.net()))?;
    check!(
        lab.state(&link) == before,
        "{:?} instead of {before:?}",
        lab.state(&link)
    );
    check!(lab.no_files(), "files are left");
    Ok(())
}

pub(crate) fn fq_on_many_queues(lab: &Lab) -> Outcome {
    lab.ip("link add w0 numtxqueues 8 type veth peer name w1 numrxqueues 8")?;
    lab.ip("link set w0 up")?;
    lab.ip("link set w1 up")?;
    let link = lab.link_named("w0");
    let before = lab.state(&link);
    let mut ask = lab.ask(link.clone());
    let mut installed = lab.install(ask.clone(), HoldMode::Fq)?;
    let shown = lab.tc("-d qdisc show dev w0")?;
    println!("{shown}");
    check!(shown.starts_with("qdisc mq 1eaf: root"), "{shown}");
    check!(shown.matches("qdisc fq ").count() == 8, "{shown}");
    ask.groups[0].capacity = Content::Bytes(500_000);
    lab.wait(installed.adapt(lab.net(), ask))?;
    lab.wait(installed.remove(lab.net()))?;
    check!(
        lab.state(&link) == before,
        "{:?} instead of {before:?}",
        lab.state(&link)
    );
    Ok(())
}

pub(crate) fn fq_longest_wait(lab: &Lab) -> Outcome {
    let link = lab.link();
    let mut ask = lab.ask(link);
    ask.groups[0].bound = LARGEST_WAIT;
    let installed = lab.install(ask, HoldMode::Fq)?;
    println!("{}", lab.tc("-d qdisc show dev v0")?);
    lab.wait(installed.remove(lab.net()))?;
    Ok(())
}

pub(crate) fn fq_drops_by_reason(lab: &Lab) -> Outcome {
    lab.ip("link add w0 numtxqueues 1 type veth peer name w1 numrxqueues 1")?;
    lab.ip("link set w0 up")?;
    lab.ip("link set w1 up")?;
    lab.ip("address add 10.9.0.1/24 broadcast 10.9.0.255 dev w0")?;
    let mut ask = lab.ask(lab.link_named("w0"));
    ask.groups[0].rate = Rate::PacketsPerSecond(2);
    ask.groups[0].capacity = Content::Packets(5);
    let installed = lab.install(ask, HoldMode::Fq)?;
    // 20 s are beyond the horizon of 10 s; 5 + 1 + 1,000 of 1,100 wait for their time.
    traffic::send_later("10.9.0.255:9", 7, 100, 20_000_000_000)?;
    traffic::send_later("10.9.0.255:9", 1_100, 100, 5_000_000_000)?;
    let stats = lab.wait(installed.stats(lab.net()))?;
    println!("{}", lab.tc("-s qdisc show dev w0")?);
    check!(
        stats.backlog_packets == 1_006 && stats.sent_packets == 0,
        "{stats:?}"
    );
    check!(stats.backlog_bytes == 1_006 * 142, "{stats:?}");
    check!(stats.dropped_packets == 101, "{stats:?}");
    let by_reason = [("fq_limit", 94), ("fq_flow_limit", 0), ("fq_horizon", 7)];
    check!(stats.drops == by_reason, "{stats:?}");
    std::thread::sleep(std::time::Duration::from_secs(6));
    let stats = lab.wait(installed.stats(lab.net()))?;
    check!(
        stats.backlog_packets == 0 && stats.sent_packets == 1_006,
        "{stats:?}"
    );
    lab.wait(installed.remove(lab.net()))?;
    Ok(())
}

pub(crate) fn clear_after_a_crash(lab: &Lab) -> Outcome {
    lab.tc("qdisc add dev v0 root handle 77: pfifo limit 123")?;
    let link = lab.link();
    let before = lab.state(&link);
    let mut setup = lab.setup(HoldMode::Auto);
    setup.replace_root = true;
    let mut ask = lab.ask(link.clone());
    ask.gso_max_segs = Some(2);
    drop(lab.wait(hold::install(lab.net(), ask.clone(), setup.clone()))?);
    check!(lab.state(&link) != before, "nothing was installed");
    // A second run takes over what the first one recorded.
    ask.link = lab.link();
    check!(ask.link.gso_max_segs == 2, "{:?}", ask.link);
    let second = lab.wait(hold::install(lab.net(), ask, setup.clone()))?;
    let record = Record::read(&setup.record)?.ok_or("no record")?;
    check!(
        matches!(record.previous, Previous::Foreign { .. }),
        "{record:?}"
    );
    drop(second);

    let clear = || lab.wait(hold::clear(lab.net(), &link, &setup.record));
    check!(clear()? == Cleared::Restored, "first");
    check!(
        lab.state(&link) == before,
        "{:?} instead of {before:?}",
        lab.state(&link)
    );
    check!(clear()? == Cleared::Nothing, "second");
    check!(
        lab.state(&link) == before && lab.no_files(),
        "clearing twice"
    );
    // Without the record there is still the handle.
    lab.tc("qdisc del dev v0 root")?;
    let installed = lab.install(lab.ask(link.clone()), HoldMode::Auto)?;
    drop(installed);
    std::fs::remove_file(&setup.record)?;
    check!(clear()? == Cleared::RemovedWithoutRecord, "third");
    check!(
        hold::previous(&lab.qdiscs(&link)) == Previous::Default,
        "something is left"
    );
    check!(lab.no_files(), "files are left");
    Ok(())
}

pub(crate) fn one_leaky_at_a_time(lab: &Lab) -> Outcome {
    let link = lab.link();
    let installed = lab.install(lab.ask(link.clone()), HoldMode::Auto)?;
    let during = lab.state(&link);
    let second = lab.install(lab.ask(link.clone()), HoldMode::Auto).err();
    check!(
        matches!(second, Some(hold::Error::Busy { .. })),
        "{second:?}"
    );
    let record = lab.setup(HoldMode::Auto).record;
    let cleared = lab.wait(hold::clear(lab.net(), &link, &record)).err();
    check!(
        matches!(cleared, Some(hold::Error::Busy { .. })),
        "{cleared:?}"
    );
    check!(lab.state(&link) == during, "something changed");
    lab.wait(installed.remove(lab.net()))?;
    check!(lab.no_files(), "files are left");
    Ok(())
}

pub(crate) fn interface_removed_while_held(lab: &Lab) -> Outcome {
    let installed = lab.install(lab.ask(lab.link()), HoldMode::Auto)?;
    lab.ip("link del v0")?;
    let stats = lab
        .wait(installed.verify(lab.net()))
        .err()
        .ok_or("it is gone")?;
    println!("{stats}");
    lab.wait(installed.remove(lab.net()))?;
    check!(lab.no_files(), "files are left");
    Ok(())
}

pub(crate) fn somebody_replaces_the_root(lab: &Lab) -> Outcome {
    let link = lab.link();
    let installed = lab.install(lab.ask(link.clone()), HoldMode::Auto)?;
    lab.tc("qdisc replace dev v0 root handle 55: pfifo limit 7")?;
    let error = lab
        .wait(installed.verify(lab.net()))
        .err()
        .ok_or("not noticed")?;
    check!(
        error.to_string().contains("the root qdisc is pfifo 55:"),
        "{error}"
    );
    let theirs = lab.state(&link);
    lab.wait(installed.remove(lab.net()))?;
    check!(
        lab.state(&link) == theirs,
        "somebody else's qdisc was removed"
    );
    check!(lab.no_files(), "files are left");
    Ok(())
}

pub(crate) fn smooth_comes_and_goes(lab: &Lab) -> Outcome {
    let link = lab.link();
    let before = lab.state(&link);
    let mut ask = lab.ask(link.clone());
    ask.gso_max_segs = hold::smooth(&link, Rate::BytesPerSecond(2_500_000));
    let segments = ask.gso_max_segs.ok_or("20 Mbit/s needs small packets")?;
    let mut installed = lab.install(ask.clone(), HoldMode::Auto)?;
    check!(lab.link().gso_max_segs == segments, "{:?}", lab.link());
    let shown = lab.ip("-d link show v0")?;
    check!(
        shown.contains(&format!("gso_max_segs {segments} ")),
        "{shown}"
    );
    // Not wanted any more: the old value comes back at once.
    ask.link = lab.link();
    ask.gso_max_segs = None;
    lab.wait(installed.adapt(lab.net(), ask))?;
    check!(
        lab.link().gso_max_segs == link.gso_max_segs,
        "{:?}",
        lab.link()
    );
    lab.wait(installed.remove(lab.net()))?;
    check!(
        lab.state(&link) == before,
        "{:?} instead of {before:?}",
        lab.state(&link)
    );
    let _ = lab.wait(lab.net().qdiscs(link.index))?;
    Ok(())
}
