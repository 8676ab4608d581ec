//! Datagrams that ask to leave much later (SO_TXTIME), which any user may send.

use std::io::IoSlice;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, sendmsg, setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};

use crate::netns::Netns;

/// Sends `count` datagrams of one byte to `to`, each stamped to leave `ahead` from now on the monotonic clock.
/// Returns how many the kernel took.
///
/// # Errors
/// When the socket cannot be made.
pub fn send(from: &Netns, to: SocketAddrV4, count: u32, ahead: Duration) -> Result<u32> {
    from.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        let clock = libc::sock_txtime {
            clockid: libc::CLOCK_MONOTONIC,
            flags: 0,
        };
        setsockopt(&socket, sockopt::TxTime, &clock).context("setting SO_TXTIME")?;
        let to = SockaddrIn::from(to);
        let mut taken = 0;
        for _ in 0..count {
            let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
            let at = u64::try_from((now + ahead).as_nanos())?;
            let sent = sendmsg(
                socket.as_raw_fd(),
                &[IoSlice::new(&[0])],
                &[ControlMessage::TxTime(&at)],
                MsgFlags::empty(),
                Some(&to),
            );
            taken += u32::from(sent.is_ok());
        }
        Ok(taken)
    })?
}
