//! Which class a packet is in, and what is done with it.

use crate::compiled::{Classes, NO_CLASS};
use crate::rig::*;
use etherparse::{IpFragOffset, IpNumber, Ipv4Options, PacketBuilder};
use leaky_user::bpf::Kind;

const ORDERED: &str = r#"
mark-mask = "0xff"

[[interface.class]]
name = "voice"
match = { protocol = ["udp"], source = ["10.1.0.0/16", "fd00:1::/32"], destination-port = ["5004", "6000-6100"] }
action = "pass"

[[interface.class]]
name = "inner"
match = { source = ["10.1.2.0/24", "fd00:1:2::/48"] }
action = "pass"

[[interface.class]]
name = "outer"
match = { source = ["10.0.0.0/8", "fd00::/16"], dscp = ["ef"] }
action = "pass"

[[interface.class]]
name = "server"
match = { destination = ["192.0.2.1/32", "2001:db8::/32"] }
action = "pass"

[[interface.class]]
name = "ports"
match = { protocol = ["tcp", "udp"], source-port = ["1000-2000"] }
action = "pass"

[[interface.class]]
name = "marked"
match = { mark = [1, "0x10"] }
action = "pass"

[[interface.class]]
name = "tagged"
match = { vlan = [100] }
action = "pass"

[[interface.class]]
name = "ef"
match = { dscp = ["ef", "cs3"] }
action = "pass"
"#;

struct Packet {
    source: &'static str,
    destination: &'static str,
    tcp: bool,
    ports: (u16, u16),
    dscp: u8,
}

const PLAIN: Packet = Packet {
    source: "172.16.0.1",
    destination: "172.16.0.2",
    tcp: false,
    ports: (1, 9),
    dscp: 0,
};

impl Packet {
    fn frame(&self) -> Vec<u8> {
        let step = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let step = match (
            self.source.parse().unwrap(),
            self.destination.parse().unwrap(),
        ) {
            (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) => {
                step.ipv4(from.octets(), to.octets(), 64)
            }
            (std::net::IpAddr::V6(from), std::net::IpAddr::V6(to)) => {
                step.ipv6(from.octets(), to.octets(), 64)
            }
            _ => panic!("addresses of two versions"),
        };
        let mut frame = Vec::new();
        let (from, to) = self.ports;
        if self.tcp {
            step.tcp(from, to, 1, 1_000)
                .write(&mut frame, &[0; 100])
                .unwrap();
        } else {
            step.udp(from, to).write(&mut frame, &[0; 100]).unwrap();
        }
        if frame[12] == 0x08 {
            frame[15] = self.dscp << 2;
        } else {
            frame[14] = 0x60 | self.dscp >> 2;
            frame[15] = self.dscp << 6;
        }
        frame
    }
}

pub(crate) fn the_first_class_that_matches_takes_the_packet() -> Outcome {
    let mut classes = Classes::new(Kind::DepartureTime, ORDERED)?;
    let v4 = |source| Packet { source, ..PLAIN };
    let v6 = |source| Packet {
        source,
        destination: "fe80::2",
        ..PLAIN
    };
    let cases = [
        (
            Packet {
                ports: (1, 5_004),
                ..v4("10.1.2.3")
            },
            "voice",
        ),
        (
            Packet {
                ports: (1, 6_000),
                ..v4("10.1.9.3")
            },
            "voice",
        ),
        (
            Packet {
                ports: (1, 6_100),
                ..v4("10.1.9.3")
            },
            "voice",
        ),
        (
            Packet {
                ports: (1, 6_101),
                ..v4("10.1.9.3")
            },
            NO_CLASS,
        ),
        (
            Packet {
                ports: (1, 5_999),
                ..v4("10.1.2.3")
            },
            "inner",
        ),
        (
            Packet {
                tcp: true,
                ports: (1, 5_004),
                ..v4("10.1.2.3")
            },
            "inner",
        ),
        (
            Packet {
                tcp: true,
                ports: (1, 5_004),
                ..v4("10.1.3.3")
            },
            NO_CLASS,
        ),
        (
            Packet {
                dscp: 46,
                ..v4("10.1.2.255")
            },
            "inner",
        ),
        (
            Packet {
                dscp: 46,
                ..v4("10.1.3.0")
            },
            "outer",
        ),
        (
            Packet {
                dscp: 46,
                ..v4("10.255.255.255")
            },
            "outer",
        ),
        (
            Packet {
                dscp: 46,
                ..v4("11.0.0.0")
            },
            "ef",
        ),
        (
            Packet {
                dscp: 24,
                ..v4("10.0.0.0")
            },
            "ef",
        ),
        (
            Packet {
                dscp: 45,
                ..v4("10.0.0.0")
            },
            NO_CLASS,
        ),
        (
            Packet {
                ports: (1, 5_004),
                ..v6("fd00:1:2::1")
            },
            "voice",
        ),
        (v6("fd00:1:2::1"), "inner"),
        (
            Packet {
                dscp: 46,
                ..v6("fd00:1:3::1")
            },
            "outer",
        ),
        (v6("fd00:1:3::1"), NO_CLASS),
        (
            Packet {
                dscp: 46,
                ..v6("fd01::1")
            },
            "ef",
        ),
        (
            Packet {
                destination: "192.0.2.1",
                ..PLAIN
            },
            "server",
        ),
        (
            Packet {
                destination: "192.0.2.2",
                ..PLAIN
            },
            NO_CLASS,
        ),
        (
            Packet {
                destination: "2001:db8:ffff::1",
                ..v6("fe80::1")
            },
            "server",
        ),
        (
            Packet {
                destination: "2001:db9::1",
                ..v6("fe80::1")
            },
            NO_CLASS,
        ),
        (
            Packet {
                ports: (1_000, 1),
                ..PLAIN
            },
            "ports",
        ),
        (
            Packet {
                tcp: true,
                ports: (2_000, 1),
                ..PLAIN
            },
            "ports",
        ),
        (
            Packet {
                ports: (999, 1),
                ..PLAIN
            },
            NO_CLASS,
        ),
        (
            Packet {
                ports: (2_001, 1),
                ..PLAIN
            },
            NO_CLASS,
        ),
        (PLAIN, NO_CLASS),
    ];
    for (packet, wanted) in cases {
        let what = format!(
            "{} to {} ports {:?} dscp {}",
            packet.source, packet.destination, packet.ports, packet.dscp
        );
        equal(
            &what,
            classes.class_of(&packet.frame(), &Context::new())?.as_str(),
            wanted,
        )?;
    }
    for (mark, wanted) in [
        (1, "marked"),
        (0x10, "marked"),
        (0xab01, "marked"),
        (2, NO_CLASS),
        (0, NO_CLASS),
    ] {
        let context = Context::new().with(Context::MARK, mark);
        let class = classes.class_of(&PLAIN.frame(), &context)?;
        equal(&format!("mark {mark:#x}"), class.as_str(), wanted)?;
    }
    // In the frame; a tag beside it cannot be given to a test run.
    for (vlan, wanted) in [
        (100, "tagged"),
        (100 | 5 << 13, "tagged"),
        (101, NO_CLASS),
        (0, NO_CLASS),
    ] {
        let frame = tagged(&PLAIN.frame(), vlan);
        let class = classes.class_of(&frame, &Context::new())?;
        equal(&format!("vlan {vlan:#x}"), class.as_str(), wanted)?;
    }
    let inside = tagged(&tagged(&PLAIN.frame(), 100), 7);
    let class = classes.class_of(&inside, &Context::new())?;
    equal("100 as the inner tag", class.as_str(), NO_CLASS)
}

pub(crate) const BY_PORT: &str = r#"
[[interface.class]]
name = "port"
match = { destination-port = ["9"] }
action = "pass"

[[interface.class]]
name = "udp"
match = { protocol = ["udp"] }
action = "pass"
"#;

pub(crate) fn l42_options_do_not_shift_the_ports() -> Outcome {
    let mut classes = Classes::new(Kind::DepartureTime, BY_PORT)?;
    let mut header =
        etherparse::Ipv4Header::new(108, 9, IpNumber::UDP, [1; 4], [2; 4]).map_err(text)?;
    header.options = Ipv4Options::try_from([1u8; 40].as_slice()).map_err(text)?;
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ip(etherparse::IpHeaders::Ipv4(header, Default::default()))
        .udp(1, 9)
        .write(&mut frame, &[0; 100])?;
    let class = classes.class_of(&frame, &Context::new())?;
    equal("40 B of options", class.as_str(), "port")
}

fn text(error: impl std::fmt::Display) -> Failed {
    Failed::from(error.to_string())
}

pub(crate) fn l43_fragments_and_headers_between_do_not_escape_their_class() -> Outcome {
    let mut classes = Classes::new(Kind::DepartureTime, BY_PORT)?;
    let mut first = udp(1, 200);
    first[20] |= 0x20;
    let mut later = udp(1, 200);
    later[21] = 10;
    for (what, frame) in [("the first fragment", first), ("a later one", later)] {
        let class = classes.class_of(&frame, &Context::new())?;
        equal(what, class.as_str(), "udp")?;
    }
    let mut v6 = udp6([1; 16], [3; 16]);
    let class = classes.class_of(&v6, &Context::new())?;
    equal("IPv6", class.as_str(), "port")?;
    // Seven times destination options of 8 B, then UDP.
    v6[20] = 60;
    let options = [60, 0, 1, 4, 0, 0, 0, 0].repeat(7);
    v6.splice(54..54, options);
    v6[54 + 6 * 8] = 17;
    let class = classes.class_of(&v6, &Context::new())?;
    equal("behind seven extension headers", class.as_str(), "port")?;
    // A fragment header instead of the last.
    v6[54 + 5 * 8] = 44;
    v6[54 + 6 * 8 + 2..54 + 6 * 8 + 4].copy_from_slice(&[0, 1]);
    let class = classes.class_of(&v6, &Context::new())?;
    equal("a fragment behind six", class.as_str(), "udp")?;
    let fragment = IpFragOffset::try_new(1).map_err(text)?;
    equal("a fragment offset", fragment.value(), 1)
}
