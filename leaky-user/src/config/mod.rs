//! The config file: what `leaky` is asked to do with the traffic of each interface. `docs/config.md`
//! describes it for people.
//!
//! [`load`] reads the file and the files that it names, and nothing else: no kernel, no interface. It
//! either returns a [`Config`] whose values are in range and fit together, or every error at once,
//! each with its file and line. [`from_flags`] does the same for the options of the command line.

mod class;
mod clients;
mod document;
mod error;
mod file;
mod flags;
mod interface;
mod limits;
mod lines;
mod matching;
mod model;
mod notices;
mod per;
mod ranges;
mod raw;
mod reach;
pub mod value;
mod words;

#[cfg(test)]
mod error_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod value_tests;

pub use error::{Errors, Problem};
pub use flags::{Flags, from_flags};
pub use model::{
    Action, Asked, Class, Client, Config, Control, Fallback, Interface, LinkBucket, MAX_CGROUPS,
    MAX_CLASSES, MAX_CLIENTS, MAX_MARKS, MAX_MPU, MAX_OVERHEAD, MAX_PREFIXES, Match, Smooth,
};
pub use per::Per;

use error::Problems;
use lines::TextFile;
use std::collections::HashMap;
use std::path::Path;

/// Reads a config file and the files that it names, which are relative to it.
///
/// # Errors
/// Everything that is wrong, in all of these files.
pub fn load(path: &Path) -> Result<Config, Errors> {
    let mut problems = Problems::default();
    let source = problems.source(&path.to_string_lossy());
    let file = match lines::read(path) {
        Ok(bytes) => TextFile::of(path, bytes, &mut problems),
        Err(error) => {
            problems.add(source.whole(), format!("cannot read it: {error}"));
            None
        }
    };
    let base = path.parent().unwrap_or(Path::new(""));
    let config = file.map(|file| {
        file::read(
            file.text(),
            source,
            &mut problems,
            |interfaces, problems| {
                names_are_unique(interfaces, problems);
                let interfaces = interfaces.iter();
                Config {
                    interfaces: interfaces
                        .map(|raw| interface::interface(raw, base, problems))
                        .collect(),
                }
            },
        )
    });
    let nothing = Config {
        interfaces: Vec::new(),
    };
    problems.none_or(|| config.unwrap_or(nothing))
}

fn names_are_unique(interfaces: &[raw::RawInterface<'_>], problems: &mut Problems) {
    let mut seen = HashMap::new();
    for name in interfaces.iter().filter_map(|raw| raw.name.as_ref()) {
        let first = *seen.entry(&name.text).or_insert(name.place);
        if first != name.place {
            let first = problems.refer(name.place, first);
            problems.add(
                name.place,
                format!(
                    "the interface {} is there twice (first on {first}): put its classes together",
                    error::quoted(&name.text)
                ),
            );
        }
    }
}
