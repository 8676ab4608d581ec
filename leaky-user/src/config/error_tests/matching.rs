//! Errors of a match.

use super::{class, expect, interface};

#[test]
fn of_a_match() {
    for (matching, expected) in [
        ("protocol = []", "protocol = [] matches nothing"),
        ("source = []", "source = [] matches nothing"),
        (
            "destination-port = []",
            "destination-port = [] matches nothing",
        ),
        ("cgroup = []", "cgroup = [] matches nothing"),
        ("protocol = [\"\"]", "unknown protocol ''"),
        ("protocol = [\"UDP\"]", "unknown protocol 'UDP'"),
        ("protocol = [256]", "unknown protocol '256'"),
        ("protocol = [44]", "is an IPv6 extension header"),
        (
            "protocol = [\"udp\", 17]",
            "protocol has udp twice (first on line 7)",
        ),
        (
            "source = [\"10.0.0.1/8\"]",
            "write 10.0.0.0/8 for the network, or 10.0.0.1 for",
        ),
        ("source = [\"fd00::1/8\"]", "write fd00::/8 for the network"),
        (
            "source = [\"10.0.0.0/33\"]",
            "no prefix length from 0 to 32",
        ),
        (
            "source = [\"fd00::/129\"]",
            "no prefix length from 0 to 128",
        ),
        ("source = [\"10.0.0.0/08\"]", "no prefix length"),
        ("source = [\"10.0.0\"]", "is not a prefix"),
        ("source = [\"example.org\"]", "is not a prefix"),
        ("source = [7]", "is not a prefix"),
        (
            "source = [\"10.0.0.0/8\", \"10.1.0.0/16\"]",
            "source 10.1.0.0/16 lies inside 10.0.0.0/8 (line 7)",
        ),
        (
            "source = [\"10.1.0.0/16\", \"10.0.0.0/8\"]",
            "source 10.1.0.0/16 lies inside 10.0.0.0/8 (line 7)",
        ),
        (
            "destination = [\"10.0.0.1\", \"10.0.0.1/32\"]",
            "destination has 10.0.0.1 twice",
        ),
        (
            "destination = [\"10.0.0.0/8\"], source = [\"fd00::/8\"]",
            "empty match: the sources are IPv6 and the destinations IPv4",
        ),
        (
            "destination = [\"fd00::/8\"], source = [\"10.0.0.0/8\"]",
            "empty match: the sources are IPv4",
        ),
        ("source-port = [0]", "write a port from 1 to 65535"),
        ("source-port = [65536]", "write a port from 1 to 65535"),
        ("source-port = [\"http\"]", "write a port from 1 to 65535"),
        ("source-port = [\"10-\"]", "write a port from 1 to 65535"),
        (
            "destination-port = [\"200-100\"]",
            "port range 200-100 runs backwards: write \"100-200\"",
        ),
        (
            "destination-port = [\"100-200\", 150]",
            "destination-port 150 lies inside 100-200 (line 7)",
        ),
        (
            "destination-port = [\"150-250\", \"100-200\"]",
            "write \"100-250\" for both",
        ),
        ("destination-port = [7, 7]", "destination-port has 7 twice"),
        ("dscp = [64]", "dscp 64 is not from 0 to 63"),
        ("dscp = [184]", "write 46"),
        ("dscp = [\"af44\"]", "unknown dscp 'af44'"),
        ("dscp = [\"ef\", 46]", "dscp has ef twice"),
        ("mark = [\"0x\"]", "at most 32 bits"),
        ("mark = [-1]", "at most 32 bits"),
        ("mark = [4294967296]", "at most 32 bits"),
        ("mark = [16, \"0x10\"]", "mark has 0x10 twice"),
        ("vlan = [0]", "write an id from 1 to 4094"),
        ("vlan = [4095]", "write an id from 1 to 4094"),
        ("vlan = [7, 7]", "vlan has 7 twice"),
        ("cgroup = [\"a/b\"]", "is not absolute"),
        ("cgroup = [\"/a/../b\"]", "contains . or .."),
        ("cgroup = [\"/a//b\"]", "contains an empty name"),
        ("cgroup = [\"/a/\"]", "contains an empty name"),
        (
            "cgroup = [\"/sys/fs/cgroup/a\"]",
            "contains the mount point",
        ),
        ("cgroup = [\"/a\", \"/a\"]", "cgroup has '/a' twice"),
        (
            "protocol = [\"icmp\"], destination-port = [7]",
            "leaky reads no ports of icmp",
        ),
        (
            "protocol = [\"tcp\", \"dccp\"], source-port = [7]",
            "leaky reads no ports of dccp",
        ),
        (
            "source-file = \"none.txt\"",
            "source-file: cannot read none.txt: No such file",
        ),
        ("source-file = \"\"", "source-file names no file"),
    ] {
        let text = class(&format!("rate = \"1mbit\"\nmatch = {{ {matching} }}\n"));
        expect(&text, &[(7, expected)]);
    }
    let masked = interface(
        "name = \"eth0\"\nmark-mask = \"0xff\"\n[[interface.class]]\nname = \"a\"\nrate = \"1mbit\"\n\
         match = { mark = [1, \"0x101\"] }\n",
    );
    expect(
        &masked,
        &[(8, "mark 0x101 has bits outside the mark-mask 0xff")],
    );
    // Lists over several lines name the line of the value.
    let lines = class(
        "rate = \"1mbit\"\nmatch.source = [\n  \"10.1.0.0/16\",\n  \"10.0.0.0/8\",\n  \"10.300.0.0\",\n]\n",
    );
    expect(
        &lines,
        &[
            (8, "lies inside 10.0.0.0/8 (line 9)"),
            (10, "is not a prefix"),
        ],
    );
}
