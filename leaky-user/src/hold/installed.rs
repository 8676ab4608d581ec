//! A hold at work on an interface: put there, changed, watched over and taken away.

use super::claim::Claim;
use super::{
    Ask, Choice, Error, HoldKind, HoldMode, HoldStats, Previous, Record, choose, previous,
};
use crate::net::{Link, Net, Op, ROOT};
use std::path::{Path, PathBuf};

/// How a hold is to be installed.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which hold.
    pub mode: HoldMode,
    /// Whether a root qdisc that somebody chose may be replaced.
    pub replace_root: bool,
    /// Where to keep the record of what must be put back; one path for each interface, on a
    /// file system that is emptied when the machine starts (`/run`).
    pub record: PathBuf,
}

/// A hold on an interface. It stays when this is dropped: only [`Installed::remove`] (or
/// [`clear`], later) takes it away.
pub struct Installed {
    choice: Choice,
    ask: Ask,
    notices: Vec<String>,
    record: Record,
    path: PathBuf,
    _claim: Claim,
}

/// Installs a hold: chooses it, records how the interface is, changes the interface, and reads
/// back that the kernel runs what was asked. On failure the interface is as before.
///
/// A hold that a dead leaky left is removed first.
///
/// # Errors
/// [`Error::Busy`] if another leaky has the interface; [`Error::Missing`] and [`Error::Refused`]
/// if the kernel or the hold cannot do it; [`Error::ForeignRoot`]; [`Error::Apply`] if the kernel
/// refuses; [`Error::NotEnforced`] if it runs something else than it was told.
pub async fn install<N: Net>(net: &N, mut ask: Ask, setup: Setup) -> Result<Installed, Error> {
    let claim = Claim::take(&setup.record)?;
    let index = ask.link.index;
    if clear_claimed(net, index, &setup.record).await? != Cleared::Nothing {
        // What the dead one left may have been in `ask.link`.
        let before = net.link_by_index(index).await?;
        ask.link.gso_max_segs = before.gso_max_segs;
    }

    let [fq, htb, tbf] = [
        net.has_kind(index, "fq").await?,
        net.has_kind(index, "htb").await?,
        net.has_kind(index, "tbf").await?,
    ];
    let choice = choose(setup.mode, ask.line.is_some(), fq, htb, tbf)?;
    let mut plan = choice.hold.plan(&ask)?;
    if let Some(segments) = ask.gso_max_segs {
        plan.ops.push(Op::SetGsoMaxSegs(segments));
    }

    let qdiscs = net.qdiscs(index).await?;
    let was = previous(&qdiscs);
    if let Previous::Foreign { handle, .. } = &was {
        let filters = net.filters(index, *handle).await?;
        was.may_be_replaced(&ask.link, &qdiscs, filters, setup.replace_root)?;
    }
    let record = Record::new(&ask.link, was, ask.gso_max_segs);
    record.write(&setup.record)?;

    let path = setup.record;
    if let Err(error) = net.apply(index, &plan.ops).await {
        // The record stays where something could not be put back: `clear` tries again.
        if error.undo.is_empty() {
            Record::remove(&path)?;
        }
        return Err(error.into());
    }
    let mut installed = Installed {
        choice,
        ask,
        notices: plan.notices,
        record,
        path,
        _claim: claim,
    };
    match installed.read_back(net).await {
        Ok(left_out) => {
            installed.notices.extend(left_out);
            Ok(installed)
        }
        Err(error) => {
            installed.remove(net).await?;
            Err(error)
        }
    }
}

impl Installed {
    /// Which hold it is.
    pub fn kind(&self) -> HoldKind {
        self.choice.hold.kind()
    }

    /// Why it is this one, in words.
    pub fn reason(&self) -> &str {
        &self.choice.reason
    }

    /// What the user should know about it.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// What was asked, last.
    pub fn ask(&self) -> &Ask {
        &self.ask
    }

    /// Reads its counters.
    ///
    /// # Errors
    /// [`Error::Net`] if the kernel cannot be asked.
    pub async fn stats<N: Net>(&self, net: &N) -> Result<HoldStats, Error> {
        let index = self.ask.link.index;
        let qdiscs = net.qdiscs(index).await?;
        let classes = match self.kind() {
            HoldKind::Fq => Vec::new(),
            HoldKind::Htb => net.classes(index).await?,
        };
        Ok(self.choice.hold.stats(&qdiscs, &classes))
    }

    /// Whether the kernel still runs what was asked.
    ///
    /// # Errors
    /// [`Error::NotEnforced`] with the difference.
    pub async fn verify<N: Net>(&self, net: &N) -> Result<(), Error> {
        self.read_back(net).await.map(|_| ())
    }

    /// Verifies; returns what the kernel does not do of it.
    async fn read_back<N: Net>(&self, net: &N) -> Result<Option<String>, Error> {
        let index = self.ask.link.index;
        let qdiscs = net.qdiscs(index).await?;
        let classes = net.classes(index).await?;
        self.choice.hold.verify(&self.ask, &qdiscs, &classes)?;
        let left_out = self.choice.hold.left_out(&self.ask, &qdiscs, &classes);
        let Some(asked) = self.ask.gso_max_segs else {
            return Ok(left_out);
        };
        let link = net.link_by_index(index).await?;
        if link.gso_max_segs == asked {
            return Ok(left_out);
        }
        let difference = format!("gso_max_segs is {} instead of {asked}", link.gso_max_segs);
        Err(Error::not_enforced(&link.name, difference))
    }

    /// Fits the hold to another ask (an MTU, a rate or a capacity that changed), in place:
    /// nothing that waits is lost. The interface must be the same, and with htb the groups: more
    /// can only come behind them. Returns what the user should know.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Apply`], with the hold as before; [`Error::NotEnforced`].
    pub async fn adapt<N: Net>(&mut self, net: &N, mut ask: Ask) -> Result<&[String], Error> {
        let mut plan = self.choice.hold.change(&self.ask, &ask)?;
        // What was recorded before stays what is put back.
        let before = self
            .record
            .gso_max_segs
            .map_or(ask.link.gso_max_segs, |(before, _)| before);
        let wanted = match (ask.gso_max_segs, self.record.gso_max_segs) {
            (Some(segments), _) => Some(segments),
            (None, Some((before, _))) => Some(before),
            (None, None) => None,
        };
        // Whatever `ask.link` says: it can be older than what an adaptation before this one set.
        if let Some(segments) = wanted {
            plan.ops.push(Op::SetGsoMaxSegs(segments));
        }
        let mut record = self.record.clone();
        record.gso_max_segs = wanted.map(|set| (before, set));
        let other = record != self.record;
        if other {
            record.write(&self.path)?;
        }
        if let Err(error) = net.apply(ask.link.index, &plan.ops).await {
            if other {
                self.record.write(&self.path)?;
            }
            return Err(error.into());
        }
        ask.gso_max_segs = wanted;
        self.record = record;
        self.ask = ask;
        self.notices = plan.notices;
        let left_out = self.read_back(net).await?;
        self.notices.extend(left_out);
        Ok(&self.notices)
    }

    /// Takes the hold away and puts back what was there. Packets that still wait are dropped. An
    /// interface that is gone is as good as put back.
    ///
    /// # Errors
    /// [`Error::Net`] or [`Error::Apply`]; the record then stays, and [`clear`] can try again.
    pub async fn remove<N: Net>(self, net: &N) -> Result<(), Error> {
        put_back(net, self.ask.link.index, &self.record).await?;
        Record::remove(&self.path)
    }
}

/// What [`clear`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// Nothing of leaky's.
    Nothing,
    /// A hold or a record; the interface is as it was before leaky.
    Restored,
    /// A hold without a record: it is removed, but what was there before is not known, so the
    /// kernel's default is.
    RemovedWithoutRecord,
}

/// Whether a leaky is running on the interface whose record is at `record`.
///
/// # Errors
/// [`Error::Record`] if that cannot be found out.
pub fn is_busy(record: &Path) -> Result<bool, Error> {
    match Claim::take(record) {
        Ok(_) => Ok(false),
        Err(Error::Busy { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Removes what a dead leaky left on an interface and puts back what it recorded. Does nothing
/// where there is nothing, so it can be called twice.
///
/// # Errors
/// [`Error::Busy`] while a leaky is running there; else as [`Installed::remove`].
pub async fn clear<N: Net>(net: &N, link: &Link, record: &Path) -> Result<Cleared, Error> {
    let _claim = Claim::take(record)?;
    clear_claimed(net, link.index, record).await
}

async fn clear_claimed<N: Net>(net: &N, index: u32, path: &Path) -> Result<Cleared, Error> {
    let record = Record::read(path)?.filter(|record| record.ifindex == index);
    let left = previous(&net.qdiscs(index).await?) == Previous::Ours;
    let cleared = match record {
        Some(record) => {
            put_back(net, index, &record).await?;
            Cleared::Restored
        }
        None if left => {
            let delete = Op::DeleteQdisc {
                parent: ROOT,
                handle: super::HANDLE,
            };
            net.apply(index, &[delete]).await?;
            Cleared::RemovedWithoutRecord
        }
        None => Cleared::Nothing,
    };
    Record::remove(path)?;
    Ok(cleared)
}

async fn put_back<N: Net>(net: &N, index: u32, record: &Record) -> Result<(), Error> {
    let link = match net.link_by_index(index).await {
        Err(error) if error.is_interface_gone() => return Ok(()),
        other => other?,
    };
    let ops = record.restore(&link, &net.qdiscs(index).await?);
    match net.apply(index, &ops).await {
        Err(error) if error.failed.is_interface_gone() => Ok(()),
        other => Ok(other?),
    }
}
