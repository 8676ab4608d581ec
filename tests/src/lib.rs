//! The lab: two network namespaces joined by a veth pair, senders in one, a capture in the other, and the
//! product between them.
//!
//! What the lab measures does not come from the product: packets are timed by the receiving kernel, counts are
//! read from the kernel's own statistics, and every packet carries a sequence number, its time of sending and a
//! hash. The end-to-end tests, the demo and the benches use it.
//!
//! Whatever is made here is named after the process that made it, is removed on drop, on a panic and on a signal,
//! and is found and removed by the next run if the process was killed.

pub mod ahead;
pub mod bulk;
pub mod capture;
pub mod cleanup;
pub mod count;
pub mod craft;
pub mod frame;
pub mod lab;
pub mod leaky;
pub mod links;
pub mod netns;
pub mod payload;
pub mod plot;
pub mod ppp;
pub mod probe;
pub mod process;
pub mod raw;
pub mod report;
pub mod router;
mod sock;
pub mod stats;
pub mod tcp;
pub mod tun;
pub mod udp;
pub mod witness;

pub use bulk::Bulk;
pub use capture::{Capture, Captured};
pub use count::Count;
pub use craft::Craft;
pub use frame::Packet;
pub use lab::{Lab, LabOptions};
pub use leaky::{Leaky, Outcome};
pub use links::{Kind, Link};
pub use netns::Netns;
pub use udp::{Pace, Sizes, Udp};
