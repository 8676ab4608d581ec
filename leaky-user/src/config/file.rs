//! From the TOML document to what was written.

use super::document::{self, Lines, Section, section_of};
use super::error::{Place, Problems, Source};
use super::raw::{Item, RawClass, RawClients, RawInterface, RawLimits, RawMatch};
use std::borrow::Cow;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The version that is read.
const VERSION: &str = "1";

/// Reads the document's tables; `lines` and the document are [`document::parse`]'s.
fn interfaces<'t>(
    document: &'t DeTable<'_>,
    lines: &'t Lines,
    source: Source,
    problems: &mut Problems,
) -> Vec<RawInterface<'t>> {
    let mut top = Section::new(document, lines, "the file", source.whole());
    version(&mut top, lines, problems);
    let interfaces = top.sections("interface", "interface", "an interface", problems);
    if interfaces.is_empty() && top.get("interface").is_none() {
        problems.missing(
            source.whole(),
            "no interface: begin one with [[interface]] and name = \"eth0\"",
        );
    }
    top.finish(problems);
    interfaces
        .into_iter()
        .map(|section| interface(section, lines, problems))
        .collect()
}

fn version(top: &mut Section<'_, '_>, lines: &Lines, problems: &mut Problems) {
    match top
        .get("version")
        .map(|value| (value.get_ref(), lines.of(value)))
    {
        None => problems.missing(
            top.place,
            "the version is missing: begin the file with version = 1",
        ),
        Some((DeValue::Integer(version), _)) if version.to_string() == VERSION => {}
        Some((_, place)) => problems.add(
            place,
            "unknown version: this leaky reads files with version = 1",
        ),
    }
}

fn interface<'t>(
    mut section: Section<'t, '_>,
    lines: &'t Lines,
    problems: &mut Problems,
) -> RawInterface<'t> {
    let before = problems.count();
    let raw = RawInterface {
        place: section.place,
        sound: true,
        name: section.text("name", problems),
        link: section
            .section("link", "link", problems)
            .map(|section| link(section, problems)),
        overhead: section.text("overhead", problems),
        mpu: section.text("mpu", problems),
        hold: section.text("hold", problems),
        smooth: section.text("smooth", problems),
        mark_mask: section.text_or_number("mark-mask", problems),
        control: section.text("control", problems),
        default: section.text("default", problems),
        classes: Vec::new(),
    };
    let classes = section.sections("class", "interface.class", "a class", problems);
    section.finish(problems);
    RawInterface {
        sound: problems.count() == before,
        classes: classes
            .into_iter()
            .map(|section| class(section, lines, problems))
            .collect(),
        ..raw
    }
}

fn link<'t>(mut section: Section<'t, '_>, problems: &mut Problems) -> RawLimits<'t> {
    let before = problems.count();
    let raw = RawLimits {
        rate: section.text("rate", problems),
        capacity: section.text("capacity", problems),
        max_wait: section.text("max-wait", problems),
        ..RawLimits::none(section.place)
    };
    section.finish(problems);
    RawLimits {
        sound: problems.count() == before,
        ..raw
    }
}

fn class<'t>(
    mut section: Section<'t, '_>,
    lines: &'t Lines,
    problems: &mut Problems,
) -> RawClass<'t> {
    let before = problems.count();
    let raw = RawClass {
        place: section.place,
        sound: true,
        name: section.text("name", problems),
        matching: section
            .section("match", "match", problems)
            .map(|section| matching(section, problems))
            .unwrap_or_default(),
        per: section.text("per", problems),
        action: section.text("action", problems),
        limits: limits(&mut section, problems),
        clients: section
            .section("clients", "clients", problems)
            .map(|section| clients(section, lines, problems)),
    };
    section.finish(problems);
    RawClass {
        sound: problems.count() == before,
        ..raw
    }
}

fn limits<'t>(section: &mut Section<'t, '_>, problems: &mut Problems) -> RawLimits<'t> {
    RawLimits {
        place: section.place,
        sound: true,
        rate: section.text("rate", problems),
        capacity: section.text("capacity", problems),
        max_wait: section.text("max-wait", problems),
        burst: section.text("burst", problems),
        ecn: section.text("ecn", problems),
    }
}

fn matching<'t>(mut section: Section<'t, '_>, problems: &mut Problems) -> RawMatch<'t> {
    let raw = RawMatch {
        protocol: section.list("protocol", problems),
        source: section.list("source", problems),
        source_file: section.text("source-file", problems),
        destination: section.list("destination", problems),
        destination_file: section.text("destination-file", problems),
        source_port: section.list("source-port", problems),
        destination_port: section.list("destination-port", problems),
        dscp: section.list("dscp", problems),
        mark: section.list("mark", problems),
        vlan: section.list("vlan", problems),
        cgroup: section.list("cgroup", problems),
    };
    section.finish(problems);
    raw
}

/// `file`, and every other key is a client.
fn clients<'t>(
    mut section: Section<'t, '_>,
    lines: &'t Lines,
    problems: &mut Problems,
) -> RawClients<'t> {
    let before = problems.count();
    let file = section.text("file", problems);
    let inline: Vec<_> = section
        .rest()
        .filter_map(|(prefix, place, value)| client(prefix, place, value, lines, problems))
        .collect();
    RawClients {
        place: section.place,
        sound: problems.count() == before,
        file,
        inline,
    }
}

fn client<'t>(
    prefix: &'t str,
    place: Place,
    value: &'t Spanned<DeValue<'_>>,
    lines: &'t Lines,
    problems: &mut Problems,
) -> Option<(Item<'t>, RawLimits<'t>)> {
    let mut section = section_of(value, lines, prefix, "a client", problems)?;
    let before = problems.count();
    let limits = limits(&mut section, problems);
    section.finish(problems);
    let sound = problems.count() == before;
    let prefix = Item {
        key: "client",
        text: Cow::Borrowed(prefix),
        place,
    };
    Some((prefix, RawLimits { sound, ..limits }))
}

/// Reads a document's text and hands what was written in it to `check`. Problems on lines that are
/// not TOML are left out: they say nothing that the first did not.
pub(super) fn read<T>(
    text: &str,
    source: Source,
    problems: &mut Problems,
    check: impl FnOnce(&[RawInterface<'_>], &mut Problems) -> T,
) -> T {
    let (document, lines, unread) = document::parse(text, source, problems);
    let before = problems.count();
    let interfaces = interfaces(&document, &lines, source, problems);
    let value = check(&interfaces, problems);
    problems.forget_since(before, &unread);
    value
}
