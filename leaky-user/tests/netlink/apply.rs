//! Lists of operations and their undo.

use crate::lab::{Lab, Outcome, check, many};
use leaky_user::hold::{self, HANDLE, Hold, HtbHold};
use leaky_user::net::{ClassConfig, Layer, Net, Op, QdiscConfig, ROOT};

const HTB: QdiscConfig = QdiscConfig::Htb {
    default: 0,
    direct_packets: 1_000,
};

/// A class without limits, which HTB refuses.
fn impossible() -> Op {
    let config = ClassConfig::Raw {
        kind: "htb".to_owned(),
        options: Vec::new(),
    };
    Op::SetClass {
        classid: HANDLE | 0x999,
        parent: HANDLE,
        config,
    }
}

pub(crate) fn failure_leaves_no_trace(lab: &Lab) -> Outcome {
    let link = lab.link();
    let before = lab.state(&link);
    let mut ask = lab.ask(link.clone());
    ask.groups = vec![many()];
    let mut ops = vec![Op::SetGsoMaxSegs(3)];
    ops.extend(HtbHold.plan(&ask)?.ops);
    for at in [0, 1, 2, 3, 500, 1_027, ops.len()] {
        let mut ops = ops.clone();
        ops.insert(at, impossible());
        let error = lab
            .wait(lab.net().apply(link.index, &ops))
            .expect_err("it cannot be done");
        check!(error.undo.is_empty(), "at {at}: {error}");
        let text = error.to_string();
        check!(
            text.contains("1eaf:999") && (text.contains("ENOENT") || text.contains("EINVAL")),
            "at {at}, the error says: {text}"
        );
        check!(
            lab.state(&link) == before,
            "at {at}: {:?} instead of {before:?}",
            lab.state(&link)
        );
    }
    Ok(())
}

pub(crate) fn undoes_changes_in_place(lab: &Lab) -> Outcome {
    let link = lab.link();
    let ask = lab.ask(link.clone());
    lab.wait(lab.net().apply(link.index, &HtbHold.plan(&ask)?.ops))?;
    let before = lab.state(&link);
    let mut faster = ask.clone();
    faster.groups[0].rate = leaky_user::units::Rate::BytesPerSecond(12_500_000);
    let mut ops = HtbHold.change(&ask, &faster)?.ops;
    ops.push(impossible());
    let error = lab
        .wait(lab.net().apply(link.index, &ops))
        .expect_err("it cannot be done");
    check!(error.undo.is_empty(), "{error}");
    check!(
        lab.state(&link) == before,
        "{:?} instead of {before:?}",
        lab.state(&link)
    );
    HtbHold.verify(&ask, &lab.qdiscs(&link), &lab.classes(&link))?;
    Ok(())
}

pub(crate) fn puts_a_whole_tree_back(lab: &Lab) -> Outcome {
    let link = lab.link();
    let mut ask = lab.ask(link.clone());
    ask.groups = vec![many()];
    lab.wait(lab.net().apply(link.index, &HtbHold.plan(&ask)?.ops))?;
    let before = lab.state(&link);
    let ops = [
        Op::DeleteQdisc {
            parent: ROOT,
            handle: HANDLE,
        },
        Op::SetQdisc {
            parent: ROOT,
            handle: 0x0007_0000,
            config: HTB,
        },
        Op::DeleteClass {
            classid: HANDLE | 1,
        },
    ];
    let error = lab
        .wait(lab.net().apply(link.index, &ops))
        .expect_err("it cannot be done");
    check!(error.undo.is_empty(), "{error}");
    HtbHold.verify(&ask, &lab.qdiscs(&link), &lab.classes(&link))?;
    let after = lab.state(&link);
    check!(
        after.1 == before.1 && after.3 == before.3,
        "{:?} instead of {before:?}",
        after
    );
    check!(after.0.len() == before.0.len(), "{} qdiscs", after.0.len());
    Ok(())
}

pub(crate) fn links_read_as_they_are(lab: &Lab) -> Outcome {
    let link = lab.link();
    check!(
        link.name == "v0" && link.mtu == 1_500 && link.up && !link.loopback,
        "{link:?}"
    );
    check!(
        link.layer == Layer::Ethernet && link.full_frame() == 1_522,
        "{link:?}"
    );
    lab.ip("link property add dev v0 altname a-name-longer-than-fifteen")?;
    let same = lab.wait(lab.net().link_by_name("a-name-longer-than-fifteen"))?;
    check!(same == link, "{same:?}");
    let lo = lab.link_named("lo");
    check!(
        lo.loopback && lo.mtu == 65_536 && lo.layer == Layer::Ethernet && !lo.up,
        "{lo:?}"
    );
    lab.ip("tuntap add t0 mode tun")?;
    let tun = lab.link_named("t0");
    check!(
        tun.layer == Layer::Ip && tun.full_frame() == 1_500,
        "{tun:?}"
    );
    for nothing in ["nope", "", "v0 ", "x\0y", &"n".repeat(300)] {
        let error = lab
            .wait(lab.net().link_by_name(nothing))
            .expect_err("no such interface");
        check!(
            error.to_string().starts_with("there is no interface"),
            "{nothing:?}: {error}"
        );
    }
    check!(lab.wait(lab.net().link_by_index(0)).is_err(), "index 0");
    check!(
        hold::previous(&lab.qdiscs(&link)) == hold::Previous::Default,
        "previous"
    );
    let config = ClassConfig::Raw {
        kind: "htb".to_owned(),
        options: Vec::new(),
    };
    let op = Op::SetClass {
        classid: HANDLE | 1,
        parent: HANDLE,
        config,
    };
    let error = lab
        .wait(lab.net().apply(link.index, &[op]))
        .expect_err("no root");
    check!(
        error.to_string().ends_with("the interface is as before"),
        "{error}"
    );
    Ok(())
}
