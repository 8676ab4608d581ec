//! Holds without a kernel.

mod choose;
mod fq;
mod htb;
mod life;
mod line;
mod smooth;

use super::{Ask, Content, Group, Keys, Line};
use crate::net::{Layer, Link};
use crate::units::{Duration, Rate};

fn link() -> Link {
    Link {
        index: 7,
        name: "v0".to_owned(),
        mtu: 1_500,
        layer: Layer::Ethernet,
        loopback: false,
        up: true,
        tx_queues: 1,
        gso_max_segs: 65_535,
        gso_max_size: 65_536,
    }
}

/// 10 Mbit/s with 250 kB.
fn group() -> Group {
    Group {
        rate: Rate::BytesPerSecond(1_250_000),
        capacity: Content::Bytes(250_000),
        bound: Duration::from_nanos(267_000_000),
        burst: 0,
        keys: Keys::One,
    }
}

/// The same for each of many keys.
fn many() -> Group {
    Group {
        keys: Keys::Many,
        ..group()
    }
}

/// 20 Mbit/s with 400 ms.
fn line() -> Line {
    Line {
        rate: 2_500_000,
        capacity: 1_000_000,
    }
}

/// One such bucket.
fn ask() -> Ask {
    let link = link();
    Ask {
        groups: vec![group()],
        line: None,
        overhead: 0,
        mpu: 0,
        largest_packet: link.largest_gso_packet(),
        gso_max_segs: None,
        link,
    }
}
