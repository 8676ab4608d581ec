//! The fq hold: each packet carries its departure time, fq keeps it until then. With a limit of
//! the link, fq is in the place of the queue of a tbf, which lets out what fq has ready.

mod room;

use super::{Ask, Error, HANDLE, Hold, HoldKind, HoldStats, Plan, line, root};
use crate::net::{Class, FqConfig, Op, Qdisc, QdiscConfig, ROOT, id_text};
use crate::units::Duration;

/// Microseconds between the latest departure time and fq's horizon, beyond which it drops.
const HORIZON_MARGIN_US: u64 = 1_000_000;
/// The kernel's default horizon. Ours is never nearer, so that traffic which leaky does not
/// shape and which brings its own departure times fares as without leaky.
const DEFAULT_HORIZON_US: u64 = 10_000_000;
/// The longest wait that fq's horizon, 32 bits of microseconds, can express: 4,293 s.
pub const LARGEST_WAIT: Duration =
    Duration::from_nanos((u32::MAX as u64 - HORIZON_MARGIN_US) * 1_000);
/// The one class of a tbf at the root, where fq goes.
const BELOW_TBF: u32 = HANDLE | 1;

/// The fq hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FqHold;

impl FqHold {
    /// The options of each fq.
    ///
    /// `flow_limit` is the same as `limit`: flows of different keys can share one of fq's, and the
    /// bucket is the limit that counts.
    ///
    /// # Errors
    /// [`Error::Refused`] for a wait beyond [`LARGEST_WAIT`].
    pub fn config(ask: &Ask) -> Result<(FqConfig, Vec<String>), Error> {
        let bound = ask.groups.iter().map(|group| group.bound).max();
        let horizon_us = horizon_us(bound.unwrap_or(Duration::ZERO))?;
        let (limit, notices) = room::packets(ask);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let config = FqConfig {
            limit,
            flow_limit: limit,
            horizon_us,
            horizon_drop: true,
            pacing: false,
        };
        Ok((config, notices))
    }
}

fn horizon_us(bound: Duration) -> Result<u32, Error> {
    let bound_us = bound.as_nanos().div_ceil(1_000);
    let horizon = bound_us
        .saturating_add(HORIZON_MARGIN_US)
        .max(DEFAULT_HORIZON_US);
    u32::try_from(horizon).map_err(|_| {
        let reason = format!(
            "a packet may have to wait {bound}, and fq keeps none longer than {LARGEST_WAIT}; \
             lower the max wait or the capacity, or raise the rate"
        );
        Error::refused(HoldKind::Fq, reason)
    })
}

/// What is at the root.
fn root_kind(ask: &Ask) -> &'static str {
    match (&ask.line, ask.link.tx_queues) {
        (Some(_), _) => "tbf",
        (None, 1) => "fq",
        (None, _) => "mq",
    }
}

impl Hold for FqHold {
    fn kind(&self) -> HoldKind {
        HoldKind::Fq
    }

    fn plan(&self, ask: &Ask) -> Result<Plan, Error> {
        let (config, mut notices) = FqHold::config(ask)?;
        let set = |parent, handle, config| Op::SetQdisc {
            parent,
            handle,
            config,
        };
        let fq = |parent, handle| set(parent, handle, QdiscConfig::Fq(config.clone()));
        let ops = match (&ask.line, ask.link.tx_queues) {
            (Some(line), _) => {
                let tbf = line::tbf(ask, line)?;
                notices.extend(said_of_the_link(ask, tbf.burst));
                vec![set(ROOT, HANDLE, QdiscConfig::Tbf(tbf)), fq(BELOW_TBF, 0)]
            }
            (None, 1) => vec![fq(ROOT, HANDLE)],
            (None, queues) => {
                let root = set(ROOT, HANDLE, QdiscConfig::Mq);
                let leaves = (1..=queues).map(|queue| fq(HANDLE | queue, 0));
                std::iter::once(root).chain(leaves).collect()
            }
        };
        Ok(Plan { ops, notices })
    }

    fn change(&self, was: &Ask, ask: &Ask) -> Result<Plan, Error> {
        line::stays(HoldKind::Fq, was, ask)?;
        let mut plan = self.plan(ask)?;
        // mq has nothing to change, and setting it again would drop what waits.
        plan.ops.retain(|op| {
            !matches!(
                op,
                Op::SetQdisc {
                    config: QdiscConfig::Mq,
                    ..
                }
            )
        });
        Ok(plan)
    }

    fn verify(&self, ask: &Ask, qdiscs: &[Qdisc], _classes: &[Class]) -> Result<(), Error> {
        let (config, _) = FqHold::config(ask)?;
        let interface = &ask.link.name;
        let differs = |difference: String| Err(Error::not_enforced(interface, difference));
        let expected = root_kind(ask);
        let root = super::expect_root(ask, qdiscs, expected)?;
        if let Some(line) = &ask.line {
            let tbf = line::tbf(ask, line)?;
            if let Err(difference) = tbf.compare(root.options.as_deref().unwrap_or_default()) {
                return differs(format!("of the root tbf, {difference}"));
            }
        }
        // The kernel lists the queues in use only; there is at least one.
        let mut holding = 0;
        for qdisc in holding_qdiscs(qdiscs, expected) {
            let place = match expected {
                "mq" => format!("transmit queue {}", qdisc.parent & 0xffff),
                "tbf" => format!("class {}", id_text(qdisc.parent)),
                _ => "the root".to_owned(),
            };
            if qdisc.kind != "fq" {
                return differs(format!(
                    "{place} has the qdisc {} instead of fq",
                    qdisc.kind
                ));
            }
            let options = qdisc.options.as_deref().unwrap_or_default();
            if FqConfig::decode(options).is_none() {
                let text = "fq does not say its limit and horizon (kernel older than 5.8?)";
                return differs(text.into());
            }
            if let Err(difference) = config.compare(options) {
                return differs(format!("of the fq at {place}, {difference}"));
            }
            holding += 1;
        }
        if holding == 0 {
            return differs("there is no fq where it should be".to_owned());
        }
        Ok(())
    }

    fn left_out(&self, ask: &Ask, qdiscs: &[Qdisc], _classes: &[Class]) -> Option<String> {
        let tbf = line::tbf(ask, ask.line.as_ref()?).ok()?;
        let options = root(qdiscs)?.options.as_deref()?;
        tbf.lacks_mpu(options).then(|| line::no_mpu(ask))
    }

    fn stats(&self, qdiscs: &[Qdisc], _classes: &[Class]) -> HoldStats {
        let mut stats = HoldStats::default();
        let (mut horizon, mut flow_limit) = (0, 0);
        let root = root(qdiscs);
        let root_kind = root.map_or("", |q| q.kind.as_str());
        for qdisc in holding_qdiscs(qdiscs, root_kind).filter(|q| q.kind == "fq") {
            stats.backlog_packets += u64::from(qdisc.stats.backlog_packets);
            stats.backlog_bytes += u64::from(qdisc.stats.backlog_bytes);
            stats.sent_packets += qdisc.stats.sent_packets;
            stats.dropped_packets += u64::from(qdisc.stats.dropped);
            let fq = qdisc.fq.unwrap_or_default();
            horizon += fq.horizon_drops;
            flow_limit += fq.flow_limit_drops;
        }
        let limit = stats.dropped_packets.saturating_sub(horizon + flow_limit);
        stats.drops = vec![
            ("fq_limit", limit),
            ("fq_flow_limit", flow_limit),
            ("fq_horizon", horizon),
        ];
        if let Some(tbf) = root.filter(|q| q.kind == "tbf") {
            // What tbf takes out of fq to look at waits on: what has left is what tbf let go.
            stats.sent_packets = tbf.stats.sent_packets;
            // tbf counts what fq refuses, too (`tbf_enqueue`, `tbf_segment`): beyond that are those
            // that were too long and could not be cut.
            let all = u64::from(tbf.stats.dropped).max(stats.dropped_packets);
            stats.drops.push(("tbf", all - stats.dropped_packets));
            stats.dropped_packets = all;
        }
        stats
    }
}

/// What the user should know about the link's limit by tbf.
fn said_of_the_link(ask: &Ask, burst: u32) -> Vec<String> {
    if burst <= ask.link.full_frame() {
        return Vec::new();
    }
    let mut notices = vec![format!(
        "the limit of the link lets {burst} B leave at once after a pause"
    )];
    if ask.overhead > 0 || ask.mpu > 0 {
        notices.push(format!(
            "for the limit of the link, overhead and mpu count once for a GSO packet of up to \
             {burst} B, not for each of its frames"
        ));
    }
    notices
}

/// The qdiscs of ours that hold packets: the root fq, or what is below mq or tbf.
fn holding_qdiscs<'a>(
    qdiscs: &'a [Qdisc],
    root_kind: &str,
) -> impl Iterator<Item = &'a Qdisc> + use<'a> {
    let below = matches!(root_kind, "mq" | "tbf");
    qdiscs.iter().filter(move |q| match q.parent {
        ROOT => !below && q.handle == HANDLE,
        _ => below && super::ours(q),
    })
}
