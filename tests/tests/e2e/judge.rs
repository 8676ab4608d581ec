//! How measured figures are judged. Every message carries what was measured and what was wanted.

use anyhow::{Result, ensure};
use leaky_tests::stats::{Gaps, ppm, us};

/// `measured` is within `permille` thousandths of `wanted`.
pub(crate) fn near(what: &str, measured: u64, wanted: u64, permille: u32) -> Result<()> {
    near_ppm(what, measured, wanted, permille * 1000)
}

/// `measured` is within `limit` millionths of `wanted`.
pub(crate) fn near_ppm(what: &str, measured: u64, wanted: u64, limit: u32) -> Result<()> {
    let off = ppm(measured, wanted);
    ensure!(
        off.unsigned_abs() <= u64::from(limit),
        "{what}: {measured}, wanted {wanted} within {limit} ppm, off by {off} ppm"
    );
    Ok(())
}

/// `measured` is between two numbers, both included.
pub(crate) fn between<T: PartialOrd + std::fmt::Display>(
    what: &str,
    measured: T,
    least: T,
    most: T,
) -> Result<()> {
    ensure!(
        least <= measured && measured <= most,
        "{what}: {measured}, wanted {least} to {most}"
    );
    Ok(())
}

/// A line with the figures, for failure messages and for people who read the log.
pub(crate) fn show(gaps: &Gaps) -> String {
    format!(
        "gaps of {}: min {} p1 {} median {} p99 {} max {} us",
        gaps.count,
        us(gaps.min),
        us(gaps.p1),
        us(gaps.p50),
        us(gaps.p99),
        us(gaps.max)
    )
}
