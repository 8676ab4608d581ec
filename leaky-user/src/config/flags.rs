//! The options of `leaky run`: one class of one interface, checked like a config file.

use super::error::{Errors, Problems};
use super::interface::interface;
use super::model::Interface;
use super::raw::{Item, List, RawClass, RawClients, RawInterface, RawLimits, RawMatch};
use std::borrow::Cow;
use std::path::Path;

/// The name of the one class.
const NAME: &str = "all";

/// What was typed. Options that were not given are `None` or empty; an element of a list may itself
/// be a list with commas. Files are relative to the working directory.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The interface whose outgoing traffic is limited
    pub interface: String,
    /// How fast it leaves, such as 20mbit, 2.5MB/s or 500pps
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub rate: Option<String>,
    /// How much may wait: bytes, packets or time at the rate [default: what drains in the max wait]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub capacity: Option<String>,
    /// The longest that a packet may wait [default: what the capacity takes to drain, or 200ms
    /// without one]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub max_wait: Option<String>,
    /// How much may leave at once after a pause [default: nothing]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub burst: Option<String>,
    /// Mark packets of ECN-capable senders that wait longer than this [default: never]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub ecn: Option<String>,
    /// Who has a bucket of their own: class (one for all), flow, src, dst, prefixes such as src/24 or
    /// dst/24,dst/56, cgroup, mark, src-port or dst-port [default: class]
    #[arg(long, value_name = "KEY")]
    pub per: Option<String>,
    /// What is done with the packets: shape, or monitor (count what shaping would do, touch nothing)
    /// [default: shape]
    #[arg(long, value_name = "ACTION")]
    pub action: Option<String>,

    /// Only these protocols: tcp, udp, icmp, esp, ... or numbers
    #[arg(
        long,
        value_name = "LIST",
        help_heading = "Which packets (the others pass)"
    )]
    pub protocol: Vec<String>,
    /// Only from these prefixes
    #[arg(
        long,
        value_name = "LIST",
        help_heading = "Which packets (the others pass)"
    )]
    pub source: Vec<String>,
    /// Only from the prefixes in this file, one a line
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Which packets (the others pass)"
    )]
    pub source_file: Option<String>,
    /// Only to these prefixes
    #[arg(
        long,
        value_name = "LIST",
        help_heading = "Which packets (the others pass)"
    )]
    pub destination: Vec<String>,
    /// Only to the prefixes in this file, one a line
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Which packets (the others pass)"
    )]
    pub destination_file: Option<String>,
    /// Only from these ports, such as 80,6000-6100
    #[arg(
        long,
        value_name = "LIST",
        help_heading = "Which packets (the others pass)"
    )]
    pub source_port: Vec<String>,
    /// Only to these ports
    #[arg(
        long,
        value_name = "LIST",
        help_heading = "Which packets (the others pass)"
    )]
    pub destination_port: Vec<String>,
    /// Only with these DSCPs: ef, cs3, af41, ... or numbers
    #[arg(
        long,
        value_name = "LIST",
        help_heading = "Which packets (the others pass)"
    )]
    pub dscp: Vec<String>,
    /// Only with these packet marks
    #[arg(
        long,
        value_name = "LIST",
        help_heading = "Which packets (the others pass)"
    )]
    pub mark: Vec<String>,
    /// The bits of the packet mark that count [default: all]
    #[arg(
        long,
        value_name = "MASK",
        help_heading = "Which packets (the others pass)"
    )]
    pub mark_mask: Option<String>,
    /// Only in these VLANs
    #[arg(
        long,
        value_name = "LIST",
        help_heading = "Which packets (the others pass)"
    )]
    pub vlan: Vec<String>,
    /// Only from sockets in these cgroups or below them, such as /system.slice/backup.service
    #[arg(
        long,
        value_name = "LIST",
        help_heading = "Which packets (the others pass)"
    )]
    pub cgroup: Vec<String>,
    /// Only of the clients in this file, each with its own rate: PREFIX RATE [CAPACITY [MAX-WAIT]]
    /// a line; needs --per src or --per dst
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Which packets (the others pass)"
    )]
    pub clients: Option<String>,

    /// A second limit for everything together
    #[arg(
        long,
        value_name = "RATE",
        allow_hyphen_values = true,
        help_heading = "The link"
    )]
    pub link_rate: Option<String>,
    /// How much may wait for the link [default: what drains in the max wait]
    #[arg(
        long,
        value_name = "SIZE",
        allow_hyphen_values = true,
        help_heading = "The link"
    )]
    pub link_capacity: Option<String>,
    /// How long everything that waits may take to drain [default: the longest wait of a class and
    /// 200ms]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "The link"
    )]
    pub link_max_wait: Option<String>,
    /// Bytes that every frame takes beside what the kernel sees, such as 24B for Ethernet's preamble,
    /// checksum and gap [default: 0B]
    #[arg(
        long,
        value_name = "SIZE",
        allow_hyphen_values = true,
        help_heading = "The link"
    )]
    pub overhead: Option<String>,
    /// The least that a frame takes, overhead included, such as 84B [default: 0B]
    #[arg(
        long,
        value_name = "SIZE",
        allow_hyphen_values = true,
        help_heading = "The link"
    )]
    pub mpu: Option<String>,
    /// What keeps packets until they may leave: fq, htb, or auto (fq where the kernel has it)
    /// [default: auto]
    #[arg(long, value_name = "HOLD", help_heading = "The link")]
    pub hold: Option<String>,
    /// Whether to keep the local stack's packets small, so that they do not leave in lumps: auto
    /// (when a full GSO packet takes more than 1 ms at the rate), on (by the lowest rate of all) or off
    /// [default: auto]
    #[arg(long, value_name = "WHEN", help_heading = "The link")]
    pub smooth: Option<String>,
}

impl Flags {
    /// Whether nothing is said of the one class: only the link is limited then.
    pub fn only_link(&self) -> bool {
        let of_class = Flags {
            link_rate: None,
            link_capacity: None,
            link_max_wait: None,
            overhead: None,
            mpu: None,
            mark_mask: None,
            hold: None,
            smooth: None,
            ..self.clone()
        };
        let nothing = Flags {
            interface: self.interface.clone(),
            ..Flags::default()
        };
        of_class == nothing
    }
}

/// The interface that the options describe: one class, or none if only the link is limited.
///
/// # Errors
/// Everything that is wrong with the options, each under the option's name, and with the files that
/// they name.
pub fn from_flags(flags: &Flags) -> Result<Interface, Errors> {
    let mut problems = Problems::default();
    let raw = raw(flags, &mut problems);
    let interface = interface(&raw, Path::new(""), &mut problems);
    problems.none_or(|| interface)
}

fn raw<'a>(flags: &'a Flags, problems: &mut Problems) -> RawInterface<'a> {
    let command = problems.source(&flags.interface).whole();
    let mut item = |key: &'static str, option: &str, text: &'a Option<String>| {
        text.as_ref().map(|text| Item {
            key,
            text: Cow::Borrowed(text.as_str()),
            place: problems.source(option).whole(),
        })
    };
    let limits = RawLimits {
        place: command,
        sound: true,
        rate: item("rate", "--rate", &flags.rate),
        capacity: item("capacity", "--capacity", &flags.capacity),
        max_wait: item("max-wait", "--max-wait", &flags.max_wait),
        burst: item("burst", "--burst", &flags.burst),
        ecn: item("ecn", "--ecn", &flags.ecn),
    };
    let link = RawLimits {
        rate: item("rate", "--link-rate", &flags.link_rate),
        capacity: item("capacity", "--link-capacity", &flags.link_capacity),
        max_wait: item("max-wait", "--link-max-wait", &flags.link_max_wait),
        ..RawLimits::none(command)
    };
    let link_given = link.given().next().is_some();
    let per = item("per", "--per", &flags.per);
    let action = item("action", "--action", &flags.action);
    let clients = item("clients", "--clients", &flags.clients).map(|file| RawClients {
        place: file.place,
        sound: true,
        file: Some(file),
        inline: Vec::new(),
    });
    let source_file = item("source-file", "--source-file", &flags.source_file);
    let destination_file = item(
        "destination-file",
        "--destination-file",
        &flags.destination_file,
    );
    let mut interface = RawInterface {
        place: command,
        sound: true,
        name: Some(Item {
            key: "name",
            text: Cow::Borrowed(&flags.interface),
            place: command,
        }),
        link: link_given.then_some(link),
        overhead: item("overhead", "--overhead", &flags.overhead),
        mpu: item("mpu", "--mpu", &flags.mpu),
        hold: item("hold", "--hold", &flags.hold),
        smooth: item("smooth", "--smooth", &flags.smooth),
        mark_mask: item("mark-mask", "--mark-mask", &flags.mark_mask),
        control: None,
        default: None,
        classes: Vec::new(),
    };
    let mut list = |key: &'static str, option: &str, texts: &'a [String]| {
        let place = problems.source(option).whole();
        let words = texts.iter().flat_map(|text| text.split(','));
        let items = words.map(|word| Item {
            key,
            text: Cow::Borrowed(word.trim()),
            place,
        });
        (!texts.is_empty()).then(|| List {
            key,
            items: items.collect(),
            is_empty: false,
            place,
        })
    };
    let matching = RawMatch {
        protocol: list("protocol", "--protocol", &flags.protocol),
        source: list("source", "--source", &flags.source),
        source_file,
        destination: list("destination", "--destination", &flags.destination),
        destination_file,
        source_port: list("source-port", "--source-port", &flags.source_port),
        destination_port: list(
            "destination-port",
            "--destination-port",
            &flags.destination_port,
        ),
        dscp: list("dscp", "--dscp", &flags.dscp),
        mark: list("mark", "--mark", &flags.mark),
        vlan: list("vlan", "--vlan", &flags.vlan),
        cgroup: list("cgroup", "--cgroup", &flags.cgroup),
    };
    if !(flags.only_link() && link_given) {
        interface.classes.push(RawClass {
            place: command,
            sound: true,
            name: Some(Item {
                key: "name",
                text: Cow::Borrowed(NAME),
                place: command,
            }),
            matching,
            per,
            action,
            limits,
            clients,
        });
    }
    interface
}
