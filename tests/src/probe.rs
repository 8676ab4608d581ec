//! Questions that the far end answers by itself: ARP, neighbour discovery, ping. Used to see what traffic beside a full
//! bucket has to wait.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::lab::{MAC_A, MAC_B, SHAPED, V4_A, V4_B, V6_A, V6_B};
use crate::netns::Netns;
use crate::raw::{RawSocket, checksum, ethernet, ipv4_header};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Who has this IPv4 address?
    Arp,
    /// Who has this IPv6 address?
    Neighbour,
    /// ICMP echo: ordinary traffic that a limit applies to.
    Ping,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answers {
    /// Questions asked.
    pub asked: usize,
    /// Round-trip times of those answered in time, sorted, ns.
    pub round_trips: Vec<u64>,
}

/// Asks `count` times, one every `interval`, each with `patience` to be answered.
///
/// # Errors
/// When frames cannot be sent or received.
pub fn ask(
    from: &Netns,
    question: Question,
    count: u16,
    interval: Duration,
    patience: Duration,
) -> Result<Answers> {
    let ethertype = match question {
        Question::Arp => 0x0806,
        Question::Neighbour => 0x86dd,
        Question::Ping => 0x0800,
    };
    let socket = RawSocket::open(from, SHAPED, ethertype)?;
    let mut answers = Answers::default();
    for number in 0..count {
        let next = Instant::now() + interval;
        let asked = Instant::now();
        socket.send(&question.frame(number))?;
        answers.asked += 1;
        if socket
            .receive(|frame| question.is_answered_by(frame, number), patience)?
            .is_some()
        {
            answers.round_trips.push(crate::stats::ns(asked.elapsed()));
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    answers.round_trips.sort_unstable();
    Ok(answers)
}

impl Question {
    fn frame(self, number: u16) -> Vec<u8> {
        match self {
            Self::Arp => {
                let mut frame = ethernet([0xff; 6], 0x0806);
                frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
                frame.extend(MAC_A);
                frame.extend(V4_A.octets());
                frame.extend([0; 6]);
                frame.extend(V4_B.octets());
                frame
            }
            Self::Neighbour => {
                let [.., x, y, z] = V6_B.octets();
                let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, x, y, z];
                let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
                message.extend(V6_B.octets());
                message.extend([1, 1]); // source link-layer address
                message.extend(MAC_A);
                let length = [0, 32]; // bytes of the message
                let pseudo = [
                    &V6_A.octets()[..],
                    &group,
                    &[0, 0],
                    &length,
                    &[0, 0, 0, 58],
                    &message,
                ]
                .concat();
                message[2..4].copy_from_slice(&checksum(&pseudo).to_be_bytes());
                let mut frame = ethernet([0x33, 0x33, 0xff, x, y, z], 0x86dd);
                frame.extend([0x60, 0, 0, 0, length[0], length[1], 58, 255]);
                frame.extend(V6_A.octets());
                frame.extend(group);
                frame.extend(message);
                frame
            }
            Self::Ping => {
                let mut message = vec![8, 0, 0, 0, 0x1e, 0xa2];
                message.extend(number.to_be_bytes());
                message.extend([0x42; 56]);
                let sum = checksum(&message);
                message[2..4].copy_from_slice(&sum.to_be_bytes());
                let mut ip = ipv4_header(84, 1);
                let sum = checksum(&ip);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
                [ethernet(MAC_B, 0x0800), ip, message].concat()
            }
        }
    }

    /// Whether a frame that came back answers the question. (`number` tells pings apart; for the others any answer is one.)
    fn is_answered_by(self, frame: &[u8], number: u16) -> bool {
        let at = |from: usize, bytes: &[u8]| frame.get(from..from + bytes.len()) == Some(bytes);
        match self {
            Self::Arp => at(20, &[0, 2]) && at(28, &V4_B.octets()),
            Self::Neighbour => at(20, &[58]) && at(54, &[136]) && at(62, &V6_B.octets()),
            Self::Ping => {
                at(23, &[1])
                    && at(34, &[0])
                    && at(38, &[0x1e, 0xa2])
                    && at(40, &number.to_be_bytes())
            }
        }
    }
}
