//! As much TCP as goes through: several connections at once between the same two addresses, counted by the receiver.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::cleanup;
use crate::netns::{Entry, Netns};
use crate::payload::now_ns;
use crate::sock;
use crate::tcp::{CUBIC, Transferred, set_congestion, throw_away_the_rest};

/// How long all connections together may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// Tells a copy of this program to send and nothing else: address, connections, milliseconds.
const CHILD: &str = "LEAKY_LAB_SEND";

/// Which way the data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the side that connects.
    Up,
    /// To the side that connects.
    Down,
}

/// A bulk transfer.
#[derive(Debug, Clone, Copy)]
pub struct Bulk {
    /// Where the server listens.
    pub to: SocketAddr,
    /// Address to connect from; it need not be the interface's.
    pub from: Option<IpAddr>,
    /// Connections at once.
    pub connections: usize,
    /// How long to send.
    pub time: Duration,
    /// Which way the data goes.
    pub way: Way,
}

/// A transfer under way.
#[derive(Debug)]
pub struct Running {
    senders: Vec<JoinHandle<Result<()>>>,
    processes: Vec<Process>,
    receiver: JoinHandle<Result<Transferred>>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    pid: nix::unistd::Pid,
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        cleanup::forget_child(self.pid);
    }
}

impl Bulk {
    /// So many connections to an address for a time.
    #[must_use]
    pub fn up(to: SocketAddr, connections: usize, time: Duration) -> Self {
        Self {
            to,
            from: None,
            connections,
            time,
            way: Way::Up,
        }
    }

    /// Begins, with the client's side in one namespace and the server's in another.
    ///
    /// # Errors
    /// When the port is taken or a connection is not made.
    pub fn start(self, client: &Netns, server: &Netns) -> Result<Running> {
        let listener = self.listen(server)?;
        let accepting = {
            let count = self.connections;
            thread::spawn(move || accept(&listener, count))
        };
        let connected = client.run(|| {
            (0..self.connections)
                .map(|_| self.connect())
                .collect::<Result<Vec<_>>>()
        })?;
        let accepted = accepting
            .join()
            .map_err(|_| anyhow!("the accepting thread panicked"))?;
        let (connected, accepted) = (connected?, accepted?);
        let (from, to) = match self.way {
            Way::Up => (connected, accepted),
            Way::Down => (accepted, connected),
        };
        Ok(Running {
            senders: from
                .into_iter()
                .map(|stream| thread::spawn(move || send(&stream, self.time)))
                .collect(),
            processes: Vec::new(),
            receiver: receive(to, self.time),
        })
    }

    /// The same with the connections spread over several processes, which only send.
    ///
    /// # Errors
    /// As [`Bulk::start`], and when this program cannot be started again. Its `main` must call [`child`] first.
    pub fn start_in_processes(
        self,
        client: &Netns,
        server: &Netns,
        processes: usize,
    ) -> Result<Running> {
        ensure!(
            self.way == Way::Up && self.from.is_none(),
            "other processes only send, and from the usual address"
        );
        let listener = self.listen(server)?;
        let program = std::env::current_exe().context("where is this program?")?;
        let program = program.to_str().context("a path that is not UTF-8")?;
        let processes = processes.clamp(1, self.connections);
        let mut running = Vec::new();
        for number in 0..processes {
            let share = (self.connections + number) / processes;
            let job = format!("{} {share} {}", self.to, self.time.as_millis());
            let mut command = client.command(program, Entry::NetOnly);
            command
                .env(CHILD, job)
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            let (child, pid) = cleanup::spawn(&mut command)?;
            running.push(Process { child, pid });
        }
        let accepted = accept(&listener, self.connections)?;
        Ok(Running {
            senders: Vec::new(),
            processes: running,
            receiver: receive(accepted, self.time),
        })
    }

    fn listen(&self, server: &Netns) -> Result<TcpListener> {
        server.run(|| -> Result<TcpListener> {
            let listener = sock::listen_anywhere(self.to)
                .map(TcpListener::from)
                .with_context(|| format!("listening on {}", self.to))?;
            set_congestion(&listener, CUBIC)?;
            // An accept that cannot hang.
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = match self.from {
            None => TcpStream::connect_timeout(&self.to, CONNECT),
            Some(from) => {
                sock::bound_to_any(SocketAddr::new(from, 0), libc::SOCK_STREAM).and_then(|socket| {
                    // Send and connect time-out in one.
                    let timeout = [10i64.to_ne_bytes(), 0i64.to_ne_bytes()].concat();
                    sock::set_bytes(&socket, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &timeout)?;
                    sock::connect(&socket, self.to)?;
                    Ok(TcpStream::from(socket))
                })
            }
        }
        .with_context(|| format!("connecting to {} from {:?}", self.to, self.from))?;
        set_congestion(&stream, CUBIC)?;
        Ok(stream)
    }
}

impl Running {
    /// Waits for its end.
    ///
    /// # Errors
    /// When a connection failed.
    pub fn join(self) -> Result<Transferred> {
        for sender in self.senders {
            sender
                .join()
                .map_err(|_| anyhow!("a sending thread panicked"))?
                .context("sending over TCP")?;
        }
        for mut process in self.processes {
            let status = process.child.wait().context("waiting for a sender")?;
            ensure!(status.success(), "a sending process ended with {status}");
        }
        self.receiver
            .join()
            .map_err(|_| anyhow!("the receiving thread panicked"))?
            .context("receiving over TCP")
    }
}

/// If this process was started to send, sends and returns how that went. Call it first in `main`.
#[must_use]
pub fn child() -> Option<Result<()>> {
    let job = std::env::var(CHILD).ok()?;
    let words: Vec<&str> = job.split(' ').collect();
    Some(send_as_child(&words).with_context(|| format!("sending {job}")))
}

fn send_as_child(words: &[&str]) -> Result<()> {
    let [to, connections, milliseconds] = words else {
        return Err(anyhow!("not three words"));
    };
    let bulk = Bulk::up(
        to.parse()?,
        connections.parse()?,
        Duration::from_millis(milliseconds.parse()?),
    );
    let streams = (0..bulk.connections)
        .map(|_| bulk.connect())
        .collect::<Result<Vec<_>>>()?;
    thread::scope(|scope| {
        let senders: Vec<_> = streams
            .iter()
            .map(|stream| scope.spawn(|| send(stream, bulk.time)))
            .collect();
        senders.into_iter().try_for_each(|sender| {
            sender
                .join()
                .map_err(|_| anyhow!("a sending thread panicked"))?
        })
    })
}

fn accept(listener: &TcpListener, count: usize) -> Result<Vec<TcpStream>> {
    let until = Instant::now() + CONNECT;
    let mut streams = Vec::new();
    while streams.len() < count {
        match listener.accept() {
            Ok((stream, _)) => streams.push(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                ensure!(
                    Instant::now() < until,
                    "{} of {count} connections within {CONNECT:?}",
                    streams.len()
                );
                thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(streams)
}

fn send(mut stream: &TcpStream, time: Duration) -> Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    throw_away_the_rest(stream)?;
    let chunk = vec![0x5a; 64 << 10];
    let until = Instant::now() + time;
    while Instant::now() < until {
        match stream.write(&chunk) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            // The receiver has had enough.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                ) =>
            {
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// One thread reads all connections: the total over time.
fn receive(streams: Vec<TcpStream>, time: Duration) -> JoinHandle<Result<Transferred>> {
    thread::spawn(move || {
        let until = Instant::now() + time;
        let mut open = streams;
        for stream in &open {
            stream.set_nonblocking(true)?;
        }
        let mut buffer = vec![0; 256 << 10];
        let mut transferred = Transferred::default();
        let mut bytes = 0;
        while Instant::now() < until && !open.is_empty() {
            let ready: Vec<bool> = {
                let mut wait: Vec<PollFd> = open
                    .iter()
                    .map(|stream| PollFd::new(stream.as_fd(), PollFlags::POLLIN))
                    .collect();
                poll(&mut wait, PollTimeout::from(10u8))?;
                wait.iter().map(|one| one.any().unwrap_or(false)).collect()
            };
            let mut ended = vec![false; open.len()];
            for ((stream, _), ended) in open
                .iter_mut()
                .zip(&ready)
                .zip(&mut ended)
                .filter(|((_, ready), _)| **ready)
            {
                match stream.read(&mut buffer) {
                    Ok(0) => *ended = true,
                    Ok(count) => bytes += count as u64,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => *ended = true,
                    Err(error) => return Err(error.into()),
                }
            }
            transferred.progress.push((now_ns(), bytes));
            let mut ended = ended.into_iter();
            open.retain(|_| !ended.next().unwrap_or(false));
        }
        Ok(transferred)
    })
}
