//! The demo behind `cargo xtask demo`: the same traffic without leaky and with it, measured by the receiving kernel.

mod scene;
mod show;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaky_tests::plot::Style;
use leaky_tests::{Lab, cleanup, leaky};

use scene::{Scene, Traffic};
use show::Page;

const SCENES: [Scene; 3] = [
    Scene {
        title: "Video over UDP, inside the limit",
        what: "A camera sends 40 packets back to back, 30 times a second: 10 Mbit/s on average.",
        rate: "10mbit",
        rate_bytes_per_second: 1_250_000,
        traffic: Traffic::Bursts {
            frame_bytes: 1_042,
            packets: 40,
            period: Duration::from_micros(33_344),
        },
        time: Duration::from_millis(2_500),
        look: "Without leaky each picture is a wall of packets and then silence; a small buffer on the way overflows. \
               With leaky the same packets arrive one by one, none is lost, and the average is the same.",
    },
    Scene {
        title: "Three times too much UDP",
        what: "The same kind of sender, but it offers 30 Mbit/s where 10 are allowed.",
        rate: "10mbit",
        rate_bytes_per_second: 1_250_000,
        traffic: Traffic::Bursts {
            frame_bytes: 1_042,
            packets: 120,
            period: Duration::from_micros(33_344),
        },
        time: Duration::from_millis(2_500),
        look: "The limit holds from the first moment. What does not fit into the bucket (200 ms at the rate) is \
               dropped at once and counted, instead of making everything behind it late.",
    },
    Scene {
        title: "A download over TCP",
        what: "One TCP connection that takes what it can get, limited to 20 Mbit/s.",
        rate: "20mbit",
        rate_bytes_per_second: 2_500_000,
        traffic: Traffic::Tcp,
        time: Duration::from_millis(4_000),
        look: "TCP hands the kernel lumps of up to 64 kB, which leave as one; leaky keeps them small on this \
               interface while it runs, so that nothing gets more than its share of a millisecond.",
    },
];

fn main() -> ExitCode {
    let result = run();
    cleanup::remove_everything();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    if let Some(argument) = std::env::args().nth(1) {
        ensure!(
            argument == "--help" || argument == "-h",
            "the demo takes no arguments, but was given {argument:?}; run `cargo xtask demo`"
        );
        println!(
            "Shows what leaky does: run it with `cargo xtask demo`, as root. It takes half a minute and leaves nothing behind."
        );
        return Ok(());
    }
    ensure!(
        nix::unistd::geteuid().is_root(),
        "network namespaces and eBPF need root: run `sudo -E env \"PATH=$PATH\" cargo xtask demo`"
    );
    let binary = leaky::binary()
        .context("there is no leaky binary yet: run `cargo xtask demo`, which builds it")?;
    cleanup::on_signals()?;
    cleanup::remove_leftovers()?;

    let style = Style::detect();
    let page = Page::new(style);
    page.introduction()?;
    for (number, scene) in (1..).zip(&SCENES) {
        // A new pair of namespaces for each scene, so that no scene depends on what an earlier one left in the kernel.
        let lab = Lab::new().context("setting up two network namespaces")?;
        page.scene_title(number, scene)?;
        page.note("measuring without leaky ...")?;
        let without = scene.play(&lab, false)?;
        page.note("measuring with leaky ...")?;
        let with = scene.play(&lab, true)?;
        page.comparison(scene, &without, &with)?;
    }
    page.end(&binary)?;
    io::stdout().flush().context("writing to the terminal")
}
