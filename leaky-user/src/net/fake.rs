//! A kernel in memory, for tests: it keeps qdiscs and classes like the real one as far as leaky
//! can see, and fails where it is told to.

use super::op::ClassConfig;
use super::{
    Class, Error, Executed, Link, LinkEvent, LinkWatch, Net, Op, Qdisc, QdiscConfig, ROOT, Stats,
};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// One network interface in memory.
pub struct Fake {
    state: Mutex<State>,
}

#[derive(Clone)]
struct State {
    link: Option<Link>,
    kinds: BTreeSet<String>,
    qdiscs: Vec<Qdisc>,
    classes: Vec<Class>,
    filters: usize,
    fail_at: Option<(usize, i32)>,
    /// Whether all fail from there on.
    for_good: bool,
    executed: usize,
    watchers: Vec<mpsc::UnboundedSender<LinkEvent>>,
}

/// What [`Fake`] holds, for comparing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// All qdiscs.
    pub qdiscs: Vec<Qdisc>,
    /// All classes.
    pub classes: Vec<Class>,
    /// The interface.
    pub link: Option<Link>,
}

impl Fake {
    /// An interface with the kernel's default root qdisc and these kinds of qdiscs known.
    pub fn new(link: Link, kinds: &[&str]) -> Fake {
        let mut state = State {
            link: Some(link),
            kinds: kinds.iter().map(|k| (*k).to_owned()).collect(),
            qdiscs: Vec::new(),
            classes: Vec::new(),
            filters: 0,
            fail_at: None,
            for_good: false,
            executed: 0,
            watchers: Vec::new(),
        };
        state.default_root();
        Fake {
            state: Mutex::new(state),
        }
    }

    /// Makes the `n`th operation from now on (0 is the next) fail with this error number, unless
    /// one fails by itself before.
    pub fn fail_at(&self, n: usize, errno: i32) {
        let mut state = self.state();
        state.fail_at = Some((state.executed + n, errno));
    }

    /// Makes all operations fail from the `n`th on.
    pub fn fail_from(&self, n: usize, errno: i32) {
        self.fail_at(n, errno);
        self.state().for_good = true;
    }

    /// How many operations took effect so far.
    pub fn executed(&self) -> usize {
        self.state().executed
    }

    /// Pretends that filters are attached to the root qdisc.
    pub fn set_filters(&self, filters: usize) {
        self.state().filters = filters;
    }

    /// Changes the interface, as somebody else would; `None` removes it.
    pub fn set_link(&self, link: Option<Link>) {
        let mut state = self.state();
        let event = link.clone().map_or(LinkEvent::Removed, LinkEvent::Changed);
        state.watchers.retain(|to| to.send(event.clone()).is_ok());
        state.link = link;
    }

    /// Changes the counters of qdiscs and classes.
    pub fn count(&self, change: impl Fn(&mut [Qdisc], &mut [Class])) {
        let state = &mut *self.state();
        change(&mut state.qdiscs, &mut state.classes);
    }

    /// All there is.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.state();
        Snapshot {
            qdiscs: state.qdiscs.clone(),
            classes: state.classes.clone(),
            link: state.link.clone(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn link(&self) -> Result<Link, Error> {
        self.link
            .clone()
            .ok_or_else(|| Error::NoSuchInterface("fake".to_owned()))
    }

    fn default_root(&mut self) {
        self.qdiscs.push(qdisc("noqueue", 0, ROOT, None));
    }

    /// Removes the qdisc at `parent` and everything inside it.
    fn remove(&mut self, parent: u32) {
        let Some(at) = self.qdiscs.iter().position(|q| q.parent == parent) else {
            return;
        };
        let gone = self.qdiscs.remove(at);
        if gone.handle != 0 {
            let inside = |id: u32| id >> 16 == gone.handle >> 16;
            self.classes.retain(|c| !inside(c.classid));
            self.qdiscs
                .retain(|q| q.parent == ROOT || !inside(q.parent));
        }
    }

    fn set_qdisc(&mut self, parent: u32, handle: u32, config: &QdiscConfig) -> Result<(), i32> {
        if !self.kinds.contains(config.kind()) {
            return Err(libc::ENOENT);
        }
        let existing = self.qdiscs.iter_mut().find(|q| q.parent == parent);
        if let Some(there) = existing
            && there.handle != 0
            && (handle == 0 || handle == there.handle)
            && (handle != 0 || there.kind == config.kind())
        {
            // HTB and mq cannot be changed; mq takes no options, so there is nothing to refuse.
            if there.kind != config.kind() || there.kind == "htb" {
                return Err(libc::EINVAL);
            }
            there.options = dumped(config);
            return Ok(());
        }
        if parent != ROOT && !self.parent_exists(parent) {
            return Err(libc::ENOENT);
        }
        self.remove(parent);
        let handle = if handle == 0 {
            self.free_handle()
        } else {
            handle
        };
        self.qdiscs
            .push(qdisc(config.kind(), handle, parent, dumped(config)));
        if config.kind() == "mq" {
            let queues = self.link.as_ref().map_or(1, |link| link.tx_queues);
            for queue in 1..=queues {
                self.qdiscs
                    .push(qdisc("pfifo_fast", 0, handle | queue, None));
                self.classes.push(Class {
                    kind: "mq".to_owned(),
                    classid: handle | queue,
                    parent: ROOT,
                    options: None,
                    stats: Stats::default(),
                });
            }
        }
        self.order();
        Ok(())
    }

    fn set_class(&mut self, classid: u32, parent: u32, config: &ClassConfig) -> Result<(), i32> {
        let root = self
            .qdiscs
            .iter()
            .any(|q| q.handle == classid & 0xffff_0000);
        if !root {
            return Err(libc::ENOENT);
        }
        let (kind, options) = config.encode();
        if let Some(there) = self.classes.iter_mut().find(|c| c.classid == classid) {
            there.options = Some(options);
            return Ok(());
        }
        // HTB shows classes directly under its root with the root as their parent.
        let parent = if parent & 0xffff == 0 { ROOT } else { parent };
        self.classes.push(Class {
            kind: kind.to_owned(),
            classid,
            parent,
            options: Some(options),
            stats: Stats::default(),
        });
        self.order();
        Ok(())
    }

    fn execute(&mut self, op: &Op) -> Result<(), i32> {
        match op {
            Op::SetQdisc {
                parent,
                handle,
                config,
            } => self.set_qdisc(*parent, *handle, config),
            Op::DeleteQdisc { parent, handle } => {
                let there = self
                    .qdiscs
                    .iter()
                    .find(|q| q.parent == *parent && q.handle != 0);
                match there {
                    Some(q) if *handle == 0 || q.handle == *handle => {
                        self.remove(*parent);
                        if *parent == ROOT {
                            self.default_root();
                        }
                        Ok(())
                    }
                    Some(_) => Err(libc::EINVAL),
                    None => Err(libc::ENOENT),
                }
            }
            Op::SetClass {
                classid,
                parent,
                config,
            } => self.set_class(*classid, *parent, config),
            Op::DeleteClass { classid } => {
                if !self.classes.iter().any(|c| c.classid == *classid) {
                    return Err(libc::ENOENT);
                }
                self.remove(*classid);
                self.classes.retain(|c| c.classid != *classid);
                Ok(())
            }
            Op::SetGsoMaxSegs(segments) => {
                let link = self.link.as_mut().ok_or(libc::ENODEV)?;
                link.gso_max_segs = *segments;
                Ok(())
            }
        }
    }

    fn parent_exists(&self, parent: u32) -> bool {
        // A tbf has one class, where its queue is.
        let of_tbf = |q: &Qdisc| q.kind == "tbf" && q.handle | 1 == parent;
        self.classes.iter().any(|c| c.classid == parent) || self.qdiscs.iter().any(of_tbf)
    }

    fn free_handle(&self) -> u32 {
        let taken = |handle| self.qdiscs.iter().any(|q| q.handle == handle);
        (0x8001..=0xffff)
            .map(|major| major << 16)
            .find(|h| !taken(*h))
            .unwrap_or_default()
    }

    /// One order whatever the way to it, so that snapshots can be compared.
    fn order(&mut self) {
        self.qdiscs.sort_by_key(|q| (q.parent != ROOT, q.parent));
        self.classes.sort_by_key(|c| c.classid);
    }
}

/// What the kernel would dump: what was set.
fn dumped(config: &QdiscConfig) -> Option<Vec<u8>> {
    config.encode()
}

fn qdisc(kind: &str, handle: u32, parent: u32, options: Option<Vec<u8>>) -> Qdisc {
    Qdisc {
        kind: kind.to_owned(),
        handle,
        parent,
        options,
        stats: Stats::default(),
        fq: None,
    }
}

/// The watch of [`Fake`].
pub struct FakeWatch(mpsc::UnboundedReceiver<LinkEvent>);

impl LinkWatch for FakeWatch {
    async fn next(&mut self) -> Result<LinkEvent, Error> {
        self.0.recv().await.ok_or_else(|| Error::Socket {
            doing: "follow the interface".to_owned(),
            reason: "the fake kernel is gone".to_owned(),
        })
    }
}

impl Net for Fake {
    type Watch = FakeWatch;

    async fn link_by_name(&self, name: &str) -> Result<Link, Error> {
        let link = self.state().link()?;
        if link.name == name {
            Ok(link)
        } else {
            Err(Error::NoSuchInterface(name.to_owned()))
        }
    }

    async fn link_by_index(&self, index: u32) -> Result<Link, Error> {
        let link = self.state().link()?;
        if link.index == index {
            Ok(link)
        } else {
            Err(Error::NoSuchInterface(format!("number {index}")))
        }
    }

    async fn qdiscs(&self, index: u32) -> Result<Vec<Qdisc>, Error> {
        self.link_by_index(index).await?;
        Ok(self.state().qdiscs.clone())
    }

    async fn classes(&self, index: u32) -> Result<Vec<Class>, Error> {
        self.link_by_index(index).await?;
        Ok(self.state().classes.clone())
    }

    async fn filters(&self, index: u32, _handle: u32) -> Result<usize, Error> {
        self.link_by_index(index).await?;
        Ok(self.state().filters)
    }

    async fn has_kind(&self, _index: u32, kind: &str) -> Result<bool, Error> {
        Ok(self.state().kinds.contains(kind))
    }

    async fn execute(&self, index: u32, ops: &[Op]) -> Executed {
        let mut executed = Executed {
            done: Vec::new(),
            failed: None,
        };
        if let Err(error) = self.link_by_index(index).await {
            executed.failed = Some((0, error));
            return executed;
        }
        let state = &mut *self.state();
        for (at, op) in ops.iter().enumerate() {
            let told = state.fail_at.filter(|(n, _)| *n == state.executed);
            let outcome = told.map_or_else(|| state.execute(op), |(_, errno)| Err(errno));
            if let Err(errno) = outcome {
                if !state.for_good {
                    state.fail_at = None;
                }
                let doing = op.to_string();
                executed.failed = Some((
                    at,
                    Error::Refused {
                        doing,
                        errno,
                        message: None,
                    },
                ));
                return executed;
            }
            state.executed += 1;
            executed.done.push(at);
        }
        executed
    }

    async fn watch(&self, index: u32) -> Result<FakeWatch, Error> {
        self.link_by_index(index).await?;
        let (to, from) = mpsc::unbounded_channel();
        self.state().watchers.push(to);
        Ok(FakeWatch(from))
    }
}
