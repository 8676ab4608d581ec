//! The root qdisc that was there before leaky, and how it comes back.

use super::{Error, HANDLE, root};
use crate::net::{Link, Op, Qdisc, QdiscConfig, ROOT, id_text};
use serde::{Deserialize, Serialize};

/// Kinds that a dump of their options puts back exactly, having neither classes of the user's
/// nor state that matters.
const COMES_BACK: [&str; 9] = [
    "pfifo",
    "bfifo",
    "pfifo_fast",
    "noqueue",
    "tbf",
    "sfq",
    "fq_codel",
    "fq",
    "cake",
];

/// The root qdisc before leaky.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Previous {
    /// The kernel's own choice: it comes back when ours is deleted.
    Default,
    /// One of leaky's, left by a leaky that died.
    Ours,
    /// One that somebody chose.
    Foreign {
        /// Its kind.
        kind: String,
        /// Its handle.
        handle: u32,
        /// Its raw options.
        options: Option<Vec<u8>>,
    },
}

/// Reads the root qdisc out of a dump.
pub fn previous(qdiscs: &[Qdisc]) -> Previous {
    match root(qdiscs) {
        None => Previous::Default,
        Some(root) if root.handle == 0 => Previous::Default,
        Some(root) if root.handle == HANDLE => Previous::Ours,
        Some(root) => Previous::Foreign {
            kind: root.kind.clone(),
            handle: root.handle,
            options: root.options.clone(),
        },
    }
}

impl Previous {
    /// Whether leaky may take its place. `filters` is how many are attached to it.
    ///
    /// # Errors
    /// [`Error::ForeignRoot`] if somebody chose it and `replace` is not set, or it could not be
    /// put back afterwards.
    pub fn may_be_replaced(
        &self,
        link: &Link,
        qdiscs: &[Qdisc],
        filters: usize,
        replace: bool,
    ) -> Result<(), Error> {
        let Previous::Foreign { kind, handle, .. } = self else {
            return Ok(());
        };
        let by_hand = "remove it yourself if it is not needed";
        let inside = qdiscs
            .iter()
            .any(|q| q.parent != ROOT && q.parent >> 16 == handle >> 16);
        let problem = if !COMES_BACK.contains(&kind.as_str()) {
            format!("leaky could not put back at the end; {by_hand}")
        } else if inside {
            format!("has qdiscs inside that leaky could not put back; {by_hand}")
        } else if filters > 0 {
            format!("has {filters} filters that leaky could not put back; {by_hand}")
        } else if !replace {
            "somebody chose; `--replace-root` replaces it while leaky runs and puts it back".into()
        } else {
            return Ok(());
        };
        Err(Error::ForeignRoot {
            interface: link.name.clone(),
            kind: kind.clone(),
            handle: id_text(*handle),
            problem,
        })
    }

    /// The operations that put it back, given what is there now. A root that is not ours any
    /// more is left alone.
    pub fn restore(&self, now: &[Qdisc]) -> Vec<Op> {
        if root(now).is_none_or(|root| root.handle != HANDLE) {
            return Vec::new();
        }
        match self {
            Previous::Default | Previous::Ours => {
                vec![Op::DeleteQdisc {
                    parent: ROOT,
                    handle: HANDLE,
                }]
            }
            // Another handle at the root takes the place of ours in one step.
            Previous::Foreign {
                kind,
                handle,
                options,
            } => vec![Op::SetQdisc {
                parent: ROOT,
                handle: *handle,
                config: QdiscConfig::put_back(kind, options.as_deref()),
            }],
        }
    }
}
