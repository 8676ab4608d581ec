//! The limits of a class, a client or a link: units that fit together, and values that can be kept.

use super::error::Problems;
use super::model::{Asked, LinkBucket};
use super::raw::{Item, RawLimits};
use crate::limit::{DEFAULT_MAX_WAIT, Error as LimitError, LONGEST};
use crate::units::{Capacity, Duration, Rate};
use std::str::FromStr;

/// Limits of which each may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Partial {
    pub(super) rate: Option<Rate>,
    pub(super) capacity: Option<Capacity>,
    pub(super) max_wait: Option<Duration>,
    pub(super) burst: Option<Capacity>,
    pub(super) ecn: Option<Duration>,
}

impl Partial {
    /// With what is missing taken from `other`.
    pub(super) fn or(self, other: Partial) -> Partial {
        Partial {
            rate: self.rate.or(other.rate),
            capacity: self.capacity.or(other.capacity),
            max_wait: self.max_wait.or(other.max_wait),
            burst: self.burst.or(other.burst),
            ecn: self.ecn.or(other.ecn),
        }
    }

    /// If there is a rate.
    pub(super) fn asked(self) -> Option<Asked> {
        Some(Asked {
            rate: self.rate?,
            capacity: self.capacity,
            max_wait: self.max_wait,
            burst: self.burst,
            ecn: self.ecn,
        })
    }
}

/// Reads what is given, and reports what does not fit together. `None` if anything is wrong.
pub(super) fn limits(raw: &RawLimits<'_>, problems: &mut Problems) -> Option<Partial> {
    let before = problems.count();
    let limits = Partial {
        rate: value(&raw.rate, problems),
        capacity: value(&raw.capacity, problems),
        max_wait: value(&raw.max_wait, problems),
        burst: value(&raw.burst, problems),
        ecn: value(&raw.ecn, problems),
    };
    for wrong in misfits(&limits) {
        let item = match wrong.key {
            "capacity" => &raw.capacity,
            "max-wait" => &raw.max_wait,
            "burst" => &raw.burst,
            _ => &raw.ecn,
        };
        problems.add(
            item.as_ref().map_or(raw.place, |item| item.place),
            wrong.text,
        );
    }
    (problems.count() == before).then_some(limits)
}

/// The link's bucket.
pub(super) fn link(raw: &RawLimits<'_>, problems: &mut Problems) -> Option<LinkBucket> {
    let read = limits(raw, problems)?;
    match read.rate {
        None => {
            if raw.sound {
                problems.missing(raw.place, "the link has no rate: write rate = \"100mbit\"");
            }
            None
        }
        Some(rate @ Rate::PacketsPerSecond(_)) => {
            let place = raw.rate.as_ref().map_or(raw.place, |item| item.place);
            problems.add(
                place,
                format!(
                    "the rate of a link is in bits or bytes, not {rate}: write it like \"100mbit\" or \
                     \"12.5MB/s\""
                ),
            );
            None
        }
        Some(rate) => Some(LinkBucket {
            rate,
            capacity: read.capacity,
            max_wait: read.max_wait,
        }),
    }
}

fn value<T: FromStr<Err: std::fmt::Display>>(
    item: &Option<Item<'_>>,
    problems: &mut Problems,
) -> Option<T> {
    item.as_ref()?.read(problems, str::parse)
}

/// A value that does not go with the others.
pub(super) struct Misfit {
    pub(super) key: &'static str,
    pub(super) text: String,
}

/// What does not fit together.
pub(super) fn misfits(limits: &Partial) -> Vec<Misfit> {
    let mut found = Vec::new();
    for (key, amount) in [("capacity", limits.capacity), ("burst", limits.burst)] {
        if let Some(text) = amount.and_then(|amount| amount_misfit(key, amount, limits.rate)) {
            found.push(Misfit { key, text });
        }
    }
    if let Some(wait) = limits.max_wait.filter(|wait| *wait > LONGEST) {
        found.push(Misfit {
            key: "max-wait",
            text: format!(
                "the max-wait {wait} is longer than the {LONGEST} a bucket can count; lower it"
            ),
        });
    }
    // Without a capacity either, nothing waits longer than the default.
    let longest = match (limits.max_wait, limits.capacity) {
        (None, None) => Some(DEFAULT_MAX_WAIT),
        (wait, _) => wait,
    };
    if let (Some(ecn), Some(wait)) = (limits.ecn, longest)
        && ecn >= wait
    {
        found.push(Misfit {
            key: "ecn",
            text: format!(
                "ecn {ecn} would never mark, since nothing waits longer than the max-wait {wait}: \
                 lower ecn, or leave it out"
            ),
        });
    }
    found
}

fn amount_misfit(key: &'static str, amount: Capacity, rate: Option<Rate>) -> Option<String> {
    let per_second = match rate {
        Some(Rate::BytesPerSecond(n) | Rate::PacketsPerSecond(n)) => n,
        None => 0,
    };
    let (too_long, fitting) = match (amount, rate) {
        (Capacity::Time(time), _) => (time > LONGEST, None),
        (Capacity::Bytes(_), Some(Rate::PacketsPerSecond(_))) => {
            (false, Some("in packets, such as 100p"))
        }
        (Capacity::Packets(_), Some(Rate::BytesPerSecond(_))) => {
            (false, Some("in bytes, such as 250kB"))
        }
        (_, None) => (false, None),
        (Capacity::Bytes(n) | Capacity::Packets(n), Some(_)) => {
            let drained = u128::from(per_second) * u128::from(LONGEST.as_nanos()) / 1_000_000_000;
            (u128::from(n) > drained, None)
        }
    };
    if let (Some(fitting), Some(rate)) = (fitting, rate) {
        let error = LimitError::Unit {
            what: key,
            given: amount,
            rate,
            fitting,
        };
        return Some(error.to_string());
    }
    too_long.then(|| match rate {
        Some(rate) => LimitError::TooLong {
            what: key,
            given: amount,
            rate,
            most: LONGEST,
        }
        .to_string(),
        None => format!(
            "the {key} of {amount} is longer than the {LONGEST} a bucket can count; lower it"
        ),
    })
}
