//! What a packet costs in the kernel program, by the kernel's own test run, and what it costs to tell the
//! program about many clients. Run it with `cargo xtask bench`; `hot` or `control` as an argument runs
//! one of the two parts.
//!
//! Figures of one run are comparable with one another; between machines only the ratios are.

mod cases;
mod control;
mod frames;
mod hot;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("measuring loads programs into the kernel: run it as root");
    }
    match std::env::args().nth(1).as_deref() {
        None => {
            hot::run()?;
            println!();
            control::run()
        }
        Some("hot") => hot::run(),
        Some("control") => control::run(),
        Some(other) => bail!("there is no part {other}; the parts are hot and control"),
    }
}
