//! The packet path: nanoseconds by the kernel's own test run, next to a program that does nothing.

use crate::cases::{self, Case, TRIE};
use anyhow::{Context, Result, bail};
use aya::maps::lpm_trie::{Key as TrieKey, LpmTrie};
use aya::maps::{Array, PerCpuArray, PerCpuValues};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use aya::{Ebpf, EbpfLoader, Pod, util::nr_cpus};
use leaky_core::abi::{ADDRESS_AT, AddressKey, Counters, KEY_TABLE, PORTS};
use leaky_core::policy::{Client, Policy};

/// Packets in one measurement: about a tenth of a second.
const PACKETS: u32 = 1_000_000;
/// Measurements of each kind, taken in turn.
const ROUNDS: usize = 15;

macro_rules! map_value {
    ($name:ident($inner:ty)) => {
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        struct $name($inner);
        // SAFETY: repr(C) over integers without padding; leaky-core asserts its size.
        unsafe impl Pod for $name {}
    };
}
map_value!(PolicyValue(Policy));
map_value!(CountersValue(Counters));
map_value!(ClientValue(Client));
map_value!(AddressValue(AddressKey));

pub(crate) fn run() -> Result<()> {
    let path = std::env::var_os("LEAKY_BENCH_OBJECT")
        .context("LEAKY_BENCH_OBJECT is not set: run this by `cargo xtask bench`")?;
    let object = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let cases = cases::all()?;
    // Each case has maps of its own, so that no case finds another's flows.
    let mut loaded = cases
        .iter()
        .map(|case| load(&object, case).with_context(|| case.name))
        .collect::<Result<Vec<_>>>()?;
    let mut times = vec![Vec::new(); cases.len()];
    // The first round warms up and is not counted.
    for round in 0..=ROUNDS {
        for (ebpf, (case, times)) in loaded.iter_mut().zip(cases.iter().zip(&mut times)) {
            let ns = measure(ebpf, case)?;
            if round > 0 {
                times.push(ns);
            }
        }
    }
    println!("accept path from parse to stamp, UDP over IPv4, {PACKETS} packets x {ROUNDS} rounds");
    println!(
        "{:<42} {:>7} {:>7} {:>7}   over empty",
        "ns per packet", "best", "median", "worst"
    );
    let mut empty = None;
    let mut trie = [0; TRIE.len()];
    for (case, times) in cases.iter().zip(&mut times) {
        times.sort_unstable();
        let (best, median, worst) = (times[0], times[times.len() / 2], times[times.len() - 1]);
        let over = median.saturating_sub(*empty.get_or_insert(median));
        println!(
            "{:<42} {best:>7} {median:>7} {worst:>7}   {over:>7}",
            case.name
        );
        if let Some(place) = TRIE.iter().position(|name| *name == case.name) {
            trie[place] = median;
        }
    }
    let share = trie[1].saturating_sub(trie[0]);
    println!("of that, the lookup among 100,000 clients: {share} ns (median)");
    for (ebpf, case) in loaded.iter_mut().zip(&cases) {
        check(ebpf, case)?;
    }
    Ok(())
}

fn load(object: &[u8], case: &Case) -> Result<Ebpf> {
    let keys = case.keys * u32::try_from(case.frames.len())?;
    let mut loader = EbpfLoader::new();
    // Tables of the size that is used: eighteen full ones would take half a gigabyte.
    loader.map_max_entries("KEYS", if keys < 10_000 { 4_096 } else { KEY_TABLE });
    let mut ebpf = loader
        .load(object)
        .context("the kernel refused the bench object")?;
    let map = ebpf.map_mut("POLICY").context("no map POLICY")?;
    Array::<_, PolicyValue>::try_from(map)?.set(0, PolicyValue(case.policy), 0)?;
    let map = ebpf.map_mut("FLOW_CYCLE").context("no map FLOW_CYCLE")?;
    let cpus = nr_cpus().map_err(|(_, error)| error)?;
    let cycle = PerCpuValues::try_from(vec![[case.keys, 0]; cpus])?;
    PerCpuArray::<_, [u32; 2]>::try_from(map)?.set(0, cycle, 0)?;
    write_tables(&mut ebpf, case)?;
    program(&mut ebpf, case)?.load()?;
    Ok(ebpf)
}

fn write_tables(ebpf: &mut Ebpf, case: &Case) -> Result<()> {
    let address = |side: u32, octets: [u8; 4], length: u8| {
        let words = [u32::from_ne_bytes(octets), 0, 0, 0];
        let key = AddressKey::new(0, side, 4, &words);
        TrieKey::new(ADDRESS_AT + u32::from(length), AddressValue(key))
    };
    let map = ebpf.map_mut("PREFIXES").context("no map PREFIXES")?;
    let mut prefixes = LpmTrie::<_, AddressValue, u64>::try_from(map)?;
    for (side, prefix, classes) in &case.tables.prefixes {
        let std::net::IpAddr::V4(network) = prefix.network() else {
            bail!("{prefix}: the packets are IPv4");
        };
        let key = address(*side as u32, network.octets(), prefix.prefix_len());
        prefixes.insert(&key, classes, 0)?;
    }
    let map = ebpf
        .map_mut("PORT_CLASSES")
        .context("no map PORT_CLASSES")?;
    let mut ports = Array::<_, u64>::try_from(map)?;
    for (port, classes) in (PORTS..).zip(&case.tables.destination_ports) {
        ports.set(port, *classes, 0)?;
    }
    let map = ebpf.map_mut("CLIENTS").context("no map CLIENTS")?;
    let mut clients = LpmTrie::<_, AddressValue, ClientValue>::try_from(map)?;
    for (octets, client) in &case.clients {
        clients.insert(&address(0, *octets, 32), ClientValue(*client), 0)?;
    }
    Ok(())
}

fn program<'a>(ebpf: &'a mut Ebpf, case: &Case) -> Result<&'a mut SchedClassifier> {
    let program = ebpf.program_mut(case.program);
    Ok(program
        .with_context(|| format!("no program {}", case.program))?
        .try_into()?)
}

fn measure(ebpf: &mut Ebpf, case: &Case) -> Result<u128> {
    // One long run, or all keys of one frame, then all of the other.
    let (turns, repeat) = match case.frames.len() {
        1 => (1, PACKETS),
        _ => (PACKETS / case.keys, case.keys),
    };
    let frames = case.frames.iter().cycle().take(turns as usize);
    let mut sum = 0;
    for frame in frames {
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.repeat = repeat;
        let result = program(ebpf, case)?.test_run(options)?;
        if result.return_value != u32::MAX {
            bail!("{}: a packet was dropped, this measures nothing", case.name);
        }
        sum += result.duration.as_nanos();
    }
    Ok(sum / u128::from(turns))
}

/// Makes sure that the packets took the path that the case is about.
fn check(ebpf: &mut Ebpf, case: &Case) -> Result<()> {
    if case.program != "accept" {
        return Ok(());
    }
    let map = ebpf.map("COUNTERS").context("no map COUNTERS")?;
    let counters = PerCpuArray::<_, CountersValue>::try_from(map)?;
    let mut sum = Counters::default();
    for class in 0..counters.len() {
        for cpu in counters.get(&class, 0)?.iter() {
            sum.add(&cpu.0);
        }
    }
    let (accepted, delayed) = (sum.accepted.packets, sum.delayed.packets);
    // A bucket is empty for its first packet, and can run empty between two rounds and whenever this
    // process has to wait for a CPU.
    let at_once = accepted - delayed;
    let buckets = u64::from(case.keys) * case.frames.len() as u64;
    let wanted = match case.waiting {
        true => buckets..=accepted / 100,
        false => accepted..=accepted,
    };
    if accepted == 0 || !wanted.contains(&at_once) || sum.keys_beyond_table != 0 {
        bail!(
            "{}: {at_once} of {accepted} packets left at once, wanted {wanted:?}; {} keys found no place",
            case.name,
            sum.keys_beyond_table
        );
    }
    Ok(())
}
