//! From the classes that were asked for to what the kernel program and the hold are told. Pure, but for
//! the ids of cgroups.

mod ids;
mod tables;

#[cfg(test)]
mod tests;

pub use ids::Ids;

use crate::bpf::Tables;
use crate::cgroup::{self, Cgroup};
use crate::config::{Action, Asked, Class, Control, Fallback, Interface, Per, Smooth};
use crate::hold::{self, Ask, Content, Group, Keys, Line};
use crate::limit::{self, Limit};
use crate::net::Link;
use crate::units::{Capacity, Duration, Rate};
use ipnet::IpNet;
use leaky_core::key::KeyMask;
use leaky_core::policy::{self, POOLS, Policy, REST};
use leaky_core::size::Framing;
use leaky_core::time::Span;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is put in force on an interface.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// What the program is told.
    pub policy: Policy,
    /// The tables beside it.
    pub tables: Tables,
    /// The clients, in the order of their places.
    pub clients: Vec<ClientPlace>,
    /// Clients that were there before and are not any more.
    pub gone: Vec<IpNet>,
    /// What the hold is asked.
    pub ask: Ask,
    /// The classes in order, for reports.
    pub classes: Vec<Resolved>,
    /// The link's bucket.
    pub link: Option<Limit>,
    /// Who has each of the hold's groups, in their order.
    pub owners: Vec<Owner>,
    /// The cgroups that classes ask for, as they are now.
    pub cgroups: Cgroups,
    /// What was not taken as asked, in sentences.
    pub notices: Vec<String>,
}

/// Whose a group of the hold is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A class's, by its id.
    Class(u32),
    /// A client's, by its place.
    Client(u32),
}

/// cgroups by path; `None` for one that is not there.
pub type Cgroups = BTreeMap<PathBuf, Option<Cgroup>>;

/// A client with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientPlace {
    /// Whose addresses.
    pub prefix: IpNet,
    /// What the program is told.
    pub client: policy::Client,
    /// Whether it was not there before.
    pub new: bool,
}

/// A class with its limits.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Its name.
    pub name: String,
    /// The place of its counters.
    pub id: u32,
    /// Whether it was not there before.
    pub new: bool,
    /// Whose buckets.
    pub per: Per,
    /// What is done with its packets.
    pub action: Action,
    /// The limits of its buckets, where they are not its clients'.
    pub limit: Option<Limit>,
    /// How many clients have a bucket of their own.
    pub clients: usize,
}

/// What does not fit together.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A limit of a class.
    #[error("class {class}: {error}")]
    Class {
        /// Its name.
        class: String,
        /// What is wrong.
        error: limit::Error,
    },
    /// The limit of a client.
    #[error("client {prefix}: {error}")]
    Client {
        /// Whose.
        prefix: IpNet,
        /// What is wrong.
        error: limit::Error,
    },
    /// The limit of the link.
    #[error("link: {0}")]
    Link(limit::Error),
    /// A cgroup.
    #[error(transparent)]
    Cgroup(#[from] cgroup::Error),
    /// The hold cannot serve so many.
    #[error(transparent)]
    Hold(#[from] hold::Error),
}

/// Works out what is put in force for `interface` on `link`, on a machine with this much `memory`, in
/// bytes. `ids` has the places of what is already in force.
///
/// # Errors
/// [`Error`]: what does not fit together. `ids` is then as before.
pub fn compile(
    interface: &Interface,
    link: &Link,
    memory: u64,
    ids: &mut Ids,
) -> Result<Compiled, Error> {
    let gso_max_segs = smooth(interface, link);
    let smoothed = Link {
        gso_max_segs: gso_max_segs.unwrap_or(link.gso_max_segs),
        ..link.clone()
    };
    let framing = Framing {
        overhead: interface.overhead,
        minimum: interface.mpu,
    };
    let resolve = |asked: &Asked| limit::resolve(asked, &smoothed, framing, memory);

    let mut now = ids.clone();
    let mut notices = Vec::new();
    let classes = resolve_classes(interface, &mut now, resolve, &mut notices)?;
    let (clients, gone) = resolve_clients(interface, &mut now, resolve, &mut notices)?;
    let longest = classes
        .iter()
        .filter_map(|class| class.limit.as_ref())
        .chain(clients.iter().map(|(_, limit)| limit))
        .map(|limit| limit.max_wait)
        .max();
    let line = resolve_line(interface, longest.unwrap_or(Duration::ZERO), resolve)?;

    let cgroups = find_cgroups(interface)?;
    for (path, _) in cgroups.iter().filter(|(_, found)| found.is_none()) {
        notices.push(format!(
            "there is no cgroup {} yet; its packets are matched when it is made",
            path.display()
        ));
    }
    let (classifier, tables) = tables::classifier(interface, &cgroups);

    let mut policy = Policy::new(link.layer);
    policy.framing = framing;
    policy.classify_control = u32::from(interface.control == Control::Class);
    policy.classifier = classifier;
    if let Some(line) = &line {
        policy.has_link = 1;
        policy.link = line.limits;
    }
    for ((place, class), resolved) in policy
        .classes
        .iter_mut()
        .zip(&interface.classes)
        .zip(&classes)
    {
        *place = program_class(class, resolved, interface.mark_mask);
    }
    policy.classes[REST] = match interface.fallback {
        Fallback::Pass => policy.classes[REST],
        Fallback::Drop => policy.classes[REST].with_action(policy::Action::Drop),
        Fallback::Class(of) => policy.classes[of],
    };

    let (owners, groups) = groups(&classes, &clients).into_iter().unzip();
    let ask = Ask {
        link: link.clone(),
        groups,
        line: line.as_ref().map(|line| Line {
            rate: line.rate.bytes_per_second().unwrap_or(0),
            capacity: match line.capacity {
                Content::Bytes(bytes) => bytes,
                Content::Packets(_) => 0,
            },
        }),
        overhead: interface.overhead,
        mpu: interface.mpu,
        // Connections that are open keep their large packets.
        largest_packet: link.largest_gso_packet(),
        gso_max_segs,
    };
    *ids = now;
    Ok(Compiled {
        policy,
        tables,
        clients: clients.into_iter().map(|(place, _)| place).collect(),
        gone,
        ask,
        classes,
        link: line,
        owners,
        cgroups,
        notices,
    })
}

/// The cgroups that classes of `interface` ask for, as they are now. A service that is started again has
/// another one at the same path.
///
/// # Errors
/// [`Error::Cgroup`] where there are none at all.
pub fn find_cgroups(interface: &Interface) -> Result<Cgroups, Error> {
    let mut cgroups = Cgroups::new();
    for path in interface.classes.iter().flat_map(|c| &c.matching.cgroups) {
        cgroups.insert(path.clone(), cgroup::find(path)?);
    }
    Ok(cgroups)
}

impl Compiled {
    /// The same classes with other cgroups.
    pub fn with_cgroups(&mut self, interface: &Interface, cgroups: Cgroups) {
        (self.policy.classifier, self.tables) = tables::classifier(interface, &cgroups);
        self.cgroups = cgroups;
    }

    /// Names the hold's queues, for a hold that has them: every class, client and pool of keys gets
    /// those that [`hold::slots`] gives its group. Returns the free queues of each pool.
    ///
    /// # Errors
    /// [`hold::Error::Refused`] if there are not enough.
    pub fn name_queues(&mut self) -> Result<Vec<Vec<u32>>, hold::Error> {
        let slots = hold::slots(&self.ask)?;
        let mut pools = Vec::new();
        let mut slots = slots.iter();
        let shaping = self
            .classes
            .iter()
            .enumerate()
            .filter(|(_, class)| has_group(class));
        for ((place, _), slots) in shaping.zip(slots.by_ref()) {
            let class = &mut self.policy.classes[place];
            class.queue = hold::queue(slots.own.unwrap_or(slots.overflow));
            if slots.own.is_none() {
                class.pool = u32::try_from(pools.len()).unwrap_or(0).min(POOLS - 1);
                pools.push(slots.keys.clone().map(hold::queue).collect());
            }
        }
        for (client, slots) in self.clients.iter_mut().zip(slots) {
            client.client.queue = hold::queue(slots.own.unwrap_or(slots.overflow));
        }
        let id = self.policy.classes[REST].id;
        let classes = &self.policy.classes[..self.classes.len().min(REST)];
        if let Some(of) = classes.iter().find(|class| class.id == id) {
            self.policy.classes[REST] = *of;
        }
        self.policy.rest_queue = hold::rest_slot(&self.ask).map_or(hold::HANDLE, hold::queue);
        Ok(pools)
    }

    /// How far ahead of now anything can be that was accepted under these limits.
    pub fn furthest(&self) -> Duration {
        let bounds = self.ask.groups.iter().map(|group| group.bound);
        let line = self.link.as_ref().map(|line| line.capacity_time);
        bounds.chain(line).max().unwrap_or(Duration::ZERO)
    }
}

/// The `gso_max_segs` that is wanted. Unless it is asked for, one slow class among others must not slow
/// everybody: then only a rate that rules the interface counts, that of its only class or of the link.
fn smooth(interface: &Interface, link: &Link) -> Option<u32> {
    let shaped = || {
        interface
            .classes
            .iter()
            .filter(|c| c.action == Action::Shape)
    };
    let rates: Vec<Rate> = match interface.smooth {
        Smooth::Off => return None,
        Smooth::On => {
            let clients = shaped()
                .filter_map(|class| class.clients.as_ref())
                .flatten();
            let clients = clients.map(|client| client.asked.rate);
            let classes = shaped().filter(|class| class.clients.is_none());
            let classes = classes.filter_map(|class| Some(class.limits?.rate));
            let link = interface.link.map(|link| link.rate);
            clients.chain(classes).chain(link).collect()
        }
        Smooth::Auto => {
            let only = match interface.classes.as_slice() {
                [class] if class.clients.is_none() => shaped().next().filter(|_| {
                    class.matching.is_all() || matches!(interface.fallback, Fallback::Class(0))
                }),
                _ => None,
            };
            let own = only.and_then(|class| Some(class.limits?.rate));
            own.or(interface.link.map(|link| link.rate))
                .into_iter()
                .collect()
        }
    };
    rates
        .into_iter()
        .filter_map(|rate| hold::smooth(link, rate))
        .min()
}

fn resolve_classes(
    interface: &Interface,
    ids: &mut Ids,
    resolve: impl Fn(&Asked) -> Result<Limit, limit::Error>,
    notices: &mut Vec<String>,
) -> Result<Vec<Resolved>, Error> {
    let whose = |class: &Class| match class.action {
        Action::Monitor => format!("{}, watched", class.per),
        _ => class.per.to_string(),
    };
    let names = interface
        .classes
        .iter()
        .map(|class| (class.name.as_str(), whose(class)));
    ids.keep_classes(names);
    let alone = interface.classes.len() == 1;
    let mut classes = Vec::new();
    for class in &interface.classes {
        let limit = class
            .limits
            .filter(|_| matches!(class.action, Action::Shape | Action::Monitor))
            .filter(|_| class.clients.is_none())
            .map(|asked| resolve(&asked))
            .transpose()
            .map_err(|error| Error::Class {
                class: class.name.clone(),
                error,
            })?;
        notices.extend(limit.iter().flat_map(|limit| &limit.notices).map(|notice| {
            if alone {
                notice.clone()
            } else {
                format!("class {}: {notice}", class.name)
            }
        }));
        let (id, new) = ids.class(&class.name, &whose(class));
        classes.push(Resolved {
            name: class.name.clone(),
            id,
            new,
            per: class.per,
            action: class.action,
            limit,
            clients: class.clients.as_ref().map_or(0, Vec::len),
        });
    }
    Ok(classes)
}

type Clients = Vec<(ClientPlace, Limit)>;

fn resolve_clients(
    interface: &Interface,
    ids: &mut Ids,
    resolve: impl Fn(&Asked) -> Result<Limit, limit::Error>,
    notices: &mut Vec<String>,
) -> Result<(Clients, Vec<IpNet>), Error> {
    let asked: Vec<_> = interface
        .classes
        .iter()
        .filter_map(|class| class.clients.as_deref())
        .flatten()
        .collect();
    let prefixes: Vec<IpNet> = asked.iter().map(|client| client.prefix).collect();
    let gone = ids.keep_clients(&prefixes);
    let mut clients = Clients::with_capacity(asked.len());
    let mut raised: Vec<(IpNet, String)> = Vec::new();
    for client in asked {
        let prefix = client.prefix;
        let mut limit = resolve(&client.asked).map_err(|error| Error::Client { prefix, error })?;
        // 100,000 clients shall not say the same 100,000 times.
        let mut said = std::mem::take(&mut limit.notices).into_iter();
        raised.extend(said.next().map(|notice| (prefix, notice)));
        let (slot, new) = ids.client(prefix);
        let place = ClientPlace {
            prefix,
            client: policy::Client {
                limits: limit.limits,
                mark_above: limit.mark_above(),
                slot,
                queue: 0,
            },
            new,
        };
        clients.push((place, limit));
    }
    if let Some((prefix, notice)) = raised.first() {
        notices.push(match raised.len() {
            1 => format!("client {prefix}: {notice}"),
            n => format!(
                "client {prefix}: {notice}; and {} clients more likewise",
                n - 1
            ),
        });
    }
    clients.sort_unstable_by_key(|(place, _)| place.client.slot);
    Ok((clients, gone))
}

/// The link's bucket has room for what waits in the others too: it is offered each packet at once. So
/// unless something else is asked, it may take its own 200 ms and the longest wait of a class to drain.
fn resolve_line(
    interface: &Interface,
    longest: Duration,
    resolve: impl Fn(&Asked) -> Result<Limit, limit::Error>,
) -> Result<Option<Limit>, Error> {
    let Some(link) = interface.link else {
        return Ok(None);
    };
    let default = limit::DEFAULT_MAX_WAIT
        .as_nanos()
        .saturating_add(longest.as_nanos());
    let by_default = link.max_wait.is_none() && link.capacity.is_none();
    let max_wait = match (link.max_wait, link.capacity) {
        (None, None) => Some(Duration::from_nanos(default.min(limit::LONGEST.as_nanos()))),
        (given, _) => given,
    };
    let with = |capacity, max_wait| {
        let asked = Asked {
            rate: link.rate,
            capacity,
            max_wait,
            burst: None,
            ecn: None,
        };
        resolve(&asked).map_err(Error::Link)
    };
    // One bound is enough: it is full, or it is not. Of two that are asked for the smaller one is it.
    let by_wait = max_wait.map(|wait| {
        let drained = link.rate.bytes_per_second().unwrap_or(0);
        let drained = u128::from(drained) * u128::from(wait.as_nanos()) / 1_000_000_000;
        match by_default && drained > u128::from(limit::DEFAULT_MOST) {
            true => with(Some(Capacity::Bytes(limit::DEFAULT_MOST)), None),
            false => with(None, Some(wait)),
        }
    });
    let by_wait = by_wait.transpose()?;
    let by_capacity = match link.capacity {
        Some(capacity) => Some(with(Some(capacity), None)?),
        None => None,
    };
    let line = [by_wait, by_capacity].into_iter().flatten();
    let Some(mut line) = line.min_by_key(|line| line.limits.capacity) else {
        return Ok(None);
    };
    line.max_wait = line.capacity_time;
    line.limits.max_wait = line.limits.capacity;
    line.limits.stale_after = line.limits.furthest();
    Ok(Some(line))
}

fn program_class(class: &Class, resolved: &Resolved, mark_mask: u32) -> policy::Class {
    let key = match class.per {
        Per::Class => KeyMask::NOTHING,
        Per::Flow => KeyMask::FLOW,
        Per::Source { v4, v6 } => KeyMask::source(v4, v6),
        Per::Destination { v4, v6 } => KeyMask::destination(v4, v6),
        Per::Cgroup => KeyMask::CGROUP,
        Per::Mark => KeyMask::mark(mark_mask),
        Per::SourcePort => KeyMask::SOURCE_PORT,
        Per::DestinationPort => KeyMask::DESTINATION_PORT,
    };
    let limits = resolved.limit.as_ref().map(|limit| limit.limits);
    let mark_above = resolved.limit.as_ref().map(Limit::mark_above);
    let mut program = policy::Class::default();
    program.limits = limits.unwrap_or_default();
    program.mark_above = mark_above.unwrap_or(Span::MAX);
    program.key = key;
    program.id = resolved.id;
    program.single = u32::from(class.per == Per::Class);
    program.clients = u32::from(class.clients.is_some());
    program.with_action(match class.action {
        Action::Shape => policy::Action::Shape,
        Action::Pass => policy::Action::Pass,
        Action::Drop => policy::Action::Drop,
        Action::Monitor => policy::Action::Monitor,
    })
}

/// Whether the hold keeps packets of the class itself, and not those of its clients.
fn has_group(class: &Resolved) -> bool {
    class.action == Action::Shape && class.limit.is_some()
}

/// What the hold has to keep, and whose it is: classes in order, then clients in the order of their
/// places.
fn groups(classes: &[Resolved], clients: &Clients) -> Vec<(Owner, Group)> {
    let group = |limit: &Limit, keys| Group {
        rate: limit.rate,
        capacity: limit.capacity,
        bound: limit.bound,
        burst: limit.burst_bytes(),
        keys,
    };
    let of_classes = classes
        .iter()
        .filter(|class| has_group(class))
        .filter_map(|class| {
            let keys = match class.per {
                Per::Class => Keys::One,
                _ => Keys::Many,
            };
            let limit = class.limit.as_ref()?;
            Some((Owner::Class(class.id), group(limit, keys)))
        });
    let shaped = classes
        .iter()
        .any(|class| class.clients > 0 && class.action == Action::Shape);
    let of_clients = clients
        .iter()
        .filter(|_| shaped)
        .map(|(place, limit)| (Owner::Client(place.client.slot), group(limit, Keys::One)));
    of_classes.chain(of_clients).collect()
}
