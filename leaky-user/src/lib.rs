//! The library of leaky: what the binary `leaky` is made of.
//!
//! The way of a command: [`cli`] and [`config`] read it, [`classes`] and [`limit`] turn what was asked
//! into what the kernel is told, [`run`] puts it in force with [`bpf`] (the kernel program), [`hold`] (the qdisc that keeps packets) and [`net`]
//! (netlink), and [`report`] says so. [`check`] explains
//! a config file.

pub mod bpf;
pub mod cgroup;
pub mod check;
pub mod classes;
pub mod clear;
pub mod cli;
pub mod clsact;
pub mod config;
pub mod hold;
pub mod limit;
pub mod net;
pub mod output;
pub mod report;
pub mod run;
pub mod state;
pub mod units;
