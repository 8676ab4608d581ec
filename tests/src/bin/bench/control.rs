//! Many clients: loading them, changing one, their memory, and whether each gets its own rate.

use anyhow::{Context, Result, bail};
use aya::maps::{MapData, MapInfo};
use aya::programs::{TestRun, TestRunOptions};
use ipnet::IpNet;
use leaky_core::bucket::Limits;
use leaky_core::classify::{Classifier, uses};
use leaky_core::key::KeyMask;
use leaky_core::policy::{Action, Client, Policy, REST};
use leaky_core::rate::{Rate, span_of};
use leaky_core::time::Span;
use leaky_core::wire::Layer;
use leaky_user::bpf::{Kind, Program, Sizes, Tables};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const ALL: u32 = 100_000;
/// Single changes that are timed.
const CHANGES: u32 = 1_000;
/// Clients that send.
const ACTIVE: u32 = 1_000;
/// How long they send.
const WINDOW: Duration = Duration::from_secs(15);
/// Bytes of a packet.
const PACKET: usize = 1_000;

pub(crate) fn run() -> Result<()> {
    println!("clients with limits of their own");
    println!("{:<42} {:>12} {:>14}", "", "all", "each");
    for count in [1, 1_000, ALL] {
        let mut program = load()?;
        let took = put_all(&mut program, count)?;
        let name = format!("load {count}");
        println!("{name:<42} {:>12} {:>14}", show(took), show(took / count));
    }
    let mut program = load()?;
    let (slab, counted) = (unreclaimable()?, memlock(&mut program)?);
    put_all(&mut program, ALL)?;
    let slab = unreclaimable()?.saturating_sub(slab) / u64::from(ALL);
    let counted = (memlock(&mut program)? - counted) / u64::from(ALL);
    // The array of the buckets is made with the program: 16 B for each place.
    let bucket = size_of::<leaky_core::abi::Bucket>() as u64;
    println!(
        "memory for each of {ALL}, in bytes: {} (slab, by /proc/meminfo: {slab}, the map's own count: \
         {counted}; bucket: {bucket}); no part of it is per CPU",
        slab.max(counted) + bucket
    );
    change(&mut program)?;
    exactness(&mut program)
}

fn load() -> Result<Program> {
    let mut program = Program::load(Kind::DepartureTime, Sizes::FULL)?;
    let mut policy = Policy::new(Layer::Ethernet);
    policy.classes[0] = policy.classes[REST].with_action(Action::Shape);
    policy.classes[0].id = 0;
    policy.classes[0].single = 0;
    policy.classes[0].clients = 1;
    policy.classes[0].key = KeyMask::source(32, 64);
    policy.classifier = Classifier {
        classes: 1,
        uses: uses::CLIENTS,
        protocols: [1; 256],
        dscps: [1; 64],
        ..Classifier::EMPTY
    };
    program.set_policy(&policy, &Tables::default())?;
    Ok(program)
}

fn address(n: u32) -> Ipv4Addr {
    // 100.64.0.0/10, the addresses of providers' clients; neighbours are as far apart as they come.
    Ipv4Addr::from(0x6440_0000 + n)
}

/// From 20 kB/s on.
fn rate(n: u32) -> u64 {
    20_000 + u64::from(n % ACTIVE) * 20
}

fn client(n: u32, per_second: u64) -> Result<Client> {
    let mut limits = Limits {
        rate: Rate::bytes_per_second(per_second).context("rate")?,
        capacity: span_of(10_000, per_second, 60).context("capacity")?,
        max_wait: Span::from_ns(10_000_000_000),
        ..Limits::default()
    };
    limits.stale_after = limits.furthest();
    Ok(Client {
        limits,
        mark_above: Span::MAX,
        slot: n,
        queue: 0,
    })
}

fn put(program: &mut Program, n: u32, per_second: u64, new: bool) -> Result<()> {
    let prefix = IpNet::from(IpAddr::V4(address(n)));
    Ok(program.put_client(&prefix, &client(n, per_second)?, new)?)
}

fn put_all(program: &mut Program, count: u32) -> Result<Duration> {
    let start = Instant::now();
    for n in 0..count {
        put(program, n, rate(n), true)?;
    }
    Ok(start.elapsed())
}

fn change(program: &mut Program) -> Result<()> {
    let mut times = Vec::new();
    for change in 0..CHANGES {
        // Spread over all of them, back to the same rate.
        let n = change.wrapping_mul(7_919) % ALL;
        let start = Instant::now();
        put(program, n, rate(n), false)?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "change one of {ALL}: median {}, p99 {}, worst {}",
        show(at(50)),
        show(at(99)),
        show(at(100))
    );
    Ok(())
}

/// Sends for some of the clients, more than each may, and compares what the program let pass in that
/// time with each one's own rate. What the hold then does with it is not in this.
fn exactness(program: &mut Program) -> Result<()> {
    let active: Vec<u32> = (0..ACTIVE).map(|n| n * (ALL / ACTIVE) + n % 100).collect();
    let frames: Vec<Vec<u8>> = active
        .iter()
        .map(|n| {
            let mut frame = crate::frames::udp();
            frame.truncate(PACKET);
            frame[26..30].copy_from_slice(&address(*n).octets());
            frame
        })
        .collect();
    // Ten packets fill a bucket.
    for frame in frames.iter().cycle().take(15 * ACTIVE as usize) {
        send(program, frame)?;
    }
    let mut accepted = vec![0u64; frames.len()];
    let mut sent = 0u64;
    let start = Instant::now();
    while start.elapsed() < WINDOW {
        for (frame, accepted) in frames.iter().zip(&mut accepted) {
            *accepted += u64::from(send(program, frame)?);
            sent += 1;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut off: Vec<f64> = active
        .iter()
        .zip(&accepted)
        .map(|(n, accepted)| {
            let is = (accepted * PACKET as u64) as f64 / seconds;
            (is / rate(*n) as f64 - 1.0) * 100.0
        })
        .collect();
    off.sort_unstable_by(f64::total_cmp);
    let (low, median, high) = (off[0], off[off.len() / 2], off[off.len() - 1]);
    println!(
        "{ACTIVE} active of {ALL}, at 20 to 40 kB/s each, {sent} packets in {seconds:.1} s: off their rates \
         by {low:+.2} % to {high:+.2} %, median {median:+.2} % (one packet is 0.17 to 0.33 %)"
    );
    if low < -2.0 || high > 2.0 {
        bail!("a client is off its rate by more than 2 %");
    }
    Ok(())
}

fn send(program: &mut Program, frame: &[u8]) -> Result<bool> {
    let mut options = TestRunOptions::new();
    options.data_in = Some(frame);
    Ok(program.classifier()?.test_run(options)?.return_value == u32::MAX)
}

/// What the map of clients says of its memory, in bytes: since Linux 6.4 its entries as they are.
fn memlock(program: &mut Program) -> Result<u64> {
    for id in program.classifier()?.info()?.map_ids()?.unwrap_or_default() {
        if MapInfo::from_id(id)?.name_as_str() == Some("CLIENTS") {
            let map = MapData::from_id(id)?;
            let path = format!(
                "/proc/self/fdinfo/{}",
                std::os::fd::AsFd::as_fd(map.fd()).as_raw_fd()
            );
            return field(&path, "memlock:");
        }
    }
    bail!("the program uses no map CLIENTS")
}

/// Kernel memory in small pieces, in bytes, of the whole machine.
fn unreclaimable() -> Result<u64> {
    Ok(field("/proc/meminfo", "SUnreclaim:")? * 1_024)
}

fn field(path: &str, name: &str) -> Result<u64> {
    let text = std::fs::read_to_string(path)?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    let value = value.with_context(|| format!("{path} has no {name}"))?;
    Ok(value.parse()?)
}

fn show(time: Duration) -> String {
    let us = time.as_nanos() as f64 / 1_000.0;
    if us < 1_000.0 {
        format!("{us:.1} us")
    } else {
        format!("{:.1} ms", us / 1_000.0)
    }
}
