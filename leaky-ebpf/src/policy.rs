//! The policy in force: two banks and the index of the active one, read once per packet, so that a
//! packet sees the old policy or the new one and never half of each.

use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use leaky_core::abi::{POLICY_BANKS, Policy};

#[map]
static POLICY: Array<Policy> = Array::with_max_entries(POLICY_BANKS, 0);
#[map]
static ACTIVE: Array<u32> = Array::with_max_entries(1, 0);

/// The policy in force.
#[inline(always)]
pub fn active() -> Option<&'static Policy> {
    POLICY.get(*ACTIVE.get(0)?)
}
