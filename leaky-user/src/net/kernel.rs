//! The real kernel behind [`Net`].

use super::parse::{self, LINK_HEADER, TC_HEADER};
use super::watch::KernelWatch;
use super::wire::{Request, Wire};
use super::{Class, Error, Executed, Link, Net, Op, Qdisc, ROOT, id_text};
use nlink::netlink::NlMsgType;
use nlink::netlink::message::{NLM_F_CREATE, NLM_F_REPLACE};
use std::collections::BTreeSet;

/// Changes sent in one go. The kernel works through them under its configuration lock, so there
/// are not too many; measured, 2,050 changes and reading them back took 15 ms.
const BATCH: usize = 64;
/// Longest name in `IFLA_IFNAME`; a longer one can only be an alternative name.
const LONGEST_NAME: usize = 15;
/// Longest alternative name (`ALTIFNAMSIZ` - 1).
const LONGEST_ALTERNATIVE: usize = 127;
/// A handle that nobody gets: the request that carries it is refused.
const PROBE_HANDLE: u32 = 0x1eae_0000;

const IFLA_IFNAME: u16 = 3;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_ALT_IFNAME: u16 = 53;
/// `RTEXT_FILTER_SKIP_STATS`: without the interface's counters.
const SKIP_STATS: u32 = 1 << 3;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_RATE: u16 = 5;
/// A `struct gnet_estimator` with an interval (127) that `gen_new_estimator` refuses for every
/// kind of qdisc, after the kind was found and before the new qdisc is put in place.
const IMPOSSIBLE_ESTIMATOR: [u8; 2] = [127, 0];

/// The network interfaces of the namespace that the calling thread was in when this was opened.
pub struct Kernel {
    wire: Wire,
}

impl Kernel {
    /// Opens a netlink socket. To be called inside a tokio runtime with I/O and time enabled.
    ///
    /// # Errors
    /// [`Error::Socket`] if there is no netlink, or no descriptor is left.
    pub fn open() -> Result<Kernel, Error> {
        Ok(Kernel {
            wire: Wire::open()?,
        })
    }

    async fn link(&self, request: Request, name: String) -> Result<Link, Error> {
        let doing = request.doing.clone();
        match self.wire.get(request).await {
            Ok(body) => parse::link(&body, &doing),
            Err(error) if error.errno() == Some(libc::ENODEV) => Err(Error::NoSuchInterface(name)),
            Err(error) => Err(error),
        }
    }
}

impl Net for Kernel {
    type Watch = KernelWatch;

    async fn link_by_name(&self, name: &str) -> Result<Link, Error> {
        let none = || Error::NoSuchInterface(format!("{name:?}"));
        if name.is_empty() || name.len() > LONGEST_ALTERNATIVE || name.contains('\0') {
            return Err(none());
        }
        let attribute = if name.len() <= LONGEST_NAME {
            IFLA_IFNAME
        } else {
            IFLA_ALT_IFNAME
        };
        let mut request = get_link(0, format!("read interface {name}"));
        request.message.append_attr_str(attribute, name);
        self.link(request, name.to_owned()).await
    }

    async fn link_by_index(&self, index: u32) -> Result<Link, Error> {
        let name = format!("number {index}");
        // Index 0 would ask for an interface without saying which.
        if index == 0 {
            return Err(Error::NoSuchInterface(name));
        }
        self.link(get_link(index, format!("read interface {name}")), name)
            .await
    }

    async fn qdiscs(&self, index: u32) -> Result<Vec<Qdisc>, Error> {
        let list = self
            .wire
            .dump(|| {
                let doing = format!("list the qdiscs of interface number {index}");
                tc(Request::dump(NlMsgType::RTM_GETQDISC, doing), index, 0, 0)
            })
            .await?;
        // The kernel lists the qdiscs of all interfaces.
        let of_link = list
            .iter()
            .filter(|body| parse::tc_index(body) == Some(index));
        Ok(of_link.filter_map(|body| parse::qdisc(body)).collect())
    }

    async fn classes(&self, index: u32) -> Result<Vec<Class>, Error> {
        let list = self
            .wire
            .dump(|| {
                let doing = format!("list the classes of interface number {index}");
                tc(Request::dump(NlMsgType::RTM_GETTCLASS, doing), index, 0, 0)
            })
            .await?;
        Ok(list.iter().filter_map(|body| parse::class(body)).collect())
    }

    async fn filters(&self, index: u32, handle: u32) -> Result<usize, Error> {
        let list = self
            .wire
            .dump(|| {
                let doing = format!("list the filters of qdisc {}", id_text(handle));
                tc(
                    Request::dump(NlMsgType::RTM_GETTFILTER, doing),
                    index,
                    0,
                    handle,
                )
            })
            .await?;
        Ok(list.len())
    }

    async fn has_kind(&self, index: u32, kind: &str) -> Result<bool, Error> {
        let doing = format!("find out whether there is a qdisc {kind}");
        let request = Request::change(
            NlMsgType::RTM_NEWQDISC,
            NLM_F_CREATE | NLM_F_REPLACE,
            doing.clone(),
        );
        let mut request = tc(request, index, PROBE_HANDLE, ROOT);
        request.message.append_attr_str(TCA_KIND, kind);
        request.message.append_attr(TCA_RATE, &IMPOSSIBLE_ESTIMATOR);
        match self.wire.batch(vec![request]).await?.pop() {
            Some(Err(error)) => match error.errno() {
                Some(libc::ENOENT) => Ok(false),
                Some(libc::EINVAL | libc::ERANGE | libc::EOPNOTSUPP) => Ok(true),
                _ => Err(error),
            },
            _ => Err(Error::Malformed {
                doing,
                what: "the probe was taken for a real request",
            }),
        }
    }

    async fn execute(&self, index: u32, ops: &[Op]) -> Executed {
        let mut executed = Executed {
            done: Vec::new(),
            failed: None,
        };
        let mut start = 0;
        while start < ops.len() && executed.failed.is_none() {
            let end = batch_end(ops, start);
            let requests = ops[start..end]
                .iter()
                .map(|op| request_for(index, op))
                .collect();
            match self.wire.batch(requests).await {
                Ok(verdicts) => {
                    for (at, verdict) in (start..).zip(verdicts) {
                        match verdict {
                            Ok(()) => executed.done.push(at),
                            Err(error) => {
                                executed.failed.get_or_insert((at, error));
                            }
                        }
                    }
                }
                Err(error) => {
                    // What the kernel did with them is unknown: taken back as if it did them.
                    executed.done.extend(start..end);
                    executed.failed = Some((start, error));
                }
            }
            start = end;
        }
        executed
    }

    async fn watch(&self, index: u32) -> Result<KernelWatch, Error> {
        KernelWatch::open(index).await
    }
}

/// Where the batch that starts at `start` ends: operations on different classes and leaves go
/// together, everything else alone, since what follows it may depend on it.
fn batch_end(ops: &[Op], start: usize) -> usize {
    let mut touched = BTreeSet::new();
    let mut end = start;
    while end < ops.len() && end - start < BATCH {
        let inside = match &ops[end] {
            Op::SetQdisc { parent, .. } if *parent != ROOT => true,
            Op::SetClass { classid, .. } => touched.insert(*classid),
            _ => false,
        };
        if !inside {
            break;
        }
        end += 1;
    }
    end.max(start + 1)
}

fn get_link(index: u32, doing: String) -> Request {
    let mut request = Request::get(NlMsgType::RTM_GETLINK, doing);
    request.message.append_bytes(&link_header(index));
    request.message.append_attr_u32(IFLA_EXT_MASK, SKIP_STATS);
    request
}

fn link_header(index: u32) -> [u8; LINK_HEADER] {
    let mut header = [0; LINK_HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}

/// Appends a `struct tcmsg`.
fn tc(mut request: Request, index: u32, handle: u32, parent: u32) -> Request {
    let mut header = [0; TC_HEADER];
    for (at, word) in [(4, index), (8, handle), (12, parent)] {
        header[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    request.message.append_bytes(&header);
    request
}

fn request_for(index: u32, op: &Op) -> Request {
    const SET: u16 = NLM_F_CREATE | NLM_F_REPLACE;
    let doing = format!("{op} on interface number {index}");
    match op {
        Op::SetQdisc {
            parent,
            handle,
            config,
        } => {
            let request = Request::change(NlMsgType::RTM_NEWQDISC, SET, doing);
            let mut request = tc(request, index, *handle, *parent);
            request.message.append_attr_str(TCA_KIND, config.kind());
            if let Some(options) = config.encode() {
                request.message.append_attr(TCA_OPTIONS, &options);
            }
            request
        }
        Op::DeleteQdisc { parent, handle } => tc(
            Request::change(NlMsgType::RTM_DELQDISC, 0, doing),
            index,
            *handle,
            *parent,
        ),
        Op::SetClass {
            classid,
            parent,
            config,
        } => {
            let request = Request::change(NlMsgType::RTM_NEWTCLASS, SET, doing);
            let mut request = tc(request, index, *classid, *parent);
            let (kind, options) = config.encode();
            request.message.append_attr_str(TCA_KIND, kind);
            request.message.append_attr(TCA_OPTIONS, &options);
            request
        }
        Op::DeleteClass { classid } => tc(
            Request::change(NlMsgType::RTM_DELTCLASS, 0, doing),
            index,
            *classid,
            0,
        ),
        Op::SetGsoMaxSegs(segments) => {
            let mut request = Request::change(NlMsgType::RTM_SETLINK, 0, doing);
            request.message.append_bytes(&link_header(index));
            request
                .message
                .append_attr_u32(IFLA_GSO_MAX_SEGS, *segments);
            request
        }
    }
}
