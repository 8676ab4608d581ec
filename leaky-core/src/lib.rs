//! The leaky bucket: one copy of the algorithm for the kernel program, the simulator and the tests.
//!
//! Water arrives as it likes and leaves through the hole at a constant rate. The whole state of a
//! bucket is one number, `free_at`: the moment at which it will have drained all that it accepted.
//! From it follows when the next packet may start to leave ([`bucket`]), and since packets arrive
//! on every CPU at once, it is changed by a bounded compare-exchange loop ([`slot`]).
//!
//! Nothing in here reads a clock, allocates, divides or uses floating point on the packet path.
//!
//! The way of a packet through this crate: [`wire`] reads its headers, [`classify`] finds its class and
//! [`key`] whose bucket in the class, [`size`] says what it is charged, [`bucket`] when it may leave, and
//! [`slot`] makes that decision stick. [`policy`] and [`abi`] hold the values that the kernel program
//! and user space share.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod abi;
mod branchless;
pub mod bucket;
pub mod classify;
pub mod control;
pub mod key;
pub mod policy;
pub mod rate;
pub mod size;
pub mod slot;
pub mod time;
pub mod wire;
