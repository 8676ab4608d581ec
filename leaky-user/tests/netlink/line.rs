//! Several groups of buckets, and a limit for the link.

use crate::lab::{Lab, Outcome, check, group, many};
use crate::traffic;
use leaky_user::hold::{self, Ask, Content, Group, HoldMode, Installed, Line, queue};
use leaky_user::net::{Net, id_text};
use leaky_user::units::Rate;
use std::time::{Duration, Instant};

const BROADCAST: &str = "10.9.0.255:9";

/// 20 Mbit/s.
const LINE: Line = Line {
    rate: 2_500_000,
    capacity: 1_000_000,
};

fn at(mbit: u64) -> Group {
    Group {
        rate: Rate::BytesPerSecond(mbit * 125_000),
        capacity: Content::Bytes(500_000),
        ..group()
    }
}

fn address(lab: &Lab, name: &str) -> Result<(), String> {
    lab.ip(&format!(
        "address add 10.9.0.1/24 broadcast 10.9.0.255 dev {name}"
    ))?;
    Ok(())
}

/// The line of `tc` about a class.
fn class_line(lab: &Lab, slot: u32) -> Result<String, String> {
    let shown = lab.tc("-d class show dev v0")?;
    let id = format!("class htb {} ", id_text(queue(slot)));
    let line = shown.lines().find(|line| line.starts_with(&id));
    line.map(str::to_owned)
        .ok_or_else(|| format!("{id} is missing in {shown}"))
}

/// Packets that have left a slot.
fn sent(lab: &Lab, installed: &Installed, slot: u32) -> Result<u64, String> {
    let qdiscs = lab.qdiscs(&installed.ask().link);
    let leaf = qdiscs.iter().find(|q| q.parent == queue(slot));
    leaf.map(|q| q.stats.sent_packets)
        .ok_or_else(|| format!("slot {slot} has no leaf"))
}

pub(crate) fn htb_has_a_class_for_the_link(lab: &Lab) -> Outcome {
    let link = lab.link();
    let before = lab.state(&link);
    let mut ask = lab.ask(link.clone());
    ask.groups = vec![at(4), many(), at(6)];
    ask.line = Some(LINE);
    (ask.overhead, ask.mpu) = (24, 84);
    let mut installed = lab.install(ask.clone(), HoldMode::Htb)?;
    let notices = installed.notices().join("; ");
    println!("{notices}");
    check!(notices.contains("10000 B leave at once"), "{notices}");
    check!(!notices.contains("without the mpu"), "{notices}");

    let of_link = class_line(lab, 0xfffe)?;
    println!("{of_link}");
    check!(
        of_link.contains("1eaf:ffff root rate 20Mbit overhead 24 ceil 20Mbit")
            && of_link.contains("burst 10000b/1 mpu 84b cburst 10000b/1 mpu 84b"),
        "{of_link}"
    );
    let slots = hold::slots(&ask)?;
    let rest = hold::rest_slot(&ask).ok_or("no slot for the rest")?;
    for (slot, ceil) in [
        (slots[0].overflow, "4Mbit"),
        (slots[1].keys.start, "10Mbit"),
        (slots[1].overflow, "10Mbit"),
        (slots[2].overflow, "6Mbit"),
        (rest, "20Mbit"),
    ] {
        let line = class_line(lab, slot)?;
        println!("{line}");
        check!(
            line.contains("parent 1eaf:ffff leaf") && line.contains(" rate 8bit"),
            "{line}"
        );
        check!(
            line.contains(&format!("ceil {ceil}")) && line.contains("quantum 1522"),
            "{line}"
        );
        check!(
            line.contains("mpu 84b") && line.contains("overhead 24"),
            "{line}"
        );
    }

    // All limits change in place.
    ask.line = Some(Line {
        rate: 1_250_000,
        ..LINE
    });
    ask.groups[2] = at(7);
    (ask.overhead, ask.mpu) = (0, 0);
    lab.wait(installed.adapt(lab.net(), ask.clone()))?;
    let of_link = class_line(lab, 0xfffe)?;
    check!(of_link.contains("rate 10Mbit ceil 10Mbit"), "{of_link}");
    let line = class_line(lab, slots[2].overflow)?;
    check!(
        line.contains("ceil 7Mbit") && !line.contains("overhead"),
        "{line}"
    );

    // What somebody else changes is noticed and named.
    lab.tc(
        "class change dev v0 parent 1eaf: classid 1eaf:ffff htb rate 30mbit burst 5000 cburst 5000",
    )?;
    let error = lab
        .wait(installed.verify(lab.net()))
        .err()
        .ok_or("not noticed")?;
    check!(
        error
            .to_string()
            .contains("of the class 1eaf:ffff, rate in B/s is 3750000 instead of 1250000"),
        "{error}"
    );
    lab.wait(installed.adapt(lab.net(), ask))?;
    lab.wait(installed.remove(lab.net()))?;
    check!(
        lab.state(&link) == before,
        "{:?} instead of {before:?}",
        lab.state(&link)
    );
    check!(lab.no_files(), "files are left");
    Ok(())
}

/// Ten clients with 4 Mbit/s each and half of them with small packets, below 20 Mbit/s.
pub(crate) fn htb_shares_the_link(lab: &Lab) -> Outcome {
    address(lab, "v0")?;
    let mut ask = lab.ask(lab.link());
    ask.groups = vec![at(4); 10];
    ask.line = Some(LINE);
    let installed = lab.install(ask, HoldMode::Htb)?;
    let payload = |slot: u32| {
        if slot.is_multiple_of(2) {
            1_400_u32
        } else {
            350
        }
    };
    // The clock runs from before the first packet: nothing can have left sooner.
    let start = Instant::now();
    for slot in 0..10 {
        let packets = 490_000 / (payload(slot) + 42);
        traffic::send(BROADCAST, packets, payload(slot) as usize, Some(slot))?;
    }
    let filled = start.elapsed();
    let shares = |lab: &Lab| -> Result<Vec<u64>, String> {
        (0..10)
            .map(|slot| Ok(sent(lab, &installed, slot)? * u64::from(payload(slot) + 42)))
            .collect()
    };
    let at_first = shares(lab)?;
    std::thread::sleep(Duration::from_millis(1_200));
    let now = shares(lab)?;
    let elapsed = start.elapsed();
    let gained: Vec<u64> = now.iter().zip(&at_first).map(|(n, f)| n - f).collect();
    let (least, most) = (
        gained.iter().min().copied().unwrap_or(0),
        gained.iter().max().copied().unwrap_or(0),
    );
    let all: u64 = now.iter().sum();
    let by_rate = u64::try_from(elapsed.as_nanos())? * LINE.rate / 1_000_000_000;
    println!("filled in {filled:?}; {all} B in {elapsed:?}, by the rate {by_rate} B; {gained:?}");
    check!(least * 100 >= most * 95, "{least} B and {most} B");
    // The burst of the link, and one frame of each client.
    check!(all <= by_rate + 10_000 + 10 * 1_522, "{all} B");
    check!(all * 100 >= by_rate * 90, "{all} B of {by_rate} B");
    let stats = lab.wait(installed.stats(lab.net()))?;
    check!(stats.dropped_packets == 0, "{stats:?}");
    lab.wait(installed.remove(lab.net()))?;
    Ok(())
}

/// A slot alone is held to its own rate, the rest to that of the link.
pub(crate) fn htb_below_the_link_each_keeps_its_rate(lab: &Lab) -> Outcome {
    address(lab, "v0")?;
    let mut ask = lab.ask(lab.link());
    ask.groups = vec![at(4)];
    ask.line = Some(LINE);
    ask.overhead = 458;
    let rest = hold::rest_slot(&ask).ok_or("no slot for the rest")?;
    let installed = lab.install(ask, HoldMode::Htb)?;
    // 1,042 B that count as 1,500.
    for (slot, rate) in [(rest, LINE.rate), (0, 500_000)] {
        let start = Instant::now();
        traffic::send(BROADCAST, 600, 1_000, Some(slot))?;
        std::thread::sleep(Duration::from_millis(300));
        let charged = sent(lab, &installed, slot)? * 1_500;
        let by_rate = u64::try_from(start.elapsed().as_nanos())? * rate / 1_000_000_000;
        println!("slot {slot}: {charged} B charged, by the rate {by_rate} B");
        // The burst of the class and of the link.
        check!(charged <= by_rate + 10_000 + 2 * 1_522, "{charged} B");
        check!(charged * 100 >= by_rate * 90, "{charged} B of {by_rate} B");
        // Nothing of it is under way beside the next.
        std::thread::sleep(Duration::from_millis(100));
    }
    lab.wait(installed.remove(lab.net()))?;
    Ok(())
}

pub(crate) fn htb_grows_behind_while_packets_wait(lab: &Lab) -> Outcome {
    address(lab, "v0")?;
    let mut ask = lab.ask(lab.link());
    ask.groups[0].rate = Rate::BytesPerSecond(1_250);
    ask.line = Some(LINE);
    let mut installed = lab.install(ask.clone(), HoldMode::Htb)?;
    traffic::send(BROADCAST, 60, 1_000, Some(0))?;
    let waiting = lab.wait(installed.stats(lab.net()))?;
    check!(waiting.backlog_packets > 50, "{waiting:?}");
    ask.groups.extend([at(4), many()]);
    lab.wait(installed.adapt(lab.net(), ask.clone()))?;
    let slots = hold::slots(&ask)?;
    traffic::send(BROADCAST, 3, 1_000, Some(slots[1].overflow))?;
    traffic::send(BROADCAST, 3, 1_000, Some(slots[2].keys.start))?;
    std::thread::sleep(Duration::from_millis(100));
    let new = [slots[1].overflow, slots[2].keys.start].map(|slot| sent(lab, &installed, slot));
    check!(new == [Ok(3), Ok(3)], "{new:?}");
    let still = lab.wait(installed.stats(lab.net()))?;
    check!(
        still.dropped_packets == 0
            && still.backlog_packets + still.sent_packets
                == waiting.backlog_packets + waiting.sent_packets + 6,
        "{waiting:?}, then {still:?}"
    );
    // To take one away or to squeeze in one needs a new start; nothing changes.
    let during = lab.state(&ask.link);
    for groups in [vec![ask.groups[0]], vec![many(), ask.groups[0]]] {
        let other = Ask {
            groups,
            ..ask.clone()
        };
        let error = lab
            .wait(installed.adapt(lab.net(), other))
            .err()
            .ok_or("it was done")?;
        check!(error.to_string().contains("start leaky again"), "{error}");
    }
    check!(lab.state(&ask.link) == during, "something changed");
    lab.wait(installed.verify(lab.net()))?;
    lab.wait(installed.remove(lab.net()))?;
    Ok(())
}

pub(crate) fn htb_has_slots_for_4000_clients(lab: &Lab) -> Outcome {
    let link = lab.link();
    let before = lab.state(&link);
    let mut ask = lab.ask(link.clone());
    ask.groups = vec![at(4); 4_000];
    ask.line = Some(LINE);
    let start = Instant::now();
    let mut installed = lab.install(ask.clone(), HoldMode::Htb)?;
    let made = start.elapsed();
    let start = Instant::now();
    ask.groups[3_999] = at(5);
    lab.wait(installed.adapt(lab.net(), ask))?;
    let changed = start.elapsed();
    let start = Instant::now();
    lab.wait(installed.verify(lab.net()))?;
    println!(
        "4,000 single slots made and read back in {made:?}, all changed in {changed:?}, verified \
         in {:?}",
        start.elapsed()
    );
    // An unoptimised build on an emulated CPU takes 4 s.
    check!(made < Duration::from_secs(15), "{made:?}");
    lab.wait(installed.remove(lab.net()))?;
    check!(lab.state(&link) == before, "not as before");
    Ok(())
}

pub(crate) fn fq_goes_below_a_tbf(lab: &Lab) -> Outcome {
    lab.ip("link add w0 numtxqueues 8 type veth peer name w1 numrxqueues 8")?;
    lab.ip("link set w0 up")?;
    lab.ip("link set w1 up")?;
    address(lab, "w0")?;
    let link = lab.link_named("w0");
    let before = lab.state(&link);
    let mut ask = lab.ask(link.clone());
    ask.groups = vec![at(4), many()];
    ask.line = Some(LINE);
    (ask.overhead, ask.mpu) = (58, 84);
    let mut installed = lab.install(ask.clone(), HoldMode::Fq)?;
    check!(
        !installed.notices().join("; ").contains("without the mpu"),
        "{:?}",
        installed.notices()
    );
    let shown = lab.tc("-d qdisc show dev w0")?;
    println!("{shown}");
    check!(
        shown.starts_with("qdisc tbf 1eaf: root") && shown.contains("rate 20Mbit"),
        "{shown}"
    );
    check!(
        shown.contains("overhead 58") && shown.contains("mpu 84b"),
        "{shown}"
    );
    check!(
        shown.contains("parent 1eaf:1 limit 117220p flow_limit 117220p"),
        "{shown}"
    );

    // 1,042 B that count as 1,100, many at once: the link's rate, and one frame.
    let start = Instant::now();
    traffic::send(BROADCAST, 400, 1_000, None)?;
    let mut all = 0;
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(30));
        let stats = lab.wait(installed.stats(lab.net()))?;
        let by_rate = u64::try_from(start.elapsed().as_nanos())? * LINE.rate / 1_000_000_000;
        let charged = stats.sent_packets * 1_100;
        println!("{charged} B charged, by the rate {by_rate} B; {stats:?}");
        check!(charged <= by_rate + 1_580, "{charged} B of {by_rate} B");
        check!(
            (charged + 3_300) * 100 >= by_rate * 97,
            "{charged} B of {by_rate} B"
        );
        all = stats.sent_packets + stats.backlog_packets;
    }
    // The one that tbf looks at counts as waiting only.
    check!(all == 400, "{all} packets");

    // In place, with what waits.
    ask.line = Some(Line {
        rate: 25_000_000,
        ..LINE
    });
    ask.groups.push(at(9));
    lab.wait(installed.adapt(lab.net(), ask.clone()))?;
    std::thread::sleep(Duration::from_millis(100));
    let stats = lab.wait(installed.stats(lab.net()))?;
    check!(
        stats.sent_packets == 400 && stats.backlog_packets == 0 && stats.dropped_packets == 0,
        "{stats:?}"
    );
    ask.line = None;
    let error = lab
        .wait(installed.adapt(lab.net(), ask))
        .err()
        .ok_or("it was done")?;
    check!(error.to_string().contains("start leaky again"), "{error}");
    lab.wait(installed.remove(lab.net()))?;
    check!(
        lab.state(&link) == before,
        "{:?} instead of {before:?}",
        lab.state(&link)
    );
    check!(lab.no_files(), "files are left");
    Ok(())
}

pub(crate) fn fq_and_tbf_drops_count_once(lab: &Lab) -> Outcome {
    address(lab, "v0")?;
    let mut ask = lab.ask(lab.link());
    ask.line = Some(LINE);
    let installed = lab.install(ask, HoldMode::Fq)?;
    // Beyond the horizon of 10 s: fq refuses them, and tbf hears of it.
    traffic::send_later(BROADCAST, 7, 100, 20_000_000_000)?;
    // Longer than a frame was when the hold was made: tbf refuses them by itself.
    lab.ip("link set v0 mtu 9000")?;
    traffic::send(BROADCAST, 5, 3_000, None)?;
    traffic::send(BROADCAST, 2, 1_000, None)?;
    std::thread::sleep(Duration::from_millis(50));
    println!("{}", lab.tc("-s qdisc show dev v0")?);
    let stats = lab.wait(installed.stats(lab.net()))?;
    let by_reason = [
        ("fq_limit", 0),
        ("fq_flow_limit", 0),
        ("fq_horizon", 7),
        ("tbf", 5),
    ];
    check!(stats.drops == by_reason, "{stats:?}");
    check!(
        stats.dropped_packets == 12 && stats.sent_packets == 2 && stats.backlog_packets == 0,
        "{stats:?}"
    );
    let shown = lab.tc("-s qdisc show dev v0")?;
    check!(
        shown.contains("dropped 12,") && shown.contains("dropped 7,"),
        "tc says {shown}"
    );
    lab.wait(installed.remove(lab.net()))?;
    let _ = lab.wait(lab.net().link_by_name("v0"))?;
    Ok(())
}
