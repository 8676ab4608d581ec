//! The bucket of the link, below those of the keys.
//!
//! The link's constant rate is made by the hold: fq below tbf, or a parent class of htb. Here is only the
//! model of what waits: as if each packet that its own bucket took went into the link's bucket at once.

use aya_ebpf::helpers::bpf_get_prandom_u32;
use leaky_core::abi::SharedBucket;
use leaky_core::bucket::{Limits, Refusal, content};
use leaky_core::slot::{self, Cell};
use leaky_core::time::{Moment, Span};

use crate::keys;

/// Offers a packet to the link's bucket. `waits`: whether its own bucket is not empty, or it has none.
///
/// Keys that want more than their limit share an overloaded link in proportion to their limits, and
/// those that want less keep what they want: from half of the capacity on, packets of keys with a
/// backlog are refused by chance, the more the fuller the bucket is, and the others only when it is
/// full. By a fixed bound one key of many that send in step would be refused always, and others never.
///
/// # Errors
/// [`Refusal::Link`] or [`Refusal::Contention`].
#[inline(always)]
pub fn offer(limits: &Limits, bytes: u64, waits: bool, now: Moment) -> Result<(), Refusal> {
    let Some(bucket) = keys::shared(SharedBucket::Link) else {
        return Ok(());
    };
    let cell = bucket.cell();
    if waits {
        let half = limits.capacity.0 / 2;
        // SAFETY: the helper has no preconditions.
        let chance = unsafe { bpf_get_prandom_u32() } as u64;
        // Half of the capacity by a chance of 32 bits, without a product that overflows.
        let bound = half + (half >> 16) * (chance >> 16);
        if content(Moment(cell.load()), limits, now).0 > bound {
            return Err(Refusal::Link);
        }
    }
    match slot::offer(&cell, limits, bytes, Span::ZERO, now) {
        Ok(_) => Ok(()),
        Err(Refusal::Contention) => Err(Refusal::Contention),
        Err(_) => Err(Refusal::Link),
    }
}
