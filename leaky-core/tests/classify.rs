//! The classifier and the keys against a slow model that walks the classes in order.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../tests/fuzz/src/classifier/mod.rs"]
mod classifier;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::RefCell;

#[test]
fn the_first_class_in_order_that_matches_is_found() {
    const CASES: u32 = 3_000;
    let found = RefCell::new(Vec::new());
    let mut runner = TestRunner::new(ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner
        .run(&vec(any::<u8>(), 0..3_000), |bytes| {
            found.borrow_mut().extend(classifier::check(&bytes));
            Ok(())
        })
        .unwrap();
    // A model that is hardly ever asked, or only for classes that take all, proves nothing.
    let percent = |least: usize| {
        let count = found.borrow().iter().filter(|asks| **asks >= least).count();
        count * 100 / CASES as usize
    };
    println!(
        "{} % in a class, {} % in one that asks for two things or more",
        percent(0),
        percent(2)
    );
    assert!(percent(0) >= 45 && percent(2) >= 25, "{found:?}");
}
