//! Senders of marked UDP packets.

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::frame::{UDP4_HEADERS, UDP6_HEADERS};
use crate::netns::Netns;
use crate::payload::{self, Mark, SMALLEST};
use crate::sock;

/// Packets handed to the kernel in one call.
const BATCH: usize = 64;
/// Packets that a hold keeps stay charged to the socket; with an ordinary buffer the sender would be slowed down by
/// that and not by what is under test.
const SEND_BUFFER: libc::c_int = 256 << 20;

/// How big the packets are, as frames: Ethernet header to the end of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// All the same, bytes.
    Frame(u32),
    /// Anything from the first to the second number of bytes, the same on every run.
    Between(u32, u32),
}

/// When the packets are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As fast as the kernel takes them.
    BackToBack,
    /// This many back to back at the start of each period.
    Every {
        /// Packets in each period.
        packets: u64,
        /// From the start of one period to the start of the next.
        period: Duration,
    },
}

impl Pace {
    /// Frames of this size at a constant rate; in groups of one millisecond's worth where a packet takes less.
    #[must_use]
    pub fn even(frame_bytes: u32, bytes_per_second: u64) -> Self {
        let one_ns = u64::from(frame_bytes) * 1_000_000_000 / bytes_per_second.max(1);
        let packets = 1_000_000u64.div_ceil(one_ns.max(1)).max(1);
        let period = u64::from(frame_bytes) * packets * 1_000_000_000 / bytes_per_second.max(1);
        Self::Every {
            packets,
            period: Duration::from_nanos(period),
        }
    }
}

/// One sender. Ends after `count` packets or at the deadline, whichever is first.
#[derive(Debug, Clone, Copy)]
pub struct Udp {
    /// Number that marks its packets.
    pub stream: u32,
    /// Where to; a multicast group is fine.
    pub to: SocketAddr,
    /// Frame sizes.
    pub sizes: Sizes,
    /// Packets to send.
    pub count: u64,
    /// When.
    pub pace: Pace,
    /// Longest time to send.
    pub deadline: Duration,
    /// Segments of each send call (UDP segmentation offload); 1 is an ordinary packet. Only with equal sizes.
    pub segments: u32,
    /// `SO_PRIORITY`, if it is to be set.
    pub priority: Option<i32>,
    /// Address and port to send from; the address need not be the interface's. Port 0: any.
    pub from: Option<SocketAddr>,
    /// DSCP and ECN, if they are to be set.
    pub tos: Option<u8>,
    /// `SO_MARK`, if it is to be set.
    pub mark: Option<u32>,
}

/// What a sender did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// Packets that the kernel took; segments count.
    pub packets: u64,
    /// Their frame bytes.
    pub bytes: u64,
    /// From the first to after the last send call, ns.
    pub took_ns: u64,
}

/// A sender on a thread of its own.
#[derive(Debug)]
pub struct Sending {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Sent>>,
}

impl Sending {
    /// Waits for its end.
    ///
    /// # Errors
    /// As [`Udp::send`].
    pub fn join(self) -> Result<Sent> {
        self.thread
            .join()
            .map_err(|_| anyhow!("a sender panicked"))?
    }

    /// Makes it end now.
    ///
    /// # Errors
    /// As [`Udp::send`].
    pub fn stop(self) -> Result<Sent> {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }
}

impl Udp {
    /// `count` packets back to back, with 30 s to get rid of them.
    #[must_use]
    pub fn burst(stream: u32, to: SocketAddr, frame_bytes: u32, count: u64) -> Self {
        Self {
            stream,
            to,
            sizes: Sizes::Frame(frame_bytes),
            count,
            pace: Pace::BackToBack,
            deadline: Duration::from_secs(30),
            segments: 1,
            priority: None,
            from: None,
            tos: None,
            mark: None,
        }
    }

    /// Equal packets at a constant rate (frame bytes per second) for a time.
    #[must_use]
    pub fn stream(
        stream: u32,
        to: SocketAddr,
        frame_bytes: u32,
        bytes_per_second: u64,
        time: Duration,
    ) -> Self {
        Self {
            count: u64::MAX,
            pace: Pace::even(frame_bytes, bytes_per_second),
            deadline: time,
            ..Self::burst(stream, to, frame_bytes, 0)
        }
    }

    /// Sends from a namespace and waits until all is sent.
    ///
    /// # Errors
    /// When a packet cannot be sent for another reason than that it was dropped.
    pub fn send(&self, from: &Netns) -> Result<Sent> {
        from.run(|| self.run(&AtomicBool::new(false)))?
    }

    /// Sends from a namespace on a thread of its own.
    #[must_use]
    pub fn start(self, from: &Netns) -> Sending {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let stop = stop.clone();
            from.spawn(move || self.run(&stop))
        };
        Sending { stop, thread }
    }

    fn socket(&self) -> Result<UdpSocket> {
        let any: SocketAddr = if self.to.is_ipv6() {
            ([0u16; 8], 0).into()
        } else {
            ([0u8; 4], 0).into()
        };
        let socket = match self.from {
            Some(from) => sock::bound_to_any(from, libc::SOCK_DGRAM).map(UdpSocket::from),
            None => UdpSocket::bind(any),
        }
        .context("opening a UDP socket")?;
        if let Some(tos) = self.tos {
            let (level, option) = if self.to.is_ipv6() {
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
            } else {
                (libc::IPPROTO_IP, libc::IP_TOS)
            };
            sock::set(&socket, level, option, tos.into()).context("setting DSCP and ECN")?;
        }
        if let Some(mark) = self.mark {
            sock::set_bytes(
                &socket,
                libc::SOL_SOCKET,
                libc::SO_MARK,
                &mark.to_ne_bytes(),
            )
            .context("setting SO_MARK")?;
        }
        if let IpAddr::V4(group) = self.to.ip()
            && group.is_multicast()
        {
            socket.set_multicast_loop_v4(false)?;
            socket.set_multicast_ttl_v4(4)?;
        }
        sock::set_buffer(&socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER)
            .context("sizing the send buffer")?;
        if let Some(priority) = self.priority {
            sock::set(&socket, libc::SOL_SOCKET, libc::SO_PRIORITY, priority)
                .context("setting SO_PRIORITY")?;
        }
        if self.segments > 1 {
            let size = i32::try_from(self.payload(0)?)?;
            sock::set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, size)
                .context("asking for UDP segmentation")?;
        }
        socket
            .connect(self.to)
            .with_context(|| format!("no route to {}", self.to))?;
        Ok(socket)
    }

    /// Payload bytes of one packet.
    fn payload(&self, sequence: u64) -> Result<usize> {
        let headers = if self.to.is_ipv6() {
            UDP6_HEADERS
        } else {
            UDP4_HEADERS
        };
        let frame = match self.sizes {
            Sizes::Frame(bytes) => bytes,
            Sizes::Between(least, most) => {
                let random = (sequence + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
                least + u32::try_from(random % u64::from(most - least + 1))?
            }
        };
        let payload = usize::try_from(frame.saturating_sub(headers))?;
        ensure!(
            payload >= SMALLEST,
            "a frame of {frame} B has no room for the mark; the smallest is {} B",
            usize::try_from(headers)? + SMALLEST
        );
        Ok(payload)
    }

    fn run(&self, stop: &AtomicBool) -> Result<Sent> {
        // The default slack of 50 us would be in every sleep.
        let _ = nix::sys::prctl::set_timerslack(1);
        let socket = OwnedFd::from(self.socket()?);
        let headers = u64::from(if self.to.is_ipv6() {
            UDP6_HEADERS
        } else {
            UDP4_HEADERS
        });
        let mut batch = Batch::default();
        let mut sent = Sent::default();
        let mut next = 0;
        let begin = Instant::now();
        let until = begin + self.deadline;
        for period in 0u32.. {
            let group = match self.pace {
                Pace::BackToBack => self.count,
                Pace::Every {
                    packets,
                    period: length,
                } => {
                    let due = begin + length.saturating_mul(period);
                    if due >= until {
                        break;
                    }
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    packets
                }
            };
            let end = next + group.min(self.count - next);
            while next < end && Instant::now() < until && !stop.load(Ordering::Relaxed) {
                let before = next;
                batch.clear();
                while next < end && batch.len() < BATCH {
                    let mut call = Vec::new();
                    for _ in 0..u64::from(self.segments).min(end - next) {
                        let from = call.len();
                        call.resize(from + self.payload(next)?, 0);
                        let mark = Mark {
                            stream: self.stream,
                            sequence: next,
                            sent_ns: payload::now_ns(),
                        };
                        payload::write(&mut call[from..], mark);
                        sent.bytes += headers + (call.len() - from) as u64;
                        next += 1;
                    }
                    batch.push(call);
                }
                batch
                    .send(&socket)
                    .with_context(|| format!("sending to {}", self.to))?;
                sent.packets += next - before;
            }
            if next >= self.count || Instant::now() >= until || stop.load(Ordering::Relaxed) {
                break;
            }
        }
        sent.took_ns = crate::stats::ns(begin.elapsed());
        Ok(sent)
    }
}

/// Payloads for one sendmmsg.
#[derive(Default)]
struct Batch {
    payloads: Vec<Vec<u8>>,
}

impl Batch {
    fn clear(&mut self) {
        self.payloads.clear();
    }

    fn len(&self) -> usize {
        self.payloads.len()
    }

    fn push(&mut self, payload: Vec<u8>) {
        self.payloads.push(payload);
    }

    fn send(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let mut parts: Vec<libc::iovec> = self
            .payloads
            .iter_mut()
            .map(|payload| libc::iovec {
                iov_base: payload.as_mut_ptr().cast(),
                iov_len: payload.len(),
            })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .map(|part| {
                // SAFETY: all zeros is a valid mmsghdr.
                let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
                message.msg_hdr.msg_iov = ptr::from_mut(part);
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        let mut done = 0;
        while done < messages.len() {
            let left = &mut messages[done..];
            let length = libc::c_uint::try_from(left.len()).map_err(io::Error::other)?;
            // SAFETY: every message points to one part, which points to a payload of that length; all live during the call.
            let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), left.as_mut_ptr(), length, 0) };
            match usize::try_from(sent) {
                Ok(sent) => done += sent,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    match error.raw_os_error() {
                        Some(libc::EINTR) => {}
                        // Dropped on the way out, and the socket was told: counted as offered, like any other drop.
                        Some(libc::ENOBUFS) => done += 1,
                        _ => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }
}

/// Takes packets to a port and forgets them, so that nobody answers "port unreachable" into a measurement.
#[derive(Debug)]
pub struct Sink {
    _socket: UdpSocket,
}

impl Sink {
    /// Opens the port for IPv4 and IPv6.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn open(namespace: &Netns, port: u16) -> Result<Self> {
        let socket = namespace.run(|| {
            let socket = UdpSocket::bind(SocketAddr::from(([0u16; 8], port)))?;
            // What does not fit is dropped without a word, which is all that is wanted.
            sock::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, 1)?;
            io::Result::Ok(socket)
        })?;
        Ok(Self {
            _socket: socket.with_context(|| format!("opening UDP port {port}"))?,
        })
    }
}
