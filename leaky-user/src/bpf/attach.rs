//! Attaching the program to an interface: by tcx, or where the kernel has none, by a clsact filter.

use super::Error;
use super::program::{Kind, Program, chain};
use crate::net::Link;
use aya::programs::links::LinkOrder;
use aya::programs::tc::{
    NlOptions, SchedClassifierLinkId, TcAttachOptions, TcError, qdisc_detach_program,
};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType};

/// Where in the kernel the program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// A link on the interface's egress (kernel 6.6 and later). Lives with its file descriptor.
    Tcx,
    /// A filter of the clsact qdisc, which must be there.
    Clsact,
}

impl Hook {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Hook::Tcx => "tcx",
            Hook::Clsact => "clsact",
        }
    }
}

/// Where among the programs of an interface one of them runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before all others.
    First,
    /// After others, which may end the chain before it; the id of the first.
    Behind(u32),
    /// Not at all.
    Nowhere,
}

/// An attached program; [`Program::detach`] takes it.
pub struct Attachment {
    hook: Hook,
    id: SchedClassifierLinkId,
}

impl Attachment {
    /// Where it is attached.
    pub fn hook(&self) -> Hook {
        self.hook
    }
}

impl Program {
    /// Attaches to the egress of `link` by `hook`, before the programs that are there: one that
    /// ends the chain with a verdict would else let packets past the limit. leaky hands every packet
    /// that it accepts on to them. `Ok(None)`: this kernel has no such hook, nothing has changed.
    ///
    /// # Errors
    /// [`Error::Attach`].
    pub fn attach(&mut self, link: &Link, hook: Hook) -> Result<Option<Attachment>, Error> {
        let options = match hook {
            Hook::Tcx => TcAttachOptions::TcxOrder(LinkOrder::first()),
            Hook::Clsact => TcAttachOptions::Netlink(NlOptions::default()),
        };
        let attached =
            self.classifier()?
                .attach_with_options(&link.name, TcAttachType::Egress, options);
        match attached {
            Ok(id) => Ok(Some(Attachment { hook, id })),
            Err(error) if hook == Hook::Tcx && is_unknown_attach_type(&error) => Ok(None),
            Err(error) => Err(Error::Attach {
                interface: link.name.clone(),
                reason: chain(&error),
            }),
        }
    }

    /// Where among the programs on what leaves `link` the kernel runs this one, attached by tcx.
    /// `None` where it cannot be asked, as while the interface changes its name.
    ///
    /// # Errors
    /// [`Error::Refused`] if the program is not loaded.
    pub fn place_in_tcx(&mut self, link: &Link) -> Result<Option<Place>, Error> {
        let name = self.kind().name();
        let lost = |error: ProgramError| Error::Refused {
            program: name,
            reason: chain(&error),
        };
        let id = self.classifier()?.info().map_err(lost)?.id();
        let Ok((_, programs)) = SchedClassifier::query_tcx(&link.name, TcAttachType::Egress) else {
            return Ok(None);
        };
        Ok(Some(
            match programs.iter().position(|program| program.id() == id) {
                None => Place::Nowhere,
                Some(0) => Place::First,
                Some(_) => Place::Behind(programs.first().map_or(0, |program| program.id())),
            },
        ))
    }

    /// Detaches. The program stays loaded and keeps its counters.
    ///
    /// # Errors
    /// [`Error::Attach`] if the kernel refuses, as when the interface is gone.
    pub fn detach(&mut self, attachment: Attachment, interface: &str) -> Result<(), Error> {
        self.classifier()?
            .detach(attachment.id)
            .map_err(|error| Error::Attach {
                interface: interface.to_owned(),
                reason: chain(&error),
            })
    }
}

/// Kernels before 6.6 answer a tcx link with EINVAL.
fn is_unknown_attach_type(error: &ProgramError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(this) = cause {
        if let Some(io) = this.downcast_ref::<std::io::Error>() {
            return io.raw_os_error() == Some(libc::EINVAL);
        }
        cause = this.source();
    }
    false
}

/// Removes the filters that a leaky which died left in the clsact qdisc of `link`. Returns whether
/// there were any.
///
/// # Errors
/// [`Error::Attach`] if the kernel refuses.
pub fn remove_filters(link: &Link) -> Result<bool, Error> {
    let mut removed = false;
    for kind in [Kind::DepartureTime, Kind::Queue] {
        match qdisc_detach_program(&link.name, TcAttachType::Egress, kind.name()) {
            Ok(()) => removed = true,
            // No filter of this name, or no clsact qdisc at all.
            Err(TcError::IoError(error))
                if matches!(
                    error.raw_os_error(),
                    None | Some(libc::ENOENT | libc::EINVAL)
                ) => {}
            Err(error) => {
                return Err(Error::Attach {
                    interface: link.name.clone(),
                    reason: chain(&error),
                });
            }
        }
    }
    Ok(removed)
}
