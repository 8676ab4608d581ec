//! Executing a list of operations so that a failure leaves no trace.
//!
//! What takes an operation back follows from what was there before it. [`Known`] is that
//! knowledge: dumped from the kernel once, then kept up to date with each operation.

use super::op::ClassConfig;
use super::{ApplyError, Class, Net, Op, Qdisc, QdiscConfig, ROOT};
use std::collections::BTreeMap;

/// Qdiscs, classes and GSO limit of one interface, as far as putting them back needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// By parent.
    qdiscs: BTreeMap<u32, Placed>,
    /// By class id.
    classes: BTreeMap<u32, PlacedClass>,
    gso_max_segs: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Placed {
    handle: u32,
    kind: String,
    options: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PlacedClass {
    parent: u32,
    kind: String,
    options: Vec<u8>,
}

impl Known {
    /// From what the kernel says. Qdiscs that the kernel made by itself (handle 0) are left out:
    /// it makes them again.
    pub(super) fn new(qdiscs: &[Qdisc], classes: &[Class], gso_max_segs: u32) -> Known {
        let mut known = Known {
            gso_max_segs,
            ..Known::default()
        };
        for qdisc in qdiscs.iter().filter(|q| q.handle != 0) {
            let placed = Placed {
                handle: qdisc.handle,
                kind: qdisc.kind.clone(),
                options: qdisc.options.clone(),
            };
            known.qdiscs.insert(qdisc.parent, placed);
        }
        // Classes without options (those of mq) come and go with their qdisc.
        for class in classes {
            let Some(options) = &class.options else {
                continue;
            };
            let placed = PlacedClass {
                parent: class.parent,
                kind: class.kind.clone(),
                options: options.clone(),
            };
            known.classes.insert(class.classid, placed);
        }
        known
    }

    /// The operations that take `op` back, given what is there now.
    fn undo(&self, op: &Op) -> Vec<Op> {
        match op {
            Op::SetQdisc {
                parent,
                handle,
                config,
            } => match self.qdiscs.get(parent) {
                None => vec![Op::DeleteQdisc {
                    parent: *parent,
                    handle: *handle,
                }],
                Some(before) if before.changes_in_place(*handle, config) => {
                    vec![before.set_at(*parent)]
                }
                Some(before) => self.rebuild(*parent, before),
            },
            Op::DeleteQdisc { parent, .. } => match self.qdiscs.get(parent) {
                None => Vec::new(),
                Some(before) => self.rebuild(*parent, before),
            },
            Op::SetClass { classid, .. } => match self.classes.get(classid) {
                None => vec![Op::DeleteClass { classid: *classid }],
                Some(before) => vec![before.set_as(*classid)],
            },
            Op::DeleteClass { classid } => {
                let mut ops = Vec::new();
                if let Some(before) = self.classes.get(classid) {
                    ops.push(before.set_as(*classid));
                }
                if let Some(leaf) = self.qdiscs.get(classid) {
                    ops.push(leaf.set_at(*classid));
                }
                ops
            }
            Op::SetGsoMaxSegs(_) => vec![Op::SetGsoMaxSegs(self.gso_max_segs)],
        }
    }

    /// The handle major of the qdisc that `op` puts in place of what is there, if it does: all
    /// that is made inside it goes away with it.
    fn fresh_major(&self, op: &Op) -> Option<u32> {
        let Op::SetQdisc {
            parent,
            handle,
            config,
        } = op
        else {
            return None;
        };
        let kept = self
            .qdiscs
            .get(parent)
            .is_some_and(|before| before.changes_in_place(*handle, config));
        (*handle != 0 && !kept).then_some(*handle >> 16)
    }

    /// Takes note that `op` was done.
    fn note(&mut self, op: &Op) {
        match op {
            Op::SetQdisc {
                parent,
                handle,
                config,
            } => {
                let kept = self
                    .qdiscs
                    .get(parent)
                    .filter(|before| before.changes_in_place(*handle, config))
                    .map(|before| before.handle);
                if kept.is_none() {
                    self.forget(*parent);
                }
                let handle = kept.unwrap_or(*handle);
                let placed = Placed {
                    handle,
                    kind: config.kind().to_owned(),
                    options: config.encode(),
                };
                self.qdiscs.insert(*parent, placed);
            }
            Op::DeleteQdisc { parent, .. } => self.forget(*parent),
            Op::SetClass {
                classid,
                parent,
                config,
            } => {
                let (kind, options) = config.encode();
                let placed = PlacedClass {
                    parent: *parent,
                    kind: kind.to_owned(),
                    options,
                };
                self.classes.insert(*classid, placed);
            }
            Op::DeleteClass { classid } => {
                self.forget(*classid);
                self.classes.remove(classid);
            }
            Op::SetGsoMaxSegs(segments) => self.gso_max_segs = *segments,
        }
    }

    /// Forgets the qdisc at `parent` with its classes and their leaves.
    fn forget(&mut self, parent: u32) {
        let Some(gone) = self.qdiscs.remove(&parent) else {
            return;
        };
        if gone.handle == 0 {
            return;
        }
        let inside = |id: &u32| id >> 16 == gone.handle >> 16;
        self.classes.retain(|id, _| !inside(id));
        self.qdiscs.retain(|at, _| *at == ROOT || !inside(at));
    }

    /// The operations that make the qdisc at `parent` anew, with its classes and their leaves.
    fn rebuild(&self, parent: u32, qdisc: &Placed) -> Vec<Op> {
        let mut ops = vec![qdisc.set_at(parent)];
        let inside = |id: u32| id >> 16 == qdisc.handle >> 16;
        // Parents before children: a class is made once its parent is there.
        let mut waiting: Vec<_> = self.classes.iter().filter(|(id, _)| inside(**id)).collect();
        let mut made = vec![qdisc.handle, ROOT];
        while !waiting.is_empty() {
            let (ready, rest): (Vec<_>, Vec<_>) = waiting
                .into_iter()
                .partition(|(_, class)| made.contains(&class.parent));
            if ready.is_empty() {
                break;
            }
            for (classid, class) in ready {
                ops.push(class.set_as(*classid));
                made.push(*classid);
            }
            waiting = rest;
        }
        for (at, leaf) in &self.qdiscs {
            if *at != ROOT && inside(*at) {
                ops.push(leaf.set_at(*at));
            }
        }
        ops
    }
}

impl Placed {
    /// Whether setting `config` here changes this qdisc instead of putting another in its place.
    fn changes_in_place(&self, handle: u32, config: &QdiscConfig) -> bool {
        self.kind == config.kind() && (handle == 0 || handle == self.handle)
    }

    fn set_at(&self, parent: u32) -> Op {
        let config = QdiscConfig::put_back(&self.kind, self.options.as_deref());
        Op::SetQdisc {
            parent,
            handle: self.handle,
            config,
        }
    }
}

impl PlacedClass {
    fn set_as(&self, classid: u32) -> Op {
        let config = ClassConfig::Raw {
            kind: self.kind.clone(),
            options: self.options.clone(),
        };
        Op::SetClass {
            classid,
            parent: self.parent,
            config,
        }
    }
}

/// See [`Net::apply`].
pub(super) async fn apply<N: Net + ?Sized>(
    net: &N,
    index: u32,
    ops: &[Op],
) -> Result<(), ApplyError> {
    if ops.is_empty() {
        return Ok(());
    }
    let untouched = |failed| ApplyError {
        failed,
        undo: Vec::new(),
    };
    let link = net.link_by_index(index).await.map_err(untouched)?;
    let qdiscs = net.qdiscs(index).await.map_err(untouched)?;
    let classes = net.classes(index).await.map_err(untouched)?;
    let before = Known::new(&qdiscs, &classes, link.gso_max_segs);

    let executed = net.execute(index, ops).await;
    let Some((_, failed)) = executed.failed else {
        return Ok(());
    };

    let mut now = before;
    let mut back = Vec::new();
    let mut fresh = Vec::new();
    for op in executed.done.iter().filter_map(|i| ops.get(*i)) {
        if !op
            .inside_major()
            .is_some_and(|major| fresh.contains(&major))
        {
            back.push(now.undo(op));
        }
        fresh.extend(now.fresh_major(op));
        now.note(op);
    }
    let mut undo = Vec::new();
    for step in back.into_iter().rev() {
        if let Some((_, error)) = net.execute(index, &step).await.failed {
            undo.push(error);
        }
    }
    Err(ApplyError { failed, undo })
}
