//! Socket options that the standard library does not offer.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, c_void, socklen_t};

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
