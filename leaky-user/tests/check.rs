//! `leaky check` as people run it; it needs no privileges and no kernel.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

const CONFIG: &str = "\
version = 1
[[interface]]
name = \"eth0\"
link = { rate = \"10gbit\" }
[[interface.class]]
name = \"subscribers\"
per = \"dst\"
clients = { file = \"subscribers.txt\" }
";

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("leaky-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Directory(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("a file for the test");
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn check(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_leaky"))
        .args(["check", "--config", "leaky.toml"])
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("leaky runs")
}

/// 100,000 clients, of which these lines are something else.
fn subscribers(broken: &[(usize, &str)]) -> String {
    let mut text = String::new();
    for line in 1..=100_000_usize {
        match broken.iter().find(|(at, _)| *at == line) {
            Some((_, broken)) => writeln!(text, "{broken}"),
            None => writeln!(
                text,
                "10.{}.{}.{} {}mbit 100ms",
                line >> 16,
                line >> 8 & 255,
                line & 255,
                1 + line % 100
            ),
        }
        .expect("text grows");
    }
    text
}

#[test]
fn every_broken_line_of_a_hundred_thousand_is_listed() {
    let directory = Directory::new("broken");
    directory.write("leaky.toml", CONFIG);
    directory.write(
        "subscribers.txt",
        &subscribers(&[
            (7, "10.0.0.7 fast"),
            (40_000, "10.0.156.64/8 5mbit"),
            (99_999, "10.0.0.9"),
        ]),
    );
    let output = check(&directory.0, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let errors = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 3, "{errors}");
    assert!(
        lines[0].starts_with("subscribers.txt:7: rate 'fast': it does not begin with a digit"),
        "{errors}"
    );
    assert!(
        lines[1].starts_with("subscribers.txt:40000: '10.0.156.64/8' has bits set"),
        "{errors}"
    );
    assert!(lines[1].contains("write 10.0.0.0/8"), "{errors}");
    assert!(
        lines[2].starts_with("subscribers.txt:99999: 10.0.0.9 has no rate"),
        "{errors}"
    );
}

#[test]
fn a_hundred_thousand_clients_are_explained() {
    let directory = Directory::new("clients");
    directory.write("leaky.toml", CONFIG);
    directory.write("subscribers.txt", &subscribers(&[]));
    let begin = Instant::now();
    let output = check(&directory.0, &[]);
    let took = begin.elapsed();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let words = String::from_utf8(output.stdout).unwrap();
    let expected = "100000 clients, 1 Mbit/s = 125000 B/s to 100 Mbit/s = 12500000 B/s";
    assert!(words.contains(expected), "{words}");
    println!("100,000 clients read and explained in {took:?}");
    // About 50 ms optimised, ten times as much without; a quadratic check would take minutes.
    assert!(took.as_secs() < 10, "{took:?}");

    let json = check(&directory.0, &["--json"]);
    assert_eq!(json.status.code(), Some(0));
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let clients = &value["interfaces"][0]["classes"][0]["clients"];
    assert_eq!(clients["count"], 100_000);
    assert_eq!(clients["lowest_rate_bytes_per_second"], 125_000);
}

#[test]
fn a_file_that_is_not_there_is_bad_input() {
    let directory = Directory::new("missing");
    let output = check(&directory.0, &[]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.starts_with("leaky.toml: cannot read it: "),
        "{errors}"
    );
}
