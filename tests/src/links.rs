//! Devices of other kinds between the two namespaces of a lab.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::lab::{FAR, Lab, MAC_A, MAC_B, SHAPED, V4_A, V4_B, mac_text};
use crate::netns::Netns;
use crate::ppp;
use crate::process::{eventually, tool};
use crate::tun::Pump;

/// A kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The lab's own pair.
    Veth,
    /// 802.1Q sub-interfaces of it, VLAN 100.
    Vlan,
    /// 802.1Q (VLAN 20) inside 802.1ad (VLAN 10) over it.
    QinQ,
    /// tun devices, joined in user space.
    Tun,
    /// A WireGuard tunnel over the lab's pair.
    WireGuard,
    /// PPP over PPPoE over the lab's pair.
    Ppp,
    /// Two more veth pairs, bonded at both ends.
    Bond,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Veth,
        Self::Vlan,
        Self::QinQ,
        Self::Tun,
        Self::WireGuard,
        Self::Ppp,
        Self::Bond,
    ];

    /// Bytes of a link header in front of each packet as the interface sees it.
    #[must_use]
    pub fn link_header(self) -> u32 {
        match self {
            Self::Tun | Self::WireGuard | Self::Ppp => 0,
            // A sub-interface sees frames without its own tag.
            Self::Veth | Self::Vlan | Self::QinQ | Self::Bond => 14,
        }
    }

    fn network(self) -> u8 {
        match self {
            Self::Veth => 0,
            Self::Vlan => 11,
            Self::QinQ => 12,
            Self::Tun => 13,
            Self::WireGuard => 14,
            Self::Ppp => 15,
            Self::Bond => 16,
        }
    }
}

/// A device in each namespace with addresses, ready to carry packets. What it needs to live goes when it is dropped.
#[derive(Debug)]
pub struct Link {
    /// Its kind.
    pub kind: Kind,
    /// The interface in `a`.
    pub near: String,
    /// The interface in `b`.
    pub far: String,
    _pump: Option<Pump>,
    _ends: Vec<ppp::End>,
}

impl Link {
    /// Adds it to a lab.
    ///
    /// # Errors
    /// When the kernel has no such devices, or a tool is missing; in words.
    pub fn add(lab: &Lab, kind: Kind) -> Result<Self> {
        let mut link = Self {
            kind,
            near: SHAPED.to_owned(),
            far: FAR.to_owned(),
            _pump: None,
            _ends: Vec::new(),
        };
        let mut name = |near: &str, far: &str| {
            link.near = near.to_owned();
            link.far = far.to_owned();
        };
        match kind {
            Kind::Veth => return Ok(link),
            Kind::Vlan => {
                name("v0.100", "v1.100");
                vlan(&lab.a, SHAPED, "v0.100", "802.1Q", 100)?;
                vlan(&lab.b, FAR, "v1.100", "802.1Q", 100)?;
            }
            Kind::QinQ => {
                name("v0.10.20", "v1.10.20");
                for (namespace, parent) in [(&lab.a, SHAPED), (&lab.b, FAR)] {
                    let outer = format!("{parent}.10");
                    vlan(namespace, parent, &outer, "802.1ad", 10)?;
                    vlan(namespace, &outer, &format!("{outer}.20"), "802.1Q", 20)?;
                }
            }
            Kind::Tun => {
                name("t0", "t1");
                link._pump = Some(Pump::join((&lab.a, "t0"), (&lab.b, "t1"))?);
            }
            Kind::WireGuard => {
                name("wg0", "wg1");
                wireguard(lab)?;
            }
            Kind::Ppp => {
                let ends = [
                    ppp::End::make(&lab.a, SHAPED, MAC_B)?,
                    ppp::End::make(&lab.b, FAR, MAC_A)?,
                ];
                name(&ends[0].interface, &ends[1].interface);
                link._ends = ends.into();
            }
            Kind::Bond => {
                name("bond0", "bond0");
                bond(lab)?;
            }
        }
        link.configure(lab)
            .with_context(|| format!("setting {kind:?} up"))?;
        if kind == Kind::WireGuard {
            link.shake_hands(lab)?;
        }
        Ok(link)
    }

    /// A tunnel keeps at most 128 packets while its ends agree on keys (MAX_STAGED_PACKETS in the kernel's
    /// drivers/net/wireguard/messages.h): a first burst would lose the others.
    fn shake_hands(&self, lab: &Lab) -> Result<()> {
        let far = self.far_address(false, 9);
        lab.a.run(|| {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.send_to(&[0], far).map(drop)
        })??;
        let show = [
            "netns",
            "exec",
            lab.a.name(),
            "wg",
            "show",
            &self.near,
            "latest-handshakes",
        ];
        let done = || {
            let shown = tool("ip", &show).unwrap_or_default();
            let when = shown.split_whitespace().last().map(str::to_owned);
            when.is_some_and(|when| when != "0")
        };
        ensure!(
            eventually(Duration::from_secs(10), done),
            "the ends of the tunnel have not agreed on keys within 10 s"
        );
        Ok(())
    }

    fn configure(&self, lab: &Lab) -> Result<()> {
        let ends = [
            (&lab.a, &self.near, 1, 2, MAC_B),
            (&lab.b, &self.far, 2, 1, MAC_A),
        ];
        for (namespace, interface, own, other, far_mac) in ends {
            namespace.ip(&["link", "set", interface, "addrgenmode", "none"])?;
            namespace.run(|| {
                for (key, value) in [("router_solicitations", "0"), ("accept_ra", "0")] {
                    fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/{key}"), value)
                        .with_context(|| format!("setting {key} of {interface}"))?;
                }
                anyhow::Ok(())
            })??;
            if self.kind == Kind::Ppp {
                // What PPPoE adds must fit into a frame of the pair below.
                namespace.ip(&["link", "set", interface, "mtu", "1492"])?;
            }
            namespace.ip(&["link", "set", interface, "up"])?;
            let (v4, v6) = (self.address(false, own), self.address(true, own));
            namespace.ip(&["addr", "add", &format!("{v4}/30"), "dev", interface])?;
            namespace.ip(&[
                "addr",
                "add",
                &format!("{v6}/64"),
                "dev",
                interface,
                "nodad",
            ])?;
            if self.kind.link_header() > 0 {
                for v6 in [false, true] {
                    namespace.ip(&[
                        "neigh",
                        "replace",
                        &self.address(v6, other).to_string(),
                        "lladdr",
                        &mac_text(far_mac),
                        "dev",
                        interface,
                        "nud",
                        "permanent",
                    ])?;
                }
            }
        }
        for (namespace, interface) in [(&lab.a, &self.near), (&lab.b, &self.far)] {
            ensure!(
                eventually(Duration::from_secs(5), || carries(namespace, interface)),
                "{interface} has no carrier 5 s after it was set up"
            );
        }
        Ok(())
    }

    /// Where a sender in `a` reaches a receiver in `b` over it.
    #[must_use]
    pub fn far_address(&self, v6: bool, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(v6, 2), port)
    }

    /// The address of one end: 1 is in `a`, 2 in `b`.
    #[must_use]
    pub fn address(&self, v6: bool, end: u8) -> IpAddr {
        let network = self.kind.network();
        if v6 {
            Ipv6Addr::new(0xfd00, 0x77, u16::from(network), 0, 0, 0, 0, u16::from(end)).into()
        } else {
            Ipv4Addr::new(10, 77, network, end).into()
        }
    }
}

fn carries(namespace: &Netns, interface: &str) -> bool {
    namespace
        .ip(&["-o", "link", "show", "dev", interface])
        .is_ok_and(|text| text.contains("LOWER_UP"))
}

fn vlan(namespace: &Netns, parent: &str, name: &str, protocol: &str, id: u16) -> Result<()> {
    let id = id.to_string();
    namespace
        .ip(&[
            "link", "add", "link", parent, "name", name, "type", "vlan", "protocol", protocol,
            "id", &id,
        ])
        .context("this kernel has no VLAN devices")?;
    namespace.ip(&["link", "set", name, "up"])?;
    Ok(())
}

/// Any 32 bytes will do for the private keys: nothing secret goes through.
fn wireguard(lab: &Lab) -> Result<()> {
    let directory = std::env::temp_dir().join(format!("leaky-wg-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let made = (|| {
        let mut keys = Vec::new();
        for side in ["a", "b"] {
            let file = directory.join(side);
            let key = tool("wg", &["genkey"]).context("needs the package wireguard-tools")?;
            fs::write(&file, &key)?;
            let path = file
                .to_str()
                .context("a path that is not UTF-8")?
                .to_owned();
            let public = tool("sh", &["-c", &format!("wg pubkey <'{path}'")])?;
            keys.push((path, public.trim().to_owned()));
        }
        let ends = [
            (&lab.a, "wg0", &keys[0].0, &keys[1].1, V4_B),
            (&lab.b, "wg1", &keys[1].0, &keys[0].1, V4_A),
        ];
        for (namespace, name, private, peer, endpoint) in ends {
            namespace
                .ip(&["link", "add", name, "type", "wireguard"])
                .context("this kernel has no WireGuard")?;
            let arguments = [
                "netns",
                "exec",
                namespace.name(),
                "wg",
                "set",
                name,
                "listen-port",
                "51820",
                "private-key",
                private,
                "peer",
                peer,
                "allowed-ips",
                "0.0.0.0/0,::/0",
                "endpoint",
                &format!("{endpoint}:51820"),
            ];
            tool("ip", &arguments)?;
        }
        Ok(())
    })();
    fs::remove_dir_all(&directory)?;
    made
}

fn bond(lab: &Lab) -> Result<()> {
    for (near, far) in [("p0", "p1"), ("q0", "q1")] {
        let (a, b) = (lab.a.name(), lab.b.name());
        tool(
            "ip",
            &[
                "link", "add", near, "netns", a, "type", "veth", "peer", "name", far, "netns", b,
            ],
        )?;
    }
    let ends = [(&lab.a, ["p0", "q0"], MAC_A), (&lab.b, ["p1", "q1"], MAC_B)];
    for (namespace, members, mac) in ends {
        let mac = mac_text(mac);
        namespace
            .ip(&[
                "link",
                "add",
                "bond0",
                "address",
                &mac,
                "type",
                "bond",
                "mode",
                "balance-rr",
                "miimon",
                "10",
            ])
            .context("this kernel has no bonds")?;
        for member in members {
            namespace.ip(&["link", "set", member, "addrgenmode", "none"])?;
            namespace.ip(&["link", "set", member, "master", "bond0"])?;
            namespace.ip(&["link", "set", member, "up"])?;
        }
    }
    Ok(())
}
