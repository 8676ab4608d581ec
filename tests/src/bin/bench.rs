//! What a packet costs in the kernel program: nanoseconds by the kernel's own test run, next to a
//! program that does nothing. Run it with `cargo xtask bench`.
//!
//! Figures of one run are comparable with one another; between machines only the ratios are.

use anyhow::{Context, Result, bail};
use aya::maps::{Array, PerCpuArray, PerCpuValues};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use aya::{Ebpf, Pod, util::nr_cpus};
use leaky_core::abi::{Counters, Key, Policy};
use leaky_core::bucket::Limits;
use leaky_core::rate::Rate;
use leaky_core::time::Span;
use leaky_core::wire::Layer;

/// Packets in one measurement: about a tenth of a second.
const PACKETS: u32 = 1_000_000;
/// Measurements of each kind, taken in turn.
const ROUNDS: usize = 15;

#[derive(Clone, Copy)]
#[repr(transparent)]
struct PolicyValue(Policy);
// SAFETY: repr(C) over integers without padding; leaky-core asserts its size.
unsafe impl Pod for PolicyValue {}

/// One kind of measurement.
struct Case {
    name: &'static str,
    program: &'static str,
    key: Key,
    flows: u32,
    /// Whether packets come faster than they may leave, so that each is stamped.
    waiting: bool,
}

const CASES: [Case; 7] = [
    Case::new("empty program", "empty", Key::Class, 1, false),
    Case::new(
        "rotating through 1,000 flows",
        "cycle",
        Key::Class,
        1_000,
        false,
    ),
    Case::new("one bucket, leaves at once", "accept", Key::Class, 1, false),
    Case::new("one bucket, stamped", "accept", Key::Class, 1, true),
    Case::new(
        "1,000 flows, leaves at once",
        "accept",
        Key::Flow,
        1_000,
        false,
    ),
    Case::new("1 flow, stamped", "accept", Key::Flow, 1, true),
    Case::new("1,000 flows, stamped", "accept", Key::Flow, 1_000, true),
];

impl Case {
    const fn new(
        name: &'static str,
        program: &'static str,
        key: Key,
        flows: u32,
        waiting: bool,
    ) -> Case {
        Case {
            name,
            program,
            key,
            flows,
            waiting,
        }
    }
}

#[derive(Clone, Copy)]
#[repr(transparent)]
struct CountersValue(Counters);
// SAFETY: repr(C) over integers without padding; leaky-core asserts its size.
unsafe impl Pod for CountersValue {}

fn main() -> Result<()> {
    let path = std::env::var_os("LEAKY_BENCH_OBJECT")
        .context("LEAKY_BENCH_OBJECT is not set: run this by `cargo xtask bench`")?;
    let object = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    if !nix::unistd::geteuid().is_root() {
        bail!("measuring loads programs into the kernel: run it as root");
    }
    // Each case has maps of its own, so that no case finds another's flows.
    let mut loaded = CASES
        .iter()
        .map(|case| load(&object, case))
        .collect::<Result<Vec<_>>>()?;
    let frame = udp_frame();
    let mut times = vec![Vec::new(); CASES.len()];
    // The first round warms up and is not counted.
    for round in 0..=ROUNDS {
        for (ebpf, (case, times)) in loaded.iter_mut().zip(CASES.iter().zip(&mut times)) {
            let ns = measure(ebpf, case, &frame)?;
            if round > 0 {
                times.push(ns);
            }
        }
    }
    for (ebpf, case) in loaded.iter_mut().zip(&CASES) {
        check(ebpf, case)?;
    }
    println!("accept path from parse to stamp, UDP over IPv4, {PACKETS} packets x {ROUNDS} rounds");
    println!(
        "{:<30} {:>7} {:>7} {:>7}   over empty",
        "ns per packet", "best", "median", "worst"
    );
    let mut empty = None;
    for (case, times) in CASES.iter().zip(&mut times) {
        times.sort_unstable();
        let (best, median, worst) = (times[0], times[times.len() / 2], times[times.len() - 1]);
        let over = median.saturating_sub(*empty.get_or_insert(median));
        println!(
            "{:<30} {best:>7} {median:>7} {worst:>7}   {over:>7}",
            case.name
        );
    }
    Ok(())
}

fn load(object: &[u8], case: &Case) -> Result<Ebpf> {
    let mut ebpf = Ebpf::load(object).context("the kernel refused the bench object")?;
    // Far above what a test run offers, or far below; accepted is every packet: 1,042 B take 833 us
    // at 10 Mbit/s, 16 million of them 4 hours.
    let bytes_per_second = if case.waiting {
        1_250_000
    } else {
        50_000_000_000
    };
    let most = Span::from_ns(10 * 3_600 * 1_000_000_000);
    let mut limits = Limits {
        rate: Rate::bytes_per_second(bytes_per_second).context("rate")?,
        capacity: most,
        max_wait: most,
        ..Limits::default()
    };
    limits.stale_after = limits.furthest();
    let policy = PolicyValue(Policy::new(limits, case.key, Layer::Ethernet));
    let map = ebpf.map_mut("POLICY").context("no map POLICY")?;
    Array::<_, PolicyValue>::try_from(map)?.set(0, policy, 0)?;
    let map = ebpf.map_mut("FLOW_CYCLE").context("no map FLOW_CYCLE")?;
    let cpus = nr_cpus().map_err(|(_, error)| error)?;
    let cycle = PerCpuValues::try_from(vec![[case.flows, 0]; cpus])?;
    PerCpuArray::<_, [u32; 2]>::try_from(map)?.set(0, cycle, 0)?;
    program(&mut ebpf, case)?.load()?;
    Ok(ebpf)
}

fn program<'a>(ebpf: &'a mut Ebpf, case: &Case) -> Result<&'a mut SchedClassifier> {
    let program = ebpf.program_mut(case.program);
    Ok(program
        .with_context(|| format!("no program {}", case.program))?
        .try_into()?)
}

fn measure(ebpf: &mut Ebpf, case: &Case, frame: &[u8]) -> Result<u128> {
    let mut options = TestRunOptions::new();
    options.data_in = Some(frame);
    options.repeat = PACKETS;
    let result = program(ebpf, case)?.test_run(options)?;
    if result.return_value != u32::MAX {
        bail!("{}: a packet was dropped, this measures nothing", case.name);
    }
    Ok(result.duration.as_nanos())
}

/// Makes sure that the packets took the path that the case is about.
fn check(ebpf: &mut Ebpf, case: &Case) -> Result<()> {
    if case.program != "accept" {
        return Ok(());
    }
    let map = ebpf.map("COUNTERS").context("no map COUNTERS")?;
    let mut sum = Counters::default();
    for cpu in PerCpuArray::<_, CountersValue>::try_from(map)?
        .get(&0, 0)?
        .iter()
    {
        sum.add(&cpu.0);
    }
    let (accepted, delayed) = (sum.accepted.packets, sum.delayed.packets);
    // A bucket is empty for its first packet, and can run empty between two rounds and whenever this
    // process has to wait for a CPU.
    let at_once = accepted - delayed;
    let wanted = match case.waiting {
        true => u64::from(case.flows)..=accepted / 100,
        false => accepted..=accepted,
    };
    if accepted == 0 || !wanted.contains(&at_once) {
        bail!(
            "{}: {at_once} of {accepted} packets left at once, wanted {wanted:?}",
            case.name
        );
    }
    Ok(())
}

/// A UDP datagram of 1,000 B payload over IPv4 and Ethernet.
fn udp_frame() -> Vec<u8> {
    let mut frame = vec![0u8; 1_042];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&1_028u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..38].copy_from_slice(&[0x10, 0, 0x20, 0]);
    frame[38..40].copy_from_slice(&1_008u16.to_be_bytes());
    frame
}
