//! The explanation for programs: one JSON object, with units in the names of its keys.

use super::{matching, rates};
use crate::config::Smooth;
use crate::config::value::{dscp_name, protocol_name, show_ports, show_prefix};
use crate::config::{Asked, Class, Config, Control, Fallback, Interface, Match};
use crate::units::{Capacity, Duration, Rate};
use serde_json::{Map, Value, json};
use std::path::Path;

type Object = Map<String, Value>;

/// The whole file.
pub(super) fn explain(path: &Path, config: &Config) -> String {
    let interfaces: Vec<Value> = config.interfaces.iter().map(interface).collect();
    json!({
        "event": "check",
        "config": path.to_string_lossy(),
        "interfaces": interfaces,
    })
    .to_string()
}

fn interface(interface: &Interface) -> Value {
    let default = match interface.fallback {
        Fallback::Pass => "pass",
        Fallback::Drop => "drop",
        Fallback::Class(at) => interface.classes.get(at).map_or("", |class| &class.name),
    };
    let link = interface.link.map(|link| {
        let mut object = Object::new();
        rate(&mut object, "", link.rate);
        amount(&mut object, "capacity", link.capacity);
        seconds(&mut object, "max_wait", link.max_wait);
        object
    });
    let classes: Vec<Object> = interface.classes.iter().map(class).collect();
    json!({
        "interface": interface.name,
        "link": link,
        "overhead_bytes": interface.overhead,
        "mpu_bytes": interface.mpu,
        "hold": interface.hold.to_string(),
        "smooth": match interface.smooth { Smooth::Auto => "auto", Smooth::On => "on", Smooth::Off => "off" },
        "mark_mask": format!("{:#x}", interface.mark_mask),
        "control": match interface.control { Control::Pass => "pass", Control::Class => "class" },
        "default": default,
        "classes": classes,
        "notices": interface.notices(),
    })
}

fn class(class: &Class) -> Object {
    let mut object = Object::new();
    object.insert("name".to_owned(), class.name.as_str().into());
    object.insert("action".to_owned(), class.action.to_string().into());
    object.insert("match".to_owned(), matched(&class.matching).into());
    object.insert(
        "match_in_words".to_owned(),
        matching::in_words(&class.matching).into(),
    );
    if class.limits.is_some() || class.clients.is_some() {
        object.insert("per".to_owned(), class.per.to_string().into());
        let words = match &class.clients {
            Some(_) => "each client has a bucket of its own".to_owned(),
            None => class.per.in_words(),
        };
        object.insert("per_in_words".to_owned(), words.into());
    }
    if let Some(limits) = &class.limits {
        asked(&mut object, limits);
    }
    if let Some(clients) = &class.clients {
        let mut of_clients = Object::new();
        of_clients.insert("count".to_owned(), clients.len().into());
        if let Some((lowest, highest)) = rates(clients) {
            rate(&mut of_clients, "lowest_", lowest);
            rate(&mut of_clients, "highest_", highest);
        }
        object.insert("clients".to_owned(), of_clients.into());
    }
    object
}

/// What is matched, under the keys of the config file; what matches all is left out.
fn matched(matching: &Match) -> Object {
    let mut object = Object::new();
    let mut list = |key: &str, values: Vec<Value>| {
        if !values.is_empty() {
            object.insert(key.to_owned(), values.into());
        }
    };
    let names = |values: &[u8], name: fn(u8) -> String| {
        values.iter().map(|value| name(*value).into()).collect()
    };
    let prefixes =
        |prefixes: &[ipnet::IpNet]| prefixes.iter().map(|net| show_prefix(net).into()).collect();
    let ports = |ranges: &[std::ops::RangeInclusive<u16>]| {
        ranges
            .iter()
            .map(|range| show_ports(range).into())
            .collect()
    };
    list("protocol", names(&matching.protocols, protocol_name));
    list("source", prefixes(&matching.sources));
    list("destination", prefixes(&matching.destinations));
    list("source_port", ports(&matching.source_ports));
    list("destination_port", ports(&matching.destination_ports));
    list("dscp", names(&matching.dscps, dscp_name));
    list(
        "mark",
        matching
            .marks
            .iter()
            .map(|mark| format!("{mark:#x}").into())
            .collect(),
    );
    list(
        "vlan",
        matching.vlans.iter().map(|id| (*id).into()).collect(),
    );
    let cgroups = matching.cgroups.iter();
    list(
        "cgroup",
        cgroups.map(|path| path.to_string_lossy().into()).collect(),
    );
    object
}

fn asked(object: &mut Object, asked: &Asked) {
    rate(object, "", asked.rate);
    amount(object, "capacity", asked.capacity);
    seconds(object, "max_wait", asked.max_wait);
    amount(object, "burst", asked.burst);
    seconds(object, "ecn", asked.ecn);
}

fn rate(object: &mut Object, before: &str, rate: Rate) {
    let (unit, value) = match rate {
        Rate::BytesPerSecond(n) => ("bytes", n),
        Rate::PacketsPerSecond(n) => ("packets", n),
    };
    object.insert(format!("{before}rate_{unit}_per_second"), value.into());
}

fn amount(object: &mut Object, key: &str, amount: Option<Capacity>) {
    match amount {
        None => {}
        Some(Capacity::Time(time)) => seconds(object, key, Some(time)),
        Some(Capacity::Bytes(n)) => drop(object.insert(format!("{key}_bytes"), n.into())),
        Some(Capacity::Packets(n)) => drop(object.insert(format!("{key}_packets"), n.into())),
    }
}

/// Nothing computes with it any more: a fraction of a second is what a program expects.
fn seconds(object: &mut Object, key: &str, time: Option<Duration>) {
    if let Some(time) = time {
        let seconds = std::time::Duration::from(time).as_secs_f64();
        object.insert(format!("{key}_seconds"), seconds.into());
    }
}
