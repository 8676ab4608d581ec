//! Counts whole datagrams.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use crate::netns::Netns;
use crate::{payload, sock};

/// Counts the datagrams that arrive whole at a port: what was cut into fragments is put together again first.
#[derive(Debug)]
pub struct Count {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<BTreeMap<u32, u64>>>,
}

impl Count {
    /// Opens the port for IPv4 and IPv6.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn open(namespace: &Netns, port: u16) -> Result<Self> {
        let socket = namespace
            .run(|| {
                let socket = UdpSocket::bind(SocketAddr::from(([0u16; 8], port)))?;
                sock::set_buffer(&socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, 64 << 20)?;
                socket.set_read_timeout(Some(Duration::from_millis(20)))?;
                io::Result::Ok(socket)
            })?
            .with_context(|| format!("opening UDP port {port}"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let stop = stop.clone();
            thread::spawn(move || count(&socket, &stop))
        };
        Ok(Self { stop, thread })
    }

    /// Datagrams of each stream, with the payload that was sent.
    ///
    /// # Errors
    /// When one arrived changed.
    pub fn stop(self) -> Result<BTreeMap<u32, u64>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("a receiver panicked"))?
    }
}

fn count(socket: &UdpSocket, stop: &AtomicBool) -> Result<BTreeMap<u32, u64>> {
    let mut buffer = vec![0; 1 << 16];
    let mut counted = BTreeMap::new();
    loop {
        let last = stop.load(Ordering::Relaxed);
        while let Ok(length) = socket.recv(&mut buffer) {
            let Some((mark, intact)) = payload::read(&buffer[..length]) else {
                continue;
            };
            ensure!(intact, "{mark:?} arrived changed");
            *counted.entry(mark.stream).or_default() += 1;
        }
        if last {
            return Ok(counted);
        }
    }
}
