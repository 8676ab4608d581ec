//! A TCP transfer of a given time, timed by the application that receives it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::netns::Netns;
use crate::payload::now_ns;
use crate::sock;

/// Congestion control that the tests use: the machine's default may pace by itself.
pub const CUBIC: &str = "cubic";

/// What the receiving application got, over time.
#[derive(Debug, Clone, Default)]
pub struct Transferred {
    /// Time (ns since 1970) and bytes received until then, after each read.
    pub progress: Vec<(u64, u64)>,
}

impl Transferred {
    /// Bytes received in all.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.progress.last().map_or(0, |(_, bytes)| *bytes)
    }

    /// Bytes per second the application got, from `skip` after the first byte until the last; `None` if it got too little.
    #[must_use]
    pub fn goodput(&self, skip: Duration) -> Option<u64> {
        let begin = self.progress.first()?.0 + crate::stats::ns(skip);
        let (from_ns, from) = *self.progress.iter().find(|(time, _)| *time >= begin)?;
        let (to_ns, to) = *self.progress.last()?;
        let time = to_ns.checked_sub(from_ns).filter(|time| *time > 0)?;
        u64::try_from(u128::from(to - from) * 1_000_000_000 / u128::from(time)).ok()
    }
}

/// A transfer that runs on threads of its own.
#[derive(Debug)]
pub struct Transfer {
    sender: JoinHandle<Result<()>>,
    receiver: JoinHandle<Result<Transferred>>,
}

impl Transfer {
    /// Sends as much as goes through from `from` to `address` in `to`, for `time`.
    ///
    /// # Errors
    /// When the port is taken or the congestion control does not exist.
    pub fn start(
        from: &Netns,
        to: &Netns,
        address: SocketAddr,
        congestion: &'static str,
        time: Duration,
    ) -> Result<Self> {
        let listener = to.run(|| -> Result<TcpListener> {
            let listener =
                TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
            set_congestion(&listener, congestion)?;
            // An accept that cannot hang.
            listener.set_nonblocking(true)?;
            Ok(listener)
        })??;
        let limit = time + Duration::from_secs(10);
        let receiver = to.spawn(move || receive(&listener, limit));
        let sender = from.spawn(move || send(address, congestion, time));
        Ok(Self { sender, receiver })
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When the connection failed.
    pub fn join(self) -> Result<Transferred> {
        let sent = self
            .sender
            .join()
            .map_err(|_| anyhow!("the sending thread panicked"))?;
        let received = self
            .receiver
            .join()
            .map_err(|_| anyhow!("the receiving thread panicked"))?;
        sent.context("sending over TCP")?;
        received.context("receiving over TCP")
    }
}

pub(crate) fn set_congestion(socket: impl std::os::fd::AsFd, name: &str) -> Result<()> {
    sock::set_bytes(
        socket,
        libc::IPPROTO_TCP,
        libc::TCP_CONGESTION,
        name.as_bytes(),
    )
    .with_context(|| format!("this kernel has no congestion control {name}"))
}

/// What still waits to be sent when the connection is closed is thrown away.
pub(crate) fn throw_away_the_rest(socket: impl std::os::fd::AsFd) -> Result<()> {
    // struct linger { on = 1, seconds = 0 }
    let linger = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
    Ok(sock::set_bytes(
        socket,
        libc::SOL_SOCKET,
        libc::SO_LINGER,
        &linger,
    )?)
}

fn send(address: SocketAddr, congestion: &str, time: Duration) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))
        .with_context(|| format!("connecting to {address}"))?;
    set_congestion(&stream, congestion)?;
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    throw_away_the_rest(&stream)?;
    let chunk = vec![0x5a; 64 << 10];
    let until = Instant::now() + time;
    while Instant::now() < until {
        match stream.write(&chunk) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn receive(listener: &TcpListener, limit: Duration) -> Result<Transferred> {
    let until = Instant::now() + limit;
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                ensure!(Instant::now() < until, "nobody connected within {limit:?}");
                thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error.into()),
        }
    };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut buffer = vec![0; 64 << 10];
    let mut transferred = Transferred::default();
    let mut bytes = 0;
    while Instant::now() < until {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                bytes += count as u64;
                transferred.progress.push((now_ns(), bytes));
            }
            // The sender throws the rest away at its end, which resets the connection.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(transferred)
}
