//! What the kernel says, asked through `tc` and `ip`, which share no code with the product.

use std::fmt;

use anyhow::{Context, Result, anyhow};
use serde_json::{Map, Value};

use crate::netns::Netns;

/// Counters of one qdisc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qdisc {
    /// Kind, such as `fq`.
    pub kind: String,
    /// It is the interface's root.
    pub root: bool,
    /// Bytes that left it.
    pub bytes: u64,
    /// Packets that left it.
    pub packets: u64,
    /// Packets it dropped.
    pub drops: u64,
    /// Bytes waiting in it.
    pub backlog: u64,
    /// Packets waiting in it.
    pub waiting: u64,
}

/// The qdiscs of an interface with their counters.
///
/// # Errors
/// When `tc` fails or says something that cannot be read.
pub fn qdiscs(namespace: &Netns, interface: &str) -> Result<Vec<Qdisc>> {
    list(&namespace.tc(&["-s", "-j", "qdisc", "show", "dev", interface])?)?
        .iter()
        .map(|qdisc| {
            let number = |key: &str| qdisc.get(key).and_then(Value::as_u64).unwrap_or(0);
            Ok(Qdisc {
                kind: qdisc["kind"]
                    .as_str()
                    .context("a qdisc without a kind")?
                    .to_owned(),
                root: qdisc["root"].as_bool().unwrap_or(false),
                bytes: number("bytes"),
                packets: number("packets"),
                drops: number("drops"),
                backlog: number("backlog"),
                waiting: number("qlen"),
            })
        })
        .collect()
}

/// What the root qdisc did with packets: the sum over the qdiscs of all queues where the root is only a hub (`mq`).
///
/// # Errors
/// As [`qdiscs`]; and when there is no root qdisc.
pub fn root(namespace: &Netns, interface: &str) -> Result<Qdisc> {
    qdiscs(namespace, interface)?
        .into_iter()
        .find(|qdisc| qdisc.root)
        .ok_or_else(|| anyhow!("{interface} has no root qdisc"))
}

/// Counters of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Bytes sent, a GSO packet counted as one piece.
    pub tx_bytes: u64,
    /// Packets sent, a GSO packet counted once.
    pub tx_packets: u64,
    /// Largest number of segments of a GSO packet that the stack makes for it.
    pub gso_max_segs: u64,
}

/// The counters of an interface.
///
/// # Errors
/// When `ip` fails or says something that cannot be read.
pub fn link(namespace: &Netns, interface: &str) -> Result<Link> {
    let links = list(&namespace.ip(&["-s", "-d", "-j", "link", "show", "dev", interface])?)?;
    let link = links
        .first()
        .ok_or_else(|| anyhow!("`ip` does not show {interface}"))?;
    let transmitted = &link["stats64"]["tx"];
    Ok(Link {
        tx_bytes: transmitted["bytes"].as_u64().context("no tx_bytes")?,
        tx_packets: transmitted["packets"].as_u64().context("no tx_packets")?,
        gso_max_segs: link["gso_max_segs"].as_u64().context("no gso_max_segs")?,
    })
}

/// Everything of an interface that the product may change; two of these are equal if it put everything back.
#[derive(Clone, PartialEq)]
pub struct KernelState {
    qdiscs: Vec<Value>,
    classes: String,
    filters: [String; 2],
    link: Map<String, Value>,
}

impl fmt::Debug for KernelState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let qdiscs = Value::Array(self.qdiscs.clone());
        write!(
            f,
            "qdiscs {qdiscs}\nclasses {:?}\nfilters {:?}\nlink {}",
            self.classes,
            self.filters,
            Value::Object(self.link.clone())
        )
    }
}

/// Reads the state of an interface: qdiscs with their parameters, classes, filters, and what `ip link` shows of GSO, MTU and queues.
///
/// # Errors
/// When `tc` or `ip` fail.
pub fn state(namespace: &Netns, interface: &str) -> Result<KernelState> {
    let mut qdiscs = list(&namespace.tc(&["-j", "qdisc", "show", "dev", interface])?)?;
    for qdisc in qdiscs.iter_mut().filter_map(Value::as_object_mut) {
        qdisc.remove("refcnt"); // number of queues; not a setting
        if let Some(options) = qdisc.get_mut("options").and_then(Value::as_object_mut) {
            options.remove("direct_packets_stat"); // a counter of htb among its options
        }
    }
    let links = list(&namespace.ip(&["-d", "-j", "link", "show", "dev", interface])?)?;
    let link = links
        .first()
        .and_then(Value::as_object)
        .context("`ip` shows no link")?;
    let kept = |key: &str| {
        key.contains("gso")
            || key.contains("gro")
            || ["mtu", "txqlen", "qdisc", "num_tx_queues", "flags"].contains(&key)
    };
    let filters = |direction: &str| {
        // Without clsact there is nothing to list, and tc calls that an error: its words are part of the state.
        namespace
            .tc(&["filter", "show", "dev", interface, direction])
            .unwrap_or_else(|error| format!("{error:#}").replace(namespace.name(), ""))
    };
    Ok(KernelState {
        qdiscs,
        classes: namespace.tc(&["class", "show", "dev", interface])?,
        filters: [filters("egress"), filters("ingress")],
        link: link
            .iter()
            .filter(|(key, _)| kept(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    })
}

fn list(json: &str) -> Result<Vec<Value>> {
    match serde_json::from_str(json).with_context(|| format!("not JSON: {json}"))? {
        Value::Array(entries) => Ok(entries),
        other => Err(anyhow!("not a list: {other}")),
    }
}
