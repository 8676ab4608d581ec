//! Changes of one interface, as they happen.

use super::kernel::Kernel;
use super::wire::socket_failed;
use super::{Error, Link, LinkEvent, LinkWatch, Net, parse};
use nlink::netlink::message::MessageIter;
use nlink::netlink::{NetlinkSocket, NlMsgType, Protocol, rtnetlink_groups};
use std::collections::VecDeque;

/// Follows one interface through the kernel's link notifications.
pub struct KernelWatch {
    news: NetlinkSocket,
    /// To read the interface again after notifications were lost.
    kernel: Kernel,
    last: Link,
    /// Events that are to be reported yet.
    pending: VecDeque<LinkEvent>,
    /// Notifications were lost. A field and not a local, so that `next` may be cancelled.
    lost: bool,
}

const DOING: &str = "follow the changes of the interface";

impl KernelWatch {
    /// Subscribes first and reads the interface then, so that no change is missed in between.
    pub(super) async fn open(index: u32) -> Result<KernelWatch, Error> {
        let news = NetlinkSocket::new(Protocol::Route).map_err(|e| socket_failed(DOING, &e))?;
        news.add_membership(rtnetlink_groups::RTNLGRP_LINK)
            .map_err(|e| socket_failed(DOING, &e))?;
        let kernel = Kernel::open()?;
        let last = kernel.link_by_index(index).await?;
        Ok(KernelWatch {
            news,
            kernel,
            last,
            pending: VecDeque::new(),
            lost: false,
        })
    }

    /// The event that this notification makes, if it is about our interface and says something
    /// new.
    fn event(&mut self, kind: u16, body: &[u8]) -> Result<Option<LinkEvent>, Error> {
        // A bridge that loses or changes a port reports it in link messages too, told apart by
        // the address family in the first byte.
        if parse::link_index(body) != Some(self.last.index) || body.first() != Some(&0) {
            return Ok(None);
        }
        match kind {
            NlMsgType::RTM_DELLINK => Ok(Some(LinkEvent::Removed)),
            NlMsgType::RTM_NEWLINK => Ok(self.note(parse::link(body, DOING)?)),
            _ => Ok(None),
        }
    }

    fn note(&mut self, link: Link) -> Option<LinkEvent> {
        if link == self.last {
            return None;
        }
        self.last = link.clone();
        Some(LinkEvent::Changed(link))
    }

    /// Reads the interface instead of the notifications that were lost. First throws away those
    /// that still wait: until its queue is empty, a socket that overflowed loses further ones
    /// without a word (`NETLINK_S_CONGESTED` in the kernel's `af_netlink.c`).
    async fn read_again(&mut self) -> Result<(), Error> {
        loop {
            match self.news.try_recv_msg() {
                Ok(None) => break,
                Ok(Some(_)) => {}
                Err(error) if error.is_no_buffer_space() => {}
                Err(error) => return Err(socket_failed(DOING, &error)),
            }
        }
        let event = match self.kernel.link_by_index(self.last.index).await {
            Ok(link) => self.note(link),
            Err(error) if error.is_interface_gone() => Some(LinkEvent::Removed),
            Err(error) => return Err(error),
        };
        self.lost = false;
        self.pending.extend(event);
        Ok(())
    }
}

impl LinkWatch for KernelWatch {
    async fn next(&mut self) -> Result<LinkEvent, Error> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(event);
            }
            if self.lost {
                self.read_again().await?;
                continue;
            }
            match self.news.recv_msg().await {
                Ok(datagram) => {
                    for (header, body) in MessageIter::new(&datagram).flatten() {
                        let event = self.event(header.nlmsg_type, body)?;
                        self.pending.extend(event);
                    }
                }
                Err(error) if error.is_no_buffer_space() => self.lost = true,
                Err(error) => return Err(socket_failed(DOING, &error)),
            }
        }
    }
}
