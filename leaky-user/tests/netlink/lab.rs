//! A network namespace with a veth pair, for one test.

use leaky_user::hold::{self, Ask, Content, Group, HoldMode, Keys, Setup};
use leaky_user::net::kernel::Kernel;
use leaky_user::net::{Class, Link, Net, Qdisc, Stats};
use leaky_user::units::{Duration, Rate};
use nix::sched::{CloneFlags, unshare};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::runtime::Runtime;

/// What a test says.
pub(crate) type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Two joined interfaces, `v0` and `v1`, in a namespace that is gone when the test is.
pub(crate) struct Lab {
    runtime: Runtime,
    net: Kernel,
    folder: PathBuf,
}

impl Lab {
    /// Runs a test in its own thread and namespace.
    pub(crate) fn run(test: impl FnOnce(&Lab) -> Outcome + Send) -> Result<(), String> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let lab = Lab::new().map_err(|e| e.to_string())?;
                test(&lab).map_err(|e| e.to_string())
            });
            thread.join().unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                Err(text.unwrap_or_else(|| "the test panicked".to_owned()))
            })
        })
    }

    fn new() -> Result<Lab, Box<dyn std::error::Error + Send + Sync>> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        unshare(CloneFlags::CLONE_NEWNET)?;
        // No router solicitations among the counters. /proc/sys/net is that of the thread.
        let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let net = {
            let _inside = runtime.enter();
            Kernel::open()?
        };
        let folder =
            std::env::temp_dir().join(format!("leaky-netlink-{}-{number}", std::process::id()));
        let lab = Lab {
            runtime,
            net,
            folder,
        };
        lab.ip("link add v0 type veth peer name v1")?;
        lab.ip("link set v0 up")?;
        lab.ip("link set v1 up")?;
        Ok(lab)
    }

    pub(crate) fn net(&self) -> &Kernel {
        &self.net
    }

    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub(crate) fn link_named(&self, name: &str) -> Link {
        self.wait(self.net.link_by_name(name))
            .expect("the lab's interface")
    }

    pub(crate) fn link(&self) -> Link {
        self.link_named("v0")
    }

    pub(crate) fn qdiscs(&self, link: &Link) -> Vec<Qdisc> {
        self.wait(self.net.qdiscs(link.index)).expect("qdiscs")
    }

    pub(crate) fn classes(&self, link: &Link) -> Vec<Class> {
        self.wait(self.net.classes(link.index)).expect("classes")
    }

    /// Everything leaky may change, without counters, as leaky and as `tc` see it.
    pub(crate) fn state(&self, link: &Link) -> (Vec<Qdisc>, Vec<Class>, u32, String) {
        let mut qdiscs = self.qdiscs(link);
        let mut classes = self.classes(link);
        for qdisc in &mut qdiscs {
            qdisc.stats = Stats::default();
            qdisc.fq = None;
            // The kernel gives out the handles of leaves.
            if qdisc.parent != leaky_user::net::ROOT {
                qdisc.handle = 0;
            }
        }
        for class in &mut classes {
            class.stats = Stats::default();
        }
        qdiscs.sort_by_key(|q| q.parent);
        classes.sort_by_key(|c| c.classid);
        let tc = self
            .tc(&format!("-d qdisc show dev {}", link.name))
            .expect("tc");
        let roots: String = tc.lines().filter(|line| line.contains(" root")).collect();
        let segments = self
            .wait(self.net.link_by_index(link.index))
            .expect("link")
            .gso_max_segs;
        (qdiscs, classes, segments, roots)
    }

    pub(crate) fn ip(&self, arguments: &str) -> Result<String, String> {
        command("ip", arguments)
    }

    pub(crate) fn tc(&self, arguments: &str) -> Result<String, String> {
        command("tc", arguments)
    }

    /// 10 Mbit/s with 250 kB, one bucket.
    pub(crate) fn ask(&self, link: Link) -> Ask {
        Ask {
            groups: vec![group()],
            line: None,
            overhead: 0,
            mpu: 0,
            largest_packet: link.largest_gso_packet(),
            gso_max_segs: None,
            link,
        }
    }

    pub(crate) fn setup(&self, mode: HoldMode) -> Setup {
        Setup {
            mode,
            replace_root: false,
            record: self.folder.join("record.json"),
        }
    }

    pub(crate) fn install(&self, ask: Ask, mode: HoldMode) -> Result<hold::Installed, hold::Error> {
        self.wait(hold::install(&self.net, ask, self.setup(mode)))
    }

    /// Whether nothing of leaky's is left on disk.
    pub(crate) fn no_files(&self) -> bool {
        std::fs::read_dir(&self.folder).map_or(true, |mut entries| entries.next().is_none())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// 10 Mbit/s with 250 kB.
pub(crate) fn group() -> Group {
    Group {
        rate: Rate::BytesPerSecond(1_250_000),
        capacity: Content::Bytes(250_000),
        bound: Duration::from_nanos(300_000_000),
        burst: 0,
        keys: Keys::One,
    }
}

/// The same for each of many keys.
pub(crate) fn many() -> Group {
    Group {
        keys: Keys::Many,
        ..group()
    }
}

fn command(program: &str, arguments: &str) -> Result<String, String> {
    // The child is in the namespace of the thread that starts it.
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output()
        .map_err(|e| format!("cannot run {program}: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{program} {arguments}: {}", said.trim()))
    }
}

/// Fails a test with a sentence unless the condition holds.
macro_rules! check {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+).into());
        }
    };
}
pub(crate) use check;
