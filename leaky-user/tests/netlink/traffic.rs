//! Datagrams into a slot, without leaky's program: the socket names the class itself.

use leaky_user::hold;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

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
