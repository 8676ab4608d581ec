//! Which slot is whose.

use crate::hold::{Ask, Error, HANDLE, HoldKind, Keys};
use std::ops::Range;

/// Slots for keys of a group with a bucket for each key, where there is room.
pub const FLOW_SLOTS: u32 = 1_024;
/// All slots of an interface. Making them takes time that grows with the square of their number:
/// 45 ms for 1,024, 0.7 s for these.
const POOL: u32 = 4_096;
/// Groups with a bucket for each key.
const MOST_MANY: u32 = 4;
/// Slots for keys below which such a group is refused rather than squeezed.
const LEAST_KEYS: u32 = 32;
/// The minor number of the class of the link, and of the one for traffic that only the link
/// limits: away from the slots, so that those can grow.
const LINE_MINOR: u32 = 0xffff;
const REST_MINOR: u32 = 0xfffe;

/// The class of the link, parent of all slots.
pub(super) const LINE_CLASS: u32 = HANDLE | LINE_MINOR;

/// The slots of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The slot of its one bucket, with [`Keys::One`].
    pub own: Option<u32>,
    /// The slots that keys can have one of, with [`Keys::Many`]; else empty.
    pub keys: Range<u32>,
    /// The slot that keys share which find none free (with [`Keys::One`] the same as `own`).
    pub overflow: u32,
}

impl Slots {
    /// All of them.
    pub(super) fn all(&self) -> Range<u32> {
        self.own.unwrap_or(self.keys.start)..self.overflow + 1
    }
}

/// The `skb->priority` that sends a packet to a slot: its class id, `1eaf:(slot + 1)`.
pub const fn queue(slot: u32) -> u32 {
    HANDLE | (slot + 1)
}

/// The slot for traffic that only the link limits, if the link has a limit.
pub const fn rest_slot(ask: &Ask) -> Option<u32> {
    match ask.line {
        Some(_) => Some(REST_MINOR - 1),
        None => None,
    }
}

/// The slots of each group, in their order.
///
/// A group with one bucket has one. A group with a bucket for each key has as many as fit, at
/// most [`FLOW_SLOTS`], the same for all of them, and one for the keys beyond.
///
/// # Errors
/// [`Error::Refused`] if the groups do not fit into the 4,096 slots of an interface.
pub fn slots(ask: &Ask) -> Result<Vec<Slots>, Error> {
    let fits = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let many = fits(ask.groups.iter().filter(|g| g.keys == Keys::Many).count());
    let ones = fits(ask.groups.len()).saturating_sub(many);
    let for_each = match POOL.saturating_sub(ones).checked_div(many) {
        Some(share) => share.saturating_sub(1).min(FLOW_SLOTS),
        None => 0,
    };
    if many > MOST_MANY || ones > POOL || (many > 0 && for_each < LEAST_KEYS) {
        let most = POOL.saturating_sub(many.min(MOST_MANY) * (LEAST_KEYS + 1));
        return Err(Error::refused(
            HoldKind::Htb,
            format!(
                "there are {POOL} queues, for at most {MOST_MANY} classes with a bucket for each \
                 key and, beside {} of those, {most} single buckets; asked are {many} and {ones}. \
                 fq (module sch_fq) has no such limit",
                many.min(MOST_MANY)
            ),
        ));
    }
    let mut next = 0;
    let slots = ask.groups.iter().map(|group| {
        let start = next;
        let keys = match group.keys {
            Keys::One => 0,
            Keys::Many => for_each,
        };
        next += keys + 1;
        Slots {
            own: (group.keys == Keys::One).then_some(start),
            keys: start..start + keys,
            overflow: start + keys,
        }
    });
    Ok(slots.collect())
}
