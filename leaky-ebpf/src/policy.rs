//! The policy in force: two banks and the index of the active one, read once per packet, so that a
//! packet sees the old policy or the new one and never half of each.

use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use leaky_core::policy::{BANKS, Class, Policy};

use crate::opaque::opaque;

#[map]
static POLICY: Array<Policy> = Array::with_max_entries(BANKS, 0);
#[map]
static ACTIVE: Array<u32> = Array::with_max_entries(1, 0);

/// The policy in force, and its bank: the tables beside it have banks too.
#[inline(always)]
pub fn active() -> Option<(u32, &'static Policy)> {
    let bank = *ACTIVE.get(0)?;
    Some((bank, POLICY.get(bank)?))
}

/// The class at `place`.
#[inline(always)]
pub fn class(policy: &Policy, place: u32) -> Option<&Class> {
    policy.classes.get(opaque(place as usize))
}
