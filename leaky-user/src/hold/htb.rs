//! The htb hold: slots that are HTB classes with the key's rate. The program does the bucket's
//! arithmetic and the drops, and names the slot in `skb->priority`; HTB spaces the packets.

use super::{Ask, Content, Error, HANDLE, Hold, HoldKind, HoldStats, Plan, ours, root};
use crate::net::{
    Class, HtbClassConfig, Op, Qdisc, QdiscConfig, ROOT, TICK_NS, TbfConfig, id_text, ticks,
};
use crate::net::{ClassConfig, decode_htb};
use crate::units::Rate;
use std::collections::HashMap;

/// Slots for keys when each flow has its own bucket. Making them takes time that grows with the
/// square of their number: 45 ms for these.
pub const FLOW_SLOTS: u32 = 1_024;
/// The slot that the keys beyond [`FLOW_SLOTS`] share.
pub const OVERFLOW_SLOT: u32 = FLOW_SLOTS;
/// All slots for buckets by flow.
pub const SLOTS: u32 = FLOW_SLOTS + 1;

/// The `skb->priority` that sends a packet to a slot: its class id, `1eaf:(slot + 1)`.
pub const fn queue(slot: u32) -> u32 {
    HANDLE | (slot + 1)
}

/// The burst as time at the rate. With less, a timer that fires late makes HTB fall behind the
/// program's model.
const BURST_NS: u64 = 4_000_000;
/// HTB forgets debts beyond this (`mbuffer` in `sch_htb.c`), so nothing may take longer.
const LONGEST_NS: u128 = 60_000_000_000;
/// Room in a slot beyond capacity and burst, in bytes, for what the model cannot see.
const SLACK: u64 = 64 << 10;
/// Unshaped packets that may wait for the device.
const DIRECT_PACKETS: u32 = 1_000;
/// The smallest burst of the leaf, in bytes. GSO packets above it are split.
const LEAF_BURST: u32 = 3_100;
/// The rate of the leaf: high enough not to delay anything, since the leaf is there only to
/// split GSO packets. In bytes per second: 100 Gbit/s.
const LEAF_RATE: u64 = 12_500_000_000;
/// The longest that one frame may take at the leaf's rate: jumbo frames raise the rate.
const LEAF_FRAME_NS: u64 = 122;

/// The htb hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HtbHold;

impl HtbHold {
    /// The limits of the class and of the leaf of each slot.
    ///
    /// # Errors
    /// [`Error::Refused`] for a rate in packets, a rate too low for two frames in 60 s, or a
    /// capacity beyond 32 bits.
    pub fn limits(ask: &Ask) -> Result<(HtbClassConfig, TbfConfig), Error> {
        let refused = |reason: String| Err(Error::refused(HoldKind::Htb, reason));
        let (Rate::BytesPerSecond(rate), Content::Bytes(capacity)) = (ask.rate, ask.capacity)
        else {
            return refused(
                "HTB counts bytes, not packets; rates in packets need fq (module sch_fq)".into(),
            );
        };
        let frame = ask.link.full_frame();
        let two_frames = 2 * u64::from(frame);
        let in_time = (u128::from(rate) * u128::from(BURST_NS)).div_ceil(1_000_000_000);
        let least = two_frames.max(u64::try_from(in_time).unwrap_or(u64::MAX));
        let burst = least.max(ask.burst);
        let countable = |burst| {
            ticks(burst, rate)
                .is_some_and(|ticks| u128::from(ticks) * u128::from(TICK_NS) <= LONGEST_NS)
        };
        if countable(least) && !countable(burst) {
            return refused(format!(
                "a burst of {burst} B takes longer than 60 s at {}, more than HTB can count",
                ask.rate.echo()
            ));
        }
        if !countable(burst) {
            let lowest = two_frames.div_ceil(60);
            return refused(format!(
                "two frames of {frame} B take longer than 60 s at {}, more than HTB can count; \
                 the lowest rate on interface {} is {}",
                ask.rate.echo(),
                ask.link.name,
                Rate::BytesPerSecond(lowest).echo()
            ));
        }
        let content = capacity.max(ask.largest_packet);
        let needed = content.saturating_add(burst).saturating_add(SLACK);
        let Ok(limit) = u32::try_from(needed) else {
            let most = u64::from(u32::MAX).saturating_sub(burst + SLACK);
            return refused(format!(
                "a queue of {needed} B is more than the kernel's 32 bits; the largest capacity \
                 at this rate is {most} B"
            ));
        };
        let class = HtbClassConfig {
            rate,
            burst,
            quantum: frame,
        };
        let by_frame = u64::from(frame) * 1_000_000_000 / LEAF_FRAME_NS;
        let leaf = TbfConfig {
            rate: LEAF_RATE.max(by_frame).max(2 * rate),
            burst: LEAF_BURST.max(frame),
            limit,
        };
        Ok((class, leaf))
    }
}

fn slots(ask: &Ask) -> impl Iterator<Item = u32> + use<> {
    (0..if ask.per_flow { SLOTS } else { 1 }).map(queue)
}

impl Hold for HtbHold {
    fn kind(&self) -> HoldKind {
        HoldKind::Htb
    }

    fn plan(&self, ask: &Ask) -> Result<Plan, Error> {
        let mut plan = self.change(ask)?;
        let config = QdiscConfig::Htb {
            default: 0,
            direct_packets: DIRECT_PACKETS,
        };
        plan.ops.insert(
            0,
            Op::SetQdisc {
                parent: ROOT,
                handle: HANDLE,
                config,
            },
        );
        if ask.per_flow {
            plan.notices.push(format!(
                "htb has slots for {FLOW_SLOTS} flows at a time; further ones share one slot"
            ));
        }
        Ok(plan)
    }

    fn change(&self, ask: &Ask) -> Result<Plan, Error> {
        let (class_config, leaf_config) = HtbHold::limits(ask)?;
        let classes = slots(ask).map(|classid| Op::SetClass {
            classid,
            parent: HANDLE,
            config: ClassConfig::Htb(class_config),
        });
        let leaves = slots(ask).map(|classid| Op::SetQdisc {
            parent: classid,
            handle: 0,
            config: QdiscConfig::Tbf(leaf_config),
        });
        Ok(Plan {
            ops: classes.chain(leaves).collect(),
            notices: Vec::new(),
        })
    }

    fn verify(&self, ask: &Ask, qdiscs: &[Qdisc], classes: &[Class]) -> Result<(), Error> {
        let (class_config, leaf_config) = HtbHold::limits(ask)?;
        let differs = |difference: String| Err(Error::not_enforced(&ask.link.name, difference));
        let Some(root) = root(qdiscs) else {
            return differs("there is no root qdisc".into());
        };
        if root.kind != "htb" || root.handle != HANDLE {
            return differs(format!(
                "the root qdisc is {} {} instead of htb {}",
                root.kind,
                id_text(root.handle),
                id_text(HANDLE)
            ));
        }
        if root.options.as_deref().and_then(decode_htb) != Some((0, DIRECT_PACKETS)) {
            return differs("the root htb has other options than leaky gave it".into());
        }
        let by_id: HashMap<u32, &Class> = classes.iter().map(|c| (c.classid, c)).collect();
        let by_parent: HashMap<u32, &Qdisc> = qdiscs.iter().map(|q| (q.parent, q)).collect();
        for classid in slots(ask) {
            let id = id_text(classid);
            let Some(class) = by_id.get(&classid) else {
                return differs(format!("the class {id} is missing"));
            };
            if !class
                .options
                .as_deref()
                .is_some_and(|o| class_config.reads_back(o))
            {
                return differs(format!(
                    "the class {id} has other limits than {:?}",
                    class_config
                ));
            }
            let Some(leaf) = by_parent.get(&classid).filter(|q| q.kind == "tbf") else {
                return differs(format!("the class {id} has no tbf"));
            };
            if !leaf
                .options
                .as_deref()
                .is_some_and(|o| leaf_config.reads_back(o))
            {
                return differs(format!(
                    "the tbf of class {id} has other limits than {:?}",
                    leaf_config
                ));
            }
        }
        Ok(())
    }

    fn stats(&self, qdiscs: &[Qdisc], classes: &[Class]) -> HoldStats {
        let mut stats = HoldStats::default();
        for leaf in qdiscs.iter().filter(|q| q.parent != ROOT && ours(q)) {
            stats.backlog_packets += u64::from(leaf.stats.backlog_packets);
            stats.backlog_bytes += u64::from(leaf.stats.backlog_bytes);
            stats.sent_packets += leaf.stats.sent_packets;
            stats.sent_bytes += leaf.stats.sent_bytes;
            stats.dropped_packets += u64::from(leaf.stats.dropped);
        }
        stats.drops = vec![("htb_limit", stats.dropped_packets)];
        // The root counts what its classes refused (a GSO packet once) and, beyond that, what
        // did not fit in the queue of unshaped packets.
        let refused: u64 = classes
            .iter()
            .filter(|c| c.classid & 0xffff_0000 == HANDLE)
            .map(|c| u64::from(c.stats.dropped))
            .sum();
        let all = root(qdiscs).map_or(0, |q| u64::from(q.stats.dropped));
        stats.passed_dropped_packets = all.saturating_sub(refused);
        stats
    }
}
