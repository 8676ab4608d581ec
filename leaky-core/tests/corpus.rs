//! Replays what the fuzzers found worth keeping, and the frames that they started from.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../tests/fuzz/src/classifier/mod.rs"]
mod classifier;
#[path = "../../tests/fuzz/src/parser/mod.rs"]
mod parser;

use std::cell::Cell;
use std::fs;
use std::path::Path;

/// Every file of a folder under `tests/fuzz`, with its name.
fn files(folder: &str) -> Vec<(String, Vec<u8>)> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz");
    let entries = fs::read_dir(fuzz.join(folder)).unwrap();
    let mut files: Vec<(String, Vec<u8>)> = entries
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "nothing in {folder}");
    files
}

fn replay(folder: &str, check: impl Fn(&[u8])) {
    for (name, bytes) in files(folder) {
        // Shown by the test harness with the panic that follows.
        println!("{folder}/{name}");
        check(&bytes);
    }
}

#[test]
fn seeds_of_the_parser() {
    replay("seeds/parser", parser::check);
}

#[test]
fn corpus_of_the_parser() {
    replay("corpus/parser", parser::check);
}

#[test]
fn corpus_of_the_classifier() {
    let in_a_class = Cell::new(0);
    replay("corpus/classifier", |bytes| {
        let asks = classifier::check(bytes).unwrap_or(0);
        in_a_class.set(in_a_class.get() + usize::from(asks > 0));
    });
    // Otherwise the corpus is of another generator than this one, and no good any more.
    assert!(in_a_class.get() > 20, "{in_a_class:?}");
}
