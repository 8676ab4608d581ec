//! What is read, and that nothing is read twice or slowly.

use super::value::prefix;
use super::*;
use crate::config::Smooth;
use crate::hold::HoldMode;
use crate::units::{Capacity, Duration, Rate};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory with files, gone with the value.
pub(super) struct Files(PathBuf);

impl Files {
    pub(super) fn new(files: &[(&str, &str)]) -> Files {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("leaky-config-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for (name, text) in files {
            std::fs::write(directory.join(name), text).unwrap();
        }
        Files(directory)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Loads `leaky.toml`; the errors' files are named without the directory.
    pub(super) fn load(&self) -> Result<Config, Vec<(String, Option<usize>, String)>> {
        load(&self.0.join("leaky.toml")).map_err(|errors| {
            let directory = format!("{}/", self.0.display());
            let problems = errors.all().iter();
            problems
                .map(|problem| {
                    let text = problem.text.replace(&directory, "");
                    (problem.source.replace(&directory, ""), problem.line, text)
                })
                .collect()
        })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn only(text: &str) -> Interface {
    let files = Files::new(&[("leaky.toml", text)]);
    let mut config = files.load().unwrap_or_else(|errors| panic!("{errors:#?}"));
    assert_eq!(config.interfaces.len(), 1);
    config.interfaces.remove(0)
}

#[test]
fn everything_is_read() {
    let files = Files::new(&[
        (
            "leaky.toml",
            r#"
version = 1
[[interface]]
name = "eth0"
link = { rate = "100mbit", max-wait = "400ms" }
overhead = "24B"
mpu = "64B"
hold = "htb"
smooth = "off"
mark-mask = "0xff"
control = "class"
default = "voice"
[[interface.class]]
name = "voice"
per = "src/24,src/56"
rate = "2mbit"
capacity = "200ms"
max-wait = "300ms"
burst = "10kB"
ecn = "5ms"
[interface.class.match]
protocol = ["udp", "tcp", 132]
source = ["10.0.0.0/8", "fd00::/8"]
source-file = "more.txt"
destination = ["192.0.2.7"]
source-port = ["5004", 7]
destination-port = ["6050-6100", "6000-6049"]
dscp = ["ef", "cs3", 45]
mark = [1, "0x10", 0x20]
vlan = [100]
cgroup = ["/system.slice/backup.service"]
[[interface.class]]
name = "homes"
per = "dst"
rate = "1mbit"
burst = "2kB"
clients = { file = "homes.txt" }
"#,
        ),
        (
            "more.txt",
            "# more\n\n192.168.0.0/16 # home\r\n 172.16.0.0/12\n",
        ),
        (
            "homes.txt",
            "\u{feff}2001:db8::/56, 8mbit, 100ms, 50ms\n10.0.0.1 4mbit\n10.0.0.0/24\t3mbit 30kB\n",
        ),
    ]);
    let config = files.load().unwrap_or_else(|errors| panic!("{errors:#?}"));
    let ms = |ms: u64| Duration::from_nanos(ms * 1_000_000);
    let net = |text: &str| prefix(text).unwrap();
    let client = |text, rate, capacity, max_wait| Client {
        prefix: net(text),
        asked: Asked {
            rate: Rate::BytesPerSecond(rate),
            capacity,
            max_wait,
            burst: Some(Capacity::Bytes(2_000)),
            ecn: None,
        },
    };
    let voice = Class {
        name: "voice".to_owned(),
        matching: Match {
            protocols: vec![6, 17, 132],
            sources: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/8"]
                .map(net)
                .to_vec(),
            destinations: vec![net("192.0.2.7/32")],
            source_ports: vec![7..=7, 5004..=5004],
            destination_ports: vec![6000..=6100],
            dscps: vec![24, 45, 46],
            marks: vec![1, 0x10, 0x20],
            vlans: vec![100],
            cgroups: vec![PathBuf::from("/system.slice/backup.service")],
        },
        per: Per::Source { v4: 24, v6: 56 },
        action: Action::Shape,
        limits: Some(Asked {
            rate: Rate::BytesPerSecond(250_000),
            capacity: Some(Capacity::Time(ms(200))),
            max_wait: Some(ms(300)),
            burst: Some(Capacity::Bytes(10_000)),
            ecn: Some(ms(5)),
        }),
        clients: None,
    };
    let homes = Class {
        name: "homes".to_owned(),
        matching: Match::default(),
        per: Per::DESTINATION,
        action: Action::Shape,
        limits: Some(Asked {
            rate: Rate::BytesPerSecond(125_000),
            capacity: None,
            max_wait: None,
            burst: Some(Capacity::Bytes(2_000)),
            ecn: None,
        }),
        clients: Some(vec![
            client("10.0.0.0/24", 375_000, Some(Capacity::Bytes(30_000)), None),
            client("10.0.0.1", 500_000, None, None),
            client(
                "2001:db8::/56",
                1_000_000,
                Some(Capacity::Time(ms(100))),
                Some(ms(50)),
            ),
        ]),
    };
    let expected = Interface {
        name: "eth0".to_owned(),
        link: Some(LinkBucket {
            rate: Rate::BytesPerSecond(12_500_000),
            capacity: None,
            max_wait: Some(ms(400)),
        }),
        overhead: 24,
        mpu: 64,
        hold: HoldMode::Htb,
        smooth: Smooth::Off,
        mark_mask: 0xff,
        control: Control::Class,
        fallback: Fallback::Class(0),
        classes: vec![voice, homes],
    };
    assert_eq!(config.interfaces, [expected]);
}

#[test]
fn what_is_not_said_has_its_default() {
    let interface = only(
        "version = 1\n[[interface]]\nname = \"eth0\"\n[[interface.class]]\nname = \"all\"\nrate = \"1mbit\"\n",
    );
    assert_eq!(interface.hold, HoldMode::Auto);
    assert_eq!(interface.smooth, Smooth::Auto);
    assert_eq!((interface.overhead, interface.mpu), (0, 0));
    assert_eq!(interface.mark_mask, u32::MAX);
    assert_eq!(interface.control, Control::Pass);
    assert_eq!(interface.fallback, Fallback::Pass);
    assert_eq!(interface.link, None);
    let class = &interface.classes[0];
    assert!(class.matching.is_all());
    assert_eq!((class.per, class.action), (Per::Class, Action::Shape));
}

#[test]
fn a_reached_class_is_not_refused() {
    // Each second class takes something that the first leaves.
    for (first, second) in [
        (
            r#"{ protocol = ["udp"] }"#,
            r#"{ protocol = ["udp", "tcp"] }"#,
        ),
        (
            r#"{ source = ["10.0.0.0/8"] }"#,
            r#"{ source = ["10.0.0.0/7"] }"#,
        ),
        (r#"{ source = ["0.0.0.0/0", "::/0"] }"#, r#"{ vlan = [7] }"#),
        (r#"{ source = ["0.0.0.0/0"] }"#, r#"{ protocol = ["udp"] }"#),
        (
            r#"{ destination-port = ["1-65535"] }"#,
            r#"{ protocol = ["udp"] }"#,
        ),
        (
            r#"{ dscp = ["ef"], vlan = [1] }"#,
            r#"{ dscp = ["ef"], vlan = [1, 2] }"#,
        ),
        (r#"{ cgroup = ["/a"] }"#, r#"{ cgroup = ["/b"] }"#),
    ] {
        let interface = only(&format!(
            "version = 1\n[[interface]]\nname = \"eth0\"\n\
             [[interface.class]]\nname = \"first\"\nmatch = {first}\nrate = \"1mbit\"\n\
             [[interface.class]]\nname = \"second\"\nmatch = {second}\nrate = \"1mbit\"\n"
        ));
        assert_eq!(interface.classes.len(), 2);
    }
    // It takes all, so no packet matches "others"; but what matches nothing goes there.
    only(
        "version = 1\n[[interface]]\nname = \"eth0\"\ndefault = \"others\"\n\
         [[interface.class]]\nname = \"udp\"\nmatch = { protocol = [\"udp\"] }\nrate = \"1mbit\"\n\
         [[interface.class]]\nname = \"others\"\nmatch = { protocol = [\"udp\"], vlan = [1] }\naction = \"pass\"\n",
    );
}

#[test]
fn notices_say_what_may_not_be_meant() {
    let interface = only(
        "version = 1\n[[interface]]\nname = \"eth0\"\nlink = { rate = \"10mbit\" }\ndefault = \"drop\"\n\
         [[interface.class]]\nname = \"udp\"\nmatch = { protocol = [\"udp\"] }\nrate = \"20mbit\"\n\
         [[interface.class]]\nname = \"lan\"\nmatch = { source = [\"10.0.0.0/8\"] }\nrate = \"1mbit\"\n\
         capacity = \"10ms\"\necn = \"20ms\"\n\
         [[interface.class]]\nname = \"v6\"\nmatch = { source = [\"fd00::/8\"], protocol = [\"tcp\"] }\nrate = \"1mbit\"\n",
    );
    let notices = interface.notices();
    let expected = [
        "packets that match class lan and also udp go to the first",
        "the rate of class udp, 20mbit, is above the link's, 10mbit",
        "add up to 22mbit, above the link's 10mbit",
        "class lan marks after a wait of 20ms, but its bucket drains in 10ms",
        "what matches no class is dropped",
    ];
    assert_eq!(notices.len(), expected.len(), "{notices:#?}");
    for (notice, expected) in notices.iter().zip(expected) {
        assert!(notice.contains(expected), "{notice}");
    }
}

#[test]
fn options_are_checked_like_a_file() {
    let some = |text: &str| Some(text.to_owned());
    let flags = Flags {
        interface: "eth0".to_owned(),
        rate: some("20mbit"),
        per: some("src"),
        protocol: vec!["udp,tcp".to_owned()],
        destination_port: vec!["443".to_owned(), "80, 8000-8100".to_owned()],
        ..Flags::default()
    };
    let interface = from_flags(&flags).unwrap();
    let class = &interface.classes[0];
    assert_eq!(class.matching.protocols, [6, 17]);
    assert_eq!(
        class.matching.destination_ports,
        [80..=80, 443..=443, 8000..=8100]
    );
    assert_eq!(class.per, Per::SOURCE);

    let link = Flags {
        interface: "eth0".to_owned(),
        link_rate: some("20mbit"),
        mpu: some("64B"),
        ..Flags::default()
    };
    assert!(from_flags(&link).unwrap().classes.is_empty());

    let wrong = Flags {
        rate: None,
        protocol: vec!["icmp".to_owned()],
        link_rate: some("5pps"),
        mpu: some("64"),
        per: some("source"),
        ..flags
    };
    let errors = from_flags(&wrong).unwrap_err();
    let sources: Vec<&str> = errors.all().iter().map(|p| p.source.as_str()).collect();
    assert_eq!(
        sources,
        ["eth0", "--link-rate", "--per", "--mpu", "--protocol"],
        "{errors}"
    );
}

/// The blocks of one language in the documentation.
fn blocks<'a>(document: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("```{language}\n");
    let blocks = document.split(&opening).skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn the_examples_of_the_documentation_are_right() {
    let document = include_str!("../../../docs/config.md");
    let named: Vec<(&str, &str)> = blocks(document, "text")
        .into_iter()
        .filter_map(|text| Some((text.strip_prefix("# ")?.lines().next()?, text)))
        .collect();
    assert_eq!(named.len(), 2);
    let examples = blocks(document, "toml").into_iter();
    let examples: Vec<&str> = examples
        .filter(|text| text.starts_with("version = 1"))
        .collect();
    assert_eq!(examples.len(), 4);
    for example in examples {
        let mut files = named.clone();
        files.push(("leaky.toml", example));
        if let Err(errors) = Files::new(&files).load() {
            panic!("{example}\n{errors:#?}");
        }
    }
}
