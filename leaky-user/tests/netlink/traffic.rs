//! Datagrams into a slot, without leaky's program: the socket names the class itself.

use leaky_user::hold;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, sendmsg, setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Sends `count` datagrams with `payload` bytes to a broadcast address (so that nobody has to
/// answer ARP), each with the priority of `slot`.
pub(crate) fn send(to: &str, count: u32, payload: usize, slot: Option<u32>) -> std::io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_broadcast(true)?;
    // Room for what waits, so that the socket is not what limits.
    set(&socket, libc::SO_SNDBUFFORCE, 64 << 20)?;
    if let Some(slot) = slot {
        set(&socket, libc::SO_PRIORITY, hold::queue(slot).cast_signed())?;
    }
    let data = vec![0_u8; payload];
    for _ in 0..count {
        // A dropped packet is an error to the sender; drops are what some tests want.
        match socket.send_to(&data, to) {
            Err(e) if e.raw_os_error() != Some(libc::ENOBUFS) => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

fn set(socket: &UdpSocket, option: libc::c_int, value: libc::c_int) -> std::io::Result<()> {
    let size = libc::socklen_t::try_from(size_of::<libc::c_int>()).expect("4");
    // SAFETY: the option's value is an int that lives through the call, with its size.
    let code = unsafe {
        let at = std::ptr::from_ref(&value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, at, size)
    };
    if code == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Sends `count` datagrams that are to leave `ahead_ns` from now.
pub(crate) fn send_later(
    to: &str,
    count: u32,
    payload: usize,
    ahead_ns: u64,
) -> Result<(), String> {
    let failed = |e: nix::Error| e.to_string();
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(|e| e.to_string())?;
    socket.set_broadcast(true).map_err(|e| e.to_string())?;
    set(&socket, libc::SO_SNDBUFFORCE, 64 << 20).map_err(|e| e.to_string())?;
    let config = libc::sock_txtime {
        clockid: libc::CLOCK_MONOTONIC,
        flags: 0,
    };
    setsockopt(&socket, sockopt::TxTime, &config).map_err(failed)?;
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).map_err(failed)?);
    let at = u64::try_from(now.as_nanos()).expect("584 years") + ahead_ns;
    let address: SocketAddrV4 = to.parse().map_err(|_| "an address")?;
    let address = SockaddrIn::from(address);
    let data = vec![0_u8; payload];
    let control = [ControlMessage::TxTime(&at)];
    for _ in 0..count {
        let parts = [std::io::IoSlice::new(&data)];
        match sendmsg(
            socket.as_raw_fd(),
            &parts,
            &control,
            MsgFlags::empty(),
            Some(&address),
        ) {
            Err(e) if e != nix::Error::ENOBUFS => return Err(failed(e)),
            _ => {}
        }
    }
    Ok(())
}
