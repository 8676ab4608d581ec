//! From what was asked to the limits in force: defaults, and what has to be raised or refused.
//! Pure: the same question about the same interface always has the same answer.

use crate::config::Asked;
use crate::hold::Content;
use crate::net::Link;
use crate::units::{Capacity, Duration, Rate};
use leaky_core::bucket::Limits;
use leaky_core::rate::{self, Unit, amount_in, span_of};
use leaky_core::size::Framing;
use leaky_core::time::Span;
use leaky_core::wire::Layer;

/// The longest wait when nothing is said about it.
pub const DEFAULT_MAX_WAIT: Duration = Duration::from_nanos(200_000_000);

/// The most that a bucket holds when nothing is said about it, in bytes (or packets): 200 ms of
/// 40 Gbit/s. At higher rates the wait is then shorter.
pub const DEFAULT_MOST: u64 = 1 << 30;

/// The longest that a bucket may take to drain, the longest max wait and the largest burst. The clock of the buckets is
/// modulo 78 h: this leaves room for wait, burst and margins beside it.
pub const LONGEST: Duration = Duration::from_nanos(12 * 3_600 * 1_000_000_000);

/// How many of the largest packets a bucket holds at least: two that TCP always keeps under way (the
/// smallest slow start threshold of RFC 5681), and one in the act of being handed down. TCP over
/// loopback at 10 Mbit/s reached 4 % of the rate through a bucket for one packet, 97 % through one for
/// two, and the rate through one for three.
const LEAST_PACKETS: u64 = 3;

/// The shortest frame: an Ethernet frame without its checksum, or a bare IPv4 header.
const fn shortest_packet(layer: Layer) -> u64 {
    match layer {
        Layer::Ethernet => 60,
        Layer::Ip => 20,
    }
}

/// The limits that follow for the buckets of a class, of a client or of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The drain of each bucket.
    pub rate: Rate,
    /// How much a bucket holds, in the unit of the rate.
    pub capacity: Content,
    /// The same as time at the rate.
    pub capacity_time: Duration,
    /// The longest wait.
    pub max_wait: Duration,
    /// How much earlier than its start a packet may leave.
    pub burst: Duration,
    /// The wait from which on packets are marked (ECN), if they are.
    pub ecn: Option<Duration>,
    /// How far ahead of now a departure time can be.
    pub bound: Duration,
    /// What the kernel program is told.
    pub limits: Limits,
    /// What was not taken as asked, in sentences.
    pub notices: Vec<String>,
}

impl Limit {
    /// How much may leave early after a pause, in bytes; 0 with a rate in packets.
    pub fn burst_bytes(&self) -> u64 {
        let rate = self.rate.bytes_per_second().unwrap_or(0);
        amount_in(self.limits.burst, rate)
    }

    /// The wait beyond which the kernel program marks packets.
    pub fn mark_above(&self) -> Span {
        self.ecn
            .map_or(Span::MAX, |wait| Span::from_ns(wait.as_nanos()))
    }
}

/// What cannot be done as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Bytes with a rate in packets, or the other way round.
    #[error(
        "the {what} {given} does not go with the rate {rate}: give it {fitting}, or as time, such \
         as 200ms"
    )]
    Unit {
        /// Which value.
        what: &'static str,
        /// As given.
        given: Capacity,
        /// The rate.
        rate: Rate,
        /// What would go with it.
        fitting: &'static str,
    },
    /// More than the bucket's arithmetic can represent.
    #[error(
        "the {what} of {given} at {rate} takes longer than the {most} a bucket can count; lower it"
    )]
    TooLong {
        /// Which value.
        what: &'static str,
        /// As given.
        given: Capacity,
        /// The rate.
        rate: Rate,
        /// The bound.
        most: Duration,
    },
    /// More than this machine can keep.
    #[error(
        "a bucket of {given} does not fit into this machine: it may hold {most}, which take half of \
         the memory with the kernel's own use for each packet; lower the capacity or the max wait"
    )]
    Memory {
        /// What the bucket would hold.
        given: Capacity,
        /// What it may hold.
        most: Capacity,
    },
    /// The rate is outside what can be computed exactly.
    #[error("the rate {0} is outside the range of the bucket's arithmetic, 1 kbit/s to 400 Gbit/s")]
    Rate(Rate),
}

/// Works out the limits on `link`, whose `gso_max_segs` is already what it will be, on a machine with
/// this much `memory`, in bytes.
///
/// # Errors
/// [`Error`]: what does not fit together.
pub fn resolve(asked: &Asked, link: &Link, framing: Framing, memory: u64) -> Result<Limit, Error> {
    let pace = Pace::of(asked.rate, link, framing)?;
    let max_wait = asked.max_wait;
    let mut notices = Vec::new();

    let wanted = match asked.capacity {
        Some(capacity) => pace.amount("capacity", capacity)?,
        None if max_wait.is_none() => pace
            .amount("capacity", Capacity::Time(DEFAULT_MAX_WAIT))?
            .min(DEFAULT_MOST),
        None => pace.amount(
            "capacity",
            Capacity::Time(max_wait.unwrap_or(DEFAULT_MAX_WAIT)),
        )?,
    };
    let largest = pace.largest_packet(link);
    let amount = wanted.max(LEAST_PACKETS.saturating_mul(largest));
    if amount > wanted {
        let why = match asked.capacity {
            Some(given) => format!("the capacity {given} is"),
            None => format!("what {} drains in the max wait is", asked.rate),
        };
        let remedy = match link.gso_max_segs {
            0 | 1 => "",
            _ => "; with smooth \"on\" packets are small, and so are the buckets",
        };
        notices.push(format!(
            "{why} less than {LEAST_PACKETS} of the largest packets of {} take, which TCP needs; the \
             bucket holds {} instead, which drain in {}{remedy}",
            link.name,
            pace.content(amount).echo(),
            duration(pace.span("capacity", amount)?),
        ));
    }
    let capacity = pace.span("capacity", amount)?;
    let most = pace.most_in(memory, link);
    if amount > most {
        let (given, most) = (
            pace.content(amount).as_capacity(),
            pace.content(most).as_capacity(),
        );
        return Err(Error::Memory { given, most });
    }
    let capacity_time = duration(capacity);
    let max_wait = max_wait.unwrap_or(match asked.capacity {
        // The slack for rounding must not make it longer than what may be asked for.
        Some(_) => capacity_time.min(LONGEST),
        None => DEFAULT_MAX_WAIT.max(capacity_time),
    });
    if max_wait > LONGEST {
        return Err(Error::TooLong {
            what: "max wait",
            given: Capacity::Time(max_wait),
            rate: asked.rate,
            most: LONGEST,
        });
    }
    let burst = match asked.burst {
        Some(burst) => pace.span("burst", pace.amount("burst", burst)?)?,
        None => Span::ZERO,
    };

    let largest_cost = pace.core.cost(match pace.core.unit() {
        Unit::Bytes => pace.charged(link),
        Unit::Packets => largest,
    });
    let max_wait_span = Span::from_ns(max_wait.as_nanos());
    let mut limits = Limits {
        rate: pace.core,
        capacity,
        max_wait: max_wait_span,
        burst,
        stale_after: Span::ZERO,
    };
    limits.stale_after = limits.furthest();
    Ok(Limit {
        rate: asked.rate,
        capacity: pace.content(amount),
        capacity_time,
        max_wait,
        burst: duration(burst),
        ecn: asked.ecn,
        bound: duration(max_wait_span.plus(largest_cost)),
        limits,
        notices,
    })
}

/// A rate with what is needed to turn amounts into time and back.
struct Pace {
    asked: Rate,
    per_second: u64,
    core: rate::Rate,
    /// The smallest charge there is.
    least: u64,
    framing: Framing,
}

impl Pace {
    fn of(asked: Rate, link: &Link, framing: Framing) -> Result<Pace, Error> {
        let (per_second, core, least) = match asked {
            Rate::BytesPerSecond(n) => (
                n,
                rate::Rate::bytes_per_second(n),
                (shortest_packet(link.layer) + u64::from(framing.overhead))
                    .max(u64::from(framing.minimum)),
            ),
            Rate::PacketsPerSecond(n) => (n, rate::Rate::packets_per_second(n), 1),
        };
        let core = core.ok_or(Error::Rate(asked))?;
        Ok(Pace {
            asked,
            per_second,
            core,
            least,
            framing,
        })
    }

    /// A capacity in the unit of the rate, at least 1.
    fn amount(&self, what: &'static str, given: Capacity) -> Result<u64, Error> {
        let unit = |fitting| {
            Err(Error::Unit {
                what,
                given,
                rate: self.asked,
                fitting,
            })
        };
        match (given, self.core.unit()) {
            (Capacity::Bytes(n), Unit::Bytes) | (Capacity::Packets(n), Unit::Packets) => Ok(n),
            (Capacity::Bytes(_), Unit::Packets) => unit("in packets, such as 100p"),
            (Capacity::Packets(_), Unit::Bytes) => unit("in bytes, such as 250kB"),
            (Capacity::Time(time), _) => {
                Ok(amount_in(Span::from_ns(time.as_nanos()), self.per_second).max(1))
            }
        }
    }

    /// How long `amount` takes to drain.
    fn span(&self, what: &'static str, amount: u64) -> Result<Span, Error> {
        span_of(amount, self.per_second, self.least)
            // The slack for rounding is a part in 10^12.
            .filter(|span| duration(*span).as_nanos() / 1_000 <= LONGEST.as_nanos() / 1_000)
            .ok_or_else(|| Error::TooLong {
                what,
                given: self.content(amount).as_capacity(),
                rate: self.asked,
                most: LONGEST,
            })
    }

    fn content(&self, amount: u64) -> Content {
        match self.core.unit() {
            Unit::Bytes => Content::Bytes(amount),
            Unit::Packets => Content::Packets(amount),
        }
    }

    /// The most that half of `memory` keeps, in the unit of the rate. A full frame of 1,514 B takes
    /// about 2,304 B of kernel memory (skb->truesize): half as much again.
    fn most_in(&self, memory: u64, link: &Link) -> u64 {
        let bytes = memory / 3;
        match self.core.unit() {
            Unit::Bytes => bytes,
            Unit::Packets => bytes / u64::from(link.full_frame().max(1)),
        }
    }

    /// The largest packet that the local stack hands down, in the unit of the rate: a bucket that
    /// holds less would take it only when empty.
    fn largest_packet(&self, link: &Link) -> u64 {
        match self.core.unit() {
            Unit::Bytes => self.charged(link),
            Unit::Packets => link.largest_gso_segments(),
        }
    }

    /// What the largest packet that the local stack hands down is charged, in bytes.
    fn charged(&self, link: &Link) -> u64 {
        let overhead = u64::from(self.framing.overhead);
        let beside = overhead.saturating_mul(link.largest_gso_segments());
        link.largest_gso_packet()
            .saturating_add(beside)
            .max(u64::from(self.framing.minimum))
    }
}

impl Content {
    /// The same as it is typed.
    pub fn as_capacity(self) -> Capacity {
        match self {
            Content::Bytes(n) => Capacity::Bytes(n),
            Content::Packets(n) => Capacity::Packets(n),
        }
    }

    /// For a report: `250 kB = 250000 B`.
    pub fn echo(self) -> String {
        self.as_capacity().echo()
    }
}

/// Nanoseconds, rounded down: the slack for rounding in a span is not to be seen.
fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.0 >> leaky_core::time::FRACTION_BITS)
}

#[cfg(test)]
pub(crate) mod tests;
