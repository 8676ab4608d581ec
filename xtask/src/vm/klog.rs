//! Judging the guest's kernel log: a test that made the kernel complain has not passed.

/// Text in a kernel log line that fails a run, wherever it stands in the line.
const COMPLAINTS: [&str; 14] = [
    "Kernel panic",
    "WARNING:",
    "BUG:",
    "Oops",
    "general protection fault",
    "self-detected stall",
    "detected stalls on CPUs",
    "rcu: INFO:",
    "blocked for more than",
    "invoked oom-killer",
    "refcount_t:",
    "possible circular locking",
    // A child qdisc held packets back where HTB or TBF relies on getting them.
    "non-work-conserving",
    // HTB was given no quantum for a class and guesses badly.
    "Consider r2q change",
];

/// Lines that look like a complaint and are expected, with the reason. They are not failures.
///
/// "fq: likely mono tstamp with tstamp_type 0": kernel 7.x says so once when a departure time comes without the name of
/// its clock, and honours it. leaky stamps frames that carry their VLAN tag inside that way, since the kernel's helper
/// refuses them (`leave_at` in leaky-ebpf/src/skb.rs); the test of tagged frames makes it appear.
const EXPECTED: [&str; 1] = ["likely mono tstamp"];

/// Lines of a kernel log that say that something went wrong, in order, without repeats.
pub(super) fn complaints(log: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in log.lines() {
        let line = line.trim_end();
        // Only the kernel's own lines: "[    1.234567] text".
        let Some((_, text)) = line.split_once("] ").filter(|_| line.starts_with('[')) else {
            continue;
        };
        let complains = COMPLAINTS.iter().any(|mark| text.contains(mark))
            && !EXPECTED.iter().any(|mark| text.contains(mark));
        if complains && !found.iter().any(|seen| seen.ends_with(text)) {
            found.push(line.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_found_once_each() {
        let log = "[    0.000000] Linux version 7.3\r\n\
                   [    3.000000] fq: likely mono tstamp with tstamp_type 0\r\n\
                   [    3.100000] htb: quantum of class 10001 is big. Consider r2q change.\r\n\
                   [    3.200000] htb: quantum of class 10001 is big. Consider r2q change.\r\n\
                   [    4.000000] WARNING: CPU: 0 PID: 1 at net/sched/sch_api.c:1\r\n";
        let found = complaints(log);
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("r2q"));
        assert!(found[1].contains("WARNING: CPU: 0"));
    }

    #[test]
    fn a_quiet_log_and_foreign_text_pass() {
        assert!(complaints("").is_empty());
        assert!(complaints("[    0.1] e1000: link up\nWARNING: from a program\n").is_empty());
    }

    #[test]
    fn a_panic_without_line_end_is_found() {
        assert_eq!(
            complaints("[    1.0] Kernel panic - not syncing: x").len(),
            1
        );
    }
}
