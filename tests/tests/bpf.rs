//! The kernel programs against crafted packets, one at a time, by the kernel's own test run: no
//! interface, no qdisc, no clock to wait for. Rates are so low (1 kbit/s: 1,000 B take 8 s) that
//! the time between two runs does not matter.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use aya::programs::{TestRun, TestRunOptions};
use etherparse::{IpFragOffset, IpHeaders, IpNumber, Ipv4Header, PacketBuilder};
use leaky_core::abi::{Counters, Key, Policy};
use leaky_core::bucket::Limits;
use leaky_core::rate::{Rate, span_of};
use leaky_core::time::Span;
use leaky_core::wire::Layer;
use leaky_user::bpf::{Kind, Program};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

const SECOND: u64 = 1_000_000_000;
/// `TC_ACT_UNSPEC`: the next program, then the qdisc.
const NEXT: u32 = u32::MAX;
/// `TC_ACT_SHOT`.
const DROP: u32 = 2;

/// `struct __sk_buff` as the test run takes and gives it; offsets from linux/bpf.h.
#[derive(Clone)]
struct Context([u8; 192]);

impl Context {
    const PRIORITY: usize = 32;
    const TSTAMP: usize = 152;
    const WIRE_LEN: usize = 160;
    const GSO_SEGS: usize = 164;
    const GSO_SIZE: usize = 176;

    fn new() -> Context {
        Context([0; 192])
    }

    fn with(mut self, at: usize, value: u32) -> Context {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn with_stamp(mut self, ns: u64) -> Context {
        self.0[Self::TSTAMP..Self::TSTAMP + 8].copy_from_slice(&ns.to_ne_bytes());
        self
    }

    fn stamp(&self) -> u64 {
        u64::from_ne_bytes(self.0[Self::TSTAMP..Self::TSTAMP + 8].try_into().unwrap())
    }

    fn priority(&self) -> u32 {
        u32::from_ne_bytes(
            self.0[Self::PRIORITY..Self::PRIORITY + 4]
                .try_into()
                .unwrap(),
        )
    }
}

/// A program with a policy, to run packets through.
struct Bench {
    program: Program,
}

impl Bench {
    fn new(kind: Kind, key: Key, limits: Limits) -> Result<Bench, Failed> {
        Bench::with_layer(kind, key, limits, Layer::Ethernet)
    }

    fn with_layer(kind: Kind, key: Key, limits: Limits, layer: Layer) -> Result<Bench, Failed> {
        let mut program = Program::load(kind, key)?;
        program.set_queues(0x1eaf_0001, 0x1eaf_0002, &[])?;
        program.set_policy(&Policy::new(limits, key, layer))?;
        Ok(Bench { program })
    }

    /// Sends one packet; the verdict and the metadata afterwards.
    fn send(&mut self, frame: &[u8], context: &Context) -> Result<(u32, Context), Failed> {
        let mut out = Context::new();
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.ctx_in = Some(&context.0);
        options.ctx_out = Some(&mut out.0);
        let result = self.program.classifier()?.test_run(options)?;
        Ok((result.return_value, out))
    }

    fn counters(&self) -> Result<Counters, Failed> {
        Ok(self.program.counters()?)
    }
}

/// 1 kbit/s, room for ten seconds of it, no other bound on the wait.
fn slow() -> Limits {
    limits(
        Rate::bytes_per_second(125).unwrap(),
        span_of(12_500, 125, 60).unwrap(),
    )
}

fn limits(rate: Rate, capacity: Span) -> Limits {
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
fn udp(source_port: u16, length: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(source_port, 9);
    finish(builder, length - 42)
}

fn finish(
    builder: etherparse::PacketBuilderStep<etherparse::UdpHeader>,
    payload: usize,
) -> Vec<u8> {
    let mut frame = Vec::new();
    builder.write(&mut frame, &vec![0; payload]).unwrap();
    frame
}

fn near(stamp: u64, wanted: u64) -> Result<(), Failed> {
    // Both departure times follow from the same `free_at`: only rounding up can differ.
    check(
        stamp.abs_diff(wanted) <= 1,
        format!("stamp {stamp}, wanted {wanted}"),
    )
}

fn check(holds: bool, otherwise: impl Into<String>) -> Result<(), Failed> {
    if holds {
        Ok(())
    } else {
        Err(Failed::from(otherwise.into()))
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, is: T, wanted: T) -> Result<(), Failed> {
    check(is == wanted, format!("{what}: {is:?}, wanted {wanted:?}"))
}

fn stamps_are_one_cost_apart_and_what_does_not_fit_is_dropped() -> Result<(), Failed> {
    let mut bench = Bench::new(Kind::DepartureTime, Key::Class, slow())?;
    let frame = udp(1, 1_000);
    let (verdict, first) = bench.send(&frame, &Context::new())?;
    equal("first", (verdict, first.stamp()), (NEXT, 0))?;
    let (verdict, second) = bench.send(&frame, &Context::new())?;
    equal("second", verdict, NEXT)?;
    let mut before = second.stamp();
    // 12,500 B hold twelve packets of 1,000 B.
    for packet in 3..=12 {
        let (verdict, out) = bench.send(&frame, &Context::new())?;
        equal(&format!("packet {packet}"), verdict, NEXT)?;
        near(out.stamp(), before + 8 * SECOND)?;
        before = out.stamp();
    }
    equal(
        "the one too many",
        bench.send(&frame, &Context::new())?.0,
        DROP,
    )?;
    let counters = bench.counters()?;
    equal(
        "offered",
        (counters.offered.packets, counters.offered.bytes),
        (13, 13_000),
    )?;
    equal(
        "accepted",
        (counters.accepted.packets, counters.accepted.bytes),
        (12, 12_000),
    )?;
    equal("delayed", counters.delayed.packets, 11)?;
    equal(
        "overflow",
        (counters.dropped[0].packets, counters.dropped[0].bytes),
        (1, 1_000),
    )?;
    equal("too late", counters.dropped[1].packets, 0)
}

fn a_packet_that_would_wait_too_long_is_dropped_under_its_own_reason() -> Result<(), Failed> {
    let max_wait = Span::from_ns(9 * SECOND);
    let mut bench = Bench::new(
        Kind::DepartureTime,
        Key::Class,
        Limits { max_wait, ..slow() },
    )?;
    let frame = udp(1, 1_000);
    let verdicts: Vec<u32> = (0..4)
        .map(|_| {
            bench
                .send(&frame, &Context::new())
                .map(|(verdict, _)| verdict)
        })
        .collect::<Result<_, _>>()?;
    equal("verdicts", verdicts, vec![NEXT, NEXT, DROP, DROP])?;
    equal("too late", bench.counters()?.dropped[1].packets, 2)
}

fn each_flow_has_a_bucket_of_its_own() -> Result<(), Failed> {
    let mut bench = Bench::new(Kind::DepartureTime, Key::Flow, slow())?;
    for port in 1..=100 {
        let (verdict, out) = bench.send(&udp(port, 1_000), &Context::new())?;
        equal(
            &format!("first of flow {port}"),
            (verdict, out.stamp()),
            (NEXT, 0),
        )?;
    }
    let (_, out) = bench.send(&udp(7, 1_000), &Context::new())?;
    check(out.stamp() > 0, "the second of a flow does not wait")?;
    equal("delayed", bench.counters()?.delayed.packets, 1)
}

fn more_flows_than_the_table_holds_share_one_limited_bucket() -> Result<(), Failed> {
    // With htb as the hold a flow needs a queue, and here there is none to be had.
    let mut bench = Bench::new(Kind::Queue, Key::Flow, slow())?;
    let mut dropped = 0;
    for port in 1..=20 {
        let (verdict, out) = bench.send(&udp(port, 1_000), &Context::new())?;
        match verdict {
            NEXT => equal("queue", out.priority(), 0x1eaf_0002)?,
            _ => dropped += 1,
        }
    }
    equal("dropped", dropped, 8)?;
    equal("counted", bench.counters()?.keys_beyond_table, 20)
}

fn a_flow_takes_a_queue_of_the_hold_and_keeps_it() -> Result<(), Failed> {
    let mut bench = Bench::new(Kind::Queue, Key::Flow, slow())?;
    bench
        .program
        .set_queues(0x1eaf_0001, 0x1eaf_0002, &[0x1eaf_0010, 0x1eaf_0011])?;
    for (port, queue) in [
        (1, 0x1eaf_0010),
        (2, 0x1eaf_0011),
        (1, 0x1eaf_0010),
        (3, 0x1eaf_0002),
        (2, 0x1eaf_0011),
    ] {
        let (_, out) = bench.send(&udp(port, 100), &Context::new())?;
        equal(&format!("queue of flow {port}"), out.priority(), queue)?;
    }
    Ok(())
}

fn control_traffic_is_neither_delayed_nor_dropped() -> Result<(), Failed> {
    let mut bench = Bench::new(Kind::DepartureTime, Key::Class, slow())?;
    for _ in 0..20 {
        bench.send(&udp(1, 1_000), &Context::new())?;
    }
    let ethernet = |kind: [u8; 2]| {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, kind[0], kind[1]];
        frame.resize(60, 0);
        frame
    };
    let arp = ethernet([0x08, 0x06]);
    let lldp = ethernet([0x88, 0xcc]);
    let mut igmp = Vec::new();
    PacketBuilder::ethernet2([2; 6], [1; 6])
        .ipv4([10, 0, 0, 1], [224, 0, 0, 22], 1)
        .write(&mut igmp, IpNumber::IGMP, &[0x22; 16])?;
    let icmpv6 = |kind: u8| {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [1; 6])
            .ipv6(
                [0xfe; 16],
                [0xff; 16],
                if (133..=137).contains(&kind) { 255 } else { 1 },
            )
            .icmpv6_raw(kind, 0, [0; 4])
            .write(&mut frame, &[0; 16])
            .map(|()| frame)
    };
    let mut frames = vec![arp, lldp, igmp];
    for kind in [130, 131, 132, 133, 134, 135, 136, 137, 143] {
        frames.push(icmpv6(kind)?);
    }
    let control = frames.len() as u64;
    for frame in frames {
        let (verdict, out) = bench.send(&frame, &Context::new())?;
        equal(
            &format!("{:02x?}", &frame[12..24]),
            (verdict, out.stamp()),
            (NEXT, 0),
        )?;
    }
    equal("passed", bench.counters()?.passed.packets, control)?;
    // A ping is no control traffic.
    let (_, echo) = bench.send(&icmpv6(128)?, &Context::new())?;
    check(echo.stamp() > 0, "an echo request is not delayed")
}

fn every_kind_of_packet_is_limited() -> Result<(), Failed> {
    let payload = [0u8; 958];
    let write = |step: etherparse::PacketBuilderStep<etherparse::UdpHeader>| {
        let mut frame = Vec::new();
        step.write(&mut frame, &payload).map(|()| frame)
    };
    let ethernet = || PacketBuilder::ethernet2([2; 6], [1; 6]);
    let (v4, v6) = (([10, 0, 0, 1], [10, 0, 0, 2]), ([1; 16], [2; 16]));
    let mut tcp = Vec::new();
    ethernet()
        .ipv4(v4.0, v4.1, 9)
        .tcp(1, 2, 3, 4)
        .write(&mut tcp, &payload)?;
    let mut esp = Vec::new();
    ethernet().ipv4(v4.0, v4.1, 9).write(
        &mut esp,
        IpNumber::ENCAPSULATING_SECURITY_PAYLOAD,
        &payload,
    )?;
    let mut fragment = Vec::new();
    let mut header =
        Ipv4Header::new(958, 9, IpNumber::UDP, v4.0, v4.1).map_err(|e| e.to_string())?;
    header.fragment_offset = IpFragOffset::try_new(185).map_err(|e| e.to_string())?;
    ethernet()
        .ip(IpHeaders::Ipv4(header, Default::default()))
        .write(&mut fragment, IpNumber::UDP, &payload)?;
    let with_type = |kind: [u8; 2]| {
        let mut frame = udp(1, 1_000);
        frame[12..14].copy_from_slice(&kind);
        frame
    };
    let frames = [
        ("udp over ipv4", udp(1, 1_000)),
        (
            "udp over ipv6",
            write(ethernet().ipv6(v6.0, v6.1, 9).udp(1, 2))?,
        ),
        (
            "802.1Q",
            write(
                ethernet()
                    .single_vlan(5.try_into()?)
                    .ipv4(v4.0, v4.1, 9)
                    .udp(1, 2),
            )?,
        ),
        (
            "802.1ad",
            write(
                ethernet()
                    .double_vlan(5.try_into()?, 6.try_into()?)
                    .ipv6(v6.0, v6.1, 9)
                    .udp(1, 2),
            )?,
        ),
        ("tcp", tcp),
        ("esp", esp),
        ("a later fragment", fragment),
        ("pppoe session", with_type([0x88, 0x64])),
        ("mpls", with_type([0x88, 0x47])),
        ("ipv4 with a broken header", with_type([0x86, 0xdd])),
    ];
    for (name, frame) in frames {
        for key in [Key::Class, Key::Flow] {
            // One packet in a second; the second one must wait, whatever it is.
            let rate = Rate::packets_per_second(1).unwrap();
            let mut bench = Bench::new(
                Kind::DepartureTime,
                key,
                limits(rate, Span::from_ns(10 * SECOND)),
            )?;
            let (verdict, _) = bench
                .send(&frame, &Context::new())
                .map_err(|error| format!("{name}: {}", error.message().unwrap_or("failed")))?;
            equal(name, verdict, NEXT)?;
            let (verdict, out) = bench.send(&frame, &Context::new())?;
            equal(name, verdict, NEXT)?;
            check(out.stamp() > 0, format!("{name} is not delayed"))?;
        }
    }
    Ok(())
}

fn all_fragments_of_a_datagram_are_one_flow() -> Result<(), Failed> {
    let mut bench = Bench::new(Kind::DepartureTime, Key::Flow, slow())?;
    let mut first = udp(1_234, 1_000);
    // More fragments.
    first[20] |= 0x20;
    let mut later = udp(77, 1_000);
    // The rest, at offset 984: where a port would stand is payload.
    later[21] = 123;
    bench.send(&first, &Context::new())?;
    let (_, out) = bench.send(&later, &Context::new())?;
    check(
        out.stamp() > 0,
        "the second fragment has a bucket of its own",
    )
}

fn packets_without_a_link_header() -> Result<(), Failed> {
    let mut bench = Bench::with_layer(Kind::DepartureTime, Key::Flow, slow(), Layer::Ip)?;
    let bare = |port| udp(port, 1_000)[14..].to_vec();
    bench.send(&bare(1), &Context::new())?;
    let (_, other) = bench.send(&bare(2), &Context::new())?;
    equal("first of another flow", other.stamp(), 0)?;
    let (_, same) = bench.send(&bare(1), &Context::new())?;
    check(same.stamp() > 0, "the second of the flow is not delayed")
}

fn l22_each_segment_of_a_gso_packet_is_charged_with_its_headers() -> Result<(), Failed> {
    let mut bench = Bench::new(Kind::DepartureTime, Key::Class, slow())?;
    let frame = udp(1, 1_042);
    // Ten segments of 100 B behind 42 B of headers: 1,000 + 10 x 42.
    let counted = Context::new()
        .with(Context::GSO_SIZE, 100)
        .with(Context::GSO_SEGS, 10)
        .with(Context::WIRE_LEN, 1_420);
    bench.send(&frame, &counted)?;
    let uncounted = Context::new()
        .with(Context::GSO_SIZE, 100)
        .with(Context::WIRE_LEN, 1_042);
    let (_, second) = bench.send(&frame, &uncounted)?;
    let (_, third) = bench.send(&udp(1, 60), &Context::new())?;
    near(third.stamp(), second.stamp() + 1_420 * SECOND / 125)?;
    let counters = bench.counters()?;
    equal("packets", counters.accepted.packets, 21)?;
    equal("bytes", counters.accepted.bytes, 2 * 1_420 + 60)?;
    equal(
        "buffers",
        (counters.accepted.buffers, counters.accepted.buffer_bytes),
        (3, 2_144),
    )?;
    equal(
        "largest",
        (counters.largest_packets, counters.largest_bytes),
        (10, 1_420),
    )
}

fn rates_in_packets_charge_each_segment() -> Result<(), Failed> {
    let rate = Rate::packets_per_second(1).unwrap();
    let capacity = span_of(20, 1, 1).unwrap();
    let mut bench = Bench::new(Kind::DepartureTime, Key::Class, limits(rate, capacity))?;
    bench.send(&udp(1, 60), &Context::new())?;
    let gso = Context::new()
        .with(Context::GSO_SIZE, 100)
        .with(Context::GSO_SEGS, 10)
        .with(Context::WIRE_LEN, 1_420);
    let (_, second) = bench.send(&udp(1, 1_042), &gso)?;
    let (_, third) = bench.send(&udp(1, 1_500), &Context::new())?;
    near(third.stamp(), second.stamp() + 10 * SECOND)
}

fn a_receive_timestamp_is_no_departure_time() -> Result<(), Failed> {
    let mut bench = Bench::new(Kind::DepartureTime, Key::Class, slow())?;
    // Wall-clock time, as a forwarded packet carries it: decades beyond the monotonic clock.
    let received = Context::new().with_stamp(1_790_000_000 * SECOND);
    let (verdict, out) = bench.send(&udp(1, 1_000), &received)?;
    equal("verdict", verdict, NEXT)?;
    check(
        out.stamp() < 1_000_000_000 * SECOND,
        "fq would see the receive timestamp",
    )?;
    let (_, second) = bench.send(&udp(1, 1_000), &received)?;
    near(second.stamp(), out.stamp() + 8 * SECOND)?;
    equal("ignored", bench.counters()?.stamps_ignored, 2)
}

fn priority_7_does_not_get_past_fq() -> Result<(), Failed> {
    let mut bench = Bench::new(Kind::DepartureTime, Key::Class, slow())?;
    let seven = Context::new().with(Context::PRIORITY, 7);
    bench.send(&udp(1, 1_000), &seven)?;
    let (_, out) = bench.send(&udp(1, 1_000), &seven)?;
    equal("priority", out.priority(), 6)?;
    let (_, out) = bench.send(&udp(1, 1_000), &Context::new().with(Context::PRIORITY, 5))?;
    equal("another priority", out.priority(), 5)
}

fn control_traffic_cannot_enter_a_queue_of_the_hold() -> Result<(), Failed> {
    let mut bench = Bench::new(Kind::Queue, Key::Class, slow())?;
    let mut arp = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6];
    arp.resize(60, 0);
    let into_ours = Context::new().with(Context::PRIORITY, 0x1eaf_0001);
    equal("ours", bench.send(&arp, &into_ours)?.1.priority(), 0)?;
    let into_other = Context::new().with(Context::PRIORITY, 0x0001_0001);
    equal(
        "another's",
        bench.send(&arp, &into_other)?.1.priority(),
        0x0001_0001,
    )?;
    equal(
        "shaped",
        bench.send(&udp(1, 100), &into_other)?.1.priority(),
        0x1eaf_0001,
    )
}

fn a_new_policy_keeps_the_state() -> Result<(), Failed> {
    let mut bench = Bench::new(Kind::DepartureTime, Key::Class, slow())?;
    let frame = udp(1, 1_000);
    bench.send(&frame, &Context::new())?;
    let (_, second) = bench.send(&frame, &Context::new())?;
    let rate = Rate::bytes_per_second(250).unwrap();
    let mut faster = limits(rate, span_of(25_000, 250, 60).unwrap());
    faster.stale_after = faster.furthest().max(slow().furthest());
    bench
        .program
        .set_policy(&Policy::new(faster, Key::Class, Layer::Ethernet))?;
    let (_, third) = bench.send(&frame, &Context::new())?;
    near(third.stamp(), second.stamp() + 8 * SECOND)?;
    let (_, fourth) = bench.send(&frame, &Context::new())?;
    near(fourth.stamp(), third.stamp() + 4 * SECOND)?;
    equal("accepted", bench.counters()?.accepted.packets, 4)
}

fn l18_the_policy_in_the_kernel_is_the_one_that_was_set() -> Result<(), Failed> {
    for bytes_per_second in [125, 1_250_000, 4_294_967_296, 50_000_000_000] {
        let rate = Rate::bytes_per_second(bytes_per_second).unwrap();
        let policy = Policy::new(limits(rate, Span::from_ns(SECOND)), Key::Flow, Layer::Ip);
        let mut program = Program::load(Kind::DepartureTime, Key::Flow)?;
        program.set_policy(&policy)?;
        equal("policy", program.policy()?, policy)?;
    }
    Ok(())
}

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    type Case = (&'static str, fn() -> Result<(), Failed>);
    macro_rules! cases {
        ($($name:ident),* $(,)?) => { vec![$((stringify!($name), $name as fn() -> _)),*] };
    }
    let cases: Vec<Case> = cases![
        stamps_are_one_cost_apart_and_what_does_not_fit_is_dropped,
        a_packet_that_would_wait_too_long_is_dropped_under_its_own_reason,
        each_flow_has_a_bucket_of_its_own,
        more_flows_than_the_table_holds_share_one_limited_bucket,
        a_flow_takes_a_queue_of_the_hold_and_keeps_it,
        control_traffic_is_neither_delayed_nor_dropped,
        every_kind_of_packet_is_limited,
        all_fragments_of_a_datagram_are_one_flow,
        packets_without_a_link_header,
        l22_each_segment_of_a_gso_packet_is_charged_with_its_headers,
        rates_in_packets_charge_each_segment,
        a_receive_timestamp_is_no_departure_time,
        priority_7_does_not_get_past_fq,
        control_traffic_cannot_enter_a_queue_of_the_hold,
        a_new_policy_keeps_the_state,
        l18_the_policy_in_the_kernel_is_the_one_that_was_set,
    ];
    let trials = cases
        .into_iter()
        .map(|(name, case)| {
            Trial::ignorable_test(name, move || {
                if !nix::unistd::geteuid().is_root() {
                    return Ok(Completion::ignored_with("needs root to load BPF programs"));
                }
                case().map(|()| Completion::Completed)
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}
