//! Classes and keys by the cgroup of the sending socket. The socket of a test run is in the cgroup of
//! the process that asks for the run.

use crate::compiled::{Classes, NO_CLASS};
use crate::rig::*;
use leaky_user::bpf::Kind;
use std::fs;
use std::path::{Path, PathBuf};

/// Where cgroup2 is mounted.
fn root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (place, kind) = (words.nth(1)?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    })
}

/// Why there can be no such test here.
pub(crate) fn unavailable() -> Option<&'static str> {
    let root = root();
    let writable = root.is_some_and(|root| {
        let probe = root.join(name("probe"));
        fs::create_dir(&probe).is_ok() && fs::remove_dir(&probe).is_ok()
    });
    (!writable).then_some("no cgroup2 file system in which this process may make cgroups")
}

fn name(what: &str) -> String {
    format!("leaky-bpf-{}-{what}", std::process::id())
}

/// cgroups with this process moving between them; puts it back and removes them when dropped.
struct Cgroups {
    root: PathBuf,
    home: PathBuf,
    made: Vec<PathBuf>,
}

impl Cgroups {
    fn new(paths: &[&str]) -> Result<Cgroups, Failed> {
        let root = root().ok_or("no cgroup2")?;
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
        let mut cgroups = Cgroups {
            home: root.join(own.unwrap_or_default()),
            root,
            made: Vec::new(),
        };
        for path in paths {
            let made = cgroups.root.join(name(path));
            fs::create_dir(&made)?;
            cgroups.made.push(made);
        }
        Ok(cgroups)
    }

    fn enter(&self, place: &Path) -> Outcome {
        let id = std::process::id().to_string();
        Ok(fs::write(place.join("cgroup.procs"), id)?)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        // The test's own outcome counts; what could not be undone is visible in the file system.
        let _ = self.enter(&self.home);
        for made in self.made.iter().rev() {
            let _ = fs::remove_dir(made);
        }
    }
}

pub(crate) fn l74_a_cgroup_and_those_below_it_are_in_its_class() -> Outcome {
    let cgroups = Cgroups::new(&["a", "a/below", "b"])?;
    let [a, below, b] = cgroups.made.as_slice() else {
        return Err(Failed::from("three cgroups"));
    };
    let class = |class: &str, path: &str| {
        format!(
            "[[interface.class]]\nname = \"{class}\"\nmatch = {{ cgroup = [\"/{}\"] }}\n\
             action = \"pass\"\n",
            name(path)
        )
    };
    let text = class("inner", "a/below") + &class("outer", "a");
    let mut classes = Classes::new(Kind::DepartureTime, &text)?;
    for (place, wanted) in [
        (a, "outer"),
        (below, "inner"),
        (b, NO_CLASS),
        (&cgroups.home.clone(), NO_CLASS),
    ] {
        cgroups.enter(place)?;
        let class = classes.class_of(&udp(1, 100), &Context::new())?;
        equal(&place.display().to_string(), class.as_str(), wanted)?;
    }
    let mut keys = Classes::new(
        Kind::DepartureTime,
        "[[interface.class]]\nname = \"all\"\nper = \"cgroup\"\nrate = \"1kbit\"\n",
    )?;
    for (place, port) in [(a, 1), (below, 1), (a, 2), (b, 1)] {
        cgroups.enter(place)?;
        keys.send(&udp(port, 100), &Context::new())?;
    }
    equal("keys", keys.keys()?.len(), 3)
}
