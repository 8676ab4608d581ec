//! The topology: namespace `a` with interface `v0` (shaped), namespace `b` with `v1` (receives), one veth pair between.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::netns::{Entry, Netns};
use crate::process::{eventually, finish};

/// The interface under test, in namespace `a`.
pub const SHAPED: &str = "v0";
/// Its peer, in namespace `b`.
pub const FAR: &str = "v1";
/// Hardware address of [`SHAPED`].
pub const MAC_A: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0a];
/// Hardware address of [`FAR`].
pub const MAC_B: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0b];
/// IPv4 address of [`SHAPED`].
pub const V4_A: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// IPv4 address of [`FAR`].
pub const V4_B: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// IPv6 address of [`SHAPED`].
pub const V6_A: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 1);
/// IPv6 address of [`FAR`].
pub const V6_B: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 2);
/// A multicast group that is routed to [`SHAPED`].
pub const GROUP: Ipv4Addr = Ipv4Addr::new(239, 77, 0, 1);

/// Prefixes of [`client`].
const CLIENTS: (&str, &str) = ("10.78.0.0/16", "fd78::/32");
/// Prefixes of [`source`].
const SOURCES: (&str, &str) = ("10.79.0.0/16", "fd79::/32");

/// Address of a client in `b` (see [`Lab::many_addresses`]); with IPv6 each is in a /64 of its own.
#[must_use]
pub fn client(v6: bool, number: u16) -> IpAddr {
    numbered(0x78, v6, number)
}

/// Address of a sender in `a` (see [`Lab::many_addresses`]); with IPv6 each is in a /64 of its own.
#[must_use]
pub fn source(v6: bool, number: u16) -> IpAddr {
    numbered(0x79, v6, number)
}

fn numbered(prefix: u8, v6: bool, number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    if v6 {
        let first = 0xfd00 | u16::from(prefix);
        Ipv6Addr::new(first, 0, 0, number, 0, 0, 0, 1).into()
    } else {
        // 10.78 and 10.79, as the IPv6 prefixes are spelt.
        Ipv4Addr::new(10, 70 + (prefix & 0x0f), high, low).into()
    }
}

/// What differs between topologies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabOptions {
    /// MTU of both ends, bytes.
    pub mtu: u32,
    /// Transmit and receive queues of both ends.
    pub queues: u32,
    /// Fixed neighbour entries, so that no address resolution disturbs a measurement.
    pub neighbours: bool,
}

impl Default for LabOptions {
    fn default() -> Self {
        Self {
            mtu: 1500,
            queues: 1,
            neighbours: true,
        }
    }
}

/// Two namespaces joined by a veth pair; removed on drop.
#[derive(Debug)]
pub struct Lab {
    /// The sending side, with [`SHAPED`].
    pub a: Netns,
    /// The receiving side, with [`FAR`].
    pub b: Netns,
}

impl Lab {
    /// A lab with the usual options.
    ///
    /// # Errors
    /// See [`Lab::with`].
    pub fn new() -> Result<Self> {
        Self::with(LabOptions::default())
    }

    /// Makes the namespaces, the pair, the addresses and the routes.
    ///
    /// # Errors
    /// Without root, without `ip`, or on a kernel without veth.
    pub fn with(options: LabOptions) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = |side: &str| {
            format!(
                "{}{}-{number}-{side}",
                crate::cleanup::PREFIX,
                process::id()
            )
        };
        let lab = Self {
            a: Netns::create(&name("a"))?,
            b: Netns::create(&name("b"))?,
        };
        lab.join(options)
            .context("joining two namespaces by a veth pair")?;
        Ok(lab)
    }

    fn join(&self, options: LabOptions) -> Result<()> {
        let queues = options.queues.to_string();
        let mtu = options.mtu.to_string();
        let (mac_a, mac_b) = (mac_text(MAC_A), mac_text(MAC_B));
        let end = |name, mac, namespace| {
            [
                "name",
                name,
                "mtu",
                mtu.as_str(),
                "address",
                mac,
                "numtxqueues",
                queues.as_str(),
                "numrxqueues",
                queues.as_str(),
                "netns",
                namespace,
            ]
        };
        let mut add = vec!["link", "add"];
        add.extend(end(SHAPED, mac_a.as_str(), self.a.name()));
        add.extend(["type", "veth", "peer"]);
        add.extend(end(FAR, mac_b.as_str(), self.b.name()));
        crate::process::tool("ip", &add)?;

        let ends = [
            (&self.a, SHAPED, V4_A, V6_A, V4_B, V6_B, mac_b.as_str()),
            (&self.b, FAR, V4_B, V6_B, V4_A, V6_A, mac_a.as_str()),
        ];
        for (namespace, interface, v4, v6, far4, far6, far_mac) in ends {
            // No link-local address: it would announce itself in the middle of a measurement.
            namespace.ip(&["link", "set", interface, "addrgenmode", "none"])?;
            namespace.run(|| {
                for (key, value) in [("router_solicitations", "0"), ("accept_ra", "0")] {
                    fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/{key}"), value)
                        .with_context(|| format!("setting {key} of {interface}"))?;
                }
                anyhow::Ok(())
            })??;
            namespace.ip(&["addr", "add", &format!("{v4}/30"), "dev", interface])?;
            namespace.ip(&[
                "addr",
                "add",
                &format!("{v6}/64"),
                "dev",
                interface,
                "nodad",
            ])?;
            namespace.ip(&["link", "set", interface, "up"])?;
            if options.neighbours {
                for far in [far4.to_string(), far6.to_string()] {
                    namespace.ip(&[
                        "neigh",
                        "replace",
                        &far,
                        "lladdr",
                        far_mac,
                        "dev",
                        interface,
                        "nud",
                        "permanent",
                    ])?;
                }
            }
        }
        self.a.ip(&["route", "add", "239.0.0.0/8", "dev", SHAPED])?;
        self.receive_on_one_cpu()?;
        for (namespace, interface) in [(&self.a, SHAPED), (&self.b, FAR)] {
            ensure!(
                eventually(Duration::from_secs(5), || is_ready(namespace, interface)
                    .unwrap_or(false)),
                "{interface} has no carrier or no usable IPv6 address 5 s after it was set up"
            );
        }
        Ok(())
    }

    /// A veth receives on the CPU that sends, and several CPUs would hand packets on in any order: with one CPU for all (RPS), the order
    /// of arrival is the order in which they left.
    fn receive_on_one_cpu(&self) -> Result<()> {
        // `ip netns exec` shows the namespace's own interfaces in /sys. A kernel for one CPU has no such file.
        let script = format!(
            "for file in /sys/class/net/{FAR}/queues/rx-*/rps_cpus; do [ ! -e $file ] || echo 1 > $file; done"
        );
        let mut shell = self.b.command("sh", Entry::IpNetnsExec);
        let done = finish(shell.args(["-c", &script]), Duration::from_secs(10))?;
        ensure!(
            done.status.success(),
            "choosing the receiving CPU of {FAR}: {}",
            done.stderr.trim()
        );
        Ok(())
    }

    /// Where a sender in `a` reaches a receiver in `b`.
    #[must_use]
    pub fn far(&self, v6: bool, port: u16) -> SocketAddr {
        let address = if v6 {
            IpAddr::V6(V6_B)
        } else {
            IpAddr::V4(V4_B)
        };
        SocketAddr::new(address, port)
    }

    /// Makes every address of [`client`] reach `b`, and lets senders in `a` use every address of [`source`]. Neither needs an
    /// address on an interface: a whole prefix is local.
    ///
    /// # Errors
    /// With the words of `ip`.
    pub fn many_addresses(&self) -> Result<()> {
        let (a4, a6) = (V4_A.to_string(), V6_A.to_string());
        let (b4, b6) = (V4_B.to_string(), V6_B.to_string());
        let ends = [
            (&self.a, SOURCES, CLIENTS, b4, b6),
            (&self.b, CLIENTS, SOURCES, a4, a6),
        ];
        for (namespace, own, other, via4, via6) in ends {
            for ((own, other), via) in [own.0, own.1]
                .iter()
                .zip([other.0, other.1])
                .zip([via4, via6])
            {
                namespace.ip(&["route", "add", "local", own, "dev", "lo"])?;
                namespace.ip(&["route", "add", other, "via", &via])?;
            }
        }
        Ok(())
    }

    /// Changes the MTU of both ends while everything runs.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn set_mtu(&self, mtu: u32) -> Result<()> {
        let mtu = mtu.to_string();
        self.b.ip(&["link", "set", FAR, "mtu", &mtu])?;
        self.a.ip(&["link", "set", SHAPED, "mtu", &mtu])?;
        Ok(())
    }
}

/// Carrier noticed, and the IPv6 address has joined its solicited-node group: both happen some time after the command that causes them.
fn is_ready(namespace: &Netns, interface: &str) -> Result<bool> {
    let up = namespace
        .ip(&["-o", "link", "show", "dev", interface])?
        .contains("state UP");
    let groups = namespace.run(|| fs::read_to_string("/proc/thread-self/net/igmp6"))??;
    Ok(up
        && groups
            .lines()
            .any(|line| line.contains(interface) && line.contains("ff0200000000000000000001ff")))
}

pub(crate) fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
