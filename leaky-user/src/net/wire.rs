//! Requests to the kernel over one rtnetlink socket, and its answers.

use super::Error;
use nlink::netlink::message::{
    MessageIter, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NlMsgError,
};
use nlink::netlink::{MessageBuilder, NetlinkSocket, NlMsgHdr, Protocol};
use std::time::Duration;
use tokio::sync::Mutex;

/// How long the kernel may take to answer one request. Waiting for the lock of the network
/// configuration can take seconds on a busy host.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a list is read again when it changed while it was being read.
const DUMP_TRIES: u32 = 8;

/// One rtnetlink socket for requests, used by one request at a time.
pub(super) struct Wire {
    socket: Mutex<NetlinkSocket>,
}

impl Wire {
    /// Opens a socket in the network namespace of the calling thread.
    pub(super) fn open() -> Result<Wire, Error> {
        let socket = NetlinkSocket::new(Protocol::Route)
            .map_err(|e| socket_failed("open a netlink socket", &e))?;
        Ok(Wire {
            socket: Mutex::new(socket),
        })
    }

    /// Sends requests in one go and returns the kernel's verdict on each. The kernel works
    /// through all of them, also behind one that it refuses.
    ///
    /// The outer error means that the answers are unknown.
    pub(super) async fn batch(
        &self,
        requests: Vec<Request>,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let doing = requests
            .first()
            .map(|r| r.doing.clone())
            .unwrap_or_default();
        let socket = self.socket.lock().await;
        let mut bytes = Vec::new();
        let mut waiting = Vec::new();
        for Request { mut message, doing } in requests {
            let sequence = socket.next_seq();
            message.set_seq(sequence);
            message.set_pid(socket.pid());
            bytes.extend_from_slice(&message.finish());
            waiting.push((sequence, doing, None));
        }
        patiently(&doing, async {
            socket
                .send(&bytes)
                .await
                .map_err(|e| socket_failed(&doing, &e))?;
            while waiting.iter().any(|(_, _, verdict)| verdict.is_none()) {
                let datagram = socket
                    .recv_unicast()
                    .await
                    .map_err(|e| socket_failed(&doing, &e))?;
                for (header, body) in MessageIter::new(&datagram).flatten() {
                    if !header.is_error() {
                        continue;
                    }
                    let answered = waiting
                        .iter_mut()
                        .find(|(sequence, ..)| *sequence == header.nlmsg_seq);
                    if let Some((_, doing, verdict)) = answered {
                        *verdict = Some(verdict_of(header, body, doing));
                    }
                }
            }
            Ok(())
        })
        .await?;
        Ok(waiting
            .into_iter()
            .filter_map(|(_, _, verdict)| verdict)
            .collect())
    }

    /// Asks for one object; returns the body of the answer.
    pub(super) async fn get(&self, request: Request) -> Result<Vec<u8>, Error> {
        let Request { mut message, doing } = request;
        let socket = self.socket.lock().await;
        let sequence = socket.next_seq();
        message.set_seq(sequence);
        message.set_pid(socket.pid());
        patiently(&doing, async {
            socket
                .send(&message.finish())
                .await
                .map_err(|e| socket_failed(&doing, &e))?;
            loop {
                let datagram = socket
                    .recv_unicast()
                    .await
                    .map_err(|e| socket_failed(&doing, &e))?;
                for (header, body) in MessageIter::new(&datagram).flatten() {
                    if header.nlmsg_seq != sequence {
                        continue;
                    }
                    if !header.is_error() {
                        return Ok(body.to_vec());
                    }
                    verdict_of(header, body, &doing)?;
                }
            }
        })
        .await
    }

    /// Asks for a list of objects; returns the body of each. A list that changed while it was
    /// read is read again.
    pub(super) async fn dump(
        &self,
        make: impl Fn() -> Request + Send + Sync,
    ) -> Result<Vec<Vec<u8>>, Error> {
        for _ in 0..DUMP_TRIES {
            if let Some(list) = self.dump_once(make()).await? {
                return Ok(list);
            }
        }
        Err(Error::Unsteady {
            doing: make().doing,
            tries: DUMP_TRIES,
        })
    }

    /// `None` if the list changed while it was read.
    async fn dump_once(&self, request: Request) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let Request { mut message, doing } = request;
        let socket = self.socket.lock().await;
        let sequence = socket.next_seq();
        message.set_seq(sequence);
        message.set_pid(socket.pid());
        patiently(&doing, async {
            socket
                .send(&message.finish())
                .await
                .map_err(|e| socket_failed(&doing, &e))?;
            let mut list = Vec::new();
            let mut steady = true;
            loop {
                let datagram = socket
                    .recv_unicast()
                    .await
                    .map_err(|e| socket_failed(&doing, &e))?;
                for (header, body) in MessageIter::new(&datagram).flatten() {
                    if header.nlmsg_seq != sequence {
                        continue;
                    }
                    steady &= header.nlmsg_flags & NLM_F_DUMP_INTR == 0;
                    if header.is_done() {
                        done_verdict(body, &doing)?;
                        return Ok(steady.then_some(list));
                    }
                    if header.is_error() {
                        verdict_of(header, body, &doing)?;
                    } else {
                        list.push(body.to_vec());
                    }
                }
            }
        })
        .await
    }
}

/// A request and, for errors, what it is for.
pub(super) struct Request {
    pub(super) message: MessageBuilder,
    pub(super) doing: String,
}

impl Request {
    /// A change that the kernel acknowledges.
    pub(super) fn change(kind: u16, flags: u16, doing: String) -> Request {
        Request {
            message: MessageBuilder::new(kind, NLM_F_REQUEST | NLM_F_ACK | flags),
            doing,
        }
    }

    /// A question about one object.
    pub(super) fn get(kind: u16, doing: String) -> Request {
        Request {
            message: MessageBuilder::new(kind, NLM_F_REQUEST),
            doing,
        }
    }

    /// A question about all objects.
    pub(super) fn dump(kind: u16, doing: String) -> Request {
        Request {
            message: MessageBuilder::new(kind, NLM_F_REQUEST | NLM_F_DUMP),
            doing,
        }
    }
}

fn verdict_of(header: &NlMsgHdr, body: &[u8], doing: &str) -> Result<(), Error> {
    let error = NlMsgError::from_bytes(body).map_err(|_| Error::Malformed {
        doing: doing.to_owned(),
        what: "short acknowledgement",
    })?;
    if error.is_ack() {
        return Ok(());
    }
    Err(Error::Refused {
        doing: doing.to_owned(),
        errno: error.error.saturating_abs(),
        message: error.ext_ack(header.nlmsg_flags, body).message,
    })
}

/// The end of a list carries an error number when the kernel could not finish it.
fn done_verdict(body: &[u8], doing: &str) -> Result<(), Error> {
    match body.first_chunk().map(|b| i32::from_ne_bytes(*b)) {
        Some(code) if code < 0 => Err(Error::Refused {
            doing: doing.to_owned(),
            errno: code.saturating_abs(),
            message: None,
        }),
        _ => Ok(()),
    }
}

pub(super) fn socket_failed(doing: &str, error: &nlink::netlink::Error) -> Error {
    Error::Socket {
        doing: doing.to_owned(),
        reason: error.to_string(),
    }
}

async fn patiently<T>(
    doing: &str,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(PATIENCE, work)
        .await
        .unwrap_or_else(|_| {
            Err(Error::Timeout {
                doing: doing.to_owned(),
                seconds: PATIENCE.as_secs(),
            })
        })
}
