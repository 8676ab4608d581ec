//! What the class and the leaf of a slot are told.

use crate::hold::{Ask, Content, Error, Group, HoldKind, Keys, Line, line};
use crate::net::{HtbClassConfig, TbfConfig};
use crate::units::{Duration, Rate};

/// The burst as time at the rate. With less, a timer that fires late makes HTB fall behind the
/// program's model.
const BURST_NS: u64 = 4_000_000;
/// Room in a slot beyond capacity and burst, in bytes, for what the model cannot see.
const SLACK: u64 = 64 << 10;
/// What a class below the link gets without asking the link, in bytes per second: as good as
/// nothing. HTB gives a class its rate whether or not its parent has any left (ten classes of
/// 4 Mbit/s below a parent of 20 sent 40); only for what it takes beyond, up to its ceiling, does
/// it wait for the parent. Because HTB forgets debts beyond 60 s, it is one frame in a minute,
/// which the parent is charged: of 20 classes below a parent in debt each sent one frame at once
/// and the next out of turn after 60 s, and the parent kept its rate over both.
const GUARANTEED: u64 = 1;
/// The quantum of the link's class, which HTB does not use (nor change) once it is a parent.
const LINE_QUANTUM: u32 = 1_500;
/// The smallest burst of the leaf, in bytes. GSO packets above it are split.
const LEAF_BURST: u32 = 3_100;
/// The rate of the leaf: high enough not to delay anything, since the leaf is there only to
/// split GSO packets. In bytes per second: 100 Gbit/s.
const LEAF_RATE: u64 = 12_500_000_000;
/// The longest that one frame may take at the leaf's rate: jumbo frames raise the rate.
const LEAF_FRAME_NS: u64 = 122;

/// The limits of the class and of the leaf of each slot of a group. Below a limited link the
/// class has its rate as ceiling only, and waits for the link's turn.
///
/// # Errors
/// [`Error::Refused`] for a rate in packets, a rate too low for two frames in 60 s, or a
/// capacity beyond 32 bits.
pub(super) fn slot(ask: &Ask, group: &Group) -> Result<(HtbClassConfig, TbfConfig), Error> {
    let refused = |reason: String| Err(Error::refused(HoldKind::Htb, reason));
    let (Rate::BytesPerSecond(rate), Content::Bytes(capacity)) = (group.rate, group.capacity)
    else {
        return refused(
            "HTB counts bytes, not packets; rates in packets need fq (module sch_fq)".into(),
        );
    };
    let least = least_burst(ask, rate)?;
    let burst = least.max(group.burst);
    if !line::is_countable(burst, rate) {
        return refused(format!(
            "a burst of {burst} B takes longer than 60 s at {}, more than HTB can count",
            group.rate.echo()
        ));
    }
    // While the link is busy, what has drained by the model of the key waits for the link.
    let for_link = ask.line.map_or(0, |line| line.capacity);
    let beside = burst.saturating_add(SLACK).saturating_add(for_link);
    let needed = capacity.max(ask.largest_packet).saturating_add(beside);
    let Ok(limit) = u32::try_from(needed) else {
        let most = u64::from(u32::MAX).saturating_sub(beside);
        return refused(format!(
            "a queue of {needed} B is more than the kernel's 32 bits; the largest capacity \
             at this rate is {most} B"
        ));
    };
    let (guaranteed, guaranteed_burst) = match ask.line {
        Some(_) => (GUARANTEED, 0),
        None => (rate, burst),
    };
    let class = HtbClassConfig {
        rate: guaranteed,
        burst: guaranteed_burst,
        ceil: rate,
        ceil_burst: burst,
        // One frame: keys that share the link take turns by bytes, whatever their packets are.
        quantum: ask.link.full_frame(),
        per_packet: line::per_packet(HoldKind::Htb, ask)?,
    };
    Ok((class, leaf(ask, rate, limit)))
}

/// The class of the link.
///
/// # Errors
/// [`Error::Refused`] for a rate too low for two frames in 60 s.
pub(super) fn line_class(ask: &Ask, line: &Line) -> Result<HtbClassConfig, Error> {
    let burst = least_burst(ask, line.rate)?;
    Ok(HtbClassConfig {
        rate: line.rate,
        burst,
        ceil: line.rate,
        ceil_burst: burst,
        quantum: LINE_QUANTUM,
        per_packet: line::per_packet(HoldKind::Htb, ask)?,
    })
}

/// The slot for what only the link limits, as if it were a group.
pub(super) fn rest(line: &Line) -> Group {
    Group {
        rate: Rate::BytesPerSecond(line.rate),
        capacity: Content::Bytes(line.capacity),
        bound: Duration::ZERO,
        burst: 0,
        keys: Keys::One,
    }
}

/// The smallest burst of a class: two frames, and what a late timer must not lose.
fn least_burst(ask: &Ask, rate: u64) -> Result<u64, Error> {
    let two_frames = 2 * ask.charged(u64::from(ask.link.full_frame()));
    let burst = two_frames.max(line::per_time(rate, BURST_NS));
    if line::is_countable(burst, rate) {
        Ok(burst)
    } else {
        Err(line::too_slow(HoldKind::Htb, ask, rate, 2))
    }
}

/// The leaf: a tbf that delays nothing and cuts GSO packets. HTB charges overhead once for what
/// comes out of it, so that with an overhead nothing longer than a frame may.
fn leaf(ask: &Ask, rate: u64, limit: u32) -> TbfConfig {
    let frame = ask.link.full_frame();
    let (burst, frame_ns) = match ask.overhead | ask.mpu {
        0 => (LEAF_BURST.max(frame), LEAF_FRAME_NS),
        // With a burst of one frame the next one must be ready all the sooner: HTB complains about
        // a leaf that has packets and gives none.
        _ => (frame, LEAF_FRAME_NS / 2),
    };
    let by_frame = u64::from(frame) * 1_000_000_000 / frame_ns;
    TbfConfig {
        rate: LEAF_RATE.max(by_frame).max(2 * rate),
        burst,
        limit,
        per_packet: Default::default(),
    }
}
