//! Properties of every value and every text.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use proptest::prelude::*;

use super::table_tests::refusal;
use super::{Capacity, Duration, Problem, Rate, UnitError};

/// Everything shown, short or echoed, gives the same value when typed.
fn round_trips<T>(value: T, echoed: &str) -> Result<(), TestCaseError>
where
    T: FromStr<Err = UnitError> + Display + Debug + PartialEq,
{
    let typed = value.to_string();
    for shown in echoed.split(" = ").chain([typed.as_str()]) {
        let parsed = shown.parse::<T>();
        prop_assert!(parsed.as_ref() == Ok(&value), "{}: {:?}", shown, parsed);
    }
    Ok(())
}

/// Mostly round numbers, which take the larger units, and some that are not.
fn numbers(minimum: u64, maximum: u64) -> impl Strategy<Value = u64> {
    let round = (1_u64..5_000, 0_u32..14, 0_u32..31)
        .prop_map(|(n, tens, twos)| n.saturating_mul(10_u64.pow(tens)).saturating_mul(1 << twos));
    prop_oneof![
        minimum..=maximum,
        minimum..=minimum.saturating_add(5_000).min(maximum),
        round
    ]
    .prop_map(move |n| n.clamp(minimum, maximum))
}

/// Texts that get past the first checks of the parser.
fn plausible() -> impl Strategy<Value = String> {
    "[-+]?[0-9]{0,30}([.,_' ][0-9]{0,30})?[ \t]?[a-zA-Z/\u{b5}]{0,6}[ \n]?"
}

/// `whole.fraction` with `decimals` digits, and the same times 10^9.
fn decimals() -> impl Strategy<Value = (String, u128)> {
    (0_u64..10_000_000, 1_usize..=9, 0_u64..1_000_000_000).prop_map(|(whole, digits, fraction)| {
        let fraction = format!("{fraction:09}")[..digits].to_owned();
        let padded = format!("{whole}{fraction:0<9}");
        (
            format!("{whole}.{fraction}"),
            padded.parse().expect("digits"),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn shown_rates_parse_back(
        bytes in numbers(Rate::MIN_BYTES_PER_SECOND, Rate::MAX_BYTES_PER_SECOND),
        packets in numbers(Rate::MIN_PACKETS_PER_SECOND, Rate::MAX_PACKETS_PER_SECOND),
    ) {
        for rate in [Rate::BytesPerSecond(bytes), Rate::PacketsPerSecond(packets)] {
            round_trips(rate, &rate.echo())?;
        }
    }

    #[test]
    fn shown_capacities_and_durations_parse_back(
        bytes in numbers(1, Capacity::MAX_BYTES),
        packets in numbers(1, Capacity::MAX_PACKETS),
        nanoseconds in numbers(1, Duration::MAX.as_nanos()),
    ) {
        let time = Duration::from_nanos(nanoseconds);
        round_trips(time, &time.echo())?;
        for capacity in [Capacity::Bytes(bytes), Capacity::Packets(packets), Capacity::Time(time)] {
            round_trips(capacity, &capacity.echo())?;
        }
    }

    #[test]
    fn no_text_panics_and_every_refusal_is_one_line(
        text in prop_oneof![any::<String>(), plausible()],
    ) {
        if text.parse::<Rate>().is_err() {
            refusal::<Rate>(&text);
        }
        if text.parse::<Capacity>().is_err() {
            refusal::<Capacity>(&text);
        }
        if text.parse::<Duration>().is_err() {
            refusal::<Duration>(&text);
        }
    }

    /// A fraction is either exactly the value that was typed or refused between its neighbours.
    #[test]
    fn fractions_are_exact((text, billionths) in decimals()) {
        const BILLION: u128 = 1_000_000_000;
        let decimal = [("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000)];
        for (unit, bits) in decimal.into_iter().chain([("B/s", 8), ("MiB/s", 8 << 20)]) {
            let whole = billionths * bits / (8 * BILLION);
            let exact = (billionths * bits).is_multiple_of(8 * BILLION);
            let lowest = u128::from(Rate::MIN_BYTES_PER_SECOND);
            let highest = u128::from(Rate::MAX_BYTES_PER_SECOND);
            match format!("{text}{unit}").parse() {
                Ok(Rate::BytesPerSecond(n)) => prop_assert!(exact && u128::from(n) == whole),
                Ok(other) => prop_assert!(false, "{other:?}"),
                Err(error) => match error.problem() {
                    Problem::BelowMinimum { .. } => prop_assert!(whole < lowest),
                    Problem::AboveMaximum { .. } => {
                        prop_assert!(whole > highest || (whole == highest && !exact));
                    }
                    Problem::NotWhole { below, above, .. } => {
                        prop_assert!(!exact && (lowest..highest).contains(&whole));
                        for (shown, bytes) in [(below, whole), (above, whole + 1)] {
                            let in_bytes = format!("({bytes}B/s)");
                            prop_assert!(shown.ends_with(&in_bytes));
                        }
                    }
                    other => prop_assert!(false, "{text}{unit}: {other:?}"),
                },
            }
        }
    }
}
