//! Errors of the files that a config file names, and of clients.

use super::{class, expect, expect_in};
use crate::config::tests::Files;
use crate::config::{Errors, load};

#[test]
fn of_prefix_files() {
    let config =
        class("rate = \"1mbit\"\nmatch = { source-file = \"p.txt\", source = [\"10.0.0.0/8\"] }\n");
    expect_in(
        &[
            ("leaky.toml", &config),
            (
                "p.txt",
                "# prefixes\n10.1.0.0/16\n\n192.168.1.1/24 # home\n1.2.3.4 5.6.7.8\n10.0.0.0/8\n8.8.8.8\n8.8.8.8\n",
            ),
        ],
        &[
            ("p.txt", 2, "source 10.1.0.0/16 lies inside 10.0.0.0/8 ("),
            ("p.txt", 4, "write 192.168.1.0/24"),
            ("p.txt", 5, "write one prefix a line"),
            ("p.txt", 6, "source has 10.0.0.0/8 twice (first on "),
            ("p.txt", 8, "source has 8.8.8.8 twice (first on line 7)"),
        ],
    );
    let config = class("rate = \"1mbit\"\nmatch = { destination-file = \"p.txt\" }\n");
    expect_in(
        &[("leaky.toml", &config), ("p.txt", "# nothing\n")],
        &[(
            "p.txt",
            0,
            "no prefix in it, so destination-file matches nothing",
        )],
    );
    let many: String = (0..10_001)
        .map(|n| format!("10.{}.{}.1\n", n / 256, n % 256))
        .collect();
    expect_in(
        &[("leaky.toml", &config), ("p.txt", &many)],
        &[(
            "leaky.toml",
            2,
            "the classes match 10001 prefixes: an interface has at most 10000",
        )],
    );
}

#[test]
fn of_clients() {
    let inline = |rest: &str, clients: &str| class(&format!("{rest}\nclients = {clients}\n"));
    for (rest, clients, expected) in [
        ("per = \"src\"", "{}", vec![(7, "clients are empty")]),
        (
            "",
            "{ \"10.0.0.1\" = { rate = \"1mbit\" } }",
            vec![(7, "clients are looked up by an address")],
        ),
        (
            "per = \"flow\"",
            "{ \"10.0.0.1\" = { rate = \"1mbit\" } }",
            vec![(6, "write per = \"src\" or per = \"dst\"")],
        ),
        (
            "per = \"src/24\"",
            "{ \"10.0.0.1\" = { rate = \"1mbit\" } }",
            vec![(6, "lengths say nothing")],
        ),
        (
            "per = \"src\"",
            "{ \"10.0.0.1\" = { capacity = \"100ms\" } }",
            vec![(7, "client 10.0.0.1 has no rate and its class neither")],
        ),
        (
            "per = \"src\"",
            "{ \"10.0.0.1/8\" = { rate = \"1mbit\" } }",
            vec![(7, "client: '10.0.0.1/8' has bits set")],
        ),
        (
            "per = \"src\"",
            "{ \"10.0.0.1\" = { rate = \"1mbit\" }, \"10.0.0.1/32\" = { rate = \"1mbit\" } }",
            vec![(7, "client 10.0.0.1 is there twice (first on line 7)")],
        ),
        (
            "per = \"src\"",
            "{ \"10.0.0.1\" = { rate = \"500gbit\" } }",
            vec![(7, "more than the highest accepted, 400gbit")],
        ),
        (
            "per = \"src\"\nrate = \"5pps\"",
            "{ \"10.0.0.1\" = { capacity = \"10kB\" } }",
            vec![(8, "give it in packets")],
        ),
        (
            "per = \"src\"\necn = \"50ms\"",
            "{ \"10.0.0.1\" = { rate = \"1mbit\", max-wait = \"10ms\" } }",
            vec![(8, "ecn 50ms would never mark")],
        ),
        // The class's rate is wrong: nobody's rate is missed.
        (
            "per = \"src\"\nrate = \"5\"",
            "{ \"10.0.0.1\" = { capacity = \"10kB\" } }",
            vec![(7, "the unit is missing")],
        ),
    ] {
        expect(&inline(rest, clients), &expected);
    }
    expect_in(
        &[
            (
                "leaky.toml",
                &inline(
                    "per = \"dst\"",
                    "{ file = \"c.txt\", \"10.9.9.9\" = { rate = \"1mbit\" } }",
                ),
            ),
            (
                "c.txt",
                "10.0.0.1 4mbit\n10.0.0.2\n10.0.0.3 5\n10.0.0.4, 5mbit, 100ms, 1s, more\n\
                       10.0.0.1/32 1mbit # again\n10.9.9.9 1mbit\n10.0.0.6 1mbit 5p\n10.0.0.7 1bit\n300.0.0.1 1mbit\n",
            ),
        ],
        &[
            ("c.txt", 2, "10.0.0.2 has no rate: a client is PREFIX RATE"),
            ("c.txt", 3, "rate '5': the unit is missing"),
            ("c.txt", 4, "'more' is one word too many"),
            (
                "c.txt",
                5,
                "client 10.0.0.1 is there twice (first on line 1)",
            ),
            ("c.txt", 6, "client 10.9.9.9 is there twice (first on "),
            ("c.txt", 7, "give it in bytes"),
            ("c.txt", 8, "less than the lowest accepted, 1kbit"),
            ("c.txt", 9, "'300.0.0.1' is not a prefix"),
        ],
    );
    let many: String = (0..100_001)
        .map(|n| format!("10.{}.{}.{} 1mbit\n", n >> 16, n >> 8 & 255, n & 255))
        .collect();
    expect_in(
        &[
            (
                "leaky.toml",
                &inline("per = \"dst\"", "{ file = \"c.txt\" }"),
            ),
            ("c.txt", &many),
        ],
        &[(
            "leaky.toml",
            7,
            "100001 clients: an interface has at most 100000",
        )],
    );
    expect_in(
        &[
            (
                "leaky.toml",
                &inline("per = \"dst\"", "{ file = \"c.txt\" }"),
            ),
            ("c.txt", "\n"),
        ],
        &[("c.txt", 0, "no client in it")],
    );
}

#[test]
fn files_that_cannot_be_read() {
    let missing: Result<_, Errors> = load("does/not/exist.toml".as_ref());
    let text = missing.unwrap_err().to_string();
    assert!(
        text.starts_with("does/not/exist.toml: cannot read it: No such file"),
        "{text}"
    );
    let directory: Result<_, Errors> = load("/".as_ref());
    assert!(
        directory
            .unwrap_err()
            .to_string()
            .starts_with("/: cannot read it: ")
    );
    let files = Files::new(&[(
        "leaky.toml",
        &class("rate = \"1mbit\"\nmatch = { source-file = \"p.txt\" }\n"),
    )]);
    std::fs::write(files.path("p.txt"), b"10.0.0.1\n10.0.0.2\n10.0.\xff\n").unwrap();
    let found = files.load().unwrap_err();
    assert_eq!(
        found,
        [("p.txt".to_owned(), Some(3), "not UTF-8 text".to_owned())]
    );
}

#[test]
fn of_many_errors_fifty_of_a_file_are_printed() {
    let broken = "10.0.0.1/8 1mbit\n".repeat(1_000);
    let config = class("per = \"src\"\nclients = { file = \"c.txt\" }\nrats = 1\n");
    let files = Files::new(&[("leaky.toml", &config), ("c.txt", &broken)]);
    let errors = load(&files.path("leaky.toml")).unwrap_err();
    assert_eq!(errors.all().len(), 1_001);
    let text = errors.to_string();
    assert_eq!(text.lines().count(), 1 + 50 + 1);
    assert!(
        text.lines()
            .next()
            .unwrap()
            .contains("leaky.toml:8: unknown key 'rats'"),
        "{text}"
    );
    assert!(text.ends_with("c.txt: and 950 more"), "{text}");
}
