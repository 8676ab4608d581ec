//! More keys than the table has room for.

use crate::rig::*;
use aya::maps::{HashMap, MapData};
use leaky_core::key::KeyMask;
use leaky_core::wire::Layer;
use leaky_user::bpf::{Kind, Sizes};

const ROOM: u16 = 1_024;

pub(crate) fn l67_keys_beyond_the_table_share_one_limited_bucket() -> Outcome {
    let sizes = Sizes {
        keys: u32::from(ROOM),
        clients: 1,
        classes: false,
    };
    let policy = policy(KeyMask::source(32, 64), slow(), Layer::Ethernet);
    let mut bench = Bench::with_policy(Kind::DepartureTime, sizes, &policy)?;
    let frame = |key: u16| {
        let [high, low] = key.to_be_bytes();
        udp_from([10, 9, high, low], 1, 1_000)
    };
    let (mut with_own, mut shared) = (0, 0);
    for round in 0..13 {
        for key in 0..2 * ROOM {
            let beyond = key >= ROOM;
            let (verdict, out) = bench.send(&frame(key), &Context::new())?;
            if verdict == NEXT {
                *(if beyond { &mut shared } else { &mut with_own }) += 1;
            }
            if round == 0 && !beyond {
                equal("first of a key", (verdict, out.stamp()), (NEXT, 0))?;
            }
        }
    }
    let room = bench.keys()?.len() as u64;
    let counted = bench.counters()?;
    equal("keys with a bucket of their own", room, u64::from(ROOM))?;
    equal(
        "beyond the table",
        counted.keys_beyond_table,
        13 * u64::from(ROOM),
    )?;
    // Twelve packets to a bucket; a thirteenth where the test has taken 8 s.
    check(
        (12..=13).contains(&shared),
        format!("{shared} through the shared bucket"),
    )?;
    let most = 13 * u64::from(ROOM);
    check(with_own <= most, format!("{with_own} accepted"))?;
    equal("accepted", counted.accepted.packets, with_own + shared)?;

    // A key that goes makes room for another.
    let mut keys: HashMap<MapData, [u8; 44], [u64; 2]> = bench.map("KEYS")?.try_into()?;
    let first = keys.keys().next().ok_or("no key")??;
    let mut idle = keys.get(&first, 0)?;
    // As if it had been empty for two minutes.
    let now = monotonic();
    idle[0] = (now - 120 * SECOND) << 16;
    keys.insert(first, idle, 0)?;
    equal("swept", bench.program.sweep()?, 1)?;
    equal("keys", bench.keys()?.len(), usize::from(ROOM) - 1)?;
    let (verdict, out) = bench.send(&frame(5_000), &Context::new())?;
    equal("a new key", (verdict, out.stamp()), (NEXT, 0))?;
    equal("keys", bench.keys()?.len(), usize::from(ROOM))?;
    let beyond = bench.counters()?.keys_beyond_table;
    equal("beyond the table", beyond, 13 * u64::from(ROOM))
}

fn monotonic() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    u64::try_from(std::time::Duration::from(now).as_nanos()).unwrap()
}
