//! The TOML document as a tree of values that know their lines.
//!
//! The tree is walked by hand instead of being deserialised with serde: serde stops at the first
//! unknown key or wrong type, and here all of them are to be found at once.

use super::error::{Place, Problems, Source, quoted};
use super::raw::{Item, List};
use std::borrow::Cow;
use std::collections::HashSet;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Lines with syntax errors that are reported: nobody reads more.
const MOST_ERRORS: usize = 1_000;

/// A document's text by lines.
#[derive(Debug)]
pub(super) struct Lines {
    source: Source,
    /// Offsets at which lines end.
    ends: Vec<usize>,
}

impl Lines {
    fn new(source: Source, text: &str) -> Lines {
        let ends = text
            .bytes()
            .enumerate()
            .filter(|(_, byte)| *byte == b'\n')
            .map(|(at, _)| at)
            .collect();
        Lines { source, ends }
    }

    fn place(&self, offset: usize) -> Place {
        self.source
            .line(1 + self.ends.partition_point(|end| *end < offset))
    }

    pub(super) fn of<T>(&self, value: &Spanned<T>) -> Place {
        self.place(value.span().start)
    }
}

/// Parses a document. What is not TOML is reported; the lines that were not understood are returned
/// beside what was.
pub(super) fn parse<'t>(
    text: &'t str,
    source: Source,
    problems: &mut Problems,
) -> (DeTable<'t>, Lines, HashSet<Place>) {
    let lines = Lines::new(source, text);
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut unread = HashSet::new();
    for error in errors {
        let place = match error.span() {
            Some(span) => lines.place(span.start.min(text.len())),
            None => source.whole(),
        };
        problems.incomplete = true;
        // One error often causes others on its line.
        if unread.len() < MOST_ERRORS && unread.insert(place) {
            let message: String = error
                .message()
                .chars()
                .flat_map(char::escape_debug)
                .collect();
            problems.add(
                place,
                format!("not valid TOML: {message} (texts stand in quotes)"),
            );
        }
    }
    (document.into_inner(), lines, unread)
}

/// A table of the document, whose keys are taken one by one; at the end none may be left.
pub(super) struct Section<'t, 'i> {
    table: &'t DeTable<'i>,
    lines: &'t Lines,
    /// What the table is, for messages: `a class`.
    what: &'static str,
    asked: Vec<&'static str>,
    pub(super) place: Place,
}

impl<'t, 'i> Section<'t, 'i> {
    pub(super) fn new(
        table: &'t DeTable<'i>,
        lines: &'t Lines,
        what: &'static str,
        place: Place,
    ) -> Section<'t, 'i> {
        Section {
            table,
            lines,
            what,
            asked: Vec::new(),
            place,
        }
    }

    pub(super) fn get(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'i>>> {
        self.asked.push(key);
        self.table.get(key)
    }

    /// Keys that nobody asked for.
    pub(super) fn rest(&self) -> impl Iterator<Item = (&'t str, Place, &'t Spanned<DeValue<'i>>)> {
        self.table.iter().filter_map(|(key, value)| {
            let name: &str = key.get_ref();
            (!self.asked.contains(&name)).then(|| (name, self.lines.of(key), value))
        })
    }

    /// Reports the keys that nobody asked for.
    pub(super) fn finish(self, problems: &mut Problems) {
        for (key, place, _) in self.rest() {
            let likely = key.replace('_', "-").to_ascii_lowercase();
            let advice = match self.asked.iter().find(|known| **known == likely) {
                Some(known) => format!("write {known}"),
                None => format!("{} has {}", self.what, self.asked.join(", ")),
            };
            problems.add(place, format!("unknown key {}: {advice}", quoted(key)));
        }
    }

    /// A text.
    pub(super) fn text(&mut self, key: &'static str, problems: &mut Problems) -> Option<Item<'t>> {
        let value = self.get(key)?;
        let place = self.lines.of(value);
        match value.get_ref() {
            DeValue::String(text) => Some(Item {
                key,
                text: Cow::Borrowed(text),
                place,
            }),
            DeValue::Integer(_) | DeValue::Float(_) => {
                problems.add(
                    place,
                    format!(
                        "{key} is a text: write it in quotes and, where it has one, with its unit"
                    ),
                );
                None
            }
            other => {
                problems.add(place, format!("{key} is a text, not {}", kind(other)));
                None
            }
        }
    }

    /// A text or a whole number.
    pub(super) fn text_or_number(
        &mut self,
        key: &'static str,
        problems: &mut Problems,
    ) -> Option<Item<'t>> {
        match self.table.get(key).map(Spanned::get_ref) {
            Some(DeValue::Integer(_)) => {
                let value = self.get(key)?;
                scalar(key, value, self.lines, problems)
            }
            _ => self.text(key, problems),
        }
    }

    /// A list of texts and whole numbers.
    pub(super) fn list(&mut self, key: &'static str, problems: &mut Problems) -> Option<List<'t>> {
        let value = self.get(key)?;
        let place = self.lines.of(value);
        match value.get_ref() {
            DeValue::Array(values) => Some(List {
                key,
                items: values
                    .iter()
                    .filter_map(|value| scalar(key, value, self.lines, problems))
                    .collect(),
                is_empty: values.is_empty(),
                place,
            }),
            DeValue::String(text) => {
                problems.add(
                    place,
                    format!("{key} is a list: write {key} = [\"{}\"]", quoted_bare(text)),
                );
                None
            }
            DeValue::Integer(number) => {
                problems.add(
                    place,
                    format!(
                        "{key} is a list: write {key} = [{}]",
                        quoted_bare(&number.to_string())
                    ),
                );
                None
            }
            other => {
                problems.add(place, format!("{key} is a list, not {}", kind(other)));
                None
            }
        }
    }

    /// A table.
    pub(super) fn section(
        &mut self,
        key: &'static str,
        what: &'static str,
        problems: &mut Problems,
    ) -> Option<Section<'t, 'i>> {
        let value = self.get(key)?;
        section_of(value, self.lines, key, what, problems)
    }

    /// A list of tables.
    pub(super) fn sections(
        &mut self,
        key: &'static str,
        header: &str,
        what: &'static str,
        problems: &mut Problems,
    ) -> Vec<Section<'t, 'i>> {
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let DeValue::Array(values) = value.get_ref() else {
            problems.add(
                self.lines.of(value),
                format!("{key} is a list of tables: begin each with [[{header}]]"),
            );
            return Vec::new();
        };
        values
            .iter()
            .filter_map(|value| section_of(value, self.lines, key, what, problems))
            .collect()
    }
}

/// The table that a value is.
pub(super) fn section_of<'t, 'i>(
    value: &'t Spanned<DeValue<'i>>,
    lines: &'t Lines,
    key: &str,
    what: &'static str,
    problems: &mut Problems,
) -> Option<Section<'t, 'i>> {
    let place = lines.of(value);
    match value.get_ref() {
        DeValue::Table(table) => Some(Section::new(table, lines, what, place)),
        other => {
            problems.add(
                place,
                format!(
                    "{} is a table, such as {{ key = \"value\" }}, not {}",
                    quoted(key),
                    kind(other)
                ),
            );
            None
        }
    }
}

fn scalar<'t>(
    key: &'static str,
    value: &'t Spanned<DeValue<'_>>,
    lines: &Lines,
    problems: &mut Problems,
) -> Option<Item<'t>> {
    let place = lines.of(value);
    let text = match value.get_ref() {
        DeValue::String(text) => Cow::Borrowed(&**text),
        DeValue::Integer(number) => Cow::Owned(number.to_string()),
        other => {
            problems.add(
                place,
                format!("{key} has texts and whole numbers, not {}", kind(other)),
            );
            return None;
        }
    };
    Some(Item { key, text, place })
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A foreign text in a message without quotes around it.
fn quoted_bare(text: &str) -> String {
    quoted(text).trim_matches('\'').to_owned()
}
