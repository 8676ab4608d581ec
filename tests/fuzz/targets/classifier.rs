//! Classifier and keys on classes and packets made from arbitrary bytes.
#![no_main]

#[path = "../src/classifier/mod.rs"]
mod classifier;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    classifier::check(bytes);
});
