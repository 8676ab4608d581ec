//! A config that is wrong: every error at once with file and line, exit code 2, and the kernel as before.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::lab::SHAPED;
use leaky_tests::process::Finished;
use leaky_tests::{Lab, leaky, witness};

use crate::Case;
use crate::configured::{Folder, for_interface};
use crate::host::Need;

pub(crate) const CASES: &[Case] = &[
    Case::new("one_error_each", &[Need::Root, Need::Leaky], one_each),
    Case::new(
        "all_errors_at_once",
        &[Need::Root, Need::Leaky],
        all_at_once,
    ),
    Case::new(
        "line_40000_of_a_clients_file",
        &[Need::Root, Need::Leaky],
        line_40000,
    ),
    Case::new(
        "files_that_are_no_config",
        &[Need::Root, Need::Leaky],
        no_config,
    ),
    Case::new(
        "a_good_config_is_explained",
        &[Need::Root, Need::Leaky],
        explained,
    ),
];

const BAD_INPUT: i32 = 2;

/// Through `leaky run` and `leaky check`: refused, with every one of `words` in the message, and nothing changed.
fn refused(lab: &Lab, folder: &Folder, text: &str, words: &[&str]) -> Result<()> {
    let config = folder.write("bad.toml", text)?;
    let before = witness::state(&lab.a, SHAPED)?;
    for arguments in [
        vec!["run", SHAPED, "--config", &config],
        vec!["check", "--config", &config],
    ] {
        let done = leaky::call(&lab.a, &arguments, Duration::from_secs(20))?;
        judge(&done, words).with_context(|| format!("leaky {} with\n{text}", arguments[0]))?;
    }
    let after = witness::state(&lab.a, SHAPED)?;
    ensure!(
        after == before,
        "the kernel was changed.\nBefore: {before:?}\nAfter: {after:?}"
    );
    Ok(())
}

fn judge(done: &Finished, words: &[&str]) -> Result<()> {
    ensure!(
        done.status.code() == Some(BAD_INPUT),
        "exit {:?}, wanted {BAD_INPUT}; it said: {}{}",
        done.status.code(),
        done.stdout.trim(),
        done.stderr.trim()
    );
    for word in words {
        ensure!(
            done.stderr.contains(word),
            "{word:?} is not named: {}",
            done.stderr.trim()
        );
    }
    Ok(())
}

/// The line of a config made by [`for_interface`] that contains `mark`, as `bad.toml:LINE`.
fn place(text: &str, mark: &str) -> Result<String> {
    let line = text
        .lines()
        .position(|line| line.contains(mark))
        .with_context(|| format!("{mark:?} is not in\n{text}"))?;
    Ok(format!("bad.toml:{}", line + 1))
}

/// One class with these lines.
fn class(name: &str, lines: &str) -> String {
    format!("[[interface.class]]\nname = \"{name}\"\n{lines}\n")
}

fn one_each() -> Result<()> {
    let lab = Lab::new()?;
    let folder = Folder::new()?;
    let rated = |lines: &str| class("one", &format!("rate = \"1mbit\"\n{lines}"));
    let twice = class(
        "one",
        "rate = \"1mbit\"\nmatch = { source = [\"10.0.0.0/8\"] }",
    );
    // What is wrong, what the config holds, a piece of the line to blame, and a word of the message.
    let mut cases: Vec<(String, &str, &str)> = vec![
        (rated("colour = \"red\""), "colour", "colour"),
        (rated("match = { colour = [1] }"), "colour", "colour"),
        (
            rated("match = { source = [\"10.0.0.1/8\"] }"),
            "10.0.0.1/8",
            "10.0.0.0/8",
        ),
        (
            rated("match = { source = [\"fd00::1/8\"] }"),
            "fd00::1/8",
            "fd00::1/8",
        ),
        (
            rated("match = { destination = [\"10.0.0.0/33\"] }"),
            "10.0.0.0/33",
            "10.0.0.0/33",
        ),
        (
            rated("match = { destination = [] }"),
            "destination = []",
            "destination",
        ),
        (
            rated("match = { destination-port = [\"6100-6000\"] }"),
            "6100-6000",
            "6100-6000",
        ),
        (
            rated("match = { destination-port = [\"70000\"] }"),
            "70000",
            "70000",
        ),
        (rated("match = { dscp = [64] }"), "dscp", "64"),
        (rated("match = { dscp = [\"gold\"] }"), "gold", "gold"),
        (rated("match = { vlan = [4095] }"), "vlan", "4095"),
        (rated("match = { protocol = [\"quic\"] }"), "quic", "quic"),
        (
            rated("match = { source-file = \"not-there.txt\" }"),
            "not-there.txt",
            "not-there.txt",
        ),
        (
            rated("match = { protocol = [\"icmp\"], destination-port = [\"80\"] }"),
            "icmp",
            "port",
        ),
        (class("one", "rate = \"0\""), "rate = \"0\"", "rate"),
        (class("one", "rate = \"10mbps\""), "10mbps", "10mbit"),
        (class("one", "rate = \"1000gbit\""), "1000gbit", "gbit"),
        (class("one", "per = \"src\""), "[[interface.class]]", "rate"),
        (rated("capacity = \"banana\""), "banana", "banana"),
        (rated("max-wait = \"10\""), "max-wait", "10"),
        (rated("ecn = \"banana\""), "ecn", "banana"),
        (rated("per = \"user\""), "user", "flow"),
        (rated("per = \"src/33\""), "src/33", "33"),
        (rated("action = \"slow\""), "slow", "monitor"),
        (
            class("Nope Name", "rate = \"1mbit\""),
            "Nope Name",
            "Nope Name",
        ),
        (
            format!("{twice}{}", class("one", "rate = \"2mbit\"")),
            "one",
            "one",
        ),
        (
            format!(
                "{}{}",
                class("all", "rate = \"1mbit\""),
                class("late", "rate = \"1mbit\"\nmatch = { dscp = [\"ef\"] }")
            ),
            "late",
            "late",
        ),
        (
            format!(
                "{twice}{}",
                class(
                    "inside",
                    "rate = \"2mbit\"\nmatch = { source = [\"10.1.0.0/16\"] }"
                )
            ),
            "inside",
            "inside",
        ),
        (
            rated("per = \"class\"\nclients = { \"10.0.0.1\" = { rate = \"1mbit\" } }"),
            "per = ",
            "per",
        ),
        (
            rated("per = \"src\"\nclients = { \"10.0.0.1/24\" = { rate = \"1mbit\" } }"),
            "10.0.0.1/24",
            "10.0.0.0/24",
        ),
        (
            rated("per = \"src\"\nclients = { \"10.0.0.1\" = { rate = \"nothing\" } }"),
            "nothing",
            "nothing",
        ),
        (
            format!("default = \"nobody\"\n{}", rated("")),
            "nobody",
            "nobody",
        ),
        (
            format!("control = \"maybe\"\n{}", rated("")),
            "maybe",
            "class",
        ),
        (
            format!("overhead = \"2000B\"\n{}", rated("")),
            "2000B",
            "1000",
        ),
        (
            format!("mark-mask = \"banana\"\n{}", rated("")),
            "banana",
            "banana",
        ),
        (format!("hold = \"cake\"\n{}", rated("")), "cake", "fq"),
        (
            format!("link = {{ rate = \"10pps\" }}\n{}", rated("")),
            "10pps",
            "link",
        ),
    ];
    let many: String = (0..65)
        .map(|number| {
            class(
                &format!("c{number}"),
                &format!("rate = \"1mbit\"\nmatch = {{ vlan = [{}] }}", number + 1),
            )
        })
        .collect();
    cases.push((many, "c64", "64"));
    let mut wrong = Vec::new();
    for (lines, blamed, word) in &cases {
        let text = for_interface(SHAPED, lines);
        // Where the same words are in two lines, either may be blamed.
        let near =
            text.lines().filter(|line| line.contains(blamed)).count() > 1 || blamed.len() < 5;
        let place = if near {
            "bad.toml:".to_owned()
        } else {
            place(&text, blamed)?
        };
        if let Err(error) = refused(&lab, &folder, &text, &[&place, word]) {
            wrong.push(format!("{error:#}"));
        }
    }
    ensure!(
        wrong.is_empty(),
        "{} of {} were not refused as they should be:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n\n")
    );
    Ok(())
}

/// Five errors in three files: all of them in one message.
fn all_at_once() -> Result<()> {
    let lab = Lab::new()?;
    let folder = Folder::new()?;
    folder.write("prefixes.txt", "10.0.0.0/8\n\n# fine so far\n10.0.0.1/16\n")?;
    folder.write(
        "clients.txt",
        "10.1.0.1 4mbit\n10.1.0.2 4banana\n10.1.0.1 5mbit\n",
    )?;
    let text = for_interface(
        SHAPED,
        &[
            class(
                "one",
                "rate = \"10mbps\"\nmatch = { source = [\"10.0.0.0/8\"] }",
            ),
            class(
                "two",
                "rate = \"1mbit\"\nmatch = { source-file = \"prefixes.txt\" }",
            ),
            class("three", "rate = \"1mbit\"\nmatch = { dscp = [99] }"),
            class(
                "four",
                "per = \"src\"\nclients = { file = \"clients.txt\" }",
            ),
        ]
        .concat(),
    );
    let places = [place(&text, "10mbps")?, place(&text, "[99]")?];
    refused(
        &lab,
        &folder,
        &text,
        &[
            &places[0],
            &places[1],
            "prefixes.txt:4",
            "clients.txt:2",
            "clients.txt:3",
        ],
    )
}

fn line_40000() -> Result<()> {
    let lab = Lab::new()?;
    let folder = Folder::new()?;
    let mut file = String::new();
    for number in 1..=50_000u32 {
        let rate = if number == 40_000 { "4mbits" } else { "4mbit" };
        let _ = writeln!(
            file,
            "10.{}.{}.{} {rate}",
            number >> 16,
            number >> 8 & 0xff,
            number & 0xff
        );
    }
    folder.write("clients.txt", &file)?;
    let text = for_interface(
        SHAPED,
        &class(
            "subscribers",
            "per = \"src\"\nclients = { file = \"clients.txt\" }",
        ),
    );
    refused(&lab, &folder, &text, &["clients.txt:40000", "4mbits"])
}

fn no_config() -> Result<()> {
    let lab = Lab::new()?;
    let folder = Folder::new()?;
    let good = for_interface(SHAPED, &class("one", "rate = \"1mbit\""));
    for (text, words) in [
        (String::new(), vec!["version"]),
        ("version = 2\n".to_owned(), vec!["bad.toml:1", "version"]),
        ("this is no TOML".to_owned(), vec!["bad.toml:1"]),
        (good.replace("version = 1\n", ""), vec!["version"]),
        (
            good.replace("name = \"v0\"\n", ""),
            vec!["bad.toml:3", "name"],
        ),
        (
            format!("{good}\n[[interface]]\nname = \"v0\"\n"),
            vec!["v0"],
        ),
        (
            good.replace("v0", "a-name-that-is-much-too-long"),
            vec!["a-name-that-is-much-too-long"],
        ),
    ] {
        refused(&lab, &folder, &text, &words)?;
    }
    Ok(())
}

/// `leaky check` says in words what the config means, and touches nothing.
fn explained() -> Result<()> {
    let lab = Lab::new()?;
    let folder = Folder::new()?;
    let text = for_interface(
        SHAPED,
        &[
            "link = { rate = \"100mbit\", max-wait = \"400ms\" }\n".to_owned(),
            class("voice", "match = { dscp = [\"ef\"] }\nrate = \"2mbit\""),
            class("rest-of-it", "per = \"src/24\"\nrate = \"10mbit\""),
        ]
        .concat(),
    );
    let config = folder.write("good.toml", &text)?;
    let before = witness::state(&lab.a, SHAPED)?;
    let done = leaky::call(
        &lab.a,
        &["check", "--config", &config],
        Duration::from_secs(20),
    )?;
    ensure!(done.status.success(), "{}: {}", done.status, done.stderr);
    println!("{}", done.stdout);
    for word in [
        "v0",
        "12500000 B/s",
        "voice",
        "250000 B/s",
        "rest-of-it",
        "/24",
    ] {
        ensure!(
            done.stdout.contains(word),
            "{word:?} is not explained: {}",
            done.stdout
        );
    }
    ensure!(
        witness::state(&lab.a, SHAPED)? == before,
        "the kernel was changed"
    );
    Ok(())
}
