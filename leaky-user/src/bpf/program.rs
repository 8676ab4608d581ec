//! One loaded program with its maps.

use super::tables::Tables;
use super::values;
use super::{Error, OBJECT};
use aya::maps::{Array, HashMap, MapData, MapError, PerCpuArray, Queue};
use aya::programs::{ProgramError, SchedClassifier};
use aya::{Ebpf, EbpfError, EbpfLoader};
use ipnet::IpNet;
use leaky_core::abi::{
    Bucket, CLASS_SLOTS, CLIENT_TABLE, Counters, KEY_TABLE, MAX_QUEUES, PORTS, SHARED_BUCKETS,
    SharedBucket, VLANS,
};
use leaky_core::classify::Side;
use leaky_core::policy::{BANKS, POOLS, Policy};
use leaky_core::time::{Moment, Span};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::time::{ClockId, clock_gettime};

/// Which program: by what the hold needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stamps departure times, for fq.
    DepartureTime,
    /// Puts packets into queues, for htb.
    Queue,
}

impl Kind {
    /// The program's name in the object, and in `bpftool prog`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::DepartureTime => "leaky_fq",
            Kind::Queue => "leaky_htb",
        }
    }
}

/// A key without traffic for this long gives its bucket and its queue back. Longer than any
/// bucket that is not limited to a trickle takes to drain, and far below the 78 h after which a
/// state could be mistaken for backlog.
const IDLE: Span = Span::from_ns(60_000_000_000);

/// The furthest ahead that any bucket can be: capacity, max wait and burst of 12 h each, and a margin.
const LONGEST_BACKLOG: Span = Span::from_ns(39 * 3_600 * 1_000_000_000);

/// How large the tables are made; what a table of one entry is for is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Keys over all classes: 1 to [`KEY_TABLE`].
    pub keys: u32,
    /// Clients: 1 to [`CLIENT_TABLE`].
    pub clients: u32,
    /// Whether classes can ask for ports and VLANs (2 MiB).
    pub classes: bool,
}

impl Sizes {
    /// Room for any policy.
    pub const FULL: Sizes = Sizes {
        keys: KEY_TABLE,
        clients: CLIENT_TABLE,
        classes: true,
    };
}

/// A loaded program. Dropping it detaches and unloads it.
pub struct Program {
    pub(super) ebpf: Ebpf,
    kind: Kind,
    /// The bank of the policy in force.
    active: u32,
    /// What was last written to the prefixes of each bank.
    pub(super) written: [Vec<(Side, IpNet)>; BANKS as usize],
    /// Keys that were swept out, by class id.
    swept: [u64; CLASS_SLOTS as usize],
    /// What a class had counted before the one that has its id now, by id.
    before: Vec<Counters>,
    /// What was counted for classes whose ids others have now.
    past: Counters,
    /// Client buckets in use, and the one that the next sweep looks at first.
    clients: u32,
    next_client: u32,
}

/// The maps of the hold's free queues, by pool.
const FREE_QUEUES: [&str; POOLS as usize] = [
    "FREE_QUEUES_0",
    "FREE_QUEUES_1",
    "FREE_QUEUES_2",
    "FREE_QUEUES_3",
];

/// Client buckets that one sweep looks at: 100,000 are then seen within 17 minutes, far below the 78 h
/// after which an old state could be mistaken for backlog.
const CLIENTS_A_SWEEP: u32 = 1_024;

impl Program {
    /// Loads the program for `kind`. It lets everything pass until [`Program::set_policy`].
    ///
    /// # Errors
    /// [`Error::Stub`] without a program in this binary; else what the kernel refused.
    pub fn load(kind: Kind, sizes: Sizes) -> Result<Program, Error> {
        if OBJECT.is_empty() {
            return Err(Error::Stub);
        }
        let queues = if sizes.keys > 1 { MAX_QUEUES } else { 1 };
        let (ports, vlans) = match sizes.classes {
            true => (2 * PORTS * BANKS, VLANS * BANKS),
            false => (1, 1),
        };
        let mut loader = EbpfLoader::new();
        loader
            .map_max_entries("KEYS", sizes.keys)
            .map_max_entries("CLIENT_BUCKETS", sizes.clients)
            .map_max_entries("PORT_CLASSES", ports)
            .map_max_entries("VLAN_CLASSES", vlans);
        for pool in FREE_QUEUES {
            loader.map_max_entries(pool, queues);
        }
        let ebpf = undisturbed(|| loader.load(OBJECT))?
            .map_err(|error| load_error(kind.name(), &error))?;
        let mut program = Program {
            ebpf,
            kind,
            active: 0,
            written: Default::default(),
            swept: [0; CLASS_SLOTS as usize],
            before: vec![Counters::default(); CLASS_SLOTS as usize],
            past: Counters::default(),
            clients: 0,
            next_client: 0,
        };
        let classifier = program.classifier()?;
        undisturbed(|| classifier.load())?.map_err(|error| program_error(kind.name(), &error))?;
        program.empty_shared()?;
        Ok(program)
    }

    /// Which program it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The program itself, for attaching and for test runs.
    ///
    /// # Errors
    /// [`Error::Refused`] if the object does not hold it.
    pub fn classifier(&mut self) -> Result<&mut SchedClassifier, Error> {
        let name = self.kind.name();
        let missing = || Error::Refused {
            program: name,
            reason: "not in the object".to_owned(),
        };
        let program = self.ebpf.program_mut(name).ok_or_else(missing)?;
        program.try_into().map_err(|_| missing())
    }

    /// Puts a policy with its tables in force: into the bank that no packet reads, then the index. A
    /// packet sees the old one or the new one.
    ///
    /// # Errors
    /// [`Error::Map`]; the policy in force is then still the old one.
    pub fn set_policy(&mut self, policy: &Policy, tables: &Tables) -> Result<(), Error> {
        let next = (self.active + 1) % BANKS;
        self.write_tables(next, tables)?;
        let doing = "put the policy in force";
        self.array::<values::Policy>("POLICY", doing)?
            .set(next, values::Policy(*policy), 0)
            .map_err(map_error(doing))?;
        self.array::<u32>("ACTIVE", doing)?
            .set(0, next, 0)
            .map_err(map_error(doing))?;
        self.active = next;
        Ok(())
    }

    /// The policy in force, as the kernel has it.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn policy(&mut self) -> Result<Policy, Error> {
        let doing = "read the policy back";
        let active = self
            .array::<u32>("ACTIVE", doing)?
            .get(&0, 0)
            .map_err(map_error(doing))?;
        let policies = self.array::<values::Policy>("POLICY", doing)?;
        Ok(policies.get(&active, 0).map_err(map_error(doing))?.0)
    }

    /// Gives the keys of a class queues of the hold to take, by the class's pool.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn add_free_queues(
        &mut self,
        pool: u32,
        free: impl Iterator<Item = u32>,
    ) -> Result<(), Error> {
        let doing = "name the hold's queues";
        let mut queues = self.free_queues(pool, doing)?;
        for queue in free {
            queues.push(queue, 0).map_err(map_error(doing))?;
        }
        Ok(())
    }

    /// Empties the shared buckets as of now: a state of 0 could lie just ahead of a clock that is
    /// modulo 78 h.
    fn empty_shared(&mut self) -> Result<(), Error> {
        let doing = "empty the buckets";
        let mut shared = self.array::<values::Bucket>("SHARED", doing)?;
        for place in 0..SHARED_BUCKETS {
            shared.set(place, empty(), 0).map_err(map_error(doing))?;
        }
        Ok(())
    }

    pub(super) fn empty_client(&mut self, slot: u32) -> Result<(), Error> {
        let doing = "empty a client's bucket";
        self.clients = self.clients.max(slot.saturating_add(1));
        self.array::<values::Bucket>("CLIENT_BUCKETS", doing)?
            .set(slot, empty(), 0)
            .map_err(map_error(doing))
    }

    /// Makes the place of a class as new, for another class: its buckets are empty, it has no keys and has
    /// counted nothing. No packet must be in the class at the time. `watched`: whether the class that had
    /// the place was only watched.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn renew_class(&mut self, id: u32, watched: bool) -> Result<(), Error> {
        let counted = self.counted()?;
        if let (Some(before), Some(counted)) =
            (self.before.get_mut(id as usize), counted.get(id as usize))
        {
            let mut own = *counted;
            own.take(before);
            self.past
                .add(&if watched { own.without_limit() } else { own });
            *before = *counted;
        }
        if let Some(swept) = self.swept.get_mut(id as usize) {
            *swept = 0;
        }
        let mut shared = self.array::<values::Bucket>("SHARED", "empty the buckets of a class")?;
        for bucket in [SharedBucket::Class(id), SharedBucket::Overflow(id)] {
            shared
                .set(bucket.index(), empty(), 0)
                .map_err(map_error("empty the buckets of a class"))?;
        }
        let doing = "remove the keys of a class";
        let map = self.ebpf.map_mut("KEYS").ok_or_else(|| no_map(doing))?;
        let mut keys =
            HashMap::<_, values::Key, values::Bucket>::try_from(map).map_err(map_error(doing))?;
        let of_class: Vec<_> = keys
            .keys()
            .filter_map(Result::ok)
            .filter(|key| u32::from(key.0.class) == id)
            .collect();
        for key in &of_class {
            keys.remove(key).map_err(map_error(doing))?;
        }
        Ok(())
    }

    /// What was counted over all CPUs, by class id, since the class was put in force.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn counters(&self) -> Result<Vec<Counters>, Error> {
        let mut counters = self.counted()?;
        for (counted, before) in counters.iter_mut().zip(&self.before) {
            counted.take(before);
        }
        Ok(counters)
    }

    /// What was counted for classes whose ids others have now.
    pub fn past(&self) -> &Counters {
        &self.past
    }

    /// What was counted since loading over all CPUs, by class id.
    fn counted(&self) -> Result<Vec<Counters>, Error> {
        let doing = "read the counters";
        let map = self.ebpf.map("COUNTERS").ok_or_else(|| no_map(doing))?;
        let array =
            PerCpuArray::<&MapData, values::Counters>::try_from(map).map_err(map_error(doing))?;
        let sum = |id| {
            let mut sum = Counters::default();
            for cpu in array.get(&id, 0).map_err(map_error(doing))?.iter() {
                sum.add(&cpu.0);
            }
            Ok(sum)
        };
        (0..CLASS_SLOTS).map(sum).collect()
    }

    /// How many keys of a class, by its id, have a bucket in the table. `counted` is from
    /// [`Program::counters`].
    pub fn keys(&self, id: u32, counted: &Counters) -> u64 {
        let swept = self.swept.get(id as usize).copied().unwrap_or(0);
        counted.keys_made.saturating_sub(swept)
    }

    /// Takes the buckets of idle keys out of the table, so that their places and queues become free
    /// for other keys, and empties other buckets that are idle: no state may grow as old as the
    /// clock's window of 78 h, where it could be taken for backlog. Returns how many keys went.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn sweep(&mut self) -> Result<usize, Error> {
        let policy = self.policy()?;
        // Keys of a class that is gone may be backlog still.
        let mut stale_after = [LONGEST_BACKLOG; CLASS_SLOTS as usize];
        let mut known = [false; CLASS_SLOTS as usize];
        let mut pools = [0; CLASS_SLOTS as usize];
        let mut longest = policy.link.stale_after;
        for class in &policy.classes {
            let place = class.id as usize % stale_after.len();
            stale_after[place] = match known[place] {
                true => class.limits.stale_after.max(stale_after[place]),
                false => class.limits.stale_after,
            };
            known[place] = true;
            pools[place] = class.pool;
            longest = longest.max(stale_after[place]);
        }
        self.renew("SHARED", 0..SHARED_BUCKETS, longest)?;
        let end = self
            .next_client
            .saturating_add(CLIENTS_A_SWEEP)
            .min(self.clients);
        // The clients' own limits are not looked up for this: none is beyond what a bucket can hold.
        self.renew("CLIENT_BUCKETS", self.next_client..end, LONGEST_BACKLOG)?;
        self.next_client = if end < self.clients { end } else { 0 };
        self.sweep_keys(&stale_after, &pools)
    }

    /// A packet that comes between the reading and the writing is not debited; that is as unlikely
    /// as a packet in just that microsecond after a minute without any, and costs that one debit.
    fn renew(
        &mut self,
        map: &str,
        places: std::ops::Range<u32>,
        stale_after: Span,
    ) -> Result<(), Error> {
        let doing = "renew idle buckets";
        let mut buckets = self.array::<values::Bucket>(map, doing)?;
        for place in places {
            let mut bucket = buckets.get(&place, 0).map_err(map_error(doing))?;
            let now = now();
            if is_idle(&bucket, stale_after, now) {
                bucket.0.free_at = now.0;
                buckets.set(place, bucket, 0).map_err(map_error(doing))?;
            }
        }
        Ok(())
    }

    fn sweep_keys(&mut self, stale_after: &[Span], pools: &[u32]) -> Result<usize, Error> {
        let doing = "sweep idle keys";
        let map = self.ebpf.map_mut("KEYS").ok_or_else(|| no_map(doing))?;
        let mut keys =
            HashMap::<_, values::Key, values::Bucket>::try_from(map).map_err(map_error(doing))?;
        let stale = |key: &values::Key| {
            let stale = stale_after.get(usize::from(key.0.class));
            stale.copied().unwrap_or(LONGEST_BACKLOG)
        };
        let seen_idle: Vec<_> = keys
            .iter()
            // A key that another CPU changes meanwhile may be skipped: the next sweep sees it.
            .filter_map(Result::ok)
            .filter(|(key, bucket)| is_idle(bucket, stale(key), now()))
            .map(|(key, _)| key)
            .collect();
        let mut freed = Vec::new();
        for key in &seen_idle {
            // Going through the table took its time: the key may be awake again.
            match keys.get(key, 0) {
                Ok(bucket) if is_idle(&bucket, stale(key), now()) => {
                    keys.remove(key).map_err(map_error(doing))?;
                    if let Some(swept) = self.swept.get_mut(usize::from(key.0.class)) {
                        *swept += 1;
                    }
                    let pool = pools.get(usize::from(key.0.class)).copied();
                    freed.push((pool.unwrap_or(0), bucket.0.queue));
                }
                _ => {}
            }
        }
        for (pool, queue) in &freed {
            if let Ok(queue) = u32::try_from(*queue)
                && queue != 0
            {
                self.add_free_queues(*pool, std::iter::once(queue))?;
            }
        }
        Ok(freed.len())
    }

    pub(super) fn array<V: aya::Pod>(
        &mut self,
        name: &str,
        doing: &'static str,
    ) -> Result<Array<&mut MapData, V>, Error> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| no_map(doing))?;
        Array::try_from(map).map_err(map_error(doing))
    }

    fn free_queues(
        &mut self,
        pool: u32,
        doing: &'static str,
    ) -> Result<Queue<&mut MapData, u32>, Error> {
        let name = FREE_QUEUES
            .get(pool as usize)
            .ok_or_else(|| no_map(doing))?;
        let map = self.ebpf.map_mut(name).ok_or_else(|| no_map(doing))?;
        Queue::try_from(map).map_err(map_error(doing))
    }
}

/// Runs `load` with signals held back in this thread: the kernel gives up verifying a program when the
/// thread that loads it has one pending (EAGAIN), which looks like a refusal and is tried again from
/// the start. A signal that comes meanwhile is delivered afterwards, or to another thread.
fn undisturbed<T>(load: impl FnOnce() -> T) -> Result<T, Error> {
    let failed = |error: nix::Error| Error::Map {
        doing: "hold signals back while the program is loaded".to_owned(),
        reason: error.to_string(),
    };
    let before = SigSet::all()
        .thread_swap_mask(SigmaskHow::SIG_BLOCK)
        .map_err(failed)?;
    let loaded = load();
    before.thread_set_mask().map_err(failed)?;
    Ok(loaded)
}

/// A bucket that is empty as of now.
fn empty() -> values::Bucket {
    values::Bucket(Bucket {
        free_at: now().0,
        queue: 0,
    })
}

/// Whether a bucket has been empty for [`IDLE`].
fn is_idle(bucket: &values::Bucket, stale_after: Span, now: Moment) -> bool {
    let free_at = Moment(bucket.0.free_at);
    free_at.since(now) > stale_after && now.since(free_at) > IDLE
}

/// Now on the clock that the program uses.
fn now() -> Moment {
    // The clock exists on every Linux; 0 would only make buckets look empty.
    let ns = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| {
        let seconds = u64::try_from(now.tv_sec()).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(now.tv_nsec()).unwrap_or(0)
    });
    Moment::from_ns(ns)
}

pub(super) fn no_map(doing: &'static str) -> Error {
    Error::Map {
        doing: doing.to_owned(),
        reason: "the object has no such map".to_owned(),
    }
}

pub(super) fn map_error(doing: &'static str) -> impl Fn(MapError) -> Error {
    move |error| Error::Map {
        doing: doing.to_owned(),
        reason: chain(&error),
    }
}

fn load_error(program: &'static str, error: &EbpfError) -> Error {
    by_errno(error).unwrap_or_else(|| Error::Refused {
        program,
        reason: chain(error),
    })
}

fn program_error(program: &'static str, error: &ProgramError) -> Error {
    if let ProgramError::LoadError {
        io_error,
        verifier_log,
    } = error
    {
        let log = verifier_log.to_string();
        // The last lines of the log are statistics; the complaint stands before them.
        let complaint = log.lines().rev().find(|line| !is_statistics(line));
        // EACCES and EPERM with a log are the verifier's verdict, not a missing capability.
        if let Some(complaint) = complaint {
            return Error::Refused {
                program,
                reason: format!("{io_error}: {complaint}"),
            };
        }
    }
    by_errno(error).unwrap_or_else(|| Error::Refused {
        program,
        reason: chain(error),
    })
}

/// The lines that end every log of the verifier.
fn is_statistics(line: &str) -> bool {
    ["processed ", "verification time ", "stack depth "]
        .iter()
        .any(|start| line.trim().is_empty() || line.starts_with(start))
}

/// Errors that mean the same wherever they come from.
fn by_errno(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let mut cause = Some(error);
    while let Some(this) = cause {
        if let Some(io) = this.downcast_ref::<std::io::Error>() {
            return match io.raw_os_error()? {
                libc::EPERM | libc::EACCES => Some(Error::NotPermitted {
                    doing: "load BPF programs",
                    reason: io.to_string(),
                }),
                libc::ENOSYS => Some(Error::NoBpf),
                _ => None,
            };
        }
        cause = this.source();
    }
    None
}

/// An error and its causes in one line.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(this) = cause {
        let next = this.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = this.source();
    }
    text.replace('\n', " ")
}
