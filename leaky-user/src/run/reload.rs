//! Changes while limits are in force: another config file, another MTU. No packet is lost by them, and no
//! state.

use super::limiter::Limiter;
use super::{Error, Request, memory};
use crate::classes::{self, ClientPlace, Compiled};
use crate::config::{self, Interface};
use crate::hold::{Ask, Content, HoldKind, HoldMode};
use crate::net::Link;
use crate::net::kernel::Kernel;
use crate::units::Rate;
use leaky_core::policy::Policy;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::task::{JoinHandle, spawn_blocking};

/// A config file that is being read.
pub(super) type Reading = JoinHandle<Result<Interface, Error>>;

/// What was read, when it is.
pub(super) async fn read_to_end(reading: &mut Option<Reading>) -> Result<Interface, Error> {
    match reading {
        Some(thread) => {
            let read = thread.await;
            *reading = None;
            read.unwrap_or_else(|error| Err(Error::Process("read the config file", error.into())))
        }
        None => std::future::pending().await,
    }
}

/// While what was accepted under older limits drains.
pub(super) struct Settling {
    /// When it has.
    until: Instant,
    /// The policy before.
    before: Box<Policy>,
    /// Clients whose limits still regard what was accepted before, as they will be.
    clients: Vec<ClientPlace>,
}

/// The new policy, in which a `free_at` from before still counts as backlog and not as a stale value.
fn patient(policy: &Policy, before: &Policy) -> Policy {
    let mut policy = *policy;
    for class in &mut policy.classes {
        let same = before.classes.iter().filter(|old| old.id == class.id);
        let longest = same.map(|old| old.limits.stale_after).max();
        class.limits.stale_after = class.limits.stale_after.max(longest.unwrap_or_default());
    }
    policy.link.stale_after = policy.link.stale_after.max(before.link.stale_after);
    policy
}

/// The same for clients: all of them as they are put in force, and those that differ from what they will
/// be. Both lists are in the order of places.
fn patient_clients(
    clients: &[ClientPlace],
    before: &[ClientPlace],
) -> (Vec<ClientPlace>, Vec<ClientPlace>) {
    let mut later = Vec::new();
    let now = clients.iter().map(|place| {
        let slot = |other: &ClientPlace| other.client.slot.cmp(&place.client.slot);
        let mut now = *place;
        if let Ok(at) = before.binary_search_by(slot)
            && !place.new
        {
            let limits = &mut now.client.limits;
            limits.stale_after = limits.stale_after.max(before[at].client.limits.stale_after);
        }
        if now != *place {
            later.push(*place);
        }
        now
    });
    (now.collect(), later)
}

/// What the hold is asked while what was accepted before drains: room for both, and no rate below the old
/// one.
fn for_both(kind: HoldKind, ask: &Ask, before: &Ask) -> Ask {
    let mut both = ask.clone();
    if let (Some(line), Some(old)) = (&mut both.line, &before.line) {
        line.rate = line.rate.max(old.rate);
        line.capacity = line.capacity.max(old.capacity);
    }
    match kind {
        // fq sizes itself by the largest and the sum.
        HoldKind::Fq => both.groups.extend(before.groups.iter().cloned()),
        HoldKind::Htb => {
            for (group, old) in both.groups.iter_mut().zip(&before.groups) {
                group.rate = match (group.rate, old.rate) {
                    (Rate::BytesPerSecond(new), Rate::BytesPerSecond(old)) => {
                        Rate::BytesPerSecond(new.max(old))
                    }
                    (new, _) => new,
                };
                group.capacity = match (group.capacity, old.capacity) {
                    (Content::Bytes(new), Content::Bytes(old)) => Content::Bytes(new.max(old)),
                    (new, _) => new,
                };
                group.burst = group.burst.max(old.burst);
                group.bound = group.bound.max(old.bound);
            }
        }
    }
    both
}

/// The entry of an interface in a config file.
///
/// # Errors
/// [`Error::Config`]; [`Error::NotConfigured`].
pub(crate) fn entry(file: &Path, interface: &str) -> Result<Interface, Error> {
    let config = config::load(file)?;
    let names: Vec<&str> = config.interfaces.iter().map(|i| i.name.as_str()).collect();
    let others = match names.len() {
        0 => "none".to_owned(),
        _ => names.join(", "),
    };
    config
        .interfaces
        .iter()
        .find(|entry| entry.name == interface)
        .cloned()
        .ok_or_else(|| Error::NotConfigured {
            file: file.display().to_string(),
            interface: interface.to_owned(),
            others,
        })
}

impl Limiter {
    /// Reads the config file again, on a thread of its own: it may be long.
    pub(super) fn read_again(&self, file: &Path) -> Reading {
        let (file, interface) = (file.to_owned(), self.interface.name.clone());
        spawn_blocking(move || entry(&file, &interface))
    }

    /// Puts in force what the config file says now. What cannot be read or does not fit is reported, and
    /// the limits in force stay.
    pub(super) async fn reload(
        &mut self,
        net: &Kernel,
        request: &Request,
        read: Result<Interface, Error>,
    ) -> Result<(), Error> {
        let changed = match read {
            Ok(interface) => self.change(net, interface, self.link.clone()).await,
            Err(error) => Err(error),
        };
        match changed {
            Ok(notices) => {
                for notice in notices {
                    request.output.notice(&notice);
                }
                let file = request.file.as_deref().unwrap_or(Path::new(""));
                request
                    .output
                    .notice(&format!("{} is in force", file.display()));
            }
            Err(error) if error.leaves_limits() => request
                .output
                .notice(&format!("the limits from before stay in force: {error}")),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Fits limits and hold to what the interface is now: another MTU makes other largest packets.
    pub(super) async fn follow(
        &mut self,
        net: &Kernel,
        request: &Request,
        link: Link,
    ) -> Result<(), Error> {
        let fits = |link: &Link| (link.mtu, link.gso_max_size, link.layer, link.tx_queues);
        let same = fits(&link) == fits(&self.link);
        self.link.name.clone_from(&link.name);
        if same {
            return Ok(());
        }
        let notices = match self.change(net, self.interface.clone(), link.clone()).await {
            Ok(notices) => notices,
            Err(error) if error.leaves_limits() => {
                vec![format!("the limits from before stay in force: {error}")]
            }
            Err(error) => return Err(error),
        };
        self.link = link;
        request.output.notice(&format!(
            "{} has changed (MTU {} B, GSO packets up to {} B)",
            self.link.name, self.link.mtu, self.link.gso_max_size,
        ));
        for notice in notices {
            request.output.notice(&notice);
        }
        Ok(())
    }

    /// Puts other limits in force: the hold first has room for both, then the program decides by the new
    /// ones, and when the old backlog has drained the hold loses the room that it does not need any more.
    async fn change(
        &mut self,
        net: &Kernel,
        interface: Interface,
        link: Link,
    ) -> Result<Vec<String>, Error> {
        let kind = self.installed.kind();
        let as_before = Link {
            gso_max_segs: self.before.gso_max_segs,
            ..link.clone()
        };
        let mut ids = self.ids.clone();
        let mut compiled = classes::compile(&interface, &as_before, memory()?, &mut ids)?;
        compiled.ask.link = link.clone();
        may_become(kind, &interface, &self.compiled, &compiled)?;
        let free = match kind {
            HoldKind::Fq => Vec::new(),
            HoldKind::Htb => compiled.name_queues()?,
        };
        let both = for_both(kind, &compiled.ask, self.installed.ask());
        self.installed.adapt(net, both).await?;

        if let Err(error) = self.put_in_force(&compiled, free) {
            // Nothing has been decided by it yet: back to the clients as they were.
            let (before, tried) = (self.compiled.clients.clone(), compiled.clients);
            for place in tried.iter().filter(|place| place.new) {
                // It may not have got that far.
                let _ = self.program.remove_client(&place.prefix);
            }
            self.set_clients(&before, &[])?;
            return Err(Error::NotChanged(Box::new(error)));
        }
        let notices = compiled.notices.clone();
        self.compiled = compiled;
        self.ids = ids;
        self.interface = interface;
        self.link = link;
        for prefix in &self.compiled.gone {
            self.program.remove_client(prefix)?;
        }
        Ok(notices)
    }

    /// Clients that are new or changed, then the policy. Clients that are gone stay until no policy asks
    /// for them any more.
    fn put_in_force(&mut self, compiled: &Compiled, free: Vec<Vec<u32>>) -> Result<(), Error> {
        let now = Instant::now();
        let drained = Duration::from_nanos(self.compiled.furthest().as_nanos());
        let (mut until, mut before) = (now + drained, self.compiled.policy);
        if let Some(settling) = self.settling.as_ref().filter(|s| s.until > now) {
            before = patient(&before, &settling.before);
            until = until.max(settling.until);
        }
        self.add_pools(free)?;
        for class in compiled.classes.iter().filter(|class| class.new) {
            let watched = self.watched.contains(&class.id);
            self.program.renew_class(class.id, watched)?;
        }
        self.note_watched(&compiled.classes);
        let known = std::mem::take(&mut self.compiled.clients);
        let (clients, later) = patient_clients(&compiled.clients, &known);
        let put = self.set_clients(&clients, &known);
        self.compiled.clients = known;
        put?;
        self.set_policy(&patient(&compiled.policy, &before), &compiled.tables)?;
        self.settling = Some(Settling {
            until,
            before: Box::new(before),
            clients: later,
        });
        Ok(())
    }

    /// Follows cgroups that are made again, as when a service is started again: they have another id then.
    pub(super) fn follow_cgroups(&mut self) -> Result<(), Error> {
        if self.compiled.cgroups.is_empty() {
            return Ok(());
        }
        // One that cannot be found now keeps what it was.
        let Ok(now) = classes::find_cgroups(&self.interface) else {
            return Ok(());
        };
        if now == self.compiled.cgroups {
            return Ok(());
        }
        self.compiled.with_cgroups(&self.interface, now);
        let policy = match &self.settling {
            Some(settling) => patient(&self.compiled.policy, &settling.before),
            None => self.compiled.policy,
        };
        let tables = self.compiled.tables.clone();
        self.set_policy(&policy, &tables)
    }

    /// Fills the pools of classes that are new.
    fn add_pools(&mut self, free: Vec<Vec<u32>>) -> Result<(), Error> {
        let known = self
            .compiled
            .policy
            .classes
            .iter()
            .filter(|class| class.single == 0 && class.queue != 0)
            .map(|class| class.pool + 1)
            .max()
            .unwrap_or(0);
        for (pool, free) in (0..).zip(free).skip(known as usize) {
            self.program.add_free_queues(pool, free.into_iter())?;
        }
        Ok(())
    }

    /// When the backlog from before a change has drained, the new limits hold without regard to it.
    pub(super) async fn settle(&mut self, net: &Kernel) -> Result<(), Error> {
        let Some(settling) = &mut self.settling else {
            return Ok(());
        };
        if settling.until > Instant::now() {
            return Ok(());
        }
        let clients = std::mem::take(&mut settling.clients);
        self.settling = None;
        self.installed.adapt(net, self.compiled.ask.clone()).await?;
        self.set_clients(&clients, &[])?;
        let (policy, tables) = (self.compiled.policy, self.compiled.tables.clone());
        self.set_policy(&policy, &tables)
    }
}

/// Whether limits of this kind can follow those in force while packets wait.
fn may_become(
    kind: HoldKind,
    interface: &Interface,
    before: &Compiled,
    after: &Compiled,
) -> Result<(), Error> {
    let wanted = match interface.hold {
        HoldMode::Auto => kind,
        HoldMode::Fq => HoldKind::Fq,
        HoldMode::Htb => HoldKind::Htb,
    };
    if wanted != kind {
        return Err(Error::StartAgain(format!(
            "the hold is {kind} and cannot become {wanted} while packets wait in it"
        )));
    }
    if kind == HoldKind::Htb && !after.owners.starts_with(&before.owners) {
        return Err(Error::StartAgain(
            "with htb, each class and client keeps its queue: under way they cannot change places, go \
             away or come in between"
                .to_owned(),
        ));
    }
    Ok(())
}
