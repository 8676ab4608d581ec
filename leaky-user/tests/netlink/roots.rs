//! Root qdiscs that somebody chose.

use crate::lab::{Lab, Outcome, check};
use leaky_user::hold::{self, HoldMode};

/// Kinds that come back, with options that are not the defaults.
pub(crate) const KINDS: [(&str, &str); 9] = [
    ("pfifo", "limit 123"),
    ("bfifo", "limit 54321"),
    ("pfifo_fast", ""),
    ("noqueue", ""),
    (
        "tbf",
        "rate 8gbit burst 100kb limit 300000 overhead 30 mpu 64",
    ),
    ("sfq", "limit 100 depth 90 perturb 10 divisor 512"),
    (
        "fq_codel",
        "limit 2000 flows 512 target 7ms interval 70ms quantum 1000 memory_limit 1Mb noecn",
    ),
    (
        "fq",
        "limit 5000 flow_limit 50 quantum 2000 maxrate 10mbit horizon 3s horizon_cap",
    ),
    (
        "cake",
        "bandwidth 20mbit rtt 50ms besteffort dual-srchost nat overhead 22 mpu 64",
    ),
];

pub(crate) fn comes_back(lab: &Lab, kind: &str, options: &str) -> Outcome {
    lab.tc(&format!(
        "qdisc add dev v0 root handle 77: {kind} {options}"
    ))?;
    let link = lab.link();
    let before = lab.state(&link);
    println!("{}", before.3);
    let mut setup = lab.setup(HoldMode::Auto);
    setup.replace_root = true;
    let installed = lab.wait(hold::install(lab.net(), lab.ask(link.clone()), setup))?;
    let during = lab.tc("qdisc show dev v0")?;
    check!(during.contains(" 1eaf: root"), "{during}");
    lab.wait(installed.remove(lab.net()))?;
    let after = lab.state(&link);
    check!(after == before, "{after:?} instead of {before:?}");
    Ok(())
}

pub(crate) fn needs_the_flag(lab: &Lab) -> Outcome {
    lab.tc("qdisc add dev v0 root handle 77: pfifo limit 123")?;
    let link = lab.link();
    let before = lab.state(&link);
    let error = lab
        .install(lab.ask(link.clone()), HoldMode::Auto)
        .err()
        .ok_or("replaced")?;
    check!(error.to_string().contains("pfifo 77:"), "{error}");
    check!(error.to_string().contains("--replace-root"), "{error}");
    check!(
        lab.state(&link) == before && lab.no_files(),
        "something changed"
    );
    Ok(())
}

pub(crate) fn with_classes_stays(lab: &Lab) -> Outcome {
    lab.tc("qdisc add dev v0 root handle 77: htb default 1")?;
    lab.tc("class add dev v0 parent 77: classid 77:1 htb rate 1mbit")?;
    let link = lab.link();
    let before = lab.state(&link);
    let mut setup = lab.setup(HoldMode::Auto);
    setup.replace_root = true;
    let outcome = lab.wait(hold::install(lab.net(), lab.ask(link.clone()), setup));
    let error = outcome.err().ok_or("replaced")?;
    check!(error.to_string().contains("htb 77:"), "{error}");
    check!(
        lab.state(&link) == before && lab.no_files(),
        "something changed"
    );
    Ok(())
}
