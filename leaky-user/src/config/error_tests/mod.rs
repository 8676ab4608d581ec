//! Every error, with the line that it names.

mod files;
mod matching;

use super::tests::Files;

/// An interface with what it is given, from line 3 on.
fn interface(text: &str) -> String {
    format!("version = 1\n[[interface]]\n{text}")
}

/// A class with what it is given, from line 6 on.
fn class(text: &str) -> String {
    interface(&format!(
        "name = \"eth0\"\n[[interface.class]]\nname = \"a\"\n{text}"
    ))
}

/// Expects exactly these errors, by line of `leaky.toml` (0: none) and a part of the text.
#[track_caller]
fn expect(text: &str, expected: &[(usize, &str)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(line, text)| ("leaky.toml", *line, *text))
        .collect();
    expect_in(&[("leaky.toml", text)], &expected);
}

#[track_caller]
fn expect_in(files: &[(&str, &str)], expected: &[(&str, usize, &str)]) {
    let found = Files::new(files).load().expect_err("errors");
    for (_, _, text) in &found {
        assert!(!text.contains(char::is_control), "{text:?}");
    }
    let matches = found.len() == expected.len()
        && found.iter().zip(expected).all(|(found, expected)| {
            found.0 == expected.0
                && found.1.unwrap_or(0) == expected.1
                && found.2.contains(expected.2)
        });
    assert!(
        matches,
        "{}\nexpected {expected:#?}, found {found:#?}",
        files[0].1
    );
}

#[test]
fn of_the_document() {
    let all = "[[interface]]\nname = \"eth0\"\nlink = { rate = \"1mbit\" }\n";
    for (text, expected) in [
        ("", vec![(0, "the version is missing"), (0, "no interface")]),
        (all, vec![(0, "the version is missing")]),
        ("version = 1\n", vec![(0, "no interface")]),
        (
            "version = 2\n[[interface]]\nname = \"eth0\"\nlink = { rate = \"1mbit\" }\n",
            vec![(1, "unknown version")],
        ),
        (
            "version = \"1\"\n[[interface]]\nname = \"eth0\"\nlink = { rate = \"1mbit\" }\n",
            vec![(1, "unknown version")],
        ),
        (
            "version = 1\ninterface = 5\n",
            vec![(2, "begin each with [[interface]]")],
        ),
        (
            "version = 1\n[interface]\nname = \"eth0\"\n",
            vec![(2, "begin each with [[interface]]")],
        ),
    ] {
        expect(text, &expected);
    }
    // Two syntax errors, an unknown key and a bad rate, all in different classes.
    expect(
        &class(
            "rate = \"1mbit\" oops\n[[interface.class]]\nname = \"b\"\nrats = 1\nrate = \"1mbit\"\n\
                [[interface.class]]\nname = \"c\"\nrate = \"5\"\ncapacity = 7mbit\n",
        ),
        &[
            (6, "not valid TOML: unexpected key or value"),
            (9, "unknown key 'rats': a class has name, match, per,"),
            (13, "rate '5': the unit is missing"),
            (14, "not valid TOML"),
        ],
    );
    expect(
        &class("rate = \"1mbit\"\nrate = \"2mbit\"\n"),
        &[(7, "not valid TOML: duplicate key")],
    );
}

#[test]
fn of_structure() {
    let rate = "rate = \"1mbit\"\n";
    for (text, expected) in [
        (
            format!("{rate}max_wait = \"1s\"\n"),
            vec![(7, "unknown key 'max_wait': write max-wait")],
        ),
        (
            "rate = 5\n".to_owned(),
            vec![(6, "rate is a text: write it in quotes")],
        ),
        (
            "rate = true\n".to_owned(),
            vec![(6, "rate is a text, not true or false")],
        ),
        (
            format!("{rate}match = 5\n"),
            vec![(7, "'match' is a table, such as")],
        ),
        (
            format!("{rate}match = {{ protocol = \"udp\" }}\n"),
            vec![(7, "write protocol = [\"udp\"]")],
        ),
        (
            format!("{rate}match = {{ vlan = 7 }}\n"),
            vec![(7, "write vlan = [7]")],
        ),
        (
            format!("{rate}match = {{ vlan = true }}\n"),
            vec![(7, "vlan is a list, not true")],
        ),
        (
            format!("{rate}match = {{ vlan = [1.5] }}\n"),
            vec![(7, "texts and whole numbers, not a number with a point")],
        ),
        (
            format!("{rate}match = {{ ports = [1] }}\n"),
            vec![(7, "unknown key 'ports': match has protocol, source,")],
        ),
        (
            "clients = { \"10.0.0.1\" = 5 }\nper = \"src\"\n".to_owned(),
            vec![(6, "'10.0.0.1' is a table")],
        ),
        (
            "clients = { \"10.0.0.1\" = { rate = \"1mbit\", x = 1 } }\nper = \"src\"\n".to_owned(),
            vec![(6, "unknown key 'x': a client has rate,")],
        ),
    ] {
        expect(&class(&text), &expected);
    }
}

#[test]
fn of_an_interface() {
    let link = "link = { rate = \"10mbit\" }\n";
    for (text, expected) in [
        (link.to_owned(), vec![(2, "the interface has no name")]),
        (
            "name = \"eth0\"\n".to_owned(),
            vec![(2, "the interface limits nothing")],
        ),
        (
            format!("name = \"eth0/1\"\n{link}"),
            vec![(3, "is not 1 to 15 bytes")],
        ),
        (
            format!("name = \"abcdefghijklmnop\"\n{link}"),
            vec![(3, "is not 1 to 15 bytes")],
        ),
        (
            "name = \"eth0\"\nlink = { }\n".to_owned(),
            vec![(4, "the link has no rate")],
        ),
        (
            "name = \"eth0\"\nlink = { rate = \"5kpps\" }\n".to_owned(),
            vec![(4, "the rate of a link is in bits or bytes, not 5kpps")],
        ),
        (
            "name = \"eth0\"\nlink = { rate = \"5mbit\", capacity = \"5p\" }\n".to_owned(),
            vec![(4, "give it in bytes, such as 250kB")],
        ),
        (
            "name = \"eth0\"\nlink = { rate = \"5mbit\", burst = \"5kB\" }\n".to_owned(),
            vec![(4, "unknown key 'burst': link has rate, capacity, max-wait")],
        ),
        (
            format!("name = \"eth0\"\n{link}overhead = \"1001B\"\n"),
            vec![(5, "overhead: '1001B' is too much: write 0B to 1000B")],
        ),
        (
            format!("name = \"eth0\"\n{link}mpu = \"2001B\"\n"),
            vec![(5, "mpu: '2001B' is too much")],
        ),
        (
            format!("name = \"eth0\"\n{link}mpu = \"64\"\n"),
            vec![(5, "mpu: '64' is not a number of bytes")],
        ),
        (
            format!("name = \"eth0\"\n{link}mpu = \"64p\"\n"),
            vec![(5, "is not a number of bytes")],
        ),
        (
            format!("name = \"eth0\"\n{link}mpu = 64\n"),
            vec![(5, "mpu is a text")],
        ),
        (
            format!("name = \"eth0\"\n{link}hold = \"tbf\"\n"),
            vec![(5, "use auto, fq or htb")],
        ),
        (
            format!("name = \"eth0\"\n{link}smooth = \"never\"\n"),
            vec![(5, "smooth is auto, on or off")],
        ),
        (
            format!("name = \"eth0\"\n{link}control = \"drop\"\n"),
            vec![(5, "control is pass or class")],
        ),
        (
            format!("name = \"eth0\"\n{link}mark-mask = \"0x1ff00ff00\"\n"),
            vec![(5, "at most 32 bits")],
        ),
        (
            format!("name = \"eth0\"\n{link}mark-mask = 0\n"),
            vec![(5, "leaves no bit")],
        ),
        (
            format!("name = \"eth0\"\n{link}default = \"rest\"\n"),
            vec![(5, "default 'rest' is no class of this interface")],
        ),
    ] {
        expect(&interface(&text), &expected);
    }
    expect(
        &interface(&format!(
            "name = \"eth0\"\n{link}[[interface]]\nname = \"eth0\"\n{link}"
        )),
        &[(6, "the interface 'eth0' is there twice (first on line 3)")],
    );
}

#[test]
fn of_a_class() {
    for (text, expected) in [
        (
            "",
            vec![(4, "the class has no rate: write rate = \"20mbit\"")],
        ),
        ("action = \"monitor\"\n", vec![(4, "the class has no rate")]),
        (
            "rate = \"20\"\n",
            vec![(6, "rate '20': the unit is missing; write 20mbit")],
        ),
        (
            "rate = \"1bit\"\n",
            vec![(6, "less than the lowest accepted, 1kbit")],
        ),
        (
            "rate = \"1mbit\"\naction = \"limit\"\n",
            vec![(7, "write shape, pass, drop or monitor")],
        ),
        (
            "rate = \"1mbit\"\nper = \"user\"\n",
            vec![(7, "per 'user' is unknown")],
        ),
        (
            "rate = \"1mbit\"\nper = \"src/33\"\n",
            vec![(7, "an IPv4 prefix is from /1 to /32")],
        ),
        (
            "rate = \"1mbit\"\nper = \"src/24,src/129\"\n",
            vec![(7, "an IPv6 prefix from /1 to /128")],
        ),
        (
            "rate = \"1mbit\"\nper = \"dst/0\"\n",
            vec![(7, "write \"class\"")],
        ),
        (
            "rate = \"1mbit\"\ncapacity = \"10p\"\n",
            vec![(7, "give it in bytes, such as 250kB")],
        ),
        (
            "rate = \"5pps\"\ncapacity = \"10kB\"\n",
            vec![(7, "give it in packets, such as 100p")],
        ),
        (
            "rate = \"5pps\"\nburst = \"10kB\"\n",
            vec![(7, "the burst 10kB does not go with the rate 5pps")],
        ),
        (
            "rate = \"1kbit\"\ncapacity = \"1GB\"\n",
            vec![(7, "takes longer than")],
        ),
        (
            "rate = \"1mbit\"\ncapacity = \"13h\"\n",
            vec![(7, "takes longer than")],
        ),
        (
            "rate = \"1mbit\"\nmax-wait = \"13h\"\n",
            vec![(7, "is longer than")],
        ),
        (
            "rate = \"1mbit\"\nmax-wait = \"10ms\"\necn = \"10ms\"\n",
            vec![(8, "ecn 10ms would never mark")],
        ),
        (
            "action = \"pass\"\nrate = \"1mbit\"\nper = \"flow\"\n",
            vec![
                (7, "rate does nothing with action = \"pass\""),
                (8, "per does nothing"),
            ],
        ),
        (
            "action = \"drop\"\ncapacity = \"10kB\"\nburst = \"1kB\"\nmax-wait = \"1s\"\necn = \"1ms\"\n",
            vec![
                (7, "capacity does nothing"),
                (8, "burst does nothing"),
                (9, "max-wait does nothing"),
                (10, "ecn does nothing"),
            ],
        ),
        (
            "action = \"drop\"\nper = \"src\"\nclients = { \"10.0.0.1\" = { rate = \"1mbit\" } }\n",
            vec![(7, "per does nothing"), (8, "clients does nothing")],
        ),
    ] {
        expect(&class(text), &expected);
    }
    for name in [
        "",
        "Voice",
        "a b",
        "caf\u{e9}",
        "abcdefghijklmnopqrstuvwxyz0123456",
    ] {
        let text = interface(&format!(
            "name = \"eth0\"\n[[interface.class]]\nname = \"{name}\"\nrate = \"1mbit\"\n"
        ));
        expect(&text, &[(5, "is not 1 to 32 of a-z")]);
    }
    let no_name = interface("name = \"eth0\"\n[[interface.class]]\nrate = \"1mbit\"\n");
    expect(&no_name, &[(4, "the class has no name")]);
    let pass =
        interface("name = \"eth0\"\n[[interface.class]]\nname = \"pass\"\nrate = \"1mbit\"\n");
    expect(&pass, &[(5, "a class cannot be named pass")]);
}

#[test]
fn among_classes() {
    let two = |first: &str, second: &str| {
        class(&format!(
            "{first}\n[[interface.class]]\nname = \"b\"\n{second}\n"
        ))
    };
    let rate = "rate = \"1mbit\"";
    for (first, second) in [
        ("", ""),
        ("", "match = { protocol = [\"udp\"] }"),
        (
            "match = { protocol = [\"udp\"] }",
            "match = { protocol = [\"udp\"], vlan = [7] }",
        ),
        (
            "match = { source = [\"10.0.0.0/9\", \"10.128.0.0/9\"] }",
            "match = { source = [\"10.0.0.0/8\"] }",
        ),
        (
            "match = { source = [\"0.0.0.0/0\"] }",
            "match = { destination = [\"10.0.0.0/8\"] }",
        ),
        (
            "match = { protocol = [\"tcp\", \"udp\", \"sctp\", \"udplite\"] }",
            "match = { source-port = [7] }",
        ),
        (
            "match = { destination-port = [\"1-99\", \"100-200\"] }",
            "match = { destination-port = [\"50-150\"] }",
        ),
    ] {
        let text = two(&format!("{rate}\n{first}"), &format!("{rate}\n{second}"));
        expect(
            &text,
            &[(
                9,
                "no packet reaches class b: class a (line 5) comes before it",
            )],
        );
    }
    let clients = "per = \"src\"\nclients = { \"10.0.0.0/8\" = { rate = \"1mbit\" } }";
    expect(
        &two(
            clients,
            &format!("{rate}\nmatch = {{ source = [\"10.1.0.0/16\"] }}"),
        ),
        &[(9, "no packet reaches class b")],
    );
    expect(
        &two(
            clients,
            "per = \"src\"\nclients = { \"10.0.0.1\" = { rate = \"1mbit\" } }",
        ),
        &[
            (9, "no packet reaches class b"),
            (11, "another class has clients already (line 7)"),
        ],
    );
    expect(
        &class(&format!(
            "{clients}\nmatch = {{ source = [\"192.168.0.0/16\"] }}\n"
        )),
        &[(5, "class a matches nothing: none of its clients")],
    );
    expect(
        &interface(&format!(
            "name = \"eth0\"\ndefault = \"a\"\n[[interface.class]]\nname = \"a\"\n{clients}\n"
        )),
        &[(4, "default cannot be the class a")],
    );
    expect(
        &interface(&format!(
            "name = \"eth0\"\n[[interface.class]]\nname = \"a\"\n{rate}\nmatch.vlan = [1]\n\
             [[interface.class]]\nname = \"a\"\n{rate}\nmatch.vlan = [2]\n"
        )),
        &[(9, "the class a is there twice (first on line 5)")],
    );
    let many: String = (1..=66)
        .map(|n| format!("[[interface.class]]\nname = \"c{n}\"\nmatch.vlan = [{n}]\n{rate}\n"))
        .collect();
    expect(
        &interface(&format!("name = \"eth0\"\n{many}")),
        &[(
            5 + 64 * 4,
            "this is class 65, of 66: an interface has at most 64",
        )],
    );
}
