//! What is wrong with a config file and the files that it names, all of it at once.

use crate::units::excerpt;
use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Display};

/// Problems of one file that are printed; how many more there are is said.
const PRINTED: usize = 50;

/// Something that cannot be taken as it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file as it was named, or the option of the command line.
    pub source: String,
    /// The line in it, from 1; `None` where the whole file (or option) is meant.
    pub line: Option<usize>,
    /// What is wrong and what to write instead, in one line.
    pub text: String,
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.source, self.text),
            None => write!(f, "{}: {}", self.source, self.text),
        }
    }
}

/// Everything that is wrong; never empty. The config file's problems come first, then those of the
/// files that it names, each in the order of lines. Printed one a line, at most 50 of each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(Vec<Problem>);

impl Errors {
    /// All of them.
    pub fn all(&self) -> &[Problem] {
        &self.0
    }
}

impl Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for of_file in self.0.chunk_by(|a, b| a.source == b.source) {
            for problem in of_file.iter().take(PRINTED) {
                if !std::mem::take(&mut first) {
                    writeln!(f)?;
                }
                write!(f, "{problem}")?;
            }
            if of_file.len() > PRINTED {
                let more = of_file.len() - PRINTED;
                write!(f, "\n{}: and {more} more", of_file[0].source)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// A file or option that texts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Source(usize);

impl Source {
    pub(super) fn line(self, line: usize) -> Place {
        Place { source: self, line }
    }

    /// Without a line.
    pub(super) fn whole(self) -> Place {
        self.line(0)
    }
}

/// Where a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    source: Source,
    /// From 1; 0 is none.
    line: usize,
}

impl Place {
    /// Whether it is a line, and not a whole file or an option.
    pub(super) fn has_line(self) -> bool {
        self.line > 0
    }
}

/// Collects what is wrong.
#[derive(Debug, Default)]
pub(super) struct Problems {
    sources: Vec<String>,
    found: Vec<(Place, String)>,
    /// Part of the config file could not be read: what is missing is not reported, since it may
    /// stand there.
    pub(super) incomplete: bool,
}

impl Problems {
    /// A new source, or the one that already has this name.
    pub(super) fn source(&mut self, name: &str) -> Source {
        let known = self.sources.iter().position(|known| known == name);
        Source(known.unwrap_or_else(|| {
            self.sources.push(name.to_owned());
            self.sources.len() - 1
        }))
    }

    pub(super) fn add(&mut self, place: Place, text: impl Into<String>) {
        self.found.push((place, text.into()));
    }

    /// Something is missing at `place`.
    pub(super) fn missing(&mut self, place: Place, text: impl Into<String>) {
        if !self.incomplete {
            self.add(place, text);
        }
    }

    /// Takes the value, or the error as a problem.
    pub(super) fn take<T, E: Display>(&mut self, place: Place, read: Result<T, E>) -> Option<T> {
        read.map_err(|error| self.add(place, error.to_string()))
            .ok()
    }

    /// How another place is named in a message at `from`.
    pub(super) fn refer(&self, from: Place, to: Place) -> String {
        let name = escaped(&self.sources[to.source.0]);
        match (from.source == to.source, to.line) {
            (_, 0) => name,
            (true, line) => format!("line {line}"),
            (false, line) => format!("{name}:{line}"),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    /// Leaves out what was found on these lines after there were `count` problems.
    pub(super) fn forget_since(&mut self, count: usize, lines: &HashSet<Place>) {
        let mut at = 0;
        self.found.retain(|(place, _)| {
            at += 1;
            at <= count || !lines.contains(place)
        });
    }

    /// `value` if nothing is wrong.
    pub(super) fn none_or<T>(self, value: impl FnOnce() -> T) -> Result<T, Errors> {
        if self.found.is_empty() {
            return Ok(value());
        }
        // By source and line; what was found first stays first among equals.
        let mut by_place: BTreeMap<Place, Vec<String>> = BTreeMap::new();
        for (place, text) in self.found {
            let texts = by_place.entry(place).or_default();
            // A file that two classes name is read twice.
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let problems = by_place.into_iter().flat_map(|(place, texts)| {
            let source = escaped(&self.sources[place.source.0]);
            texts.into_iter().map(move |text| Problem {
                source: source.clone(),
                line: (place.line > 0).then_some(place.line),
                text,
            })
        });
        Err(Errors(problems.collect()))
    }
}

/// A file's name without anything that could break a line; in full, so that it can be opened.
fn escaped(name: &str) -> String {
    name.chars().flat_map(char::escape_debug).collect()
}

/// A foreign text in a message: `'...'`, short and on one line.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", excerpt(text))
}
