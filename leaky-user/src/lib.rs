//! The library of leaky: what the binary `leaky` is made of.
//!
//! The way of a command: [`cli`] reads it, [`limit`] turns what was asked into limits, [`run`] puts
//! them in force with [`bpf`] (the kernel program), [`hold`] (the qdisc that keeps packets) and [`net`]
//! (netlink), and [`report`] says so.

pub mod bpf;
pub mod clear;
pub mod cli;
pub mod clsact;
pub mod hold;
pub mod limit;
pub mod net;
pub mod output;
pub mod report;
pub mod run;
pub mod state;
pub mod units;
