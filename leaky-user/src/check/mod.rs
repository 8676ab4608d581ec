//! `leaky check`: explains a config file without touching the kernel.

mod json;
mod matching;
mod words;

use crate::config::{self, Client, Errors};
use crate::units::Rate;
use std::path::Path;

/// Reads a config file and explains it: in words, or as one JSON object.
///
/// # Errors
/// Everything that is wrong with it.
pub fn check(path: &Path, as_json: bool) -> Result<String, Errors> {
    let config = config::load(path)?;
    Ok(if as_json {
        json::explain(path, &config)
    } else {
        words::explain(&config)
    })
}

/// The lowest and the highest rate of clients: of those in bytes, or else of those in packets.
fn rates(clients: &[Client]) -> Option<(Rate, Rate)> {
    let between = |rates: Vec<u64>, unit: fn(u64) -> Rate| {
        let (lowest, highest) = (rates.iter().min()?, rates.iter().max()?);
        Some((unit(*lowest), unit(*highest)))
    };
    let of = |unit: fn(Rate) -> Option<u64>| {
        clients
            .iter()
            .filter_map(|client| unit(client.asked.rate))
            .collect::<Vec<u64>>()
    };
    between(of(Rate::bytes_per_second), Rate::BytesPerSecond)
        .or_else(|| between(of(Rate::packets_per_second), Rate::PacketsPerSecond))
}

/// A number of things.
fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(name: &str, text: &str, as_json: bool) -> String {
        let directory =
            std::env::temp_dir().join(format!("leaky-check-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("leaky.toml");
        std::fs::write(&path, text).unwrap();
        let explained = check(&path, as_json).unwrap_or_else(|errors| panic!("{errors}"));
        std::fs::remove_dir_all(&directory).unwrap();
        explained
    }

    const FILE: &str = r#"version = 1
[[interface]]
name = "eth0"
link = { rate = "100mbit", max-wait = "400ms" }
overhead = "24B"
mpu = "64B"
mark-mask = "0xff"
default = "others"
[[interface.class]]
name = "voice"
match = { protocol = ["udp"], source = ["10.0.0.0/8", "fd00::/8"], destination-port = ["5004", "6000-6100"], dscp = ["ef"] }
rate = "2mbit"
max-wait = "200ms"
ecn = "5ms"
[[interface.class]]
name = "homes"
per = "dst"
clients = { "10.0.0.1" = { rate = "4mbit" }, "10.0.1.0/24" = { rate = "8mbit", capacity = "100ms" } }
[[interface.class]]
name = "noise"
match = { protocol = ["gre"], vlan = [100], mark = [1] }
action = "drop"
[[interface.class]]
name = "others"
per = "src"
rate = "1mbit"
[[interface]]
name = "wg0"
[[interface.class]]
name = "all"
rate = "500pps"
capacity = "100p"
action = "monitor"
"#;

    #[test]
    fn words_say_all_that_matters() {
        let words = explained("words", FILE, false);
        for expected in [
            "eth0",
            "100 Mbit/s = 12500000 B/s",
            "and 24 B more for each",
            "at least 64 B",
            "UDP, from 10.0.0.0/8 or fd00::/8, to port 5004 or 6000-6100, with DSCP ef",
            "one bucket for all of it",
            "each source address (IPv4 /32, IPv6 /64) has a bucket of its own",
            "2 clients, 4 Mbit/s = 500000 B/s to 8 Mbit/s = 1000000 B/s",
            "marked (CE) when the wait passes 5 ms",
            "bits 0xff",
            "500 pps",
            "100 p",
            "packets that match class homes and also voice go to the first of them",
        ] {
            assert!(words.contains(expected), "{expected:?} is not in:\n{words}");
        }
    }

    #[test]
    fn json_has_units_in_its_keys() {
        let json = explained("json", FILE, true);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let eth0 = &value["interfaces"][0];
        assert_eq!(value["event"], "check");
        assert_eq!(eth0["link"]["rate_bytes_per_second"], 12_500_000);
        assert_eq!(eth0["link"]["max_wait_seconds"], 0.4);
        assert_eq!(eth0["overhead_bytes"], 24);
        assert_eq!(eth0["default"], "others");
        let classes = &eth0["classes"];
        assert_eq!(classes[0]["match"]["protocol"][0], "udp");
        assert_eq!(classes[0]["ecn_seconds"], 0.005);
        assert_eq!(classes[1]["clients"]["count"], 2);
        assert_eq!(
            classes[1]["clients"]["highest_rate_bytes_per_second"],
            1_000_000
        );
        assert_eq!(classes[2]["action"], "drop");
        let all = &value["interfaces"][1]["classes"][0];
        assert_eq!(all["rate_packets_per_second"], 500);
        assert_eq!(all["capacity_packets"], 100);
        assert_eq!(all["match"], serde_json::json!({}));
    }
}
