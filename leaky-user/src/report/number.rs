//! Measured numbers as they are shown.

use crate::units::{Duration, Rate};

/// Nanoseconds as JSON seconds, with all their digits. Only here is a time a float.
#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 ns are 104 days; below that it is exact"
)]
pub(super) fn as_seconds<S: serde::Serializer>(ns: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(*ns as f64 / 1e9)
}

/// A measured rate, rounded to the kbit/s: a whole number of bytes, so that it can be typed.
pub(super) fn measured(bytes: u64, elapsed_ns: u64) -> String {
    let kbit = u128::from(bytes) * 8 * 1_000_000 / u128::from(elapsed_ns.max(1));
    match u64::try_from(kbit) {
        Ok(0) => "0bit".to_owned(),
        Ok(kbit) => Rate::BytesPerSecond(kbit.saturating_mul(125)).to_string(),
        Err(_) => "n/a".to_owned(),
    }
}

/// A duration to four digits or so.
pub(super) fn brief(duration: Duration) -> Duration {
    let ns = duration.as_nanos();
    let step = 10u64.pow(ns.checked_ilog10().unwrap_or(0).saturating_sub(3));
    Duration::from_nanos(ns / step * step)
}
