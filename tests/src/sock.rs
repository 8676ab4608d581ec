//! Socket options that the standard library does not offer.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, c_void, sa_family_t, socklen_t};

/// `AF_INET` and `AF_INET6` as an address carries them.
const FAMILY_4: sa_family_t = 2;
const FAMILY_6: sa_family_t = 10;

/// Sets an integer option.
pub(crate) fn set(socket: impl AsFd, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    set_bytes(socket, level, option, &value.to_ne_bytes())
}

/// Sets an option whose value is a run of bytes (a struct as the kernel defines it, or text).
pub(crate) fn set_bytes(
    socket: impl AsFd,
    level: c_int,
    option: c_int,
    value: &[u8],
) -> io::Result<()> {
    let length = socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open, and the kernel reads exactly `length` bytes of `value`, which lives during the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_ptr().cast::<c_void>(),
            length,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads an option of a fixed size.
pub(crate) fn get<const N: usize>(
    socket: impl AsFd,
    level: c_int,
    option: c_int,
) -> io::Result<[u8; N]> {
    let mut value = [0u8; N];
    let mut length = socklen_t::try_from(N).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open, and the kernel writes at most `length` bytes, which is the size of `value`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast::<c_void>(),
            &raw mut length,
        )
    };
    if done == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Asks for a large buffer; as root the kernel's ordinary maximum does not apply.
pub(crate) fn set_buffer(
    socket: impl AsFd,
    forced: c_int,
    plain: c_int,
    bytes: c_int,
) -> io::Result<()> {
    let socket = socket.as_fd();
    set(socket, libc::SOL_SOCKET, forced, bytes)
        .or_else(|_| set(socket, libc::SOL_SOCKET, plain, bytes))
}

/// A socket that sends from an address which need not be one of this machine's.
pub(crate) fn bound_to_any(from: SocketAddr, kind: c_int) -> io::Result<OwnedFd> {
    let (family, level, option) = match from {
        SocketAddr::V4(_) => (libc::AF_INET, libc::IPPROTO_IP, libc::IP_FREEBIND),
        SocketAddr::V6(_) => (libc::AF_INET6, libc::IPPROTO_IPV6, libc::IPV6_FREEBIND),
    };
    // SAFETY: creates a descriptor that nothing else owns.
    let raw = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just created, owned by nobody.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    set(&socket, level, option, 1)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    let (address, length) = raw_address(from);
    // SAFETY: the storage is as large as any address, lives during the call, and `length` of it is filled.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if done == 0 {
        Ok(socket)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Listens for TCP at an address that need not be one of an interface's.
pub(crate) fn listen_anywhere(at: SocketAddr) -> io::Result<OwnedFd> {
    let socket = bound_to_any(at, libc::SOCK_STREAM)?;
    // SAFETY: the descriptor is open.
    if unsafe { libc::listen(socket.as_raw_fd(), 128) } == 0 {
        Ok(socket)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Connects a socket that was made by [`bound_to_any`].
pub(crate) fn connect(socket: impl AsFd, to: SocketAddr) -> io::Result<()> {
    let (address, length) = raw_address(to);
    // SAFETY: the storage is as large as any address, lives during the call, and `length` of it is filled.
    let done = unsafe {
        libc::connect(
            socket.as_fd().as_raw_fd(),
            (&raw const address).cast(),
            length,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn raw_address(address: SocketAddr) -> (libc::sockaddr_storage, socklen_t) {
    // SAFETY: all zeros is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let at = &raw mut storage;
    let length = match address {
        SocketAddr::V4(address) => {
            let value = libc::sockaddr_in {
                sin_family: FAMILY_4,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(address.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is larger than this address and aligned for every address.
            unsafe { at.cast::<libc::sockaddr_in>().write(value) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(address) => {
            let value = libc::sockaddr_in6 {
                sin6_family: FAMILY_6,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: address.ip().octets(),
                },
                sin6_scope_id: 0,
            };
            // SAFETY: the storage is larger than this address and aligned for every address.
            unsafe { at.cast::<libc::sockaddr_in6>().write(value) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, socklen_t::try_from(length).unwrap_or(0))
}
