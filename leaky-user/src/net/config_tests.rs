//! Options to the kernel's form and back.

use super::config::compare_htb;
use super::{FqConfig, HtbClassConfig, PerPacket, QdiscConfig, TICK_NS, TbfConfig, ticks};
use proptest::prelude::*;

const NOTHING: PerPacket = PerPacket {
    overhead: 0,
    mpu: 0,
};

/// A class with one rate.
fn class(rate: u64, burst: u64) -> HtbClassConfig {
    HtbClassConfig {
        rate,
        burst,
        ceil: rate,
        ceil_burst: burst,
        quantum: 1_522,
        per_packet: NOTHING,
    }
}

fn tbf_options(config: TbfConfig) -> Vec<u8> {
    QdiscConfig::Tbf(config).encode().expect("tbf has options")
}

/// What the kernel dumps for these options: the burst only as ticks, the rest of one cut off.
fn tbf_dump(config: TbfConfig) -> Vec<u8> {
    let mut options = tbf_options(config);
    let charge = config.per_packet.charge(u64::from(config.burst));
    let ns = u128::from(charge) * 1_000_000_000 / u128::from(config.rate);
    let buffer = u32::try_from(ns / u128::from(TICK_NS)).expect("32 bits");
    // Attribute header (4), then tc_tbf_qopt with the buffer at 28.
    options[32..36].copy_from_slice(&buffer.to_ne_bytes());
    // Without the burst attribute of 8 B that follows the parameters of 40 B.
    options.drain(40..48);
    options
}

#[test]
fn a_tick_is_64_ns_and_the_kernels_limit_is_274_seconds() {
    assert_eq!(ticks(0, 125), Some(0));
    assert_eq!(ticks(1, 1_000_000_000), Some(1));
    assert_eq!(ticks(64, 1_000_000_000), Some(1));
    assert_eq!(ticks(65, 1_000_000_000), Some(2));
    assert_eq!(
        ticks(274, 1),
        Some(274_000_000_000_u64.div_ceil(64).try_into().expect("fits"))
    );
    assert_eq!(ticks(275, 1), None);
    assert_eq!(ticks(u64::MAX, 0), None);
}

#[test]
fn rates_beyond_32_bits_are_read_back() {
    for rate in [
        125,
        u64::from(u32::MAX),
        u64::from(u32::MAX) + 1,
        50_000_000_000,
    ] {
        let config = class(rate, rate);
        assert_eq!(config.compare(&config.encode()), Ok(()), "{rate}");
        let other = HtbClassConfig {
            rate: rate + 1,
            ..config
        };
        assert!(other.compare(&config.encode()).is_err(), "{rate}");
        let below = HtbClassConfig {
            rate: 1,
            burst: 0,
            ..config
        };
        assert_eq!(below.compare(&below.encode()), Ok(()), "{rate}");
        assert!(below.compare(&config.encode()).is_err(), "{rate}");
    }
}

#[test]
fn l39_a_difference_is_seen_and_named() {
    let config = class(1_250_000, 5_000);
    let options = config.encode();
    let field = |other: HtbClassConfig| {
        let difference = other.compare(&options).expect_err("a difference");
        difference.field
    };
    let per_packet = |overhead, mpu| PerPacket { overhead, mpu };
    for (other, named) in [
        (HtbClassConfig { rate: 1, ..config }, "rate in B/s"),
        (HtbClassConfig { ceil: 1, ..config }, "ceil in B/s"),
        (
            HtbClassConfig {
                burst: 5_001,
                ..config
            },
            "burst",
        ),
        (
            HtbClassConfig {
                ceil_burst: 5_001,
                ..config
            },
            "cburst",
        ),
        (
            HtbClassConfig {
                quantum: 1_523,
                ..config
            },
            "quantum",
        ),
        (
            HtbClassConfig {
                per_packet: per_packet(4, 0),
                ..config
            },
            "overhead",
        ),
    ] {
        assert_eq!(field(other), named);
    }
    // An mpu that reads back as 0 is one that the kernel does not know.
    let with_mpu = HtbClassConfig {
        per_packet: per_packet(0, 64),
        ..config
    };
    assert_eq!(with_mpu.compare(&options), Ok(()));
    assert!(with_mpu.lacks_mpu(&options) && !with_mpu.lacks_mpu(&with_mpu.encode()));
    assert!(config.compare(&with_mpu.encode()).is_err());
    assert!(config.compare(&[]).is_err());
    assert!(config.compare(&options[..20]).is_err());
    let leaf = TbfConfig {
        rate: 12_500_000_000,
        burst: 3_100,
        limit: 1_000_000,
        per_packet: NOTHING,
    };
    let options = tbf_options(leaf);
    assert_eq!(leaf.compare(&options), Ok(()));
    for (other, named) in [
        (
            TbfConfig {
                rate: 12_500_000_001,
                ..leaf
            },
            "rate in B/s",
        ),
        (
            TbfConfig {
                burst: 9_000,
                ..leaf
            },
            "burst",
        ),
        (
            TbfConfig {
                limit: 1_000_001,
                ..leaf
            },
            "limit",
        ),
        (
            TbfConfig {
                per_packet: per_packet(24, 0),
                ..leaf
            },
            "overhead",
        ),
    ] {
        let difference = other.compare(&options).expect_err("a difference");
        assert_eq!(difference.field, named);
    }
    assert_eq!(FqConfig::decode(&[]), None);
    assert!(compare_htb(0, 0, &[1, 2, 3]).is_err());
}

#[test]
fn a_tbf_put_back_keeps_its_burst() {
    // Without the burst, this one would come back with 2,400 B and drop every full frame.
    let leaf = TbfConfig {
        rate: 12_500_000_000,
        burst: 3_100,
        limit: 1_000_000,
        per_packet: NOTHING,
    };
    let dump = tbf_dump(leaf);
    let QdiscConfig::Raw {
        options: Some(options),
        ..
    } = QdiscConfig::put_back("tbf", Some(&dump))
    else {
        panic!("raw options");
    };
    let burst = u32::from_ne_bytes(*options.last_chunk().expect("the burst"));
    assert_eq!(burst, 3_199);
    assert_eq!(&options[..dump.len()], &dump[..]);
}

#[test]
fn an_htb_put_back_names_the_version_that_the_kernel_wants() {
    let config = QdiscConfig::Htb {
        default: 5,
        direct_packets: 7,
    };
    let mut dump = config.encode().expect("options");
    // What the kernel says for 3: 3.17.
    dump[4..8].copy_from_slice(&0x0003_0011_u32.to_ne_bytes());
    assert_eq!(
        QdiscConfig::put_back("htb", Some(&dump)).encode(),
        config.encode()
    );
}

proptest! {
    #[test]
    fn ticks_are_rounded_up(bytes in 0..1_u64 << 33, rate in 125..50_000_000_000_u64) {
        let exact = u128::from(bytes) * 1_000_000_000;
        match ticks(bytes, rate) {
            Some(n) => {
                let span = |n: u32| u128::from(n) * 64 * u128::from(rate);
                prop_assert!(span(n) >= exact);
                prop_assert!(n == 0 || span(n - 1) < exact);
            }
            None => prop_assert!(exact > u128::from(u32::MAX) * 64 * u128::from(rate)),
        }
    }

    #[test]
    fn fq_options_come_back(
        limit: u32, flow_limit: u32, horizon_us: u32, horizon_drop: bool, pacing: bool,
    ) {
        let config = FqConfig { limit, flow_limit, horizon_us, horizon_drop, pacing };
        let options = QdiscConfig::Fq(config.clone()).encode().expect("options");
        prop_assert_eq!(FqConfig::decode(&options), Some(config));
    }

    #[test]
    fn a_tbf_put_back_reads_back_the_same(
        rate in 1_000..u64::from(u32::MAX) * 8, burst in 1_600..10_000_000_u32, limit: u32,
        overhead in 0..1_000_u16, mpu in 0..1_600_u16,
    ) {
        let per_packet = PerPacket { overhead, mpu };
        let ticks_of = |bytes: u32| u128::from(per_packet.charge(u64::from(bytes))) * 1_000_000_000 / u128::from(rate) / 64;
        prop_assume!(ticks_of(burst) < u128::from(u32::MAX) / 2);
        let dump = tbf_dump(TbfConfig { rate, burst, limit, per_packet });
        let options = QdiscConfig::put_back("tbf", Some(&dump)).encode().expect("options");
        let again = u32::from_ne_bytes(*options.last_chunk().expect("the burst"));
        prop_assert!(again >= burst);
        prop_assert_eq!(ticks_of(again), ticks_of(burst));
    }

    #[test]
    fn codel_times_do_not_drift(units in 0..u32::MAX / 1_025 * 1_000) {
        let dumped = u32::try_from(u64::from(units) * 1_024 / 1_000).expect("32 bits");
        let mut dump = vec![8, 0, 1, 0];
        dump.extend_from_slice(&dumped.to_ne_bytes());
        let options = QdiscConfig::put_back("fq_codel", Some(&dump)).encode().expect("options");
        let told = u32::from_ne_bytes(*options.last_chunk().expect("a number"));
        prop_assert_eq!(u64::from(told) * 1_000 / 1_024, u64::from(units));
        prop_assert_eq!(&options[..4], &dump[..4]);
    }

    #[test]
    fn garbage_is_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let tbf = TbfConfig { rate: 1, burst: 1, limit: 1, per_packet: NOTHING };
        let _ = (class(1, 1).compare(&bytes), tbf.compare(&bytes), compare_htb(0, 0, &bytes));
        let _ = FqConfig::decode(&bytes);
        for kind in ["tbf", "htb", "fq_codel"] {
            let _ = QdiscConfig::put_back(kind, Some(&bytes));
        }
        let _ = super::parse::link(&bytes, "read");
        let _ = (super::parse::qdisc(&bytes), super::parse::class(&bytes));
    }
}
