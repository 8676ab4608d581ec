//! One loaded program with its maps.

use super::values;
use super::{Error, OBJECT};
use aya::maps::{Array, HashMap, MapData, MapError, PerCpuArray, Queue};
use aya::programs::{ProgramError, SchedClassifier};
use aya::{Ebpf, EbpfError, EbpfLoader};
use leaky_core::abi::{
    Bucket, Counters, FLOW_TABLE, Key, MAX_QUEUES, POLICY_BANKS, Policy, SharedBucket,
};
use leaky_core::time::{Moment, Span};
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

/// A loaded program. Dropping it detaches and unloads it.
pub struct Program {
    pub(super) ebpf: Ebpf,
    kind: Kind,
    key: Key,
    /// The bank of the policy in force.
    active: u32,
}

impl Program {
    /// Loads the program for `kind`, with tables sized for `key`. It lets everything pass until
    /// [`Program::set_policy`].
    ///
    /// # Errors
    /// [`Error::Stub`] without a program in this binary; else what the kernel refused.
    pub fn load(kind: Kind, key: Key) -> Result<Program, Error> {
        if OBJECT.is_empty() {
            return Err(Error::Stub);
        }
        let (flows, queues) = match key {
            Key::Class => (1, 1),
            Key::Flow => (FLOW_TABLE, MAX_QUEUES),
        };
        let ebpf = EbpfLoader::new()
            .map_max_entries("FLOWS", flows)
            .map_max_entries("FREE_QUEUES", queues)
            .load(OBJECT)
            .map_err(|error| load_error(kind.name(), &error))?;
        let mut program = Program {
            ebpf,
            kind,
            key,
            active: 0,
        };
        program
            .classifier()?
            .load()
            .map_err(|error| program_error(kind.name(), &error))?;
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

    /// Puts a policy in force: into the bank that no packet reads, then the index. A packet sees
    /// the old one or the new one.
    ///
    /// # Errors
    /// [`Error::Map`]; the policy in force is then still the old one.
    pub fn set_policy(&mut self, policy: &Policy) -> Result<(), Error> {
        let next = (self.active + 1) % POLICY_BANKS;
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

    /// Names the hold's queues: that of the class, that of the overflow bucket, and those that
    /// keys may take. With fq there are none: 0, 0 and nothing. Empties the shared buckets.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn set_queues(&mut self, class: u32, overflow: u32, free: &[u32]) -> Result<(), Error> {
        let doing = "name the hold's queues";
        let free_at = now().0;
        let mut shared = self.array::<values::Bucket>("SHARED", doing)?;
        for (which, queue) in [
            (SharedBucket::Class, class),
            (SharedBucket::Overflow, overflow),
        ] {
            let bucket = values::Bucket(Bucket {
                free_at,
                queue: u64::from(queue),
            });
            shared
                .set(which as u32, bucket, 0)
                .map_err(map_error(doing))?;
        }
        let mut queues = self.free_queues(doing)?;
        for queue in free {
            queues.push(queue, 0).map_err(map_error(doing))?;
        }
        Ok(())
    }

    /// What was counted since loading, over all CPUs.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn counters(&self) -> Result<Counters, Error> {
        let doing = "read the counters";
        let map = self.ebpf.map("COUNTERS").ok_or_else(|| no_map(doing))?;
        let array =
            PerCpuArray::<&MapData, values::Counters>::try_from(map).map_err(map_error(doing))?;
        let mut sum = Counters::default();
        for cpu in array.get(&0, 0).map_err(map_error(doing))?.iter() {
            sum.add(&cpu.0);
        }
        Ok(sum)
    }

    /// Takes the buckets of idle keys out of the table, so that their places and queues become free
    /// for other keys, and empties shared buckets that are idle: no state may grow as old as the
    /// clock's window of 78 h, where it could be taken for backlog. Returns how many keys went.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn sweep(&mut self) -> Result<usize, Error> {
        let stale_after = self.policy()?.limits.stale_after;
        self.renew_shared(stale_after)?;
        match self.key {
            Key::Class => Ok(0),
            Key::Flow => self.sweep_flows(stale_after),
        }
    }

    /// A packet that comes between the reading and the writing is not debited; that is as unlikely
    /// as a packet in just that microsecond after a minute without any, and costs that one debit.
    fn renew_shared(&mut self, stale_after: Span) -> Result<(), Error> {
        let doing = "renew idle buckets";
        let mut shared = self.array::<values::Bucket>("SHARED", doing)?;
        for which in [SharedBucket::Class, SharedBucket::Overflow] {
            let mut bucket = shared.get(&(which as u32), 0).map_err(map_error(doing))?;
            let now = now();
            if is_idle(&bucket, stale_after, now) {
                bucket.0.free_at = now.0;
                shared
                    .set(which as u32, bucket, 0)
                    .map_err(map_error(doing))?;
            }
        }
        Ok(())
    }

    fn sweep_flows(&mut self, stale_after: Span) -> Result<usize, Error> {
        let doing = "sweep idle keys";
        let map = self.ebpf.map_mut("FLOWS").ok_or_else(|| no_map(doing))?;
        let mut flows =
            HashMap::<_, values::Flow, values::Bucket>::try_from(map).map_err(map_error(doing))?;
        let seen_idle: Vec<_> = flows
            .iter()
            // A key that another CPU changes meanwhile may be skipped: the next sweep sees it.
            .filter_map(Result::ok)
            .filter(|(_, bucket)| is_idle(bucket, stale_after, now()))
            .map(|(flow, _)| flow)
            .collect();
        let mut freed = Vec::new();
        for flow in &seen_idle {
            // Going through the table took its time: the key may be awake again.
            match flows.get(flow, 0) {
                Ok(bucket) if is_idle(&bucket, stale_after, now()) => {
                    flows.remove(flow).map_err(map_error(doing))?;
                    freed.push(bucket.0.queue);
                }
                _ => {}
            }
        }
        let mut queues = self.free_queues(doing)?;
        for queue in freed.iter().filter_map(|queue| u32::try_from(*queue).ok()) {
            if queue != 0 {
                queues.push(queue, 0).map_err(map_error(doing))?;
            }
        }
        Ok(freed.len())
    }

    fn array<V: aya::Pod>(
        &mut self,
        name: &str,
        doing: &'static str,
    ) -> Result<Array<&mut MapData, V>, Error> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| no_map(doing))?;
        Array::try_from(map).map_err(map_error(doing))
    }

    fn free_queues(&mut self, doing: &'static str) -> Result<Queue<&mut MapData, u32>, Error> {
        let map = self
            .ebpf
            .map_mut("FREE_QUEUES")
            .ok_or_else(|| no_map(doing))?;
        Queue::try_from(map).map_err(map_error(doing))
    }
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

fn no_map(doing: &'static str) -> Error {
    Error::Map {
        doing: doing.to_owned(),
        reason: "the object has no such map".to_owned(),
    }
}

fn map_error(doing: &'static str) -> impl Fn(MapError) -> Error {
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
