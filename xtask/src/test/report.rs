//! What test runners said, added up: both Rust's own harness and libtest-mimic.

use std::fmt;

/// The result of one part of the tests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Tests that ran and passed.
    pub(crate) passed: u64,
    /// Tests that ran and failed.
    pub(crate) failed: u64,
    /// Tests that could not run here, or are ignored.
    pub(crate) skipped: u64,
    /// Name and reason of each skipped test.
    pub(crate) skips: Vec<String>,
}

impl Report {
    /// Adds up everything in the output of one or more test binaries.
    pub(crate) fn parse(output: &str) -> Self {
        let mut report = Self::default();
        let mut current = "";
        for line in output.lines().map(str::trim_end) {
            if let Some(counts) = line.strip_prefix("test result: ") {
                report.passed += count(counts, "passed");
                report.failed += count(counts, "failed");
                report.skipped += count(counts, "ignored");
                continue;
            }
            // What a test prints may stand between its name and its outcome.
            let outcome = match line
                .strip_prefix("test ")
                .and_then(|rest| rest.split_once(" ... "))
            {
                Some((name, outcome)) => {
                    current = name.trim();
                    outcome
                }
                None => line,
            };
            if let Some(reason) = outcome.strip_prefix("ignored")
                && !current.is_empty()
                && (reason.is_empty() || reason.starts_with([',', ' ']))
            {
                let reason = reason.trim_start_matches([',', ' ']);
                let reason = reason
                    .strip_prefix('(')
                    .and_then(|inner| inner.strip_suffix(')'))
                    .unwrap_or(reason);
                // A reason that was known before the run may stand in the name: `name [reason]`.
                let in_name = current
                    .strip_suffix(']')
                    .and_then(|name| name.split_once(" ["))
                    .filter(|_| reason.is_empty());
                let (name, reason) = in_name.unwrap_or((current, reason));
                let reason = if reason.is_empty() {
                    "no reason given"
                } else {
                    reason
                };
                report.skips.push(format!("{name}: {reason}"));
            }
        }
        report
    }

    /// Whether any test was there at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.passed + self.failed + self.skipped == 0
    }

    /// Adds another part.
    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.skips.extend(other.skips.iter().cloned());
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

/// The number before `what` in `ok. 3 passed; 0 failed; 1 ignored; …`.
fn count(counts: &str, what: &str) -> u64 {
    counts
        .split([';', '.'])
        .filter_map(|field| field.trim().strip_suffix(what))
        .find_map(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_harnesses_are_added_up_with_the_reasons_of_skips() {
        let output = "\
running 3 tests
test rate::zero ... ok
test wire::long ... ignored, takes an hour
test rate::big ... FAILED

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 4 tests
test spacing::fq   ... ignored (this kernel has no fq)
test spacing::htb  ... gap median 833.6 us
ok
test gso::forwarded ... looking
ignored (no GRO on veth (old kernel))
test gso::x ... ignored
test fq_comes [this kernel has no fq]   ... ignored

test result: ok. 1 passed; 0 failed; 4 ignored; 0 measured; 0 filtered out; finished in 9.50s
";
        let report = Report::parse(output);
        assert_eq!(report.to_string(), "2 passed, 1 failed, 5 skipped");
        assert_eq!(
            report.skips,
            [
                "wire::long: takes an hour",
                "spacing::fq: this kernel has no fq",
                "gso::forwarded: no GRO on veth (old kernel)",
                "gso::x: no reason given",
                "fq_comes: this kernel has no fq",
            ]
        );
    }

    #[test]
    fn what_tests_print_is_not_taken_for_an_outcome() {
        let report = Report::parse(
            "test a ... ignored_flag is set\nok\r\ntest result: ok. 1 passed; 0 failed; 0 ignored\r\n",
        );
        assert_eq!(report.to_string(), "1 passed, 0 failed, 0 skipped");
        assert!(report.skips.is_empty());
    }

    #[test]
    fn no_test_at_all_is_told_from_success() {
        assert!(Report::parse("").is_empty());
        assert!(
            Report::parse("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured").is_empty()
        );
    }
}
