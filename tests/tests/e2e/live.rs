//! One rule for many destinations, and rules that change while they are in force. L39, L74.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::bulk::Bulk;
use leaky_tests::lab::{SHAPED, client};
use leaky_tests::stats::{self, deliveries};
use leaky_tests::{Lab, Leaky, Udp};
use nix::sys::signal::Signal;

use crate::Case;
use crate::configured::{Configured, for_interface};
use crate::host::{Host, Need};
use crate::judge::{between, near};
use crate::rig::PORT;

pub(crate) const CASES: &[Case] = &[
    Case::timed(
        "l74_uploads_to_a_service_share_one_rate",
        &[Need::Root, Need::Leaky],
        l74,
    ),
    Case::timed(
        "l74_a_list_of_prefixes_is_replaced_without_loss",
        &[Need::Root, Need::Leaky],
        l74_replaced,
    ),
    Case::new(
        "a_file_that_is_broken_changes_nothing",
        &[Need::Root, Need::Leaky],
        broken_replacement,
    ),
    Case::new(
        "a_pipe_in_place_of_the_file_changes_nothing",
        &[Need::Root, Need::Leaky],
        pipe_for_a_file,
    ),
    Case::new(
        "a_lower_rate_loses_nothing_of_what_waits",
        &[Need::Root, Need::Leaky],
        lower_rate,
    ),
    Case::new(
        "classes_change_places_where_the_hold_lets_them",
        &[Need::Root, Need::Leaky],
        places_changed,
    ),
    Case::new(
        "l39_every_option_asked_is_reported",
        &[Need::Root, Need::Leaky],
        l39_reported,
    ),
    Case::new(
        "l39_a_limit_changed_by_others_is_named",
        &[Need::Root, Need::Leaky],
        l39_changed,
    ),
];

const STORAGE: &str = r#"
[[interface.class]]
name = "storage"
match = { destination-file = "storage.txt" }
rate = "RATE"
"#;

/// A file of 1,000 prefixes that contains 10.78.N.0/24.
fn prefixes(number: u8) -> String {
    let mut text = String::from("# the service\n\n");
    for other in 0..999 {
        let _ = writeln!(
            text,
            "198.{}.{}.0/24  # {other}",
            18 + other / 256,
            other % 256
        );
    }
    let _ = writeln!(text, "10.78.{number}.0/24");
    text
}

/// 1, 10 and 50 uploads from as many as five processes to three addresses of the service; another destination has what it had. In the
/// VM, whose sender is slower, at a quarter of the rate.
fn l74() -> Result<()> {
    let (rate, bytes) = if Host::get().vm {
        ("40mbit", 5_000_000)
    } else {
        ("160mbit", 20_000_000)
    };
    let classes = STORAGE.replace("RATE", rate);
    let configured = Configured::start(&classes, &[("storage.txt", &prefixes(1))])?;
    let lab = &configured.lab;
    let seconds = Duration::from_secs(if Host::get().vm { 2 } else { 4 });
    let mut rates = Vec::new();
    let mut others = 0;
    for (stream, uploads) in (1..).zip([1, 10, 50]) {
        let other = Udp::stream(
            stream,
            SocketAddr::new(client(false, 0x0900), PORT),
            1_000,
            250_000,
            seconds,
        )
        .start(&lab.a);
        let to = SocketAddr::new(client(false, 0x0107), 6_000 + u16::try_from(stream)?);
        let running = Bulk::up(to, uploads, seconds).start_in_processes(&lab.a, &lab.b, 5)?;
        let goodput = running
            .join()?
            .goodput(Duration::from_millis(700))
            .context("nothing came")?;
        rates.push(goodput * 1_514 / 1_448);
        others += other.join()?.packets;
        thread::sleep(Duration::from_millis(400));
    }
    let hold = configured.leaky.installed().hold.clone();
    let found = configured.finish(Duration::from_millis(500))?;
    println!("1, 10 and 50 uploads: {rates:?} B/s on the wire, wanted {bytes}, held by {hold}");
    let arrived = found.captured.only(|packet| packet.mark.is_some()).len();
    ensure!(
        u64::try_from(arrived)? == others,
        "{arrived} of {others} packets to another destination arrived"
    );
    for rate in rates {
        // How much two busy CPUs carry is not leaky's; that no more than the limit passes is.
        let least = if Host::get().vm { 98 } else { 90 };
        between(
            "bytes per second of all uploads",
            rate,
            bytes / 100 * least,
            bytes / 100 * 102,
        )?;
    }
    Ok(())
}

/// A stream to an address that gets into the list under way: at its rate before, at the limit after; and one inside its limit loses nothing.
fn l74_replaced() -> Result<()> {
    let classes = STORAGE.replace("RATE", "4mbit");
    let configured = Configured::start(&classes, &[("storage.txt", &prefixes(1))])?;
    let lab = &configured.lab;
    let to = |number| SocketAddr::new(client(false, number), PORT);
    let time = Duration::from_secs(6);
    let free = Udp::stream(1, to(0x0201), 1_000, 1_000_000, time).start(&lab.a);
    let inside = Udp::stream(2, to(0x0301), 1_000, 250_000, time).start(&lab.a);
    thread::sleep(Duration::from_secs(2));
    configured.folder.write("storage.txt", &prefixes(2))?;
    let asked_ns = leaky_tests::payload::now_ns();
    configured.leaky.signal(Signal::SIGHUP)?;
    thread::sleep(Duration::from_secs(2));
    let sent_inside = inside.join()?.packets;
    free.join()?;
    let found = configured.finish(Duration::from_millis(500))?;
    let packets = found.captured.stream(1);
    let of = |from: u64, to: u64| -> u64 {
        let range = asked_ns + from * 1_000_000..asked_ns + to * 1_000_000;
        let some: Vec<_> = packets
            .iter()
            .filter(|packet| range.contains(&packet.time_ns))
            .copied()
            .collect();
        stats::rate(&some).unwrap_or(0)
    };
    let first = packets.first().context("nothing arrived")?.time_ns;
    let before: Vec<_> = packets
        .iter()
        .filter(|packet| packet.time_ns < asked_ns)
        .copied()
        .collect();
    let before = stats::rate(&before).context("nothing arrived before")?;
    let after = of(1_500, 3_500);
    println!(
        "{before} B/s before, {after} B/s after; asked {} ms after the first packet",
        (asked_ns - first) / 1_000_000
    );
    near("rate before", before, 1_000_000, 20)?;
    near("rate after", after, 500_000, 20)?;
    let delivery = deliveries(&found.captured.packets, &[(2, sent_inside)].into())[&2];
    ensure!(
        (delivery.lost, delivery.reordered, delivery.duplicated) == (0, 0, 0),
        "the change took packets of a stream inside its limit: {delivery:?}"
    );
    Ok(())
}

/// What was in force stays in force, and leaky says what is wrong with the file.
fn broken_replacement() -> Result<()> {
    let classes = STORAGE.replace("RATE", "4mbit");
    let configured = Configured::start(&classes, &[("storage.txt", &prefixes(1))])?;
    configured
        .folder
        .write("storage.txt", "10.78.1.0/24\n10.78.2.300/24\n")?;
    configured.leaky.signal(Signal::SIGHUP)?;
    configured.leaky.next_counters()?;
    let to = SocketAddr::new(client(false, 0x0101), PORT);
    Udp::stream(1, to, 1_000, 1_000_000, Duration::from_secs(2)).send(&configured.lab.a)?;
    let found = configured.finish(Duration::from_millis(400))?;
    ensure!(
        found
            .notices
            .iter()
            .any(|notice| notice.contains("storage.txt:2")),
        "the broken line is not named: {:?}",
        found.notices
    );
    let packets = found.captured.stream(1);
    let rate = stats::rate(&packets[packets.len() / 4..]).context("nothing arrived")?;
    near("rate", rate, 500_000, 30)
}

/// Opening a pipe waits for somebody who writes: leaky must go on counting, and end when it is told to.
fn pipe_for_a_file() -> Result<()> {
    let classes = STORAGE.replace("RATE", "4mbit");
    let configured = Configured::start(&classes, &[("storage.txt", &prefixes(1))])?;
    let file = configured.folder.path("storage.txt");
    fs::remove_file(&file)?;
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU)?;
    configured.leaky.signal(Signal::SIGHUP)?;
    configured.leaky.next_counters()?;
    configured.leaky.next_counters()?;
    let found = configured.finish(Duration::from_millis(200))?;
    ensure!(
        found
            .notices
            .iter()
            .any(|notice| notice.contains("no regular file")),
        "{:?}",
        found.notices
    );
    Ok(())
}

/// What was accepted at 8 Mbit/s leaves, in order, after the rate was lowered to 2 Mbit/s while 800 ms of it waited.
fn lower_rate() -> Result<()> {
    let class = |rate: &str| {
        format!("[[interface.class]]\nname = \"a\"\nrate = \"{rate}\"\nmax-wait = \"1s\"\n")
    };
    let configured = Configured::start(&class("8mbit"), &[])?;
    let to = SocketAddr::new(client(false, 0x0101), PORT);
    let sender = Udp::stream(1, to, 1_000, 1_800_000, Duration::from_secs(2));
    let sender = sender.start(&configured.lab.a);
    thread::sleep(Duration::from_secs(1));
    let file = for_interface(SHAPED, &class("2mbit"));
    configured.folder.write("leaky.toml", &file)?;
    configured.leaky.signal(Signal::SIGHUP)?;
    let sent = sender.join()?;
    let found = configured.finish(Duration::from_millis(600))?;
    ensure!(
        found
            .notices
            .iter()
            .any(|notice| notice.contains("is in force")),
        "{:?}",
        found.notices
    );
    found.accepted_arrived("a", |packet| packet.destination_port == PORT)?;
    let delivery = deliveries(&found.captured.stream(1), &[(1, sent.packets)].into())[&1];
    println!("{delivery:?}, {:?}", found.summary.class("a")?);
    ensure!(delivery.reordered == 0, "{delivery:?}");
    ensure!(
        found.summary.hold_dropped_packets == 0,
        "the hold dropped {}",
        found.summary.hold_dropped_packets
    );
    Ok(())
}

/// On fq the order of classes can change under way; on htb it is refused in words, and the old order stays in force.
fn places_changed() -> Result<()> {
    let class = |name: &str, port: u16, rate: &str| {
        format!(
            "[[interface.class]]\nname = \"{name}\"\nrate = \"{rate}\"\nmatch = {{ destination-port = [{port}] }}\n"
        )
    };
    let (a, b) = (class("a", PORT, "2mbit"), class("b", PORT + 2, "4mbit"));
    let smooth = "smooth = \"on\"\n";
    let configured = Configured::start(&format!("{smooth}{a}{b}"), &[])?;
    let swapped = for_interface(SHAPED, &format!("{smooth}{b}{a}"));
    configured.folder.write("leaky.toml", &swapped)?;
    configured.leaky.signal(Signal::SIGHUP)?;
    configured.leaky.next_counters()?;
    let address = client(false, 0x0101);
    let senders = [(1, PORT), (2, PORT + 2)].map(|(stream, port)| {
        let to = SocketAddr::new(address, port);
        Udp::stream(stream, to, 1_000, 800_000, Duration::from_secs(2)).start(&configured.lab.a)
    });
    for sender in senders {
        sender.join()?;
    }
    let found = configured.finish(Duration::from_millis(400))?;
    let said = match found.installed.hold.as_str() {
        "htb" => "start leaky again",
        _ => "is in force",
    };
    ensure!(
        found.notices.iter().any(|notice| notice.contains(said)),
        "{:?}",
        found.notices
    );
    for (port, class) in [(PORT, "a"), (PORT + 2, "b")] {
        found.accepted_arrived(class, |packet| packet.destination_port == port)?;
    }
    let accepted =
        |class: &str| Ok::<u64, anyhow::Error>(found.summary.class(class)?.accepted_bytes);
    // 2 s at the rate and the bucket of 200 ms.
    near("accepted of a", accepted("a")?, 550_000, 40)?;
    near("accepted of b", accepted("b")?, 1_100_000, 40)
}

/// Each value that was asked is in the report, as asked.
fn l39_reported() -> Result<()> {
    let configured = Configured::start(
        r#"
link = { rate = "50mbit", max-wait = "100ms" }

[[interface.class]]
name = "voice"
match = { dscp = ["ef"] }
per = "src/24,src/56"
rate = "2mbit"
capacity = "40kB"
max-wait = "150ms"

[[interface.class]]
name = "watch"
match = { destination-port = ["5004"] }
action = "monitor"
rate = "3mbit"

[[interface.class]]
name = "subscribers"
per = "dst"
clients = { "10.78.0.1" = { rate = "4mbit" }, "10.78.1.0/24" = { rate = "8mbit", capacity = "100ms" } }
"#,
        &[],
    )?;
    let found = configured.finish(Duration::from_millis(20))?;
    let installed = found.installed;
    let link = installed.link.as_ref().context("no link")?;
    ensure!(link.rate_bytes_per_second == 6_250_000, "{link:?}");
    ensure!(link.capacity_bytes == 625_000, "{link:?}");
    let voice = installed.class("voice").context("no class voice")?;
    ensure!(
        voice.rate_bytes_per_second == Some(250_000)
            && voice.capacity_bytes == Some(40_000)
            && voice
                .max_wait_seconds
                .is_some_and(|wait| (wait - 0.15).abs() < 1e-9)
            && voice.key == "src/24,src/56"
            && voice.action == "shape",
        "{voice:?}"
    );
    ensure!(
        voice.key_words.contains("24") && voice.key_words.contains("56"),
        "{voice:?}"
    );
    let watch = installed.class("watch").context("no class watch")?;
    ensure!(watch.action == "monitor", "{watch:?}");
    let subscribers = installed
        .class("subscribers")
        .context("no class subscribers")?;
    ensure!(subscribers.clients == 2, "{subscribers:?}");
    ensure!(
        installed.rate_bytes_per_second.is_none(),
        "three classes, and one rate is reported: {installed:?}"
    );
    Ok(())
}

/// The link's limit, or the class's, is changed behind leaky's back: it ends as "not enforced" and says what.
fn l39_changed() -> Result<()> {
    let lab = Lab::new()?;
    let folder = crate::configured::Folder::new()?;
    let text = for_interface(
        SHAPED,
        "link = { rate = \"20mbit\" }\n[[interface.class]]\nname = \"all\"\nrate = \"10mbit\"\n",
    );
    let config = folder.write("leaky.toml", &text)?;
    let leaky = Leaky::start(&lab, &["--config", &config])?;
    let (kind, words) = if leaky.installed().hold == "fq" {
        lab.a
            .tc(&[
                "qdisc", "change", "dev", SHAPED, "root", "tbf", "rate", "900mbit", "burst",
                "100k", "limit", "10m",
            ])
            .map(|_| ("tbf", "rate"))?
    } else {
        let classes = lab.a.tc(&["class", "show", "dev", SHAPED])?;
        let parent = classes
            .lines()
            .find(|line| line.contains(" root ") && line.contains("20Mbit"))
            .and_then(|line| line.split_whitespace().nth(2))
            .with_context(|| format!("no class of 20 Mbit/s: {classes}"))?
            .to_owned();
        lab.a
            .tc(&[
                "class", "change", "dev", SHAPED, "classid", &parent, "htb", "rate", "900mbit",
            ])
            .map(|_| ("htb", "rate"))?
    };
    let outcome = leaky.wait(Duration::from_secs(10))?;
    println!("{kind}: exit {:?}, {}", outcome.code, outcome.errors.trim());
    ensure!(outcome.code == Some(1), "exit {:?}", outcome.code);
    ensure!(
        outcome.errors.contains(words),
        "{words:?} is not named: {}",
        outcome.errors
    );
    Ok(())
}
