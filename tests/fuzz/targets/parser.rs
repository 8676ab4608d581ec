//! The parser on arbitrary bytes.
#![no_main]

#[path = "../src/parser/mod.rs"]
mod parser;

libfuzzer_sys::fuzz_target!(|frame: &[u8]| parser::check(frame));
