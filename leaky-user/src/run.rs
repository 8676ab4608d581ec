//! The foreground form: puts a limit in force, watches over it, and takes everything away again.

use crate::bpf::{self, Attachment, Hook, Kind, Place, Program};
use crate::clsact::{self, Clsact};
use crate::hold::{self, Ask, Cleared, HoldKind, HoldMode, Installed, Setup};
use crate::limit::{self, Asked, Limit};
use crate::net::kernel::Kernel;
use crate::net::{Link, LinkEvent, LinkWatch, Net};
use crate::output::Output;
use crate::report::{CountersReport, InstallReport};
use crate::state;
use leaky_core::abi::Key;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

/// What `leaky run` is asked to do.
#[derive(Debug)]
pub struct Request {
    /// The interface's name.
    pub interface: String,
    /// The limit.
    pub asked: Asked,
    /// Which hold.
    pub hold: HoldMode,
    /// Whether to keep the local stack's GSO packets small.
    pub smooth: Smooth,
    /// Whether a root qdisc that somebody chose may be replaced.
    pub replace_root: bool,
    /// Where reports go.
    pub output: Output,
}

/// Whether to lower the interface's GSO limit, so that what leaves at once is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Smooth {
    /// If a full GSO packet takes more than 1 ms at the rate.
    Auto,
    /// Never.
    Off,
}

/// Why `leaky run` or `leaky clear` ended without doing what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for does not fit together.
    #[error(transparent)]
    Limit(#[from] limit::Error),
    /// The kernel program.
    #[error(transparent)]
    Program(#[from] bpf::Error),
    /// The hold.
    #[error(transparent)]
    Hold(#[from] hold::Error),
    /// The interface.
    #[error(transparent)]
    Net(#[from] crate::net::Error),
    /// Changing the interface.
    #[error(transparent)]
    Apply(#[from] crate::net::ApplyError),
    /// The interface went away under way.
    #[error("interface {0} is gone, and its limit with it; start leaky again when it is back")]
    InterfaceGone(String),
    /// The kernel holds another policy than was set.
    #[error("not enforced on {0}: the kernel program runs another policy than was set")]
    OtherPolicy(String),
    /// Somebody took the program off the interface.
    #[error("not enforced on {0}: leaky's program was detached; start leaky again")]
    Detached(String),
    /// It ended under way.
    #[error(transparent)]
    Ended(Box<Error>),
    /// It ended, and then something could not be put back.
    #[error("{first}; and then: {then}; `leaky clear` tries again")]
    NotPutBack {
        /// Why it ended.
        first: Box<Error>,
        /// What could not be put back.
        then: Box<Error>,
    },
    /// The process cannot do its part.
    #[error("cannot {0}: {1}")]
    Process(&'static str, std::io::Error),
}

/// The longest that removal waits for what is still in the bucket.
const DRAIN: Duration = Duration::from_secs(2);
/// How often removal looks whether the bucket is empty.
const DRAIN_STEP: Duration = Duration::from_millis(5);
/// How often idle keys are swept out.
const SWEEP: Duration = Duration::from_secs(10);
/// How long traffic must have flowed before "limit not reached" is said.
const NOT_REACHED: Duration = Duration::from_secs(60);

/// Runs until SIGINT or SIGTERM, or until the limit cannot be enforced any more.
///
/// # Errors
/// Why nothing is limited (any more). The interface is then as it was before, unless the error says
/// what could not be put back.
pub async fn run(request: &Request) -> Result<(), Error> {
    let mut stop = Stop::new()?;
    let net = Kernel::open()?;
    let mut link = net.link_by_name(&request.interface).await?;
    let mut watch = net.watch(link.index).await?;
    // Before anything else: can this host and this binary load the program at all?
    let program = load(request.hold, request.asked.key)?;
    if hold::clear(&net, &link, &state::record_path(link.index)?).await? != Cleared::Nothing {
        // A leaky that died had changed it.
        link = net.link_by_index(link.index).await?;
    }
    let mut limiter = Limiter::install(&net, request, &link, program).await?;
    let ended = match request.output.installed(&limiter.report()) {
        Ok(()) => {
            limiter
                .watch_over(&net, request, &mut watch, &mut stop)
                .await
        }
        Err(error) => Err(Error::Process("write to standard output", error)),
    };
    let removed = limiter.remove(&net, request, &mut stop).await;
    both(
        ended.map_err(|error| Error::Ended(Box::new(error))),
        removed,
    )
}

/// The error that ended it, with what could not be put back afterwards.
fn both(ended: Result<(), Error>, removed: Result<(), Error>) -> Result<(), Error> {
    match (ended, removed) {
        (Err(first), Err(then)) => Err(Error::NotPutBack {
            first: Box::new(first),
            then: Box::new(then),
        }),
        (ended, removed) => ended.and(removed),
    }
}

/// A limit in force on one interface.
struct Limiter {
    link: Link,
    /// The interface as it was before.
    before: Link,
    limit: Limit,
    program: Program,
    attachment: Option<Attachment>,
    clsact: Option<Clsact>,
    installed: Installed,
    reason: String,
    started: Instant,
}

impl Limiter {
    async fn install(
        net: &Kernel,
        request: &Request,
        link: &Link,
        (program, mode, why_not_fq): Loaded,
    ) -> Result<Limiter, Error> {
        let (limit, ask) = plan(request, link)?;
        let setup = Setup {
            mode,
            replace_root: request.replace_root,
            record: state::record_path(link.index)?,
        };
        let installed = hold::install(net, ask, setup).await?;
        let reason = why_not_fq.unwrap_or_else(|| installed.reason().to_owned());
        let mut limiter = Limiter {
            before: link.clone(),
            link: link.clone(),
            limit,
            program,
            attachment: None,
            clsact: None,
            installed,
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
            self.program = Program::load(kind, self.limit.key)?;
        }
        match (kind, self.limit.key) {
            (Kind::DepartureTime, _) => self.program.set_queues(0, 0, &[])?,
            (Kind::Queue, Key::Class) => self.program.set_queues(hold::queue(0), 0, &[])?,
            (Kind::Queue, Key::Flow) => {
                let free: Vec<u32> = (0..hold::FLOW_SLOTS).map(hold::queue).collect();
                let overflow = hold::queue(hold::OVERFLOW_SLOT);
                self.program.set_queues(overflow, overflow, &free)?;
            }
        }
        self.set_policy()?;
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

    fn set_policy(&mut self) -> Result<(), Error> {
        self.program.set_policy(&self.limit.policy)?;
        if self.program.policy()? == self.limit.policy {
            Ok(())
        } else {
            Err(Error::OtherPolicy(self.link.name.clone()))
        }
    }

    fn report(&self) -> InstallReport {
        let hook = self.attachment.as_ref().map_or(Hook::Tcx, Attachment::hook);
        InstallReport::new(
            &self.before,
            &self.limit,
            &self.installed,
            &self.reason,
            hook,
        )
    }

    async fn counters(&self, net: &Kernel) -> Result<CountersReport, Error> {
        // The program first: what it accepts meanwhile is then not missing in the hold.
        let counters = self.program.counters()?;
        let hold = self.installed.stats(net).await?;
        Ok(CountersReport::new(&counters, &hold))
    }

    fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Counts, follows the interface, and makes sure that the limit is still in force.
    async fn watch_over<W: LinkWatch>(
        &mut self,
        net: &Kernel,
        request: &Request,
        watch: &mut W,
        stop: &mut Stop,
    ) -> Result<(), Error> {
        let mut second = interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        second.tick().await;
        let mut before = self.counters(net).await?;
        let mut counted_at = self.elapsed_ns();
        let mut swept = Instant::now();
        let mut not_reached = Some(());
        let mut in_front = None;
        let mut odd_readings = 0;
        loop {
            tokio::select! {
                () = stop.asked() => return Ok(()),
                event = watch.next() => match event? {
                    LinkEvent::Removed => return Err(Error::InterfaceGone(self.link.name.clone())),
                    LinkEvent::Changed(link) => self.follow(net, request, link).await?,
                },
                _ = second.tick() => {
                    // While interfaces come and go, the kernel can leave one out of a listing: a
                    // difference counts when it is seen twice in a row.
                    let enforced = self.still_enforced(net).await;
                    let read = match self.counters(net).await {
                        Ok(counters) => enforced.map(|other| (other, counters)),
                        Err(error) => enforced.and(Err(error)),
                    };
                    let (other, counters) = match read {
                        Ok(read) => read,
                        Err(error @ Error::InterfaceGone(_)) => return Err(error),
                        Err(error) if odd_readings > 0 => return Err(error),
                        Err(_) => {
                            odd_readings += 1;
                            continue;
                        }
                    };
                    odd_readings = 0;
                    if swept.elapsed() >= SWEEP {
                        self.program.sweep()?;
                        swept = Instant::now();
                    }
                    let now = self.elapsed_ns();
                    request.output.counters(&counters, &before, now - counted_at)
                        .map_err(unwritten)?;
                    if self.started.elapsed() >= NOT_REACHED && not_reached.take().is_some()
                        && counters.limit_not_reached()
                    {
                        let rate = counters.offered_rate(now);
                        request.output.notice(&format!("limit not reached: {rate} offered"))
                            .map_err(unwritten)?;
                    }
                    if let Some(id) = other && in_front.replace(id) != Some(id) {
                        let text = format!(
                            "program {id} (bpftool prog show id {id}) now stands in front of leaky's on \
                             {}: what it does not hand on is NOT limited; start leaky again to be first",
                            self.link.name
                        );
                        request.output.notice(&text).map_err(unwritten)?;
                    }
                    (before, counted_at) = (counters, now);
                }
            }
        }
    }

    /// Looks whether hold and program are still there. Returns the id of a program that stands in
    /// front of leaky's, if one does.
    async fn still_enforced(&mut self, net: &Kernel) -> Result<Option<u32>, Error> {
        match self.installed.verify(net).await {
            Err(hold::Error::Net(error)) if error.is_interface_gone() => {
                return Err(Error::InterfaceGone(self.link.name.clone()));
            }
            other => other?,
        }
        let place = match &self.clsact {
            None => self.program.place_in_tcx(&self.link)?,
            Some(clsact) if clsact.has_filter(net, self.link.index).await? => None,
            Some(_) => Some(Place::Nowhere),
        };
        match place {
            None | Some(Place::First) => Ok(None),
            Some(Place::Behind(other)) => Ok(Some(other)),
            Some(Place::Nowhere) => Err(Error::Detached(self.link.name.clone())),
        }
    }

    /// Fits limits and hold to what the interface is now: another MTU makes other largest packets.
    async fn follow(&mut self, net: &Kernel, request: &Request, link: Link) -> Result<(), Error> {
        let fits = |link: &Link| (link.mtu, link.gso_max_size, link.layer, link.tx_queues);
        let same = fits(&link) == fits(&self.link);
        self.link.name.clone_from(&link.name);
        if same {
            return Ok(());
        }
        let as_before = Link {
            gso_max_segs: self.before.gso_max_segs,
            ..link.clone()
        };
        let (limit, mut ask) = plan(request, &as_before)?;
        ask.link = link.clone();
        let notices = self.installed.adapt(net, ask).await?.to_vec();
        self.limit = limit;
        self.set_policy()?;
        self.link = link;
        let text = format!(
            "{} has changed (MTU {} B, GSO packets up to {} B): a bucket holds {}",
            self.link.name,
            self.link.mtu,
            self.link.gso_max_size,
            self.limit.capacity.echo()
        );
        for notice in std::iter::once(&text)
            .chain(&self.limit.notices)
            .chain(&notices)
        {
            request.output.notice(notice).map_err(unwritten)?;
        }
        Ok(())
    }

    /// Lets the bucket run empty, then removes everything and prints the summary.
    async fn remove(
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
            () = stop.asked() => {}
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

/// A program, the hold it is for, and why it is not fq where it could have been.
type Loaded = (Program, HoldMode, Option<String>);

/// Loads the program for the hold that is asked for. With `auto`, a kernel that cannot stamp
/// departure times gets the one for htb, and the reason.
fn load(mode: HoldMode, key: Key) -> Result<Loaded, Error> {
    let kind = match mode {
        HoldMode::Auto | HoldMode::Fq => Kind::DepartureTime,
        HoldMode::Htb => Kind::Queue,
    };
    match Program::load(kind, key) {
        Err(error @ bpf::Error::Refused { .. }) if mode == HoldMode::Auto => {
            let program = Program::load(Kind::Queue, key)?;
            let reason = format!("this kernel cannot stamp departure times ({error})");
            Ok((program, HoldMode::Htb, Some(reason)))
        }
        loaded => Ok((loaded?, mode, None)),
    }
}

fn unwritten(error: std::io::Error) -> Error {
    Error::Process("write to standard output", error)
}

/// The machine's memory, in bytes.
fn memory() -> Result<u64, Error> {
    let info = nix::sys::sysinfo::sysinfo()
        .map_err(|error| Error::Process("read the size of the memory", error.into()))?;
    Ok(info.ram_total())
}

/// The limit on this interface, and what it asks of a hold.
fn plan(request: &Request, link: &Link) -> Result<(Limit, Ask), Error> {
    let gso_max_segs = match request.smooth {
        Smooth::Auto => hold::smooth(link, request.asked.rate),
        Smooth::Off => None,
    };
    let smoothed = Link {
        gso_max_segs: gso_max_segs.unwrap_or(link.gso_max_segs),
        ..link.clone()
    };
    let limit = limit::resolve(&request.asked, &smoothed, memory()?)?;
    let ask = Ask {
        link: link.clone(),
        rate: limit.rate,
        capacity: limit.capacity,
        bound: limit.bound,
        // Connections that are open keep their large packets.
        largest_packet: link.largest_gso_packet(),
        burst: limit.burst_bytes(),
        per_flow: limit.key == Key::Flow,
        gso_max_segs,
    };
    Ok((limit, ask))
}

/// What asks leaky to stop: SIGINT, SIGTERM, and SIGHUP unless it was started to ignore it (nohup).
struct Stop {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl Stop {
    fn new() -> Result<Stop, Error> {
        let listen = |kind| signal(kind).map_err(|error| Error::Process("wait for signals", error));
        let hangup = match is_hangup_ignored() {
            true => None,
            false => Some(listen(SignalKind::hangup())?),
        };
        Ok(Stop {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup,
        })
    }

    /// Waits for the next one.
    async fn asked(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Whether this process was started with SIGHUP ignored: bit 0 of the mask in proc_pid_status(5).
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}
