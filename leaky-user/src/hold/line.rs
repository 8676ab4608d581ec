//! The link: what all keys of an interface may take together, and what a frame is charged.

use super::{Ask, Error, HoldKind, Line};
use crate::net::{PerPacket, TICK_NS, TbfConfig, ticks};
use crate::units::Rate;

/// HTB forgets debts beyond this (`mbuffer` in `sch_htb.c`), so nothing may take longer; tbf's
/// burst in ticks ends at 274 s.
const LONGEST_NS: u128 = 60_000_000_000;
/// How late the timer may be that ends a wait of tbf without slowing the link down.
const LATE_NS: u64 = 250_000;

/// The qdisc at the root that limits the link of the fq hold.
///
/// Its burst is what may leave at once after a pause, and what lets it catch up when its timer is
/// late: one full frame, or what the link carries in 250 us where that is more (from 49 Mbit/s on
/// with frames of 1,522 B). It must be small: any time window carries the rate and the burst,
/// and 100 ms of the link are to carry no more than the rate and one frame. (The overhead of the
/// frame comes on top by itself: the kernel computes the burst's time with it.)
///
/// # Errors
/// [`Error::Refused`] for a rate at which one frame takes more than 60 s.
pub(super) fn tbf(ask: &Ask, line: &Line) -> Result<TbfConfig, Error> {
    let per_packet = per_packet(HoldKind::Fq, ask)?;
    let frame = u64::from(ask.link.full_frame());
    if !is_countable(per_packet.charge(frame), line.rate) {
        return Err(too_slow(HoldKind::Fq, ask, line.rate, 1));
    }
    let burst = frame.max(per_time(line.rate, LATE_NS));
    Ok(TbfConfig {
        rate: line.rate,
        burst: u32::try_from(burst).unwrap_or(u32::MAX),
        // Not in force: fq is in the place of the queue that this limits.
        limit: u32::try_from(line.capacity).unwrap_or(u32::MAX),
        per_packet,
    })
}

/// What a frame is charged besides its bytes, in the kernel's 16 bits.
pub(super) fn per_packet(hold: HoldKind, ask: &Ask) -> Result<PerPacket, Error> {
    let narrow = |what: &str, value: u32| {
        u16::try_from(value).map_err(|_| {
            let most = u16::MAX;
            let reason = format!("the {what} of {value} B is more than the kernel's {most} B");
            Error::refused(hold, reason)
        })
    };
    Ok(PerPacket {
        overhead: narrow("overhead", ask.overhead)?,
        mpu: narrow("mpu", ask.mpu)?,
    })
}

/// Refuses to add or remove the link's limit under way: its place is the root, and what waits
/// below would be lost.
pub(super) fn stays(hold: HoldKind, was: &Ask, ask: &Ask) -> Result<(), Error> {
    if was.line.is_some() == ask.line.is_some() {
        return Ok(());
    }
    let reason = "the limit of the link can be changed under way, but not added or removed: start \
                  leaky again";
    Err(Error::refused(hold, reason))
}

/// Whether the kernel can count with `bytes` at once at this rate.
pub(super) fn is_countable(bytes: u64, rate: u64) -> bool {
    ticks(bytes, rate).is_some_and(|n| u128::from(n) * u128::from(TICK_NS) <= LONGEST_NS)
}

/// A rate at which so many frames take more than the kernel can count.
pub(super) fn too_slow(hold: HoldKind, ask: &Ask, rate: u64, frames: u64) -> Error {
    let frame = ask.charged(u64::from(ask.link.full_frame()));
    let (what, verb) = match frames {
        1 => ("one frame".to_owned(), "takes"),
        2 => ("two frames".to_owned(), "take"),
        n => (format!("{n} frames"), "take"),
    };
    let lowest = (frames * frame).div_ceil(60);
    let reason = format!(
        "{what} of {frame} B {verb} longer than 60 s at {}, more than {} can count; the lowest rate \
         on interface {} is {}",
        Rate::BytesPerSecond(rate).echo(),
        match hold {
            HoldKind::Fq => "tbf",
            HoldKind::Htb => "HTB",
        },
        ask.link.name,
        Rate::BytesPerSecond(lowest).echo()
    );
    Error::refused(hold, reason)
}

/// What `rate` per second brings in `ns`, rounded up.
pub(super) fn per_time(rate: u64, ns: u64) -> u64 {
    let amount = (u128::from(rate) * u128::from(ns)).div_ceil(1_000_000_000);
    u64::try_from(amount).unwrap_or(u64::MAX)
}

/// Said where the kernel stored no least charge.
pub(super) fn no_mpu(ask: &Ask) -> String {
    format!(
        "this kernel charges a frame its bytes and the overhead only, without the mpu of {} B: the \
         hold lets short frames leave sooner than the bucket counts",
        ask.mpu
    )
}
