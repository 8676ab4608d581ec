//! Which hold an interface gets, and why.

use super::{Error, FqHold, Hold, HoldKind, HtbHold};
use std::fmt;
use std::str::FromStr;

/// What the user says about the hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HoldMode {
    /// fq if the kernel has it, else htb.
    #[default]
    Auto,
    /// fq or nothing.
    Fq,
    /// htb or nothing.
    Htb,
}

impl FromStr for HoldMode {
    type Err = String;

    fn from_str(text: &str) -> Result<HoldMode, String> {
        match text {
            "auto" => Ok(HoldMode::Auto),
            "fq" => Ok(HoldMode::Fq),
            "htb" => Ok(HoldMode::Htb),
            _ => Err(format!("there is no hold {text:?}: use auto, fq or htb")),
        }
    }
}

impl fmt::Display for HoldMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            HoldMode::Auto => "auto",
            HoldMode::Fq => "fq",
            HoldMode::Htb => "htb",
        })
    }
}

/// The hold that was chosen.
pub struct Choice {
    /// The hold.
    pub hold: Box<dyn Hold>,
    /// Why, in words.
    pub reason: String,
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.hold.kind(), self.reason)
    }
}

/// Chooses among what the kernel has. HTB needs TBF for its leaves, and fq for a limit of the link
/// (`line`).
///
/// # Errors
/// [`Error::Missing`] if the kernel lacks what `mode` needs.
pub fn choose(mode: HoldMode, line: bool, fq: bool, htb: bool, tbf: bool) -> Result<Choice, Error> {
    let slots = htb && tbf;
    if line && fq && !tbf && mode != HoldMode::Htb {
        return Err(Error::Missing {
            missing: "tbf (module sch_tbf), which a limit of the link needs, is missing".to_owned(),
            module: "sch_tbf",
        });
    }
    let (kind, reason) = match mode {
        HoldMode::Fq if fq => (HoldKind::Fq, "asked for"),
        HoldMode::Htb if slots => (HoldKind::Htb, "asked for"),
        HoldMode::Auto if fq => (HoldKind::Fq, "the kernel has fq, the most even hold"),
        HoldMode::Auto if slots => (
            HoldKind::Htb,
            "the kernel has no fq (module sch_fq); htb is there",
        ),
        _ => return Err(missing(mode, htb)),
    };
    let hold: Box<dyn Hold> = match kind {
        HoldKind::Fq => Box::new(FqHold),
        HoldKind::Htb => Box::new(HtbHold),
    };
    Ok(Choice {
        hold,
        reason: reason.to_owned(),
    })
}

fn missing(mode: HoldMode, htb: bool) -> Error {
    let slots = if htb {
        "tbf (module sch_tbf), which htb needs,"
    } else {
        "htb (module sch_htb)"
    };
    let (missing, module) = match mode {
        HoldMode::Fq => ("fq (module sch_fq) is missing".to_owned(), "sch_fq"),
        HoldMode::Htb if htb => (format!("{slots} is missing"), "sch_tbf"),
        HoldMode::Htb => (format!("{slots} is missing"), "sch_htb"),
        HoldMode::Auto => (
            format!("fq (module sch_fq) and {slots} are missing"),
            "sch_fq",
        ),
    };
    Error::Missing { missing, module }
}
