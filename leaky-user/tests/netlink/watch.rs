//! Changes of the interface, reported.

use crate::lab::{Lab, Outcome, check};
use leaky_user::net::{LinkEvent, LinkWatch, Net};
use std::time::{Duration, Instant};

pub(crate) fn sees_changes_at_once(lab: &Lab) -> Outcome {
    let link = lab.link();
    let mut watch = lab.wait(lab.net().watch(link.index))?;
    let mut next = || {
        let start = Instant::now();
        let event =
            lab.wait(async { tokio::time::timeout(Duration::from_secs(2), watch.next()).await });
        (event, start.elapsed())
    };
    lab.ip("link set v0 mtu 1400")?;
    let (event, took) = next();
    let mut expected = link.clone();
    expected.mtu = 1_400;
    check!(event?? == LinkEvent::Changed(expected.clone()), "mtu");
    println!("MTU change reported {took:?} after `ip` was done");
    check!(took < Duration::from_millis(100), "{took:?}");
    // Others are not our business, nor is what does not change.
    lab.ip("link set v1 mtu 1300")?;
    lab.ip("link set v0 alias nothing")?;
    // Of this one the kernel tells nobody; it comes with the next event.
    lab.ip("link set v0 gso_max_segs 7")?;
    expected.gso_max_segs = 7;
    lab.ip("link set v0 down")?;
    expected.up = false;
    check!(next().0?? == LinkEvent::Changed(expected.clone()), "down");
    lab.ip("link set v0 name renamed")?;
    expected.name = "renamed".to_owned();
    check!(next().0?? == LinkEvent::Changed(expected), "name");
    lab.ip("link del renamed")?;
    check!(next().0?? == LinkEvent::Removed, "removed");
    Ok(())
}

pub(crate) fn survives_overflow(lab: &Lab) -> Outcome {
    let link = lab.link();
    let mut watch = lab.wait(lab.net().watch(link.index))?;
    // Far more notifications than the socket's buffer holds, without reading one.
    for n in 0..400 {
        lab.ip(&format!("link set v1 mtu {}", 1_300 + n % 2))?;
    }
    lab.ip("link set v0 mtu 1234")?;
    let event =
        lab.wait(async { tokio::time::timeout(Duration::from_secs(2), watch.next()).await })??;
    check!(
        matches!(&event, LinkEvent::Changed(now) if now.mtu == 1_234),
        "{event:?}"
    );
    for n in 0..400 {
        lab.ip(&format!("link set v1 mtu {}", 1_300 + n % 2))?;
    }
    lab.ip("link del v0")?;
    let event =
        lab.wait(async { tokio::time::timeout(Duration::from_secs(2), watch.next()).await })??;
    check!(event == LinkEvent::Removed, "{event:?}");
    Ok(())
}
