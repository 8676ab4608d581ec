//! Policy changes under traffic, and one bucket on two CPUs.

use crate::compiled::{Classes, NO_CLASS, interface};
use crate::rig::*;
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use leaky_core::abi::SharedBucket;
use leaky_core::key::KeyMask;
use leaky_core::policy::{Class, Policy, REST};
use leaky_core::rate::Rate;
use leaky_core::time::Span;
use leaky_core::wire::Layer;
use leaky_user::bpf::{Kind, Sizes, Tables};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A second handle on the program, for another thread.
fn handle(bench: &mut Bench) -> Result<SchedClassifier, Failed> {
    let info = bench.program.classifier()?.info()?;
    Ok(SchedClassifier::from_program_info(info, "leaky".into())?)
}

/// A policy whose parts all say `which`: where the packet's class stands by the table of ports, what
/// the rest is, and the queue that the class at that place puts packets into.
fn marked(which: u32) -> (Policy, Tables) {
    let place = which as usize;
    let mut policy = policy(KeyMask::NOTHING, fast(), Layer::Ethernet);
    for (n, class) in (0..).zip(&mut policy.classes) {
        *class = policy_class(which, n);
    }
    policy.classifier.classes = 1 << place;
    policy.classifier.uses = leaky_core::classify::uses::DESTINATION_PORTS;
    policy.classifier.protocols = [u64::MAX; 256];
    policy.classifier.dscps = [u64::MAX; 64];
    let tables = Tables {
        destination_ports: vec![1 << place; 65_536],
        ..Tables::default()
    };
    (policy, tables)
}

/// The queue names the policy and the place in it: a mix shows as a place that is not the policy's.
fn policy_class(which: u32, place: u32) -> Class {
    let queue = 0x1eaf_0000 | which << 8 | place;
    let mut class = class(fast(), KeyMask::NOTHING, queue);
    class.id = which;
    class
}

fn fast() -> leaky_core::bucket::Limits {
    limits(
        Rate::bytes_per_second(50_000_000_000).unwrap(),
        Span::from_ns(100 * SECOND),
    )
}

/// Policy changes while packets come, at least.
const CHANGES: usize = 2_000;
/// Packets that come meanwhile, at least.
const PACKETS: u64 = 10_000;

pub(crate) fn a_packet_sees_the_old_policy_or_the_new_one() -> Outcome {
    let sizes = Sizes {
        keys: 1,
        clients: 1,
        classes: true,
    };
    let (first, mut tables) = marked(3);
    let (second, second_tables) = marked(9);
    let mut bench = Bench::with_policy(Kind::Queue, sizes, &first)?;
    // The whole table once for each bank; then the few ports in use.
    bench.program.set_policy(&second, &second_tables)?;
    bench.program.set_policy(&first, &tables)?;
    tables.destination_ports.truncate(16);
    let second_tables = Tables {
        destination_ports: second_tables.destination_ports[..16].to_vec(),
        ..Tables::default()
    };
    let program = handle(&mut bench)?;
    let (done, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let frame = udp(1, 100);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let (mut seen, mut mixed) = ([0u64; 2], Vec::new());
            while !done.load(Ordering::Relaxed) {
                sent.fetch_add(1, Ordering::Relaxed);
                let mut out = [0u8; 192];
                let mut options = TestRunOptions::new();
                options.data_in = Some(&frame);
                options.ctx_out = Some(&mut out);
                let verdict = program.test_run(options).map(|result| result.return_value);
                let queue = u32::from_ne_bytes(out[32..36].try_into().unwrap());
                match (verdict, queue) {
                    (Ok(NEXT), 0x1eaf_0303) => seen[0] += 1,
                    (Ok(NEXT), 0x1eaf_0909) => seen[1] += 1,
                    other => mixed.push(format!("{other:x?}")),
                }
            }
            (seen, mixed)
        });
        // On a busy machine the sender may not have had its turn after so many changes.
        let deadline = Instant::now() + Duration::from_secs(30);
        let goes_on = |change: &usize| {
            let enough = *change >= CHANGES && sent.load(Ordering::Relaxed) >= PACKETS;
            !enough && Instant::now() < deadline
        };
        let changed = (0..)
            .take_while(goes_on)
            .try_for_each(|change| match change % 2 {
                0 => bench.program.set_policy(&second, &second_tables),
                _ => bench.program.set_policy(&first, &tables),
            });
        done.store(true, Ordering::Relaxed);
        let (seen, mixed) = sender.join().map_err(|_| "the sender panicked")?;
        changed?;
        check(
            mixed.is_empty(),
            format!("{} of {seen:?} saw a mix: {:?}", mixed.len(), mixed.first()),
        )?;
        check(
            seen.iter().all(|packets| *packets > 100),
            format!("saw only {seen:?} packets of the two"),
        )
    })
}

/// Packets that each CPU sends.
const EACH: u32 = 200_000;

pub(crate) fn two_cpus_on_one_bucket_lose_nothing() -> Outcome {
    // 100 B take 800 us: the bucket never runs empty, so each packet accepted moves `free_at` by just
    // its cost.
    let slow = limits(
        Rate::bytes_per_second(125_000).unwrap(),
        Span::from_ns(3_600 * SECOND),
    );
    let slow = leaky_core::bucket::Limits {
        max_wait: Span::from_ns(3_600 * SECOND),
        ..slow
    };
    let slow = leaky_core::bucket::Limits {
        stale_after: slow.furthest(),
        ..slow
    };
    let mut bench = Bench::new(Kind::DepartureTime, KeyMask::NOTHING, slow)?;
    for _ in 0..100 {
        bench.send(&udp(1, 100), &Context::new())?;
    }
    let rest = SharedBucket::Class(u32::try_from(REST)?);
    let before = bench.free_at(rest)?;
    let programs = [handle(&mut bench)?, handle(&mut bench)?];
    let cpus = std::thread::available_parallelism()?.get().min(2);
    std::thread::scope(|scope| {
        let threads: Vec<_> = programs
            .iter()
            .enumerate()
            .map(|(n, program)| {
                scope.spawn(move || {
                    let mut cpu = CpuSet::new();
                    cpu.set(n % cpus).map_err(|error| error.to_string())?;
                    sched_setaffinity(Pid::from_raw(0), &cpu).map_err(|error| error.to_string())?;
                    let mut options = TestRunOptions::new();
                    let frame = udp(1, 100);
                    options.data_in = Some(&frame);
                    options.repeat = EACH;
                    program.test_run(options).map_err(|error| error.to_string())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let run = thread.join().map_err(|_| "a sender panicked")?;
            run.map(|_| ()).map_err(Failed::from)
        })
    })?;
    let counted = bench.counters()?;
    let sent = 100 + 2 * u64::from(EACH);
    equal("offered", counted.offered.packets, sent)?;
    let contention = counted.dropped[2].packets;
    equal("accepted", counted.accepted.packets, sent - contention)?;
    let accepted = counted.accepted.packets - 100;
    let advance = bench.free_at(rest)? - before;
    equal("debits", advance, accepted * slow.rate.cost(100).0)
}

/// Case L74.2: a list of 1,000 prefixes is in force within a second, and so is the next one.
pub(crate) fn l74_a_thousand_prefixes_are_in_force_in_a_second() -> Outcome {
    let list = |third: u8| {
        let prefixes = (0..1_000u32).map(|n| format!("\"10.{}.{}.{third}\"", n / 250, n % 250));
        let prefixes: Vec<String> = prefixes.collect();
        let text = format!(
            "[[interface.class]]\nname = \"a\"\nrate = \"1kbit\"\nmatch = {{ destination = [{}] }}\n",
            prefixes.join(", ")
        );
        interface(&text)
    };
    let (first, second) = (list(1)?, list(2)?);
    let mut classes = Classes::of(Kind::DepartureTime, &first)?;
    let start = Instant::now();
    classes.change(&second)?;
    let took = start.elapsed();
    check(
        took <= Duration::from_secs(1),
        format!("in force after {took:?}"),
    )?;
    let to = |last: u8| {
        let mut frame = udp(1, 100);
        frame[30..34].copy_from_slice(&[10, 3, 249, last]);
        frame
    };
    equal(
        "an old one",
        classes.class_of(&to(1), &Context::new())?,
        NO_CLASS.to_owned(),
    )?;
    equal(
        "a new one",
        classes.class_of(&to(2), &Context::new())?,
        "a".to_owned(),
    )
}
