//! Frames sent as they are, for what no ordinary socket sends: tags, ARP, neighbour discovery.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::frame::UDP4_HEADERS;
use crate::lab::{MAC_A, MAC_B, V4_A, V4_B};
use crate::netns::Netns;
use crate::payload::{self, Mark};
use crate::sock;

/// A packet socket bound to one interface.
#[derive(Debug)]
pub struct RawSocket {
    socket: OwnedFd,
}

impl RawSocket {
    /// Opens it; it receives frames of one EtherType (0: none at all).
    ///
    /// # Errors
    /// Without root, or when the interface does not exist.
    pub fn open(namespace: &Netns, interface: &str, ethertype: u16) -> Result<Self> {
        namespace
            .run(|| open(interface, ethertype))?
            .with_context(|| format!("packet socket on {interface}"))
    }

    /// Sends one frame through the interface's egress path.
    ///
    /// # Errors
    /// When the kernel does not take it; a drop on the way out is not an error.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        // SAFETY: the frame lives during the call and its length is given.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
            )
        };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ENOBUFS) {
            return Ok(());
        }
        Err(error).context("sending a frame")
    }

    /// The next frame for which `wanted` holds; `None` if none came within `deadline`.
    ///
    /// # Errors
    /// When receiving fails.
    pub fn receive(
        &self,
        wanted: impl Fn(&[u8]) -> bool,
        deadline: Duration,
    ) -> Result<Option<Vec<u8>>> {
        let until = Instant::now() + deadline;
        let mut buffer = [0u8; 2048];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut wait = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(left + Duration::from_millis(1))?;
            if poll(&mut wait, timeout)? == 0 || left.is_zero() {
                return Ok(None);
            }
            // SAFETY: the kernel writes at most the given length, which is the buffer's.
            let count = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    libc::MSG_DONTWAIT,
                )
            };
            let Ok(count) = usize::try_from(count) else {
                continue;
            };
            if wanted(&buffer[..count]) {
                return Ok(Some(buffer[..count].to_vec()));
            }
        }
    }
}

fn open(interface: &str, ethertype: u16) -> Result<RawSocket> {
    let protocol = ethertype.to_be();
    // SAFETY: creates a descriptor that nothing else owns.
    let raw = unsafe {
        libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::c_int::from(protocol),
        )
    };
    ensure!(
        raw >= 0,
        "opening a packet socket: {}",
        io::Error::last_os_error()
    );
    // SAFETY: just created, owned by nobody.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    sock::set_buffer(&socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, 64 << 20)?;
    // SAFETY: all zeros is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET)?;
    address.sll_protocol = protocol;
    address.sll_ifindex = i32::try_from(nix::net::if_::if_nametoindex(interface)?)?;
    // SAFETY: the address lives during the call and its size is given.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>())?,
        )
    };
    ensure!(bound == 0, "binding: {}", io::Error::last_os_error());
    Ok(RawSocket { socket })
}

/// An Ethernet header from `a` to `b`.
#[must_use]
pub fn ethernet(to: [u8; 6], ethertype: u16) -> Vec<u8> {
    [&to[..], &MAC_A, &ethertype.to_be_bytes()].concat()
}

/// A marked UDP packet from `a` to `b` with tags (EtherType of the tag, VLAN id), `bytes` long without the tags.
///
/// # Errors
/// When the packet is too small for the mark.
pub fn tagged_udp(mark: Mark, bytes: u32, port: u16, tags: &[(u16, u16)]) -> Result<Vec<u8>> {
    let payload_bytes = usize::try_from(bytes.saturating_sub(UDP4_HEADERS))?;
    ensure!(
        payload_bytes >= payload::SMALLEST,
        "a frame of {bytes} B has no room for the mark"
    );
    let mut payload = vec![0; payload_bytes];
    payload::write(&mut payload, mark);
    let udp_bytes = u16::try_from(payload_bytes + 8)?;
    let mut ip = ipv4_header(udp_bytes + 20, 17);
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());

    let mut frame = [MAC_B, MAC_A].concat();
    for (kind, id) in tags {
        frame.extend(kind.to_be_bytes());
        frame.extend(id.to_be_bytes());
    }
    frame.extend(0x0800u16.to_be_bytes());
    frame.extend(ip);
    for field in [40_000, port, udp_bytes, 0] {
        frame.extend(field.to_be_bytes()); // checksum 0: not used
    }
    frame.extend(payload);
    Ok(frame)
}

/// An IPv4 header from `a` to `b` without its checksum.
#[must_use]
pub fn ipv4_header(total_bytes: u16, protocol: u8) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend(total_bytes.to_be_bytes());
    header.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    header.extend(V4_A.octets());
    header.extend(V4_B.octets());
    header
}

/// The internet checksum.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    !u16::try_from(folded & 0xffff).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{checksum, ipv4_header};

    #[test]
    fn a_header_with_its_checksum_sums_to_zero() {
        let mut header = ipv4_header(100, 17);
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(checksum(&header), 0);
    }
}
