//! Tables of what is accepted and refused: field cases L19, L20, L21, L27, L28.

use std::fmt::Debug;
use std::str::FromStr;

use super::{Capacity, Duration, Problem, Quantity, Rate, UnitError};

fn rate(text: &str) -> Result<Rate, UnitError> {
    text.parse()
}

fn capacity(text: &str) -> Result<Capacity, UnitError> {
    text.parse()
}

fn duration(text: &str) -> Result<Duration, UnitError> {
    text.parse()
}

/// The message of a refusal, after checking what holds for each: one short line that repeats no
/// control character and names the accepted form with an example.
pub(super) fn refusal<T: FromStr<Err = UnitError> + Debug>(text: &str) -> (Problem, String) {
    let error = text.parse::<T>().expect_err(text);
    let message = error.to_string();
    assert!(!message.contains(char::is_control), "{message:?}");
    assert!(message.chars().count() < 1_000, "{message}");
    let example = match error.quantity() {
        Quantity::Rate => "20mbit",
        Quantity::Capacity => "250kB",
        Quantity::Duration => "200ms",
    };
    assert!(
        message.contains("accepted: ") && message.contains(example),
        "{message}"
    );
    (error.problem().clone(), message)
}

#[test]
fn rates_are_read_to_the_byte() {
    for (text, bytes) in [
        ("1kbit", 125),
        ("1000bit", 125),
        ("8kbit", 1_000),
        ("256kbit", 32_000),
        ("1.5mbit", 187_500),
        ("20mbit", 2_500_000),
        ("20Mbit", 2_500_000),
        ("20MBIT", 2_500_000),
        ("20mbit/s", 2_500_000),
        ("20 Mbit/s", 2_500_000),
        ("0.5gbit", 62_500_000),
        ("0.000001gbit", 125),
        ("1.500000000000000000000mbit", 187_500),
        ("400gbit", 50_000_000_000),
        ("125B/s", 125),
        ("1.5kB/s", 1_500),
        ("2.5MB/s", 2_500_000),
        ("50GB/s", 50_000_000_000),
        ("1KiB/s", 1_024),
        ("1.5MiB/s", 1_572_864),
        ("0.001953125GiB/s", 2_097_152),
    ] {
        assert_eq!(rate(text), Ok(Rate::BytesPerSecond(bytes)), "{text}");
    }
    for (text, packets) in [
        ("2pps", 2),
        ("1 pps", 1),
        ("1.5kpps", 1_500),
        ("1000Mpps", 1_000_000_000),
    ] {
        assert_eq!(rate(text), Ok(Rate::PacketsPerSecond(packets)), "{text}");
    }
}

#[test]
fn capacities_and_durations_are_read_exactly() {
    for (text, value) in [
        ("1514B", Capacity::Bytes(1_514)),
        ("250kB", Capacity::Bytes(250_000)),
        ("0.5 MB", Capacity::Bytes(500_000)),
        ("1024GiB", Capacity::Bytes(1 << 40)),
        ("256kib", Capacity::Bytes(262_144)),
        ("256KiB", Capacity::Bytes(262_144)),
        ("1.5mib", Capacity::Bytes(1_572_864)),
        ("100p", Capacity::Packets(100)),
        ("5 p", Capacity::Packets(5)),
        ("200ms", Capacity::Time(Duration::from_nanos(200_000_000))),
    ] {
        assert_eq!(capacity(text), Ok(value), "{text}");
    }
    for (text, nanoseconds) in [
        ("0s", 0),
        ("1ns", 1),
        ("1.001us", 1_001),
        ("200ms", 200_000_000),
        ("0.000000001s", 1),
        ("1.5 min", 90_000_000_000),
        ("24h", 86_400_000_000_000),
    ] {
        assert_eq!(
            duration(text),
            Ok(Duration::from_nanos(nanoseconds)),
            "{text}"
        );
    }
}

/// L19: what means bytes to one program and bits to another is refused with both spellings.
#[test]
fn ambiguous_units_are_refused_with_the_spellings_to_choose_from() {
    for (text, first, second) in [
        (
            "256kbps",
            "256kbit (bits per second)",
            "256kB/s (bytes per second)",
        ),
        ("30mbps", "30mbit (", "30MB/s ("),
        ("30Mbps", "30mbit (", "30MB/s ("),
        ("30MBps", "30mbit (", "30MB/s ("),
        ("1gbps", "1gbit (", "1GB/s ("),
        ("1bps", "1bit (", "1B/s ("),
        ("1M", "1mbit (", "1MB/s ("),
        ("1m", "1mbit (", "1MB/s ("),
        ("64k", "64kbit (", "64kB/s ("),
        ("64 K", "64kbit (", "64kB/s ("),
        ("1G", "1gbit (", "1GB/s ("),
        ("20MB", "20mbit (", "20MB/s ("),
        ("20Mb/s", "20mbit (", "20MB/s ("),
        ("20mB/s", "20mbit (", "20MB/s ("),
        ("20mb", "20mbit (", "20MB/s ("),
        ("9b/s", "9bit (", "9B/s ("),
        ("9KB/s", "9kB/s (1000", "9KiB/s (1024"),
        ("9kib/s", "9kbit (", "9KiB/s ("),
        ("9Mi", "9mbit (", "9MiB/s ("),
        ("2.5mbps", "2.5mbit (", "2.5MB/s ("),
    ] {
        let (problem, message) = refusal::<Rate>(text);
        assert!(
            matches!(problem, Problem::AmbiguousUnit { .. }),
            "{text}: {problem:?}"
        );
        assert!(
            message.contains(first) && message.contains(second),
            "{text}: {message}"
        );
    }
    for (text, first, second) in [
        ("9kb", "9kB (1000", "9KiB (1024"),
        ("9KB", "9kB (1000", "9KiB (1024"),
        ("9mb", "9MB (", "9MiB ("),
        ("9Gb", "9GB (", "9GiB ("),
        ("9k", "9kB (", "9KiB ("),
        ("9M", "9MB (", "9MiB ("),
        ("9b", "9B (bytes)", "9p (packets)"),
    ] {
        let (problem, message) = refusal::<Capacity>(text);
        assert!(
            matches!(problem, Problem::AmbiguousUnit { .. }),
            "{text}: {problem:?}"
        );
        assert!(
            message.contains(first) && message.contains(second),
            "{text}: {message}"
        );
    }
    let (problem, message) = refusal::<Duration>("5m");
    assert!(
        matches!(problem, Problem::AmbiguousUnit { .. }),
        "{problem:?}"
    );
    assert!(
        message.contains("5ms (") && message.contains("5min ("),
        "{message}"
    );
}

/// L21: a number alone is refused, with the units it could have.
#[test]
fn bare_numbers_are_refused_with_the_units_to_choose_from() {
    for text in ["20", "0", "2.5"] {
        let (problem, message) = refusal::<Rate>(text);
        assert!(
            matches!(problem, Problem::MissingUnit { .. }),
            "{text}: {problem:?}"
        );
        assert!(message.contains(&format!("{text}mbit (")), "{message}");
        assert!(message.contains(&format!("{text}MB/s (")), "{message}");

        let (problem, message) = refusal::<Capacity>(text);
        assert!(
            matches!(problem, Problem::MissingUnit { .. }),
            "{text}: {problem:?}"
        );
        assert!(message.contains(&format!("{text}kB (")), "{message}");
        assert!(message.contains(&format!("{text}p (")), "{message}");

        let (problem, message) = refusal::<Duration>(text);
        assert!(
            matches!(problem, Problem::MissingUnit { .. }),
            "{text}: {problem:?}"
        );
        assert!(message.contains(&format!("{text}ms (")), "{message}");
        assert!(message.contains(&format!("{text}s (")), "{message}");
    }
}

/// L20: nothing that is not plainly a number with a unit becomes a limit.
#[test]
fn bad_numbers_are_refused() {
    let unknown = |unit: &str| Problem::UnknownUnit {
        unit: unit.to_owned(),
    };
    for (number, problem) in [
        ("-5{}", Problem::Sign),
        ("-0{}", Problem::Sign),
        ("+5{}", Problem::Sign),
        ("NaN", Problem::NoDigit),
        ("inf", Problem::NoDigit),
        ("{}", Problem::NoDigit),
        (".5{}", Problem::NoDigit),
        ("\u{ff11}\u{ff10}{}", Problem::NoDigit),
        ("\u{0663}{}", Problem::NoDigit),
        ("\u{2212}5{}", Problem::NoDigit),
        ("1.{}", Problem::Fraction),
        ("1..5{}", Problem::Fraction),
        ("1.2.3{}", Problem::Fraction),
        ("010{}", Problem::LeadingZero),
        ("00{}", Problem::LeadingZero),
        ("1.0000000001{}", Problem::TooManyDecimals),
        ("1e30", Problem::Exponent),
        ("1e30{}", Problem::Exponent),
        ("1E+3{}", Problem::Exponent),
        ("1,250,000{}", Problem::Separator),
        ("1,5{}", Problem::Separator),
        ("1_000{}", Problem::Separator),
        ("1'000{}", Problem::Separator),
        ("1 000{}", Problem::Separator),
        ("", Problem::Empty),
        (" ", Problem::WhiteSpace),
        ("\t\n", Problem::WhiteSpace),
        (" 5{}", Problem::WhiteSpace),
        ("5{} ", Problem::WhiteSpace),
        ("5{}\n", Problem::WhiteSpace),
        ("5 ", Problem::WhiteSpace),
        ("5  {}", Problem::WhiteSpace),
        ("5\t{}", Problem::WhiteSpace),
        ("5\u{a0}{}", Problem::WhiteSpace),
    ] {
        let (got, _) = refusal::<Rate>(&number.replace("{}", "mbit"));
        assert_eq!(got, problem, "rate {number:?}");
        let (got, _) = refusal::<Capacity>(&number.replace("{}", "kB"));
        assert_eq!(got, problem, "capacity {number:?}");
        let (got, _) = refusal::<Duration>(&number.replace("{}", "ms"));
        assert_eq!(got, problem, "duration {number:?}");
    }
    assert_eq!(refusal::<Rate>("0x10mbit").0, unknown("x10mbit"));
    assert_eq!(refusal::<Rate>("10mbit please").0, unknown("mbit please"));
    assert_eq!(refusal::<Rate>("10mbit;reboot").0, unknown("mbit;reboot"));
    assert_eq!(
        refusal::<Rate>("10mbit\u{1b}[31m").0,
        unknown("mbit\\u{1b}[31m")
    );
    assert_eq!(refusal::<Rate>("10ms").0, unknown("ms"));
    assert_eq!(refusal::<Rate>("1\u{0663}mbit").0, unknown("\u{0663}mbit"));
    assert_eq!(refusal::<Capacity>("10mbit").0, unknown("mbit"));
    assert_eq!(refusal::<Capacity>("10P").0, unknown("P"));
    assert_eq!(refusal::<Duration>("10B").0, unknown("B"));
    assert_eq!(refusal::<Duration>("10MS").0, unknown("MS"));
}

/// L20, L27, L28: the bounds are enforced exactly and named in the message.
#[test]
fn values_outside_the_bounds_are_refused_with_the_bound() {
    let long = "9".repeat(100_000);
    let below = |minimum: &str| Problem::BelowMinimum {
        minimum: minimum.to_owned(),
    };
    let above = |maximum: &str| Problem::AboveMaximum {
        maximum: maximum.to_owned(),
    };

    for text in [
        "0mbit",
        "0.0bit",
        "0.5B/s",
        "124B/s",
        "999bit",
        "0.001kbit",
        "0B/s",
    ] {
        assert_eq!(refusal::<Rate>(text).0, below("1kbit (125B/s)"), "{text}");
    }
    for number in [
        "400000000001",
        "50000000001",
        "18446744073709551616",
        "1000000000000000000000",
    ] {
        let text = format!("{number}B/s");
        assert_eq!(
            refusal::<Rate>(&text).0,
            above("400gbit (50000000000B/s)"),
            "{text}"
        );
    }
    for text in [
        format!("{long}kbit"),
        format!("{long}.5GiB/s"),
        "400.000000001gbit".to_owned(),
    ] {
        assert_eq!(refusal::<Rate>(&text).0, above("400gbit (50000000000B/s)"));
    }
    assert_eq!(refusal::<Rate>("0pps").0, below("1pps"));
    assert_eq!(refusal::<Rate>("0.5pps").0, below("1pps"));
    assert_eq!(refusal::<Rate>("1000000001pps").0, above("1000mpps"));

    assert_eq!(refusal::<Capacity>("0B").0, below("1B"));
    assert_eq!(refusal::<Capacity>("0p").0, below("1p"));
    assert_eq!(refusal::<Capacity>("0ms").0, below("1ns"));
    assert_eq!(refusal::<Capacity>("1024.5GiB").0, above("1024GiB"));
    assert_eq!(refusal::<Capacity>("1000000001p").0, above("1000000000p"));
    assert_eq!(refusal::<Capacity>("25h").0, above("86400s"));
    assert_eq!(refusal::<Duration>("86400000000001ns").0, above("86400s"));
    assert_eq!(refusal::<Duration>(&format!("{long}h")).0, above("86400s"));
}

#[test]
fn values_between_two_accepted_ones_are_refused_with_both() {
    let between = |base, below: &str, above: &str| Problem::NotWhole {
        base,
        below: below.to_owned(),
        above: above.to_owned(),
    };
    let bytes = "bytes per second";
    assert_eq!(
        refusal::<Rate>("1.5kbit").0,
        between(bytes, "1.496kbit (187B/s)", "1.504kbit (188B/s)")
    );
    assert_eq!(
        refusal::<Rate>("399.999999999gbit").0,
        between(
            bytes,
            "399999999.992kbit (49999999999B/s)",
            "400gbit (50000000000B/s)"
        )
    );
    assert_eq!(
        refusal::<Rate>("2.5pps").0,
        between("packets per second", "2pps", "3pps")
    );
    assert_eq!(refusal::<Capacity>("1.5B").0, between("bytes", "1B", "2B"));
    assert_eq!(
        refusal::<Capacity>("1.5p").0,
        between("packets", "1p", "2p")
    );
    assert_eq!(
        refusal::<Duration>("0.5ns").0,
        between("nanoseconds", "0s", "1ns")
    );
}

#[test]
fn values_are_printed_shortest_and_exact() {
    for (value, typed, echoed) in [
        (
            Rate::BytesPerSecond(1_250_000),
            "10mbit",
            "10 Mbit/s = 1250000 B/s",
        ),
        (
            Rate::BytesPerSecond(32_000),
            "256kbit",
            "256 kbit/s = 32000 B/s",
        ),
        (
            Rate::BytesPerSecond(187_500),
            "1.5mbit",
            "1.5 Mbit/s = 187500 B/s",
        ),
        (Rate::BytesPerSecond(125), "1kbit", "1 kbit/s = 125 B/s"),
        (
            Rate::BytesPerSecond(1_250_001),
            "10000.008kbit",
            "10000.008 kbit/s = 1250001 B/s",
        ),
        (
            Rate::BytesPerSecond(50_000_000_000),
            "400gbit",
            "400 Gbit/s = 50000000000 B/s",
        ),
        (Rate::PacketsPerSecond(2), "2pps", "2 pps"),
        (Rate::PacketsPerSecond(15_000), "15kpps", "15000 pps"),
    ] {
        assert_eq!(
            (value.to_string(), value.echo()),
            (typed.to_owned(), echoed.to_owned())
        );
    }
    for (value, typed, echoed) in [
        (Capacity::Bytes(1_514), "1514B", "1514 B"),
        (Capacity::Bytes(250_000), "250kB", "250 kB = 250000 B"),
        (Capacity::Bytes(262_144), "256KiB", "256 KiB = 262144 B"),
        (Capacity::Packets(100), "100p", "100 p"),
        (
            Capacity::Time(Duration::from_nanos(200_000_000)),
            "200ms",
            "200 ms",
        ),
    ] {
        assert_eq!(
            (value.to_string(), value.echo()),
            (typed.to_owned(), echoed.to_owned())
        );
    }
    for (nanoseconds, typed, echoed) in [
        (0, "0s", "0 s"),
        (1, "1ns", "1 ns"),
        (1_001, "1001ns", "1001 ns"),
        (833_600, "833.6us", "833.6 us"),
        (1_500_000_000, "1.5s", "1.5 s"),
        (
            u64::MAX,
            "18446744073709551615ns",
            "18446744073709551615 ns",
        ),
    ] {
        let value = Duration::from_nanos(nanoseconds);
        assert_eq!(
            (value.to_string(), value.echo()),
            (typed.to_owned(), echoed.to_owned())
        );
    }
    assert_eq!(
        format!("{:>8}", Rate::BytesPerSecond(1_250_000)),
        "  10mbit"
    );
}

#[test]
fn values_that_cannot_be_typed_print_without_overflow() {
    assert_eq!(Rate::BytesPerSecond(0).to_string(), "0kbit");
    assert_eq!(
        Rate::BytesPerSecond(u64::MAX).echo().split(" = ").count(),
        2
    );
    assert_eq!(
        Capacity::Bytes(u64::MAX).to_string(),
        "18446744073709551615B"
    );
}
