//! What leaky says: in words and numbers for people, in one JSON object per line for programs.
//! Every number carries its unit and can be typed back in.

mod counters;
mod install;
mod number;

pub use counters::{ClassCounters, CountersReport, Past};
pub use install::InstallReport;

use serde::Serialize;

/// One line of JSON output.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    /// The limit is in force.
    Installed(&'a InstallReport),
    /// What was counted so far.
    Counters(&'a CountersReport),
    /// Something worth knowing happened.
    Notice {
        /// In words.
        text: &'a str,
    },
    /// The limit is removed; what was counted.
    Summary(&'a CountersReport),
}
