//! Files of lines: one prefix or client a line, `#` comments, empty lines.

use super::error::{Place, Problems, Source, quoted};
use super::raw::Item;
use std::fs::File;
use std::io::{Error, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The largest file that is read, in bytes: ten times what 100,000 clients take.
const MOST: u64 = 32 << 20;

/// The text of a file that a config file or an option names.
#[derive(Debug)]
pub(super) struct TextFile {
    source: Source,
    text: String,
}

impl TextFile {
    /// Reads the file that `item` names, relative to `base`.
    pub(super) fn named(item: &Item<'_>, base: &Path, problems: &mut Problems) -> Option<TextFile> {
        if item.text.is_empty() {
            problems.add(item.place, format!("{} names no file", item.key));
            return None;
        }
        let path = base.join(&*item.text);
        match read(&path) {
            Ok(bytes) => TextFile::of(&path, bytes, problems),
            Err(error) => {
                let text = format!("{}: cannot read {}: {error}", item.key, path.display());
                problems.add(item.place, text.replace(char::is_control, "?"));
                None
            }
        }
    }

    /// A file's content, which must be UTF-8.
    pub(super) fn of(path: &Path, bytes: Vec<u8>, problems: &mut Problems) -> Option<TextFile> {
        let source = problems.source(&path.to_string_lossy());
        match String::from_utf8(bytes) {
            Ok(text) => Some(TextFile { source, text }),
            Err(error) => {
                let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
                problems.add(source.line(line), "not UTF-8 text");
                None
            }
        }
    }

    pub(super) fn source(&self) -> Source {
        self.source
    }

    pub(super) fn text(&self) -> &str {
        self.text.strip_prefix('\u{feff}').unwrap_or(&self.text)
    }

    /// Lines that say something, without comments and the white space around them.
    pub(super) fn lines(&self) -> impl Iterator<Item = (Place, &str)> {
        self.text().lines().enumerate().filter_map(|(at, line)| {
            let said = match line.split_once('#') {
                Some((said, _)) => said,
                None => line,
            }
            .trim();
            (!said.is_empty()).then(|| (self.source.line(at + 1), said))
        })
    }
}

/// A file's bytes.
///
/// # Errors
/// What the system says, or that it is no regular file or too large.
pub(super) fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Opening a pipe would wait for somebody who writes.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::other("it is no regular file"));
    }
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MOST {
        return Err(Error::other("it is larger than 32 MiB"));
    }
    Ok(bytes)
}

/// The one word of a line of a prefix file.
pub(super) fn only_word<'t>(
    place: Place,
    line: &'t str,
    problems: &mut Problems,
) -> Option<&'t str> {
    if line.contains(|c: char| c.is_whitespace() || c == ',') {
        problems.add(place, format!("{}: write one prefix a line", quoted(line)));
        return None;
    }
    Some(line)
}
