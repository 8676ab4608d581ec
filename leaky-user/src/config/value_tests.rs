//! The values: what is accepted, and that every value that is shown reads back as the same.

use super::error::Problems;
use super::value::*;
use super::{Per, file};
use ipnet::IpNet;
use proptest::prelude::*;
use std::net::IpAddr;

#[test]
fn names_and_numbers_are_the_same() {
    for number in (1..=u8::MAX).filter(|number| ![43, 44, 60, 135].contains(number)) {
        assert_eq!(protocol(&protocol_name(number)), Ok(number));
        assert_eq!(protocol(&number.to_string()), Ok(number));
    }
    for point in 0..64 {
        assert_eq!(dscp(&dscp_name(point)), Ok(point));
        assert_eq!(dscp(&point.to_string()), Ok(point));
    }
    for (name, point) in [
        ("be", 0),
        ("cs3", 24),
        ("af41", 34),
        ("va", 44),
        ("ef", 46),
        ("cs7", 56),
    ] {
        assert_eq!(dscp(name), Ok(point));
    }
    assert_eq!(protocol("ipv6-icmp"), Ok(58));
}

#[test]
fn values_are_read() {
    assert_eq!(ports("5004"), Ok(5004..=5004));
    assert_eq!(ports("1-65535"), Ok(1..=65535));
    assert_eq!(mark("0xFF"), Ok(255));
    assert_eq!(mark("4294967295"), Ok(u32::MAX));
    assert_eq!(vlan("4094"), Ok(4094));
    assert_eq!(frame_bytes("0", 10), Ok(0));
    assert_eq!(frame_bytes("0B", 10), Ok(0));
    assert_eq!(frame_bytes("1kB", 1_000), Ok(1_000));
    for path in ["/", "/a", "/user.slice/user-1000.slice/x y.scope"] {
        assert_eq!(cgroup(path).unwrap(), std::path::Path::new(path));
    }
}

#[test]
fn keys_are_read_and_told_in_words() {
    for (text, per) in [
        ("class", Per::Class),
        ("flow", Per::Flow),
        ("src", Per::Source { v4: 32, v6: 64 }),
        ("src/24", Per::Source { v4: 24, v6: 64 }),
        ("src/32,src/128", Per::Source { v4: 32, v6: 128 }),
        ("dst", Per::Destination { v4: 32, v6: 64 }),
        ("dst/24,dst/48", Per::Destination { v4: 24, v6: 48 }),
        ("cgroup", Per::Cgroup),
        ("mark", Per::Mark),
        ("src-port", Per::SourcePort),
        ("dst-port", Per::DestinationPort),
    ] {
        assert_eq!(text.parse(), Ok(per));
        assert_eq!(per.to_string(), text);
    }
    assert_eq!("port".parse(), Ok(Per::DestinationPort));
    for text in [
        "",
        "Src",
        "src/",
        "src/24,",
        "src/24,dst/48",
        "src/24/24",
        "src/+8",
        "source",
    ] {
        assert!(text.parse::<Per>().is_err(), "{text}");
    }
    assert_eq!(
        Per::SOURCE.in_words(),
        "each source address (IPv4 /32, IPv6 /64) has a bucket of its own"
    );
}

/// Text that looks like a config file, mutilated.
fn documents() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "version = 1\n",
        "[[interface]]\n",
        "[[interface.class]]\n",
        "name = \"a\"\n",
        "rate = \"1mbit\"\n",
        "match = { ",
        "}",
        "protocol = [\"udp\"]\n",
        "source = [\"10.0.0.0/8\", \"fd00::/8\"]\n",
        "per = \"src\"\n",
        "clients = { \"10.0.0.1\" = { rate = \"1mbit\" } }\n",
        "[interface.class.match]\n",
        "\"",
        "=",
        "[",
        "]",
        "\n",
        "#",
        "0x",
        "\u{0}",
        "\u{202e}",
        "'''",
        "default = \"a\"\n",
        "link = { rate = \"1mbit\" }\n",
        ",",
        "action = \"drop\"\n",
    ]);
    prop::collection::vec(words, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn prefixes_show_and_read_back(bits in any::<u128>(), v4 in any::<bool>(), length in 0_u8..=128) {
        let (address, length) = match v4 {
            true => (IpAddr::from(((bits >> 96) as u32).to_be_bytes()), length % 33),
            false => (IpAddr::from(bits.to_be_bytes()), length),
        };
        let net = IpNet::new(address, length).unwrap().trunc();
        prop_assert_eq!(prefix(&show_prefix(&net)), Ok(net));
        prop_assert_eq!(prefix(&net.to_string()), Ok(net));
    }

    #[test]
    fn keys_show_and_read_back(v4 in 1_u8..=32, v6 in 1_u8..=128) {
        for per in [Per::Source { v4, v6 }, Per::Destination { v4, v6 }] {
            prop_assert_eq!(per.to_string().parse(), Ok(per));
        }
    }

    #[test]
    fn port_ranges_show_and_read_back(a in 1_u16.., b in 1_u16..) {
        let range = a.min(b)..=a.max(b);
        prop_assert_eq!(ports(&show_ports(&range)), Ok(range));
    }

    #[test]
    fn no_text_panics_and_every_refusal_is_one_line(
        text in prop_oneof![any::<String>(), "[a-z0-9/.:,x-]{0,20}", "(src|dst)[/0-9,srcdt]{0,12}"],
    ) {
        let refusals = [
            protocol(&text).err(), dscp(&text).err(), ports(&text).err(), mark(&text).err(),
            vlan(&text).err(), prefix(&text).err(), cgroup(&text).err(), frame_bytes(&text, 9).err(),
            text.parse::<Per>().err(),
        ];
        for refusal in refusals.into_iter().flatten() {
            let line = refusal.to_string();
            prop_assert!(!line.contains(char::is_control) && line.len() < 600, "{line:?}");
        }
    }

    #[test]
    fn no_document_panics(text in prop_oneof![documents(), any::<String>()]) {
        let mut problems = Problems::default();
        let source = problems.source("leaky.toml");
        file::read(&text, source, &mut problems, |interfaces, problems| {
            for raw in interfaces {
                super::interface::interface(raw, std::path::Path::new("/nonexistent"), problems);
            }
        });
        if let Err(errors) = problems.none_or(|| ()) {
            for problem in errors.all() {
                prop_assert!(!problem.to_string().contains(char::is_control), "{problem:?}");
            }
        }
    }
}
