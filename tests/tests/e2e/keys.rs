//! What else can say whose bucket a packet falls into, or which class it is in: mark, port, cgroup, VLAN. L40.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::craft::mark_now;
use leaky_tests::lab::SHAPED;
use leaky_tests::raw::RawSocket;
use leaky_tests::stats;
use leaky_tests::{Craft, Kind, Link, Udp};

use crate::Case;
use crate::configured::Configured;
use crate::host::{CannotTell, Need};
use crate::judge::near;
use crate::rig::{PORT, Rig};

pub(crate) const CASES: &[Case] = &[
    Case::timed("per_mark", &[Need::Root, Need::Leaky], || {
        separates("mark", |mut udp, key| {
            udp.mark = Some(key);
            udp
        })
    }),
    Case::timed("per_destination_port", &[Need::Root, Need::Leaky], || {
        separates("port", |mut udp, key| {
            udp.to.set_port(PORT + u16::try_from(key).unwrap_or(0) * 2);
            udp
        })
    }),
    Case::timed("per_source_port", &[Need::Root, Need::Leaky], || {
        separates("src-port", |mut udp, key| {
            // One address each: two sockets cannot have the same one and port.
            let address = leaky_tests::lab::source(false, u16::try_from(udp.stream).unwrap_or(0));
            let port = 7_000 + u16::try_from(key).unwrap_or(0);
            udp.from = Some(SocketAddr::new(address, port));
            udp
        })
    }),
    Case::new(
        "a_cgroup_has_its_class",
        &[Need::Root, Need::Leaky],
        cgroup_class,
    ),
    Case::new(
        "l40_a_tag_in_the_frame_is_seen",
        &[Need::Root, Need::Leaky],
        tag_in_frame,
    ),
    Case::new(
        "l40_a_tag_beside_the_frame_is_seen",
        &[Need::Root, Need::Leaky, Need::Device(Kind::Vlan)],
        tag_beside,
    ),
];

/// Three streams, two of them with the same key: those share a rate, and the third has its own.
fn separates(per: &str, with_key: impl Fn(Udp, u32) -> Udp) -> Result<()> {
    let rig = Rig::many(&["--rate", "4mbit", "--per", per])?;
    let _other = leaky_tests::udp::Sink::open(&rig.lab.b, PORT + 2)?;
    let senders: Vec<_> = [(1, 0), (2, 0), (3, 1)]
        .into_iter()
        .map(|(stream, key)| {
            let to = rig.lab.far(false, PORT);
            let udp = Udp::stream(stream, to, 1_000, 500_000, Duration::from_secs(3));
            with_key(udp, key).start(&rig.lab.a)
        })
        .collect();
    for sender in senders {
        sender.join()?;
    }
    let measured = rig.finish(Duration::from_millis(400))?;
    let rate = |of: &[u32]| {
        let packets = measured
            .captured
            .only(|packet| packet.mark.is_some_and(|mark| of.contains(&mark.stream)));
        stats::rate(&packets[packets.len() / 4..]).context("nothing arrived")
    };
    let (two, one) = (rate(&[1, 2])?, rate(&[3])?);
    println!(
        "per {}: {two} B/s for two, {one} B/s for one",
        measured.installed.key
    );
    near("rate of the two with the same key", two, 500_000, 20)?;
    near("rate of the one with another", one, 500_000, 20)
}

/// A cgroup that this process enters and leaves again; removed on drop.
struct Cgroup {
    path: PathBuf,
    home: PathBuf,
}

impl Cgroup {
    fn make(name: &str) -> Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let own = own
            .lines()
            .find_map(|line| line.strip_prefix("0::/"))
            .context("no cgroup2")?;
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let root = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|words| words.get(2) == Some(&"cgroup2"))
            .and_then(|words| words.get(1).copied())
            .map(Path::new)
            .context("no cgroup2 is mounted")?;
        let made = Self {
            path: root.join(name),
            home: root.join(own),
        };
        fs::create_dir(&made.path).with_context(|| format!("making {}", made.path.display()))?;
        Ok(made)
    }

    /// Sockets belong to the cgroup in which they are made.
    fn inside<T>(&self, code: impl FnOnce() -> Result<T>) -> Result<T> {
        let enter = |cgroup: &Path| {
            fs::write(cgroup.join("cgroup.procs"), process::id().to_string())
                .with_context(|| format!("entering {}", cgroup.display()))
        };
        enter(&self.path)?;
        let done = code();
        enter(&self.home)?;
        done
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

fn cgroup_class() -> Result<()> {
    let name = format!("leaky-e2e-{}", process::id());
    let cgroup = Cgroup::make(&name).map_err(|error| CannotTell(format!("{error:#}")))?;
    let configured = Configured::start(
        &format!(
            "[[interface.class]]\nname = \"backup\"\nmatch = {{ cgroup = [\"/{name}\"] }}\nrate = \"100mbit\"\n"
        ),
        &[],
    )?;
    let lab = &configured.lab;
    let burst = |stream| Udp::burst(stream, lab.far(false, PORT), 500, 20).send(&lab.a);
    burst(1)?;
    cgroup.inside(|| burst(2))?;
    burst(3)?;
    let found = configured.finish(Duration::from_millis(200))?;
    let counted = found.summary.class("backup")?.offered_packets;
    ensure!(counted == 20, "{counted} packets of 20 are in the class");
    Ok(())
}

const VLAN: &str =
    "[[interface.class]]\nname = \"tagged\"\nmatch = { vlan = [100] }\nrate = \"100mbit\"\n";

fn tag_in_frame() -> Result<()> {
    let configured = Configured::start(VLAN, &[])?;
    let socket = RawSocket::open(&configured.lab.a, SHAPED, 0)?;
    for (stream, tags) in [
        (1, vec![(0x8100, 100)]),
        (2, vec![]),
        (3, vec![(0x8100, 101)]),
        (4, vec![(0x88a8, 7), (0x8100, 101)]),
    ] {
        let craft = Craft {
            tags,
            ..Craft::plain(PORT, 300)
        };
        for number in 0..10 {
            socket.send(&craft.frame(Some(mark_now(stream, number)))?)?;
        }
    }
    let found = configured.finish(Duration::from_millis(200))?;
    let class = found.summary.class("tagged")?;
    ensure!(class.offered_packets == 10, "{:?}", found.summary.classes);
    // The tag counts.
    ensure!(class.offered_bytes == 10 * 304, "{class:?}");
    Ok(())
}

fn tag_beside() -> Result<()> {
    let lab = leaky_tests::Lab::new()?;
    let link = Link::add(&lab, Kind::Vlan)?;
    let configured = Configured::on(lab, VLAN, &[])?;
    let lab = &configured.lab;
    for (stream, to) in [
        (1, link.far_address(false, PORT)),
        (2, lab.far(false, PORT)),
    ] {
        Udp::burst(stream, to, 300, 10).send(&lab.a)?;
    }
    let found = configured.finish(Duration::from_millis(200))?;
    let class = found.summary.class("tagged")?;
    ensure!(class.offered_packets == 10, "{:?}", found.summary.classes);
    ensure!(class.offered_bytes == 10 * 304, "{class:?}");
    Ok(())
}
