//! Rates, capacities and durations as people type them and as leaky prints them.
//!
//! Everything is exact: decimal fractions are parsed into integers, a value that is not a whole
//! number of bytes, packets or nanoseconds is refused with its two neighbours, and what is printed
//! parses back to the same value. No float is used anywhere.
//!
//! # Grammar
//!
//! `NUMBER[ ]UNIT`, with at most one space between the two and nothing around them. `NUMBER` is
//! ASCII digits, optionally a point and up to nine decimals: no sign, exponent, thousands separator
//! or leading zero (`0.5` is fine).
//!
//! | quantity | units | meaning | case |
//! | --- | --- | --- | --- |
//! | rate | `bit kbit mbit gbit`, each also with `/s` | k = 1000, bits per second | any |
//! | rate | `B/s kB/s MB/s GB/s` | k = 1000, bytes per second | exactly so |
//! | rate | `KiB/s MiB/s GiB/s` | Ki = 1024, bytes per second | exactly so |
//! | rate | `pps kpps mpps` | k = 1000, packets per second | any |
//! | capacity | `B kB MB GB` | k = 1000, bytes | exactly so |
//! | capacity | `kib mib gib` | 1024, bytes | any |
//! | capacity | `p` | packets | lower |
//! | capacity, duration | `ns us ms s min h` | time | lower |
//!
//! Spellings that other programs read differently (`kbps`, `Mb/s`, `kb`, `KB`, a bare `k` or `m`,
//! a bare number) are refused, and the message shows the spellings to choose from.

mod error;
mod number;
mod rate;
mod size;
mod time;

pub(crate) use error::excerpt;
pub use error::{Problem, Quantity, UnitError};
pub use rate::Rate;
pub use size::Capacity;
pub use time::Duration;

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod table_tests;
