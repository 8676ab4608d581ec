//! Whose bucket: what the keys of a class tell apart, and what they do not.

use crate::compiled::Classes;
use crate::rig::*;
use leaky_user::bpf::Kind;

fn per(key: &str) -> Result<Classes, Failed> {
    Classes::new(
        Kind::DepartureTime,
        &format!(
            "mark-mask = \"0xff\"\n[[interface.class]]\nname = \"a\"\nrate = \"1kbit\"\n\
             capacity = \"12500B\"\nmax-wait = \"1000s\"\nper = \"{key}\"\n"
        ),
    )
}

pub(crate) fn l68_all_addresses_of_a_prefix_have_one_bucket() -> Outcome {
    let mut by_default = per("src")?;
    let mut by_host = per("src/32,src/128")?;
    let mut address = [0xfd; 16];
    for host in 0..1_000u16 {
        address[14..].copy_from_slice(&host.to_be_bytes());
        let frame = udp6(address, [1; 16]);
        by_default.send(&frame, &Context::new())?;
        by_host.send(&frame, &Context::new())?;
    }
    equal("keys of one /64", by_default.keys()?.len(), 1)?;
    equal("keys of 1,000 /128", by_host.keys()?.len(), 1_000)?;
    // 1,054 + 8 B of headers each: eleven fit into the bucket.
    let counted = by_default.counted("a")?;
    equal("accepted", counted.accepted.packets, 11)?;
    equal("dropped", counted.dropped[0].packets, 989)?;
    equal("each", by_host.counted("a")?.accepted.packets, 1_000)?;
    address[7] = 0;
    by_default.send(&udp6(address, [1; 16]), &Context::new())?;
    equal("another /64", by_default.keys()?.len(), 2)?;

    let mut by_24 = per("src/24")?;
    for host in 0..=255 {
        by_24.send(&udp_from([10, 0, 0, host], 1, 100), &Context::new())?;
    }
    by_24.send(&udp_from([10, 0, 1, 0], 1, 100), &Context::new())?;
    equal("keys of two /24", by_24.keys()?.len(), 2)
}

pub(crate) fn l11_all_connections_of_a_client_have_one_bucket() -> Outcome {
    let mut totals = Vec::new();
    for connections in [1, 4, 16] {
        let mut classes = per("src")?;
        for packet in 0..160 {
            classes.send(&udp(1 + packet % connections, 1_000), &Context::new())?;
        }
        equal("keys", classes.keys()?.len(), 1)?;
        totals.push(classes.counted("a")?.accepted.packets);
    }
    equal("accepted by 1, 4 and 16 connections", totals, vec![12; 3])
}

/// Sends these one after the other; how many keys there are then.
fn keys_of(key: &str, packets: &[(Vec<u8>, u32)]) -> Result<usize, Failed> {
    let mut classes = per(key)?;
    for (frame, mark) in packets {
        classes.send(frame, &Context::new().with(Context::MARK, *mark))?;
    }
    Ok(classes.keys()?.len())
}

pub(crate) fn each_kind_of_key_tells_apart_what_it_says() -> Outcome {
    let mut other_destination = udp(1, 100);
    other_destination[33] = 77;
    let mut other_port = udp(1, 100);
    other_port[37] = 77;
    let mut other_protocol = udp(1, 100);
    other_protocol[23] = 136;
    let packets = [
        (udp(1, 100), 1),
        (udp_from([10, 0, 0, 9], 1, 100), 1),
        (other_destination, 1),
        (udp(2, 100), 1),
        (other_port, 1),
        (other_protocol, 1),
        (udp(1, 100), 2),
        // Outside of the mask.
        (udp(1, 100), 0x101),
    ];
    for (key, wanted) in [
        ("src", 2),
        ("dst", 2),
        ("src/24", 1),
        ("mark", 2),
        // The protocol makes another port of it.
        ("src-port", 3),
        ("dst-port", 3),
        ("port", 3),
        ("flow", 6),
        ("class", 0),
    ] {
        equal(&format!("keys per {key}"), keys_of(key, &packets)?, wanted)?;
    }
    Ok(())
}

pub(crate) fn the_same_address_in_two_vlans_is_two_keys() -> Outcome {
    let plain = udp(1, 100);
    let packets = [
        (plain.clone(), 0),
        (tagged(&plain, 5), 0),
        (tagged(&plain, 6), 0),
        (tagged(&tagged(&plain, 5), 6), 0),
        (tagged(&tagged(&plain, 6), 5), 0),
        // The priority in the tag is not whose it is.
        (tagged(&plain, 6 | 7 << 13), 0),
    ];
    for key in ["src", "dst", "flow"] {
        equal(&format!("keys per {key}"), keys_of(key, &packets)?, 5)?;
    }
    Ok(())
}

pub(crate) fn classes_do_not_share_keys() -> Outcome {
    let mut classes = Classes::new(
        Kind::DepartureTime,
        r#"
[[interface.class]]
name = "a"
match = { source-port = ["1"] }
per = "src"
rate = "1kbit"
[[interface.class]]
name = "b"
per = "src"
rate = "1kbit"
"#,
    )?;
    for port in [1, 2] {
        let (_, out) = classes.send(&udp(port, 1_000), &Context::new())?;
        equal("the first of each class", out.stamp(), 0)?;
    }
    equal("keys", classes.keys()?.len(), 2)
}
