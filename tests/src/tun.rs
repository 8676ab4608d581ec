//! Two tun devices joined by a thread that carries packets between them, as a tunnel in user space does.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::netns::Netns;

/// From linux/if_tun.h, where the libc crate has it for few targets.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;

/// The thread between two tun devices. Both devices go when it is dropped.
#[derive(Debug)]
pub struct Pump {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pump {
    /// Makes a tun device of this name in each namespace and joins them.
    ///
    /// # Errors
    /// Without root, or on a kernel without tun.
    pub fn join(near: (&Netns, &str), far: (&Netns, &str)) -> Result<Self> {
        let open = |(namespace, name): (&Netns, &str)| namespace.run(|| open(name))?;
        let (near, far) = (open(near)?, open(far)?);
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let stop = stop.clone();
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    carry(&near, &far);
                }
            })
        };
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn open(name: &str) -> Result<File> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .context("this kernel has no tun devices")?;
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().take(room).zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_TUN | libc::IFF_NO_PI)?;
    // SAFETY: the kernel reads this ifreq, which lives during the call.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), TUNSETIFF, &raw mut request) };
    ensure!(
        done == 0,
        "making tun device {name}: {}",
        std::io::Error::last_os_error()
    );
    Ok(device)
}

/// Carries what is there, in both directions; waits 10 ms at most. A packet that the other device does not take is lost, as on a wire.
fn carry(near: &File, far: &File) {
    {
        let mut wait = [near, far].map(|file| PollFd::new(file.as_fd(), PollFlags::POLLIN));
        let _ = poll(&mut wait, PollTimeout::from(10u8));
    }
    let mut packet = [0; 1 << 16];
    for (mut from, mut to) in [(near, far), (far, near)] {
        while let Ok(length) = from.read(&mut packet) {
            let _ = to.write(&packet[..length]);
        }
    }
}
