//! The htb hold: slots that are HTB classes with the key's rate. The program does the bucket's
//! arithmetic and the drops, and names the slot in `skb->priority`; HTB spaces the packets. With a
//! limit of the link, all slots are below one class with the link's rate.

mod limits;
mod slots;

use super::{Ask, Error, Group, HANDLE, Hold, HoldKind, HoldStats, Plan, line, ours, root};
use crate::net::{
    Class, ClassConfig, HtbClassConfig, Op, Qdisc, QdiscConfig, ROOT, TbfConfig, compare_htb,
    id_text,
};
use slots::LINE_CLASS;
pub use slots::{FLOW_SLOTS, Slots, queue, rest_slot, slots};
use std::collections::HashMap;

/// Unshaped packets that may wait for the device.
const DIRECT_PACKETS: u32 = 1_000;

/// The htb hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HtbHold;

impl HtbHold {
    /// The limits of the class and of the leaf of each slot of a group.
    ///
    /// # Errors
    /// [`Error::Refused`] for a rate in packets, a rate too low for two frames in 60 s, or a
    /// capacity beyond 32 bits.
    pub fn limits(ask: &Ask, group: &Group) -> Result<(HtbClassConfig, TbfConfig), Error> {
        limits::slot(ask, group)
    }
}

/// A class with its leaf.
struct Node {
    classid: u32,
    parent: u32,
    class: HtbClassConfig,
    /// None: it has classes inside.
    leaf: Option<TbfConfig>,
}

/// All classes, parents first.
fn tree(ask: &Ask) -> Result<Vec<Node>, Error> {
    let mut nodes = Vec::new();
    let mut parent = HANDLE;
    if let Some(line) = &ask.line {
        nodes.push(Node {
            classid: LINE_CLASS,
            parent,
            class: limits::line_class(ask, line)?,
            leaf: None,
        });
        parent = LINE_CLASS;
    }
    let mut add = |slots: std::ops::Range<u32>, group: &Group| {
        let (class, leaf) = HtbHold::limits(ask, group)?;
        nodes.extend(slots.map(|slot| Node {
            classid: queue(slot),
            parent,
            class,
            leaf: Some(leaf),
        }));
        Ok::<(), Error>(())
    };
    if let (Some(line), Some(slot)) = (&ask.line, rest_slot(ask)) {
        add(slot..slot + 1, &limits::rest(line))?;
    }
    for (group, slots) in ask.groups.iter().zip(slots(ask)?) {
        add(slots.all(), group)?;
    }
    Ok(nodes)
}

/// Makes or changes all classes and leaves.
fn set(nodes: &[Node]) -> Vec<Op> {
    let classes = nodes.iter().map(|node| Op::SetClass {
        classid: node.classid,
        parent: node.parent,
        config: ClassConfig::Htb(node.class),
    });
    let leaves = nodes.iter().filter_map(|node| {
        Some(Op::SetQdisc {
            parent: node.classid,
            handle: 0,
            config: QdiscConfig::Tbf(node.leaf?),
        })
    });
    classes.chain(leaves).collect()
}

/// What the user should know.
fn notices(ask: &Ask, nodes: &[Node]) -> Result<Vec<String>, Error> {
    let mut notices = Vec::new();
    let many = slots(ask)?.into_iter().find(|slots| slots.own.is_none());
    if let Some(slots) = many {
        notices.push(format!(
            "htb has slots for {} keys at a time{}; further ones share one slot",
            slots.keys.len(),
            if ask.groups.len() > 1 {
                " in a class"
            } else {
                ""
            }
        ));
    }
    if let Some(line) = nodes.iter().find(|node| node.leaf.is_none()) {
        notices.push(format!(
            "the limit of the link lets {} B leave at once after a pause, and beyond it one frame \
             of each key in a minute",
            line.class.burst
        ));
    }
    Ok(notices)
}

impl Hold for HtbHold {
    fn kind(&self) -> HoldKind {
        HoldKind::Htb
    }

    fn plan(&self, ask: &Ask) -> Result<Plan, Error> {
        let nodes = tree(ask)?;
        let root = Op::SetQdisc {
            parent: ROOT,
            handle: HANDLE,
            config: QdiscConfig::Htb {
                default: 0,
                direct_packets: DIRECT_PACKETS,
            },
        };
        Ok(Plan {
            ops: std::iter::once(root).chain(set(&nodes)).collect(),
            notices: notices(ask, &nodes)?,
        })
    }

    fn change(&self, was: &Ask, ask: &Ask) -> Result<Plan, Error> {
        line::stays(HoldKind::Htb, was, ask)?;
        if !slots(ask)?.starts_with(&slots(was)?) {
            let reason = "with htb, classes that have their queues keep them: under way new ones \
                          can only come behind the others, as long as there is room; start leaky \
                          again";
            return Err(Error::refused(HoldKind::Htb, reason));
        }
        let nodes = tree(ask)?;
        Ok(Plan {
            ops: set(&nodes),
            notices: notices(ask, &nodes)?,
        })
    }

    fn verify(&self, ask: &Ask, qdiscs: &[Qdisc], classes: &[Class]) -> Result<(), Error> {
        let differs = |difference: String| Err(Error::not_enforced(&ask.link.name, difference));
        let root = super::expect_root(ask, qdiscs, "htb")?;
        let options = root.options.as_deref().unwrap_or_default();
        if let Err(difference) = compare_htb(0, DIRECT_PACKETS, options) {
            return differs(format!("of the root htb, {difference}"));
        }
        let by_id: HashMap<u32, &Class> = classes.iter().map(|c| (c.classid, c)).collect();
        let by_parent: HashMap<u32, &Qdisc> = qdiscs.iter().map(|q| (q.parent, q)).collect();
        for node in tree(ask)? {
            let id = id_text(node.classid);
            let Some(class) = by_id.get(&node.classid) else {
                return differs(format!("the class {id} is missing"));
            };
            // HTB shows classes directly below its root with the root as their parent.
            let parent = match node.parent {
                HANDLE => ROOT,
                class => class,
            };
            if class.parent != parent {
                let [read, asked] = [class.parent, parent].map(id_text);
                return differs(format!(
                    "of the class {id}, parent is {read} instead of {asked}"
                ));
            }
            let options = class.options.as_deref().unwrap_or_default();
            if let Err(difference) = node.class.compare(options) {
                return differs(format!("of the class {id}, {difference}"));
            }
            let Some(config) = node.leaf else {
                continue;
            };
            let Some(leaf) = by_parent.get(&node.classid).filter(|q| q.kind == "tbf") else {
                return differs(format!("the class {id} has no tbf"));
            };
            if let Err(difference) = config.compare(leaf.options.as_deref().unwrap_or_default()) {
                return differs(format!("of the tbf of class {id}, {difference}"));
            }
        }
        Ok(())
    }

    fn left_out(&self, ask: &Ask, _qdiscs: &[Qdisc], classes: &[Class]) -> Option<String> {
        let node = tree(ask).ok()?.into_iter().next()?;
        let class = classes.iter().find(|c| c.classid == node.classid)?;
        let options = class.options.as_deref()?;
        node.class.lacks_mpu(options).then(|| line::no_mpu(ask))
    }

    fn stats(&self, qdiscs: &[Qdisc], classes: &[Class]) -> HoldStats {
        let mut stats = HoldStats::default();
        for leaf in qdiscs.iter().filter(|q| q.parent != ROOT && ours(q)) {
            stats.backlog_packets += u64::from(leaf.stats.backlog_packets);
            stats.backlog_bytes += u64::from(leaf.stats.backlog_bytes);
            stats.sent_packets += leaf.stats.sent_packets;
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
