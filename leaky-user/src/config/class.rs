//! One class: its parts read, and what must not stand beside what.

use super::clients::clients;
use super::error::{Place, Problems, quoted};
use super::limits::{Partial, limits};
use super::matching::matching;
use super::model::{Action, Class};
use super::per::Per;
use super::raw::{Item, RawClass};
use std::path::Path;

/// A class as far as it could be read.
pub(super) struct Draft {
    pub(super) place: Place,
    pub(super) class: Class,
    /// Its match and clients were read without a problem: which packets it takes is known.
    pub(super) known: bool,
}

/// Reads a class.
pub(super) fn class(
    raw: &RawClass<'_>,
    mark_mask: u32,
    base: &Path,
    problems: &mut Problems,
) -> Draft {
    let name = match &raw.name {
        Some(name) => name.read(problems, class_name).unwrap_or_default(),
        None => {
            missing(
                raw,
                problems,
                "the class has no name: write name = \"voice\"",
            );
            String::new()
        }
    };
    let matching = matching(&raw.matching, mark_mask, base, problems);
    let per = raw
        .per
        .as_ref()
        .map(|item| item.read(problems, str::parse::<Per>));
    let action = match &raw.action {
        Some(item) => item.read(problems, action),
        None => Some(Action::default()),
    };
    let limits = limits(&raw.limits, problems);
    let before = problems.count();
    let clients = raw
        .clients
        .as_ref()
        .map(|raw| clients(raw, limits, base, problems));
    let all_clients = clients.is_none() || (limits.is_some() && problems.count() == before);
    let known = raw.sound && matching.is_some() && all_clients;

    let asked = limits.and_then(Partial::asked);
    match action {
        Some(Action::Pass | Action::Drop) => no_bucket(raw, problems),
        Some(Action::Shape | Action::Monitor)
            if limits.is_some_and(|limits| limits.rate.is_none()) && raw.clients.is_none() =>
        {
            missing(
                raw,
                problems,
                "the class has no rate: write rate = \"20mbit\", or action = \"pass\" or \"drop\"",
            );
        }
        _ => {}
    }
    let per = match per {
        Some(None) => Per::default(),
        Some(Some(per)) => {
            clients_need_address(raw, per, problems);
            per
        }
        None => {
            clients_need_address(raw, Per::default(), problems);
            Per::default()
        }
    };
    Draft {
        place: raw.name.as_ref().map_or(raw.place, |name| name.place),
        class: Class {
            name,
            matching: matching.unwrap_or_default(),
            per,
            action: action.unwrap_or_default(),
            limits: asked,
            clients,
        },
        known,
    }
}

/// Something is missing in the class, unless it may only not have been understood.
fn missing(raw: &RawClass<'_>, problems: &mut Problems, text: &str) {
    if raw.sound {
        problems.missing(raw.place, text);
    }
}

fn class_name(name: &str) -> Result<String, String> {
    let legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'_' | b'-');
    if name.is_empty() || name.len() > 32 || !name.bytes().all(legal) {
        return Err(format!(
            "the name {} of a class is not 1 to 32 of a-z, 0-9, _ and -",
            quoted(name)
        ));
    }
    // `default = "pass"` would mean two things, and reports call what matches no class the rest.
    if matches!(name, "pass" | "drop" | "rest") {
        return Err(format!(
            "a class cannot be named {name}, which has a meaning of its own: take another name"
        ));
    }
    Ok(name.to_owned())
}

fn action(text: &str) -> Result<Action, String> {
    Ok(match text {
        "shape" => Action::Shape,
        "pass" => Action::Pass,
        "drop" => Action::Drop,
        "monitor" => Action::Monitor,
        _ => {
            return Err(format!(
                "action {} is unknown: write shape, pass, drop or monitor",
                quoted(text)
            ));
        }
    })
}

/// With `pass` and `drop` there is no bucket: what is said about one would be ignored.
fn no_bucket(raw: &RawClass<'_>, problems: &mut Problems) {
    let action = raw.action.as_ref().map_or("", |item| &item.text);
    let mut refuse = |key: &str, place| {
        problems.add(
            place,
            format!("{key} does nothing with action = \"{action}\": leave it out, or write action = \"shape\""),
        );
    };
    for item in raw.limits.given().chain(&raw.per) {
        refuse(item.key, item.place);
    }
    if let Some(clients) = &raw.clients {
        refuse("clients", clients.place);
    }
}

/// A client is looked up by one address, and its prefix is its bucket.
fn clients_need_address(raw: &RawClass<'_>, per: Per, problems: &mut Problems) {
    let Some(clients) = &raw.clients else {
        return;
    };
    if raw.per.is_none() && (!raw.sound || problems.incomplete) {
        return;
    }
    let advice = match per {
        Per::SOURCE | Per::DESTINATION => return,
        Per::Source { .. } | Per::Destination { .. } => {
            "each client has one bucket, so lengths say nothing"
        }
        _ => "clients are looked up by an address",
    };
    let place = raw
        .per
        .as_ref()
        .map_or(clients.place, |item: &Item<'_>| item.place);
    problems.add(
        place,
        format!("{advice}: write per = \"src\" or per = \"dst\" beside clients"),
    );
}
