//! The fq hold: each packet carries its departure time, fq keeps it until then.

use super::{Ask, Content, Error, HANDLE, Hold, HoldKind, HoldStats, Plan, root};
use crate::net::{Class, FqConfig, Layer, Link, Op, Qdisc, QdiscConfig, ROOT, id_text};
use crate::units::{Duration, Rate};

/// Microseconds between the latest departure time and fq's horizon, beyond which it drops.
const HORIZON_MARGIN_US: u64 = 1_000_000;
/// The kernel's default horizon. Ours is never nearer, so that traffic which leaky does not
/// shape and which brings its own departure times fares as without leaky.
const DEFAULT_HORIZON_US: u64 = 10_000_000;
/// The longest wait that fq's horizon, 32 bits of microseconds, can express: 4,293 s.
pub const LARGEST_WAIT: Duration =
    Duration::from_nanos((u32::MAX as u64 - HORIZON_MARGIN_US) * 1_000);

/// Packets that may wait for the timer although their time has come: what the rate brings in
/// this time.
const LATE_NS: u64 = 4_000_000;
/// Packets of traffic that is not shaped and passes through the same qdisc.
const PASSING_PACKETS: u64 = 1_000;
/// Kernel memory of a small packet: its descriptor and a buffer of 512 B.
const PACKET_MEMORY: u64 = 768;
/// What the queue of an interface may take in kernel memory on top of twice the capacity, in
/// bytes. Twice, because a full frame takes up to 1.6 times its size.
const MEMORY: u64 = 256 << 20;

/// The fq hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FqHold;

impl FqHold {
    /// The options of each fq.
    ///
    /// fq must never drop what the program accepted, so `limit` has room for a full bucket of
    /// the smallest packets there are (a bare IP header), and `flow_limit` is the same: flows of
    /// different keys can share one of fq's, and the bucket is the limit that counts. What
    /// bounds it is kernel memory: 256 MiB and twice the capacity in packets of 768 B for one
    /// bucket; for buckets by flow 256 MiB in full frames over all flows and queues together,
    /// but always one full bucket. A capacity in packets is taken at its word.
    ///
    /// # Errors
    /// [`Error::Refused`] for a wait beyond [`LARGEST_WAIT`].
    pub fn config(ask: &Ask) -> Result<(FqConfig, Vec<String>), Error> {
        let horizon_us = horizon_us(ask.bound)?;
        let (bucket, mut notices) = bucket_packets(ask);
        let mut limit = bucket;
        if ask.per_flow {
            let frame_memory = u64::from(ask.link.full_frame()) + PACKET_MEMORY;
            let total = MEMORY / frame_memory;
            limit = bucket.max(total / u64::from(ask.link.tx_queues));
            notices.push(format!(
                "fq keeps at most {limit} packets over all flows together{}",
                if ask.link.tx_queues > 1 {
                    " in each transmit queue"
                } else {
                    ""
                }
            ));
        }
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

/// The packets that one bucket can have in fq, and a notice if memory allows fewer than the
/// capacity.
fn bucket_packets(ask: &Ask) -> (u64, Vec<String>) {
    let late = |rate: u64| per_time(rate, LATE_NS);
    let capacity = match (ask.capacity, ask.rate) {
        (Content::Packets(packets), rate) => {
            let late = late(rate.packets_per_second().unwrap_or_default());
            return (
                packets.saturating_add(late).saturating_add(PASSING_PACKETS),
                Vec::new(),
            );
        }
        // An empty bucket takes one packet however large.
        (Content::Bytes(bytes), _) => bytes.max(ask.largest_packet),
    };
    let rate = match ask.rate {
        Rate::BytesPerSecond(rate) => rate,
        Rate::PacketsPerSecond(_) => 0,
    };
    let needed = capacity
        .saturating_add(late(rate))
        .div_ceil(smallest_packet(&ask.link));
    let affordable = MEMORY.saturating_add(capacity.saturating_mul(2)) / PACKET_MEMORY;
    if needed <= affordable {
        return (needed + PASSING_PACKETS, Vec::new());
    }
    let mean = capacity.saturating_add(late(rate)).div_ceil(affordable);
    let notice = format!(
        "fq keeps at most {affordable} packets of a bucket: its capacity of {capacity} B is \
         reached with packets of {mean} B or more on average, smaller ones are dropped by fq \
         before that"
    );
    (affordable + PASSING_PACKETS, vec![notice])
}

/// The smallest packet that is shaped, in bytes as the program counts them: a bare IPv4 header.
fn smallest_packet(link: &Link) -> u64 {
    match link.layer {
        Layer::Ethernet => 34,
        Layer::Ip => 20,
    }
}

/// What `rate` per second brings in `ns`, rounded up.
fn per_time(rate: u64, ns: u64) -> u64 {
    let amount = (u128::from(rate) * u128::from(ns)).div_ceil(1_000_000_000);
    u64::try_from(amount).unwrap_or(u64::MAX)
}

impl Hold for FqHold {
    fn kind(&self) -> HoldKind {
        HoldKind::Fq
    }

    fn plan(&self, ask: &Ask) -> Result<Plan, Error> {
        let (config, notices) = FqHold::config(ask)?;
        let fq = |parent, handle| Op::SetQdisc {
            parent,
            handle,
            config: QdiscConfig::Fq(config.clone()),
        };
        let ops = if ask.link.tx_queues == 1 {
            vec![fq(ROOT, HANDLE)]
        } else {
            let root = Op::SetQdisc {
                parent: ROOT,
                handle: HANDLE,
                config: QdiscConfig::Mq,
            };
            let leaves = (1..=ask.link.tx_queues).map(|queue| fq(HANDLE | queue, 0));
            std::iter::once(root).chain(leaves).collect()
        };
        Ok(Plan { ops, notices })
    }

    fn change(&self, ask: &Ask) -> Result<Plan, Error> {
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
        let expected = if ask.link.tx_queues == 1 { "fq" } else { "mq" };
        match root(qdiscs) {
            Some(root) if root.handle == HANDLE && root.kind == expected => {}
            Some(root) => {
                return differs(format!(
                    "the root qdisc is {} {} instead of {expected} {}",
                    root.kind,
                    id_text(root.handle),
                    id_text(HANDLE)
                ));
            }
            None => return differs("there is no root qdisc".to_owned()),
        }
        // The kernel lists the queues in use only; there is at least one.
        let mut holding = 0;
        for qdisc in holding_qdiscs(qdiscs, expected) {
            if qdisc.kind != "fq" {
                return differs(format!(
                    "transmit queue {} has the qdisc {} instead of fq",
                    qdisc.parent & 0xffff,
                    qdisc.kind
                ));
            }
            let read = qdisc.options.as_deref().and_then(FqConfig::decode);
            if read.as_ref() != Some(&config) {
                return differs(match read {
                    Some(read) => format!("fq has {read:?} instead of {config:?}"),
                    None => "fq does not say its limit and horizon (kernel older than 5.8?)".into(),
                });
            }
            holding += 1;
        }
        if holding == 0 {
            return differs("no transmit queue has an fq".to_owned());
        }
        Ok(())
    }

    fn stats(&self, qdiscs: &[Qdisc], _classes: &[Class]) -> HoldStats {
        let mut stats = HoldStats::default();
        let (mut horizon, mut flow_limit) = (0, 0);
        let root_kind = root(qdiscs).map_or("", |q| q.kind.as_str());
        for qdisc in holding_qdiscs(qdiscs, root_kind).filter(|q| q.kind == "fq") {
            stats.backlog_packets += u64::from(qdisc.stats.backlog_packets);
            stats.backlog_bytes += u64::from(qdisc.stats.backlog_bytes);
            stats.sent_packets += qdisc.stats.sent_packets;
            stats.sent_bytes += qdisc.stats.sent_bytes;
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
        stats
    }
}

/// The qdiscs of ours that hold packets: the root fq, or the leaves of mq.
fn holding_qdiscs<'a>(
    qdiscs: &'a [Qdisc],
    root_kind: &str,
) -> impl Iterator<Item = &'a Qdisc> + use<'a> {
    let leaves = root_kind == "mq";
    qdiscs.iter().filter(move |q| match q.parent {
        ROOT => !leaves && q.handle == HANDLE,
        _ => leaves && super::ours(q),
    })
}
