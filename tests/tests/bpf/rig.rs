//! What the tests share: a loaded program, one packet at a time through it, and what is in its maps.

use aya::maps::{Array, HashMap, Map, MapData, MapInfo};
use aya::programs::{TestRun, TestRunOptions};
use etherparse::PacketBuilder;
use leaky_core::abi::{Counters, SharedBucket};
use leaky_core::bucket::Limits;
use leaky_core::key::KeyMask;
use leaky_core::policy::{Action, Class, Policy, REST};
use leaky_core::rate::{Rate, span_of};
use leaky_core::time::Span;
use leaky_core::wire::Layer;
use leaky_user::bpf::{Kind, Program, Sizes, Tables};
pub(crate) use libtest_mimic::Failed;

pub(crate) const SECOND: u64 = 1_000_000_000;
/// `TC_ACT_UNSPEC`: the next program, then the qdisc.
pub(crate) const NEXT: u32 = u32::MAX;
/// `TC_ACT_SHOT`.
pub(crate) const DROP: u32 = 2;
/// The hold's queue for the one bucket of a class.
pub(crate) const OWN_QUEUE: u32 = 0x1eaf_0001;
/// The hold's queue for keys that share the overflow bucket.
pub(crate) const OVERFLOW_QUEUE: u32 = 0x1eaf_0002;

/// How a test ends.
pub(crate) type Outcome = Result<(), Failed>;

/// `struct __sk_buff` as the test run takes and gives it; offsets from linux/bpf.h.
#[derive(Clone)]
pub(crate) struct Context([u8; 192]);

impl Context {
    pub(crate) const MARK: usize = 8;
    pub(crate) const PRIORITY: usize = 32;
    pub(crate) const TSTAMP: usize = 152;
    pub(crate) const WIRE_LEN: usize = 160;
    pub(crate) const GSO_SEGS: usize = 164;
    pub(crate) const GSO_SIZE: usize = 176;

    pub(crate) fn new() -> Context {
        Context([0; 192])
    }

    pub(crate) fn with(mut self, at: usize, value: u32) -> Context {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    pub(crate) fn with_stamp(mut self, ns: u64) -> Context {
        self.0[Self::TSTAMP..Self::TSTAMP + 8].copy_from_slice(&ns.to_ne_bytes());
        self
    }

    pub(crate) fn stamp(&self) -> u64 {
        u64::from_ne_bytes(self.0[Self::TSTAMP..Self::TSTAMP + 8].try_into().unwrap())
    }

    pub(crate) fn priority(&self) -> u32 {
        u32::from_ne_bytes(
            self.0[Self::PRIORITY..Self::PRIORITY + 4]
                .try_into()
                .unwrap(),
        )
    }
}

/// A program with a policy, to run packets through.
pub(crate) struct Bench {
    pub(crate) program: Program,
}

impl Bench {
    /// One class for everything: a single bucket, or one for each key.
    pub(crate) fn new(kind: Kind, key: KeyMask, limits: Limits) -> Result<Bench, Failed> {
        Bench::with_layer(kind, key, limits, Layer::Ethernet)
    }

    pub(crate) fn with_layer(
        kind: Kind,
        key: KeyMask,
        limits: Limits,
        layer: Layer,
    ) -> Result<Bench, Failed> {
        Bench::with_policy(kind, SMALL, &policy(key, limits, layer))
    }

    pub(crate) fn with_policy(kind: Kind, sizes: Sizes, policy: &Policy) -> Result<Bench, Failed> {
        let mut program = Program::load(kind, sizes)?;
        program.set_policy(policy, &Tables::default())?;
        Ok(Bench { program })
    }

    /// Sends one packet; the verdict and the metadata afterwards.
    pub(crate) fn send(
        &mut self,
        frame: &[u8],
        context: &Context,
    ) -> Result<(u32, Context), Failed> {
        let mut out = Context::new();
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.ctx_in = Some(&context.0);
        options.ctx_out = Some(&mut out.0);
        let result = self.program.classifier()?.test_run(options)?;
        Ok((result.return_value, out))
    }

    /// Sends one packet; the verdict and the packet afterwards.
    pub(crate) fn send_and_look(&mut self, frame: &[u8]) -> Result<(u32, Vec<u8>), Failed> {
        let mut out = vec![0; frame.len()];
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.data_out = Some(&mut out);
        let result = self.program.classifier()?.test_run(options)?;
        Ok((result.return_value, out))
    }

    /// What was counted for the class at [`REST`] of [`policy`].
    pub(crate) fn counters(&self) -> Result<Counters, Failed> {
        Ok(self.program.counters()?[REST])
    }

    /// A map of the program, by its name in the object.
    pub(crate) fn map(&mut self, name: &str) -> Result<Map, Failed> {
        let info = self.program.classifier()?.info()?;
        for id in info.map_ids()?.unwrap_or_default() {
            if MapInfo::from_id(id)?.name_as_str() == Some(name) {
                return Ok(Map::from_map_data(MapData::from_id(id)?)?);
            }
        }
        Err(Failed::from(format!("the program uses no map {name}")))
    }

    /// The state of a shared bucket.
    pub(crate) fn free_at(&mut self, of: SharedBucket) -> Result<u64, Failed> {
        let shared: Array<MapData, [u64; 2]> = self.map("SHARED")?.try_into()?;
        Ok(shared.get(&of.index(), 0)?[0])
    }

    /// The states of all keys.
    pub(crate) fn keys(&mut self) -> Result<Vec<u64>, Failed> {
        let keys: HashMap<MapData, [u8; 44], [u64; 2]> = self.map("KEYS")?.try_into()?;
        let all = keys.iter().collect::<Result<Vec<_>, _>>()?;
        Ok(all.into_iter().map(|(_, bucket)| bucket[0]).collect())
    }
}

/// Tables for a test of one class.
pub(crate) const SMALL: Sizes = Sizes {
    keys: 4_096,
    clients: 1,
    classes: false,
};

/// One shaping class for everything.
pub(crate) fn policy(key: KeyMask, limits: Limits, layer: Layer) -> Policy {
    let single = key == KeyMask::NOTHING;
    let mut policy = Policy::new(layer);
    policy.rest_queue = OWN_QUEUE & 0xffff_0000;
    policy.classes[REST] = class(limits, key, queue(single));
    policy
}

fn queue(single: bool) -> u32 {
    if single { OWN_QUEUE } else { OVERFLOW_QUEUE }
}

/// A shaping class at [`REST`]: one bucket if the key is nothing.
pub(crate) fn class(limits: Limits, key: KeyMask, queue: u32) -> Class {
    let mut class = Policy::new(Layer::Ethernet).classes[REST].with_action(Action::Shape);
    class.limits = limits;
    class.key = key;
    class.single = u32::from(key == KeyMask::NOTHING);
    class.queue = queue;
    class
}

/// 1 kbit/s, room for ten seconds of it, no other bound on the wait.
pub(crate) fn slow() -> Limits {
    limits(
        Rate::bytes_per_second(125).unwrap(),
        span_of(12_500, 125, 60).unwrap(),
    )
}

pub(crate) fn limits(rate: Rate, capacity: Span) -> Limits {
    let max_wait = Span::from_ns(1_000 * SECOND);
    let mut limits = Limits {
        rate,
        capacity,
        max_wait,
        ..Limits::default()
    };
    limits.stale_after = limits.furthest();
    limits
}

/// A UDP datagram in an Ethernet frame of `length` bytes.
pub(crate) fn udp(source_port: u16, length: usize) -> Vec<u8> {
    udp_from([10, 0, 0, 1], source_port, length)
}

/// The same from another address.
pub(crate) fn udp_from(source: [u8; 4], source_port: u16, length: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4(source, [10, 0, 0, 2], 64)
        .udp(source_port, 9);
    finish(builder, length - 42)
}

/// A UDP datagram of IPv6 with 1,000 B of payload.
pub(crate) fn udp6(source: [u8; 16], destination: [u8; 16]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv6(source, destination, 64)
        .udp(1, 9);
    finish(builder, 1_000)
}

pub(crate) fn finish(
    builder: etherparse::PacketBuilderStep<etherparse::UdpHeader>,
    payload: usize,
) -> Vec<u8> {
    let mut frame = Vec::new();
    builder.write(&mut frame, &vec![0; payload]).unwrap();
    frame
}

/// The frame with an 802.1Q tag behind its addresses.
pub(crate) fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
    let mut with = frame[..12].to_vec();
    with.extend_from_slice(&[0x81, 0x00]);
    with.extend_from_slice(&vlan.to_be_bytes());
    with.extend_from_slice(&frame[12..]);
    with
}

pub(crate) fn near(stamp: u64, wanted: u64) -> Outcome {
    // Both departure times follow from the same `free_at`: only rounding up can differ.
    check(
        stamp.abs_diff(wanted) <= 1,
        format!("stamp {stamp}, wanted {wanted}"),
    )
}

pub(crate) fn check(holds: bool, otherwise: impl Into<String>) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(Failed::from(otherwise.into()))
    }
}

pub(crate) fn equal<T: PartialEq + std::fmt::Debug>(what: &str, is: T, wanted: T) -> Outcome {
    check(is == wanted, format!("{what}: {is:?}, wanted {wanted:?}"))
}
