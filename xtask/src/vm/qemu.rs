//! One run of QEMU: its command line, its output, its end.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::guest::Report;

/// A guest that is ready to be started.
pub(super) struct Machine<'a> {
    pub(super) image: &'a Path,
    pub(super) initramfs: &'a Path,
    /// Where the kernel's log goes.
    pub(super) log: &'a Path,
    /// Where the guest's report goes.
    pub(super) report: &'a Path,
    pub(super) rw_dirs: &'a [PathBuf],
    pub(super) cpus: u32,
    /// MiB.
    pub(super) memory: u32,
    pub(super) deterministic: bool,
    pub(super) timeout: Duration,
}

/// Keeps QEMU from outliving this function, however it is left.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots the machine, copies the command's output to standard output, and waits for the end.
///
/// # Errors
/// When QEMU cannot be started, fails, or is still running after the time-out (it is then killed).
pub(super) fn run(machine: &Machine, on_ready: impl FnOnce(&Report, Duration)) -> Result<Report> {
    fs::write(machine.report, "")?;
    let started = Instant::now();
    let mut on_ready = Some(on_ready);
    // setpriv becomes QEMU, in the same process: if this process dies in any way, QEMU does too.
    let mut child = Guard(
        Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
            .args(arguments(machine))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start QEMU")?,
    );
    let mut output = child.0.stdout.take().context("QEMU has no output")?;
    let copy = thread::spawn(move || {
        let mut block = [0; 8192];
        while let Ok(count @ 1..) = output.read(&mut block) {
            let mut stdout = std::io::stdout().lock();
            // A reader who went away does not change how the run ends.
            let _ = stdout.write_all(&block[..count]);
            let _ = stdout.flush();
        }
    });
    let status = loop {
        if on_ready.is_some() {
            let report = Report::parse(&fs::read_to_string(machine.report)?);
            if report.ready
                && let Some(on_ready) = on_ready.take()
            {
                on_ready(&report, started.elapsed());
            }
        }
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        if started.elapsed() > machine.timeout {
            bail!(
                "the guest was still running after {} s and was ended",
                machine.timeout.as_secs()
            );
        }
        thread::sleep(Duration::from_millis(10));
    };
    let _ = copy.join();
    if !status.success() {
        bail!("QEMU ended with {status}");
    }
    Ok(Report::parse(&fs::read_to_string(machine.report)?))
}

/// QEMU's command line.
fn arguments(machine: &Machine) -> Vec<String> {
    let mut arguments: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
    let file = |path: &Path| escape(&path.display().to_string());
    add(&["-nodefaults", "-no-user-config", "-no-reboot"]);
    add(&["-display", "none", "-monitor", "none"]);
    add(&["-machine", "q35,accel=tcg"]);
    // Five-level page tables only make an emulated processor slower.
    add(&["-cpu", "max,la57=off"]);
    add(&["-smp", &machine.cpus.to_string()]);
    add(&["-m", &machine.memory.to_string()]);
    if machine.deterministic {
        // Two nanoseconds an instruction, and idle time passes at once.
        add(&["-icount", "shift=1,sleep=off", "-rtc", "clock=vm"]);
    }
    add(&["-kernel", &machine.image.display().to_string()]);
    add(&["-initrd", &machine.initramfs.display().to_string()]);
    add(&[
        "-append",
        "console=ttyS0 panic=-1 nokaslr mitigations=off nowatchdog random.trust_cpu=on rdinit=/init",
    ]);
    add(&[
        "-chardev",
        &format!("file,id=log,path={}", file(machine.log)),
    ]);
    add(&["-serial", "chardev:log"]);
    add(&["-device", "virtio-serial-pci"]);
    // Not "stdio": that one hangs up when standard input ends.
    add(&["-chardev", "file,id=output,path=/dev/fd/1"]);
    add(&["-device", "virtserialport,chardev=output,nr=1"]);
    add(&[
        "-chardev",
        &format!("file,id=report,path={}", file(machine.report)),
    ]);
    add(&["-device", "virtserialport,chardev=report,nr=2"]);
    let mut share = |id: &str, folder: &Path, options: &str| {
        add(&[
            "-fsdev",
            &format!(
                "local,id={id},path={},security_model=none,multidevs=remap{options}",
                file(folder)
            ),
        ]);
        add(&[
            "-device",
            &format!("virtio-9p-pci,fsdev={id},mount_tag={id}"),
        ]);
    };
    share("root", Path::new("/"), ",readonly=on");
    for (index, folder) in machine.rw_dirs.iter().enumerate() {
        share(&format!("rw{index}"), folder, "");
    }
    arguments
}

/// QEMU's options are separated by commas; one in a value is doubled.
fn escape(value: &str) -> String {
    value.replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_follows_the_machine() {
        let folders = [PathBuf::from("/a,b")];
        let mut machine = Machine {
            image: Path::new("/k/vmlinuz"),
            initramfs: Path::new("/k/initramfs"),
            log: Path::new("/k/log"),
            report: Path::new("/k/report"),
            rw_dirs: &folders,
            cpus: 2,
            memory: 512,
            deterministic: true,
            timeout: Duration::from_secs(1),
        };
        let line = arguments(&machine).join(" ");
        assert!(line.contains("-smp 2 -m 512 -icount shift=1,sleep=off"));
        assert!(line.contains("local,id=rw0,path=/a,,b,"));
        assert!(
            line.contains("local,id=root,path=/,security_model=none,multidevs=remap,readonly=on")
        );
        machine.deterministic = false;
        assert!(!arguments(&machine).contains(&"-icount".to_owned()));
    }
}
