//! One interface: its own keys, and its classes among each other.

use super::class::{Draft, class};
use super::error::{Problems, quoted};
use super::limits::link;
use super::model::{
    Control, Fallback, Interface, MAX_CGROUPS, MAX_CLASSES, MAX_MARKS, MAX_MPU, MAX_OVERHEAD,
    MAX_PREFIXES,
};
use super::raw::{Item, RawInterface};
use super::reach::unreachable;
use super::value;
use crate::config::Smooth;
use crate::hold::HoldMode;
use std::collections::HashMap;
use std::path::Path;

/// Reads an interface. What is wrong is in `problems`; the result is then only good for looking for
/// more.
pub(super) fn interface(raw: &RawInterface<'_>, base: &Path, problems: &mut Problems) -> Interface {
    let name = match &raw.name {
        Some(name) => name.read(problems, interface_name).unwrap_or_default(),
        None => {
            problems.missing(
                raw.place,
                "the interface has no name: write name = \"eth0\"",
            );
            String::new()
        }
    };
    let mark_mask = read_or(&raw.mark_mask, u32::MAX, mask, problems);
    let link = raw.link.as_ref().map(|raw| link(raw, problems));
    if raw.link.is_none() && raw.classes.is_empty() && raw.default.is_none() {
        missing(
            raw,
            problems,
            "the interface limits nothing: give it a link = { rate = \"100mbit\" } or an \
             [[interface.class]]",
        );
    }
    let interface = Interface {
        name,
        link: link.flatten(),
        overhead: bytes(&raw.overhead, MAX_OVERHEAD, problems),
        mpu: bytes(&raw.mpu, MAX_MPU, problems),
        hold: read_or(&raw.hold, HoldMode::default(), str::parse, problems),
        smooth: read_or(&raw.smooth, Smooth::Auto, smooth, problems),
        mark_mask,
        control: read_or(&raw.control, Control::default(), control, problems),
        fallback: Fallback::default(),
        classes: Vec::new(),
    };
    let drafts: Vec<Draft> = raw
        .classes
        .iter()
        .map(|raw| class(raw, mark_mask, base, problems))
        .collect();
    too_many(raw, &drafts, problems);
    names_are_unique(&drafts, problems);
    one_client_table(raw, problems);
    let fallback = match &raw.default {
        None => Fallback::default(),
        Some(item) => fallback(item, &drafts, problems).unwrap_or_default(),
    };
    unreachable(&drafts, fallback, problems);
    Interface {
        fallback,
        classes: drafts.into_iter().map(|draft| draft.class).collect(),
        ..interface
    }
}

fn read_or<T, E: std::fmt::Display>(
    item: &Option<Item<'_>>,
    default: T,
    read: impl FnOnce(&str) -> Result<T, E>,
    problems: &mut Problems,
) -> T {
    match item {
        Some(item) => item.read(problems, read).unwrap_or(default),
        None => default,
    }
}

fn bytes(item: &Option<Item<'_>>, most: u32, problems: &mut Problems) -> u32 {
    read_or(item, 0, |text| value::frame_bytes(text, most), problems)
}

/// Something is missing in the interface, unless it may only not have been understood.
fn missing(raw: &RawInterface<'_>, problems: &mut Problems, text: &str) {
    if raw.sound {
        problems.missing(raw.place, text);
    }
}

/// What the kernel takes as a name (dev_valid_name in net/core/dev.c).
fn interface_name(name: &str) -> Result<String, String> {
    let legal = |c: char| !c.is_whitespace() && !c.is_control() && c != '/' && c != ':';
    if name.is_empty() || name.len() > 15 || !name.chars().all(legal) || matches!(name, "." | "..")
    {
        return Err(format!(
            "the name {} of an interface is not 1 to 15 bytes without white space, / and :",
            quoted(name)
        ));
    }
    Ok(name.to_owned())
}

fn mask(text: &str) -> Result<u32, String> {
    match value::mark(text) {
        Ok(0) => Err("mark-mask 0 leaves no bit to look at: leave it out for all bits".to_owned()),
        Ok(mask) => Ok(mask),
        Err(error) => Err(error.to_string()),
    }
}

fn smooth(text: &str) -> Result<Smooth, String> {
    match text {
        "auto" => Ok(Smooth::Auto),
        "on" => Ok(Smooth::On),
        "off" => Ok(Smooth::Off),
        _ => Err(format!("smooth is auto, on or off, not {}", quoted(text))),
    }
}

fn control(text: &str) -> Result<Control, String> {
    match text {
        "pass" => Ok(Control::Pass),
        "class" => Ok(Control::Class),
        _ => Err(format!("control is pass or class, not {}", quoted(text))),
    }
}

fn fallback(item: &Item<'_>, drafts: &[Draft], problems: &mut Problems) -> Option<Fallback> {
    let text = &*item.text;
    match text {
        "pass" => return Some(Fallback::Pass),
        "drop" => return Some(Fallback::Drop),
        _ => {}
    }
    match drafts.iter().position(|draft| draft.class.name == text) {
        Some(at) if drafts[at].class.clients.is_some() => {
            problems.add(
                item.place,
                format!(
                    "default cannot be the class {text}, which has a bucket for each of its clients and \
                     none for others: name another class, pass or drop"
                ),
            );
            None
        }
        Some(at) => Some(Fallback::Class(at)),
        None => {
            problems.missing(
                item.place,
                format!(
                    "default {} is no class of this interface: write pass, drop or the name of a class",
                    quoted(text)
                ),
            );
            None
        }
    }
}

fn too_many(raw: &RawInterface<'_>, drafts: &[Draft], problems: &mut Problems) {
    if let Some(first) = drafts.get(MAX_CLASSES) {
        problems.add(
            first.place,
            format!(
                "this is class {}, of {}: an interface has at most {MAX_CLASSES}",
                MAX_CLASSES + 1,
                drafts.len()
            ),
        );
    }
    let matches = drafts.iter().map(|draft| &draft.class.matching);
    let prefixes: usize = matches
        .map(|matching| matching.sources.len() + matching.destinations.len())
        .sum();
    if prefixes > MAX_PREFIXES {
        problems.add(
            raw.place,
            format!(
                "the classes match {prefixes} prefixes: an interface has at most {MAX_PREFIXES} (and \
                 {} clients)",
                super::MAX_CLIENTS
            ),
        );
    }
    let lists = || drafts.iter().map(|draft| &draft.class.matching);
    let marks: usize = lists().map(|matching| matching.marks.len()).sum();
    let cgroups: usize = lists().map(|matching| matching.cgroups.len()).sum();
    for (what, count, most) in [
        ("marks", marks, MAX_MARKS),
        ("cgroups", cgroups, MAX_CGROUPS),
    ] {
        if count > most {
            let text = format!("the classes match {count} {what}: an interface has at most {most}");
            problems.add(raw.place, text);
        }
    }
}

fn names_are_unique(drafts: &[Draft], problems: &mut Problems) {
    let mut seen = HashMap::new();
    for draft in drafts.iter().filter(|draft| !draft.class.name.is_empty()) {
        let first = *seen.entry(&draft.class.name).or_insert(draft.place);
        if first != draft.place {
            let first = problems.refer(draft.place, first);
            problems.add(
                draft.place,
                format!(
                    "the class {} is there twice (first on {first}): give this one another name",
                    draft.class.name
                ),
            );
        }
    }
}

fn one_client_table(raw: &RawInterface<'_>, problems: &mut Problems) {
    let mut with_clients = raw
        .classes
        .iter()
        .filter_map(|class| class.clients.as_ref());
    let Some(first) = with_clients.next() else {
        return;
    };
    for again in with_clients {
        let first = problems.refer(again.place, first.place);
        problems.add(
            again.place,
            format!("another class has clients already ({first}): an interface has one such class"),
        );
    }
}
