//! Records what arrives at an interface, timed by the receiving kernel.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::frame::{Beside, Packet, decode};
use crate::netns::Netns;
use crate::sock;

/// Enough of a packet for its headers and the mark behind them.
pub const HEADERS_ONLY: usize = 192;
/// A whole frame of an ordinary MTU, so that payloads are checked too.
pub const WHOLE: usize = 2048;

/// Messages taken from the kernel at once.
const BATCH: usize = 64;
/// The header in front of each frame that carries its GSO size (`struct virtio_net_hdr`).
const VNET_HEADER: usize = 10;
const CONTROL: usize = 128;
/// Memory the kernel may use for packets that were not yet read, bytes.
const BUFFER: libc::c_int = 128 << 20;

/// What a capture found.
#[derive(Debug, Clone)]
pub struct Captured {
    /// In order of arrival.
    pub packets: Vec<Packet>,
}

impl Captured {
    /// The packets of one of the lab's senders.
    #[must_use]
    pub fn stream(&self, stream: u32) -> Vec<Packet> {
        crate::frame::of_stream(&self.packets, stream)
    }

    /// Packets that satisfy a condition.
    #[must_use]
    pub fn only(&self, condition: impl Fn(&Packet) -> bool) -> Vec<Packet> {
        self.packets
            .iter()
            .filter(|packet| condition(packet))
            .copied()
            .collect()
    }
}

/// A capture that runs on a thread of its own.
#[derive(Debug)]
pub struct Capture {
    stop: Arc<AtomicBool>,
    arrived: Arc<AtomicU64>,
    thread: JoinHandle<Result<Captured>>,
}

impl Capture {
    /// Begins to record what `interface` receives; returns when the kernel records. Of each packet, `keep` bytes are kept.
    ///
    /// # Errors
    /// Without root, or when the interface does not exist.
    pub fn start(namespace: &Netns, interface: &str, keep: usize) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let arrived = Arc::new(AtomicU64::new(0));
        let (ready, is_ready) = mpsc::channel();
        let thread = {
            let (stop, arrived, interface) = (stop.clone(), arrived.clone(), interface.to_owned());
            namespace.spawn(move || {
                let socket =
                    open(&interface).with_context(|| format!("capturing on {interface}"))?;
                let bare = has_no_link_header(&socket, &interface)?;
                let _ = ready.send(());
                record(&socket, keep, bare, &stop, &arrived)
            })
        };
        if is_ready.recv_timeout(Duration::from_secs(10)).is_err() {
            return Err(thread
                .join()
                .map_err(|_| anyhow!("the capture thread panicked"))?
                .err()
                .unwrap_or_else(|| anyhow!("the capture did not begin within 10 s")));
        }
        Ok(Self {
            stop,
            arrived,
            thread,
        })
    }

    /// Packets recorded so far, of any kind.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Waits until `count` packets have arrived; false if they have not within `deadline`.
    #[must_use]
    pub fn wait_for(&self, count: u64, deadline: Duration) -> bool {
        let until = Instant::now() + deadline;
        while self.arrived() < count {
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Waits until nothing has arrived for `quiet`; false if that did not happen within `deadline`.
    #[must_use]
    pub fn wait_quiet(&self, quiet: Duration, deadline: Duration) -> bool {
        let until = Instant::now() + deadline;
        let (mut seen, mut since) = (self.arrived(), Instant::now());
        while since.elapsed() < quiet {
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(Duration::from_millis(5).min(quiet));
            if self.arrived() != seen {
                (seen, since) = (self.arrived(), Instant::now());
            }
        }
        true
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// When the kernel could not keep all packets for it: such a capture shows nothing.
    pub fn stop(self) -> Result<Captured> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("the capture thread panicked"))?
    }
}

fn open(interface: &str) -> Result<OwnedFd> {
    // SAFETY: creates a descriptor that nothing else owns.
    let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    ensure!(
        raw >= 0,
        "opening a packet socket: {}",
        io::Error::last_os_error()
    );
    // SAFETY: just created, owned by nobody.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    let packet = |option, value| {
        sock::set(&socket, libc::SOL_PACKET, option, value)
            .with_context(|| format!("packet socket option {option}"))
    };
    packet(libc::PACKET_VNET_HDR, 1)?;
    packet(libc::PACKET_AUXDATA, 1)?;
    packet(PACKET_IGNORE_OUTGOING, 1)?;
    sock::set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
        .context("asking for receive times")?;
    sock::set_buffer(&socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, BUFFER)
        .context("sizing the capture's buffer")?;

    let index = nix::net::if_::if_nametoindex(interface)?;
    // SAFETY: all zeros is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET)?;
    address.sll_protocol = u16::try_from(libc::ETH_P_ALL)?.to_be();
    address.sll_ifindex = i32::try_from(index)?;
    // SAFETY: the address lives during the call and its size is given.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>())?,
        )
    };
    ensure!(
        bound == 0,
        "binding to the interface: {}",
        io::Error::last_os_error()
    );
    Ok(socket)
}

/// Not in the libc crate; value from linux/if_packet.h.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// The hardware type says it: tun, WireGuard and PPP hand packets over that begin with IP.
fn has_no_link_header(socket: &OwnedFd, interface: &str) -> Result<bool> {
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request
        .ifr_name
        .iter_mut()
        .take(room)
        .zip(interface.bytes())
    {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    // SAFETY: the kernel reads the name and writes a hardware address into this ifreq, which lives during the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) };
    ensure!(
        done == 0,
        "asking for the hardware type of {interface}: {}",
        io::Error::last_os_error()
    );
    // SAFETY: SIOCGIFHWADDR fills this member of the union.
    let kind = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    Ok(!matches!(kind, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK))
}

fn record(
    socket: &OwnedFd,
    keep: usize,
    bare: bool,
    stop: &AtomicBool,
    arrived: &AtomicU64,
) -> Result<Captured> {
    let mut batch = Batch::new(keep, bare);
    let mut packets = Vec::new();
    loop {
        // Read before the last look, so that what is in the kernel when stop() is called is still recorded.
        let last = stop.load(Ordering::Relaxed);
        while batch.receive(socket, &mut packets)? {
            arrived.store(packets.len() as u64, Ordering::Relaxed);
        }
        if last {
            break;
        }
        let mut wait = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut wait, PollTimeout::from(10u8)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error).context("waiting for packets"),
        }
    }
    // struct tpacket_stats: packets, drops.
    let statistics: [u8; 8] = sock::get(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
    let drops = u32::from_ne_bytes([statistics[4], statistics[5], statistics[6], statistics[7]]);
    ensure!(
        drops == 0,
        "the capture itself lost {drops} packets; this measurement shows nothing"
    );
    // Packets that carry a departure time are timed a few microseconds later on their way in than others, so times alone could
    // exchange neighbours. The order is that of arrival, and time never runs backwards in it.
    let mut latest = 0;
    for packet in &mut packets {
        latest = packet.time_ns.max(latest);
        packet.time_ns = latest;
    }
    Ok(Captured { packets })
}

/// Buffers for one recvmmsg. The messages point into the other fields, which are never moved or resized.
struct Batch {
    keep: usize,
    bare: bool,
    frames: Vec<u8>,
    control: Vec<[u64; CONTROL / 8]>,
    parts: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

impl Batch {
    fn new(keep: usize, bare: bool) -> Self {
        let size = VNET_HEADER + keep;
        let mut batch = Self {
            keep,
            bare,
            frames: vec![0; BATCH * size],
            control: vec![[0; CONTROL / 8]; BATCH],
            parts: Vec::with_capacity(BATCH),
            // SAFETY: all zeros is a valid mmsghdr.
            messages: vec![unsafe { mem::zeroed() }; BATCH],
        };
        for frame in batch.frames.chunks_exact_mut(size) {
            batch.parts.push(libc::iovec {
                iov_base: frame.as_mut_ptr().cast(),
                iov_len: size,
            });
        }
        for ((message, part), control) in batch
            .messages
            .iter_mut()
            .zip(&mut batch.parts)
            .zip(&mut batch.control)
        {
            message.msg_hdr.msg_iov = ptr::from_mut(part);
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.as_mut_ptr().cast();
        }
        batch
    }

    /// Takes what is there; false if there was nothing.
    fn receive(&mut self, socket: &OwnedFd, packets: &mut Vec<Packet>) -> Result<bool> {
        for message in &mut self.messages {
            message.msg_hdr.msg_controllen = CONTROL;
        }
        // SAFETY: every message points to a part and a control buffer that live as long as self, with their true sizes.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                libc::c_uint::try_from(BATCH)?,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                ptr::null_mut(),
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(false),
                // The interface went down or away: what was recorded stays.
                Some(libc::ENETDOWN) => Ok(false),
                _ => Err(error).context("receiving packets"),
            };
        };
        let size = VNET_HEADER + self.keep;
        for (message, frame) in self
            .messages
            .iter()
            .zip(self.frames.chunks_exact(size))
            .take(count)
        {
            let length = message.msg_len.saturating_sub(u32::try_from(VNET_HEADER)?);
            let kept = usize::try_from(length)?.min(self.keep);
            let (vnet, frame) = frame.split_at(VNET_HEADER);
            let mut beside = Beside {
                length,
                bare: self.bare,
                ..Beside::default()
            };
            if vnet[1] != 0 {
                beside.gso_size = u16::from_ne_bytes([vnet[4], vnet[5]]);
            }
            read_control(&message.msg_hdr, &mut beside);
            packets.push(decode(&frame[..kept], beside));
        }
        Ok(count > 0)
    }
}

fn read_control(header: &libc::msghdr, beside: &mut Beside) {
    // SAFETY: the kernel filled the control buffer of this header and set its length; the CMSG functions stay inside it,
    // and each value is read unaligned, with the type the kernel documents for that level and type.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            match ((*message).cmsg_level, (*message).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time: libc::timespec = ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
                    beside.time_ns =
                        seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0);
                }
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                    let data: libc::tpacket_auxdata =
                        ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                    if data.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                        beside.tag = Some(data.tp_vlan_tci);
                    }
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
}
