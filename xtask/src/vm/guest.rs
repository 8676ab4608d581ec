//! What runs inside the guest: two shell scripts made from a job, and the report they give back.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::kernel::Installed;

/// What the scripts are made from.
pub(super) struct Plan<'a> {
    pub(super) kernel: &'a Installed,
    pub(super) command: &'a [String],
    pub(super) env: &'a [(String, String)],
    /// Folder in which the command starts.
    pub(super) folder: &'a Path,
    /// Folders of the machine that the guest may write.
    pub(super) rw_dirs: &'a [PathBuf],
    /// Files and links copied into the guest's memory before the command starts.
    pub(super) preload: &'a [PathBuf],
    /// The machine's own `env`, `modprobe` and `ip`, not the ones inside busybox.
    pub(super) env_program: &'a Path,
    pub(super) modprobe: &'a Path,
    pub(super) ip: &'a Path,
}

/// Modules that tests of a packet shaper use; one that a kernel lacks is told and does no harm.
const MODULES: [&str; 28] = [
    "sch_fq",
    "sch_htb",
    "sch_tbf",
    "sch_ingress",
    "sch_prio",
    "sch_netem",
    "sch_cake",
    "sch_fq_codel",
    "sch_multiq",
    "cls_bpf",
    "act_bpf",
    "cls_matchall",
    "veth",
    "dummy",
    "tun",
    "ifb",
    "8021q",
    "bridge",
    "macvlan",
    "wireguard",
    "bonding",
    "ppp_generic",
    "pppoe",
    "nf_tables",
    "nft_chain_nat",
    "nft_masq",
    "af_packet",
    "tcp_bbr",
];

/// 9p options of every share; the size is the largest message that its virtio transport takes.
const SHARE: &str = "trans=virtio,version=9p2000.L,msize=512000";

/// The first script: reaches the machine's files and makes them the root.
///
/// The root is an overlay: everything can be written and all of it is forgotten at the end, except
/// in the folders that were asked for.
pub(super) fn init(plan: &Plan) -> String {
    let modules = quote(&plan.kernel.modules.display().to_string());
    let release = quote(&plan.kernel.release);
    let mut script = format!(
        r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
fail() {{ echo "leaky vm: $*" >/dev/kmsg; poweroff -f; }}
mkdir /proc /sys /lower /upper /machine
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
for module in /modules/*.ko; do
  [ ! -e "$module" ] || insmod "$module" || fail "insmod $module"
done
# The clock runs ahead while the guest waits for a file of the machine: that is not a hang.
echo 0 >/proc/sys/kernel/hung_task_timeout_secs
mount -t 9p -o ro,cache=loose,{SHARE} root /lower || fail "cannot mount the root"
mount -t tmpfs tmpfs /upper
mkdir /upper/data /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work root /machine ||
  fail "cannot mount the overlay"
"#
    );
    for (index, folder) in plan.rw_dirs.iter().enumerate() {
        let folder = quote(&folder.display().to_string());
        let _ = writeln!(
            script,
            "mount -t 9p -o cache=mmap,{SHARE} rw{index} /machine{folder} || fail \"cannot mount\" {folder}"
        );
    }
    let _ = write!(
        script,
        r#"mkdir -p /machine/lib/modules/{release}
mount -o bind /machine{modules} /machine/lib/modules/{release} || fail "cannot mount the modules"
mount -t tmpfs -o mode=755 tmpfs /machine/run
mkdir -p /machine/run/lock /machine/run/leaky-vm
cp /job /bin/busybox /machine/run/leaky-vm/
tries=0
until [ -c /dev/vport0p1 ] && [ -c /dev/vport0p2 ]; do
  tries=$((tries + 1))
  [ $tries -lt 1000 ] || fail "no way to answer"
  sleep 0.01
done
mount -o move /dev /machine/dev
mount -o move /proc /machine/proc
mount -o move /sys /machine/sys
exec switch_root /machine /run/leaky-vm/busybox sh /run/leaky-vm/job
"#
    );
    script
}

/// The second script: mounts what tests expect, loads modules, runs the command, reports.
pub(super) fn job(plan: &Plan) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    // The system's folders first: looking for a program in one without it asks this machine.
    let path = quote(&format!(
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{path}"
    ));
    let words = |words: &mut dyn Iterator<Item = String>| {
        words.map(|word| quote(&word)).collect::<Vec<_>>().join(" ")
    };
    let path_of = |path: &Path| quote(&path.display().to_string());
    let (env_program, modprobe, ip) = (
        path_of(plan.env_program),
        path_of(plan.modprobe),
        path_of(plan.ip),
    );
    let modules = words(&mut MODULES.iter().map(|module| (*module).to_owned()));
    let preload = words(&mut plan.preload.iter().map(|file| file.display().to_string()));
    let env = words(
        &mut plan
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    let command = words(&mut plan.command.iter().cloned());
    let folder = path_of(plan.folder);
    format!(
        r#"# Run by busybox, so that no program of the machine is in use while it is copied.
export PATH={path} HOME=/root TERM=dumb LC_ALL=C
exec 9>/dev/vport0p2
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t bpf bpf /sys/fs/bpf
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
mount -t cgroup2 cgroup2 /sys/fs/cgroup
# Changing a file, or a link, copies it into the overlay, that is into memory.
for file in {preload}; do
  if [ -L "$file" ]; then touch -h "$file"; else : >>"$file"; fi
done
{modprobe} -a {modules} 2>&1 | while read -r line; do echo "module $line"; done >&9
{ip} link set lo up
mkfifo /run/leaky-vm/output
cat </run/leaky-vm/output >/dev/vport0p1 9>&- &
cat=$!
echo ready >&9
(
  cd {folder} || exit 126
  exec {env_program} {env} {command}
) </dev/null >/run/leaky-vm/output 2>&1 9>&-
echo "exit $?" >&9
# What the command left running must not keep the output open.
(sleep 2; kill $cat) 9>&- &
wait $cat
sync
exec /run/leaky-vm/busybox poweroff -f
"#
    )
}

/// A word that the shell takes as it is.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What the second script said about the run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// The command was about to start.
    pub(super) ready: bool,
    /// What modprobe said about modules that it did not load.
    pub(super) modules: Vec<String>,
    /// Exit status of the command, 128 + n for a signal n; `None` if the guest never said.
    pub(super) exit: Option<u8>,
}

impl Report {
    /// Reads what has arrived so far; a line without its end is not there yet.
    pub(super) fn parse(text: &str) -> Self {
        let mut report = Self::default();
        for line in text.split_inclusive('\n') {
            let Some(line) = line.strip_suffix('\n') else {
                break;
            };
            match line.split_once(' ') {
                None if line == "ready" => report.ready = true,
                Some(("module", text)) => report.modules.push(text.to_owned()),
                Some(("exit", status)) => {
                    report.exit = status.parse().ok();
                }
                _ => {}
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_takes_whole_lines_only() {
        assert_eq!(Report::parse(""), Report::default());
        assert!(!Report::parse("ready").ready);
        assert_eq!(Report::parse("ready\nexit 1").exit, None);
        let report = Report::parse("module modprobe: FATAL: no sch_x\nready\nexit 12\n");
        assert!(report.ready);
        assert_eq!(report.exit, Some(12));
        assert_eq!(report.modules, ["modprobe: FATAL: no sch_x"]);
    }

    #[test]
    fn an_exit_status_that_is_none_is_not_guessed() {
        assert_eq!(Report::parse("exit \n").exit, None);
        assert_eq!(Report::parse("exit -1\n").exit, None);
        assert_eq!(Report::parse("exit 256\n").exit, None);
        assert_eq!(Report::parse("exit 0 0\n").exit, None);
    }

    #[test]
    fn quoted_words_survive_a_shell() {
        for word in ["", "a b", "it's", "$HOME `x` \\", "'"] {
            let output = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quote(word))])
                .output()
                .expect("sh");
            assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
    }
}
