//! A home router: clients - LAN - router - WAN - server, with address translation towards the WAN.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

use crate::netns::Netns;
use crate::process::tool;

/// The router's interface towards the clients.
pub const LAN: &str = "lan0";
/// The router's interface towards the server.
pub const WAN: &str = "wan0";
/// The server's address.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 90, 0, 2);

/// Three kinds of hosts; removed on drop.
#[derive(Debug)]
pub struct Router {
    /// Each client in a namespace of its own, behind one switch.
    pub clients: Vec<Netns>,
    /// The router, with [`LAN`] and [`WAN`].
    pub router: Netns,
    /// The server, which sees the router's address only.
    pub server: Netns,
}

impl Router {
    /// Makes them, with `clients` clients.
    ///
    /// # Errors
    /// Without root or `ip`, on a kernel without bridges, or without the `nft` program and translation in the kernel.
    pub fn new(clients: u8) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = |host: &str| {
            format!(
                "{}{}-r{number}-{host}",
                crate::cleanup::PREFIX,
                process::id()
            )
        };
        let made = Self {
            clients: (0..clients)
                .map(|client| Netns::create(&name(&format!("c{client}"))))
                .collect::<Result<_>>()?,
            router: Netns::create(&name("r"))?,
            server: Netns::create(&name("s"))?,
        };
        made.wan()?;
        made.lan()?;
        made.forward()?;
        made.translate()?;
        Ok(made)
    }

    /// The address of a client, counted from 0.
    #[must_use]
    pub fn client_address(client: u8) -> IpAddr {
        Ipv4Addr::new(10, 91, 0, 10 + client).into()
    }

    fn wan(&self) -> Result<()> {
        pair(
            (&self.router, WAN, "10.90.0.1/24"),
            (&self.server, "s0", "10.90.0.2/24"),
        )
    }

    /// The router is the switch too, as home routers are: its one interface for all clients is a bridge.
    fn lan(&self) -> Result<()> {
        let router = &self.router;
        router.ip(&["link", "add", LAN, "type", "bridge"])?;
        router.ip(&["addr", "add", "10.91.0.1/24", "dev", LAN])?;
        router.ip(&["link", "set", LAN, "up"])?;
        for (number, client) in (0u8..).zip(&self.clients) {
            let port = format!("port{number}");
            let address = format!("{}/24", Self::client_address(number));
            tool(
                "ip",
                &[
                    "link",
                    "add",
                    &port,
                    "netns",
                    router.name(),
                    "type",
                    "veth",
                    "peer",
                    "name",
                    "c0",
                    "netns",
                    client.name(),
                ],
            )?;
            router.ip(&["link", "set", &port, "master", LAN])?;
            router.ip(&["link", "set", &port, "up"])?;
            client.ip(&["addr", "add", &address, "dev", "c0"])?;
            client.ip(&["link", "set", "c0", "up"])?;
            client.ip(&["route", "add", "default", "via", "10.91.0.1"])?;
        }
        Ok(())
    }

    fn forward(&self) -> Result<()> {
        self.router.run(|| {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("switching forwarding on")
        })?
    }

    fn translate(&self) -> Result<()> {
        let rules = format!(
            "table ip leaky_lab {{\n chain post {{\n  type nat hook postrouting priority 100\n  oifname \"{WAN}\" masquerade\n }}\n}}\n"
        );
        // By way of an argument, for which nft wants no file.
        tool("ip", &["netns", "exec", self.router.name(), "nft", &rules])
            .context("address translation needs the package nftables and a kernel with nft_masq")?;
        Ok(())
    }
}

fn pair(one: (&Netns, &str, &str), other: (&Netns, &str, &str)) -> Result<()> {
    tool(
        "ip",
        &[
            "link",
            "add",
            one.1,
            "netns",
            one.0.name(),
            "type",
            "veth",
            "peer",
            "name",
            other.1,
            "netns",
            other.0.name(),
        ],
    )?;
    for (namespace, interface, address) in [one, other] {
        namespace.ip(&["addr", "add", address, "dev", interface])?;
        namespace.ip(&["link", "set", interface, "up"])?;
    }
    Ok(())
}
