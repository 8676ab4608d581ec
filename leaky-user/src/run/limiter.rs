//! Limits in force on one interface: put there and taken away.

use super::error::both;
use super::reload::Settling;
use super::stop::Stop;
use super::{Error, Loaded, Request};
use crate::bpf::{self, Attachment, Hook, Kind, Program, Sizes, Tables};
use crate::classes::{ClientPlace, Compiled, Ids, Resolved};
use crate::clsact::{self, Clsact};
use crate::config::Action;
use crate::hold::{self, HoldKind, Installed, Setup};
use crate::net::kernel::Kernel;
use crate::net::{Link, Net};
use crate::report::{CountersReport, InstallReport, Past};
use crate::state;
use leaky_core::policy::Policy;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The longest that removal waits for what is still in the buckets.
const DRAIN: Duration = Duration::from_secs(2);
/// How often removal looks whether the buckets are empty.
const DRAIN_STEP: Duration = Duration::from_millis(5);

/// Limits in force on one interface.
pub(super) struct Limiter {
    pub(super) link: Link,
    /// The interface as it was before.
    pub(super) before: Link,
    pub(super) interface: crate::config::Interface,
    pub(super) compiled: Compiled,
    pub(super) ids: Ids,
    pub(super) program: Program,
    pub(super) sizes: Sizes,
    pub(super) attachment: Option<Attachment>,
    pub(super) clsact: Option<Clsact>,
    pub(super) installed: Installed,
    pub(super) settling: Option<Settling>,
    /// The ids of classes that are, or were last, only watched.
    pub(super) watched: BTreeSet<u32>,
    reason: String,
    pub(super) started: Instant,
}

impl Limiter {
    pub(super) async fn install(
        net: &Kernel,
        request: &Request,
        link: &Link,
        (compiled, ids): (Compiled, Ids),
        loaded: Loaded,
    ) -> Result<Limiter, Error> {
        let setup = Setup {
            mode: loaded.mode,
            replace_root: request.replace_root,
            record: state::record_path(link.index)?,
        };
        let installed = hold::install(net, compiled.ask.clone(), setup).await?;
        let reason = loaded
            .why_not_fq
            .unwrap_or_else(|| installed.reason().to_owned());
        let mut limiter = Limiter {
            before: link.clone(),
            link: link.clone(),
            interface: request.interface.clone(),
            compiled,
            ids,
            program: loaded.program,
            sizes: super::sizes(request),
            attachment: None,
            clsact: None,
            installed,
            settling: None,
            watched: BTreeSet::new(),
            reason,
            started: Instant::now(),
        };
        match limiter.attach(net).await {
            Ok(()) => Ok(limiter),
            Err(error) => match limiter.take_away(net).await {
                Ok(()) => Err(error),
                Err(then) => Err(Error::NotPutBack {
                    first: Box::new(error),
                    then: Box::new(then),
                }),
            },
        }
    }

    /// Puts the policy in force and the program in the way of packets.
    async fn attach(&mut self, net: &Kernel) -> Result<(), Error> {
        let kind = match self.installed.kind() {
            HoldKind::Fq => Kind::DepartureTime,
            HoldKind::Htb => Kind::Queue,
        };
        if self.program.kind() != kind {
            self.program = Program::load(kind, self.sizes)?;
        }
        if kind == Kind::Queue {
            let free = self.compiled.name_queues()?;
            for (pool, free) in (0..).zip(free) {
                self.program.add_free_queues(pool, free.into_iter())?;
            }
        }
        self.note_watched(&self.compiled.classes.clone());
        let clients = self.compiled.clients.clone();
        self.set_clients(&clients, &[])?;
        let (policy, tables) = (self.compiled.policy, self.compiled.tables.clone());
        self.set_policy(&policy, &tables)?;
        self.attachment = match self.program.attach(&self.link, Hook::Tcx)? {
            Some(attachment) => Some(attachment),
            None => {
                // What a leaky that died left in the way would shape packets twice.
                if bpf::remove_filters(&self.link)? {
                    clsact::remove_unused(net, self.link.index).await?;
                }
                self.clsact = Some(Clsact::claim(net, self.link.index).await?);
                self.program.attach(&self.link, Hook::Clsact)?
            }
        };
        Ok(())
    }

    /// Puts the limits of clients that are new or changed in force. `before`: those in force, in the order
    /// of their places.
    pub(super) fn set_clients(
        &mut self,
        clients: &[ClientPlace],
        before: &[ClientPlace],
    ) -> Result<(), Error> {
        for place in clients {
            let slot = |other: &ClientPlace| other.client.slot.cmp(&place.client.slot);
            let known = before.binary_search_by(slot).ok().map(|at| before[at]);
            if place.new || known.is_none_or(|known| known.client != place.client) {
                self.program
                    .put_client(&place.prefix, &place.client, place.new)?;
            }
        }
        Ok(())
    }

    /// Remembers which ids are those of classes that are only watched.
    pub(super) fn note_watched(&mut self, classes: &[Resolved]) {
        for class in classes {
            if class.action == Action::Monitor {
                self.watched.insert(class.id);
            } else {
                self.watched.remove(&class.id);
            }
        }
    }

    /// Puts a policy in force and reads it back.
    pub(super) fn set_policy(&mut self, policy: &Policy, tables: &Tables) -> Result<(), Error> {
        self.program.set_policy(policy, tables)?;
        if self.program.policy()? == *policy {
            Ok(())
        } else {
            Err(Error::OtherPolicy(self.link.name.clone()))
        }
    }

    pub(super) fn report(&self) -> InstallReport {
        let hook = self.attachment.as_ref().map_or(Hook::Tcx, Attachment::hook);
        InstallReport::new(
            &self.before,
            &self.interface,
            &self.compiled,
            &self.installed,
            &self.reason,
            hook,
        )
    }

    pub(super) async fn counters(&self, net: &Kernel) -> Result<CountersReport, Error> {
        // The program first: what it accepts meanwhile is then not missing in the hold.
        let counters = self.program.counters()?;
        let hold = self.installed.stats(net).await?;
        let keys = |id: u32| {
            let counted = counters.get(id as usize);
            counted.map_or(0, |counted| self.program.keys(id, counted))
        };
        Ok(CountersReport::new(
            &self.compiled.classes,
            &counters,
            Past {
                counters: self.program.past(),
                watched: &self.watched,
            },
            keys,
            &hold,
            self.compiled.link.is_some(),
        ))
    }

    pub(super) fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Lets the bucket run empty, then removes everything and prints the summary.
    pub(super) async fn remove(
        mut self,
        net: &Kernel,
        request: &Request,
        stop: &mut Stop,
    ) -> Result<(), Error> {
        let elapsed = self.elapsed_ns();
        let detached = self.detach(net).await;
        let drained = tokio::time::timeout(DRAIN, async {
            while self
                .installed
                .stats(net)
                .await
                .is_ok_and(|stats| stats.backlog_packets > 0)
            {
                tokio::time::sleep(DRAIN_STEP).await;
            }
        });
        tokio::select! {
            // Asked twice: the backlog is given up.
            () = stop.asked_to_stop() => {}
            _ = drained => {}
        }
        let counters = self.counters(net).await;
        let interface = self.link.name.clone();
        let removed = self.installed.remove(net).await.map_err(Error::from);
        // Where the interface is gone there is nothing left to count.
        if let Ok(counters) = counters {
            // The limit is removed; that nobody reads the summary is no failure.
            let _ = request.output.summary(&counters, &interface, elapsed);
        }
        both(detached, removed)
    }

    /// Removes everything at once.
    async fn take_away(mut self, net: &Kernel) -> Result<(), Error> {
        let detached = self.detach(net).await;
        both(
            detached,
            self.installed.remove(net).await.map_err(Error::from),
        )
    }

    /// Takes the program out of the way of packets. One that somebody else took away, or that went
    /// with its interface, is out of the way.
    async fn detach(&mut self, net: &Kernel) -> Result<(), Error> {
        let taken_away = match &self.clsact {
            Some(clsact) => !clsact
                .has_filter(net, self.link.index)
                .await
                .unwrap_or(false),
            None => net.link_by_index(self.link.index).await.is_err(),
        };
        let detached = match self.attachment.take() {
            Some(attachment) => self.program.detach(attachment, &self.link.name),
            None => Ok(()),
        };
        let released = match self.clsact.take() {
            Some(clsact) => clsact
                .release(net, self.link.index)
                .await
                .map_err(Error::from),
            None => Ok(()),
        };
        let detached = if taken_away {
            Ok(())
        } else {
            detached.map_err(Error::from)
        };
        both(detached, released)
    }
}
