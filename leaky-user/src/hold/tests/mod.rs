//! Holds without a kernel.

mod choose;
mod fq;
mod htb;
mod life;
mod smooth;

use super::{Ask, Content};
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

/// 10 Mbit/s with 250 kB in one bucket.
fn ask() -> Ask {
    let link = link();
    Ask {
        rate: Rate::BytesPerSecond(1_250_000),
        capacity: Content::Bytes(250_000),
        bound: Duration::from_nanos(267_000_000),
        largest_packet: link.largest_gso_packet(),
        burst: 0,
        per_flow: false,
        gso_max_segs: None,
        link,
    }
}
