//! The clsact qdisc, on kernels whose programs attach as its filters. Others use it too: it is
//! removed only if leaky made it and nobody else has a filter in it.

use crate::net::{Error, Net, Op, QdiscConfig};

/// `TC_H_CLSACT`: where it stands (linux/pkt_sched.h).
const PARENT: u32 = 0xffff_fff1;
const HANDLE: u32 = 0xffff_0000;
/// `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)`: where filters on what comes in are.
const INGRESS: u32 = 0xffff_fff2;
/// The same for what leaves.
const EGRESS: u32 = 0xffff_fff3;

const KIND: &str = "clsact";

/// A clsact qdisc in use by leaky.
pub struct Clsact {
    made: bool,
}

impl Clsact {
    /// Makes one if there is none.
    ///
    /// # Errors
    /// What the kernel refuses: an ingress qdisc stands in its place, for one.
    pub async fn claim<N: Net>(net: &N, index: u32) -> Result<Clsact, crate::net::ApplyError> {
        let there = net.qdiscs(index).await.map_err(plain)?;
        if there.iter().any(|qdisc| qdisc.kind == KIND) {
            return Ok(Clsact { made: false });
        }
        let config = QdiscConfig::Raw {
            kind: KIND.to_owned(),
            options: None,
        };
        net.apply(
            index,
            &[Op::SetQdisc {
                parent: PARENT,
                handle: HANDLE,
                config,
            }],
        )
        .await?;
        Ok(Clsact { made: true })
    }

    /// Whether a filter is on what leaves the interface. It need not be leaky's.
    ///
    /// # Errors
    /// [`Error`] if the kernel cannot be asked.
    pub async fn has_filter<N: Net>(&self, net: &N, index: u32) -> Result<bool, Error> {
        Ok(net.filters(index, EGRESS).await? > 0)
    }

    /// Gives it up.
    ///
    /// # Errors
    /// As [`Clsact::claim`].
    pub async fn release<N: Net>(self, net: &N, index: u32) -> Result<(), crate::net::ApplyError> {
        if self.made {
            remove_unused(net, index).await
        } else {
            Ok(())
        }
    }
}

/// Removes the clsact qdisc if no filter is in it. An interface that is gone has none.
///
/// # Errors
/// As [`Clsact::claim`].
pub async fn remove_unused<N: Net>(net: &N, index: u32) -> Result<(), crate::net::ApplyError> {
    for parent in [INGRESS, EGRESS] {
        match net.filters(index, parent).await {
            Ok(0) => {}
            Ok(_) => return Ok(()),
            Err(error) if error.is_interface_gone() => return Ok(()),
            Err(error) => return Err(plain(error)),
        }
    }
    net.apply(
        index,
        &[Op::DeleteQdisc {
            parent: PARENT,
            handle: HANDLE,
        }],
    )
    .await
}

fn plain(failed: Error) -> crate::net::ApplyError {
    crate::net::ApplyError {
        failed,
        undo: Vec::new(),
    }
}
