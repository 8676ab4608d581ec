//! `leaky clear`: removes what a leaky that died left on an interface.

use crate::bpf;
use crate::clsact;
use crate::hold::{self, Cleared};
use crate::net::Net;
use crate::net::kernel::Kernel;
use crate::run::Error;
use crate::state;
use std::fmt;

/// What was found and done.
pub struct Done {
    hold: Cleared,
    filters: bool,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.hold, self.filters) {
            (Cleared::Nothing, false) => "nothing of leaky's is there",
            (Cleared::Nothing, true) => "leaky's program is removed",
            (Cleared::Restored, _) => "not limited any more, as it was before leaky",
            (Cleared::RemovedWithoutRecord, _) => {
                "not limited any more; there was no record of the root qdisc before leaky, so the \
                 kernel's default is back"
            }
        })
    }
}

/// Clears an interface. Can be called twice, and after any half-done installation or removal.
///
/// # Errors
/// [`hold::Error::Busy`] while a leaky runs there; what the kernel refuses.
pub async fn clear(interface: &str) -> Result<Done, Error> {
    let net = Kernel::open()?;
    let link = net.link_by_name(interface).await?;
    // A program attached by tcx went with the process that held it; a clsact filter did not. It goes
    // first, so that it does not stamp packets for whatever comes back at the root.
    let record = state::record_path(link.index)?;
    let filters = !hold::is_busy(&record)? && bpf::remove_filters(&link)?;
    let hold = hold::clear(&net, &link, &record).await?;
    if filters {
        clsact::remove_unused(&net, link.index).await?;
    }
    Ok(Done { hold, filters })
}
