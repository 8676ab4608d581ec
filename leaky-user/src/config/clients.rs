//! The clients of a class, from their file and from the config file. A file of 100,000 lines is read
//! without copying its text and without comparing each with each.

use super::error::{Place, Problems, quoted};
use super::limits::{Partial, limits, misfits};
use super::lines::TextFile;
use super::model::{Client, MAX_CLIENTS};
use super::raw::RawClients;
use super::value::{self, ValueError};
use std::path::Path;

/// A client and where it stands.
struct Found {
    client: Client,
    place: Place,
}

/// Reads all clients; what they do not say is in `class`, the limits of theirs. Those are `None` if
/// they could not be read, and then nobody's rate is missed.
pub(super) fn clients(
    raw: &RawClients<'_>,
    class: Option<Partial>,
    base: &Path,
    problems: &mut Problems,
) -> Vec<Client> {
    let defaults = class.unwrap_or_default();
    let mut found = Vec::new();
    let mut lines = 0;
    if let Some(file) = raw
        .file
        .as_ref()
        .and_then(|item| TextFile::named(item, base, problems))
    {
        for (place, line) in file.lines() {
            lines += 1;
            let read = of_line(line, defaults);
            if let Some(client) = problems.take(place, read) {
                found.push(Found { client, place });
            }
        }
        if lines == 0 {
            problems.add(
                file.source().whole(),
                "no client in it: write lines such as \"192.0.2.7 20mbit\"",
            );
        }
    }
    for (prefix, raw) in &raw.inline {
        let (net, asked) = (prefix.read(problems, value::prefix), limits(raw, problems));
        let (Some(net), Some(asked)) = (net, asked) else {
            continue;
        };
        if asked.rate.or(defaults.rate).is_none() && (class.is_none() || !raw.sound) {
            continue;
        }
        let asked = fit(asked, defaults).and_then(|asked| {
            asked.ok_or_else(|| {
                ValueError::new(format!(
                    "client {} has no rate and its class neither: write rate = \"20mbit\" in one of \
                     them",
                    value::show_prefix(&net)
                ))
            })
        });
        let place = prefix.place;
        if let Some(asked) = problems.take(place, asked) {
            let client = Client { prefix: net, asked };
            found.push(Found { client, place });
        }
    }
    if raw.sound && raw.file.is_none() && raw.inline.is_empty() {
        problems.missing(
            raw.place,
            "clients are empty: write clients = { file = \"subscribers.txt\" }, or { \"192.0.2.7\" = { \
             rate = \"20mbit\" } }",
        );
    }
    if lines + raw.inline.len() > MAX_CLIENTS {
        problems.add(
            raw.place,
            format!(
                "{} clients: an interface has at most {MAX_CLIENTS}; give neighbours a common prefix",
                lines + raw.inline.len()
            ),
        );
    }
    found.sort_by_key(|found| (found.client.prefix, found.place));
    for same in found.chunk_by(|a, b| a.client.prefix == b.client.prefix) {
        for again in &same[1..] {
            let first = problems.refer(again.place, same[0].place);
            let prefix = value::show_prefix(&again.client.prefix);
            problems.add(
                again.place,
                format!("client {prefix} is there twice (first on {first}): leave one out"),
            );
        }
    }
    found.into_iter().map(|found| found.client).collect()
}

/// `PREFIX RATE [CAPACITY [MAX-WAIT]]`, between them blanks, commas or both.
fn of_line(line: &str, defaults: Partial) -> Result<Client, ValueError> {
    let mut words = line
        .split(|c: char| c.is_whitespace() || c == ',')
        .filter(|word| !word.is_empty());
    let mut next = || words.next();
    let (prefix, rate, capacity, max_wait) = (next(), next(), next(), next());
    let form = "a client is PREFIX RATE [CAPACITY [MAX-WAIT]], such as \"192.0.2.7 20mbit\"";
    let prefix = value::prefix(prefix.unwrap_or_default())?;
    let Some(rate) = rate else {
        return Err(ValueError::new(format!(
            "{} has no rate: {form}",
            value::show_prefix(&prefix)
        )));
    };
    if let Some(more) = next() {
        return Err(ValueError::new(format!(
            "{} is one word too many: {form}, and each value is one word",
            quoted(more)
        )));
    }
    let unit = |error: crate::units::UnitError| ValueError::new(error.to_string());
    let own = Partial {
        rate: Some(rate.parse().map_err(unit)?),
        capacity: capacity.map(str::parse).transpose().map_err(unit)?,
        max_wait: max_wait.map(str::parse).transpose().map_err(unit)?,
        ..Partial::default()
    };
    match fit(own, defaults)? {
        Some(asked) => Ok(Client { prefix, asked }),
        None => Err(ValueError::new(form)),
    }
}

/// A client's limits with its class's where it says nothing; `None` without any rate.
fn fit(own: Partial, defaults: Partial) -> Result<Option<super::Asked>, ValueError> {
    let all = own.or(defaults);
    match misfits(&all).into_iter().next() {
        None => Ok(all.asked()),
        Some(wrong) => Err(ValueError::new(wrong.text)),
    }
}
