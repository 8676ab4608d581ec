//! The tables beside the policy: which classes accept an address, a port, a VLAN, a mark, a cgroup.
//! Each holds both banks.

use aya_ebpf::helpers::generated::bpf_skb_ancestor_cgroup_id;
use aya_ebpf::macros::map;
use aya_ebpf::maps::lpm_trie::{Key as TrieKey, LpmTrie};
use aya_ebpf::maps::{Array, HashMap};
use leaky_core::abi::{
    AddressKey, BankKey, CGROUP_LEVELS, CGROUP_TABLE, CLIENT_PREFIXES, MARK_TABLE, PORTS,
    PREFIX_TABLE, VLANS,
};
use leaky_core::classify::{Classifier, Side, Tables, uses};
use leaky_core::policy::{BANKS, Client};
use leaky_core::wire::Headers;

use crate::skb::Skb;

/// Tries must not be allocated in advance (`BPF_F_NO_PREALLOC`).
const NO_PREALLOC: u32 = 1;

#[map]
static PREFIXES: LpmTrie<AddressKey, u64> = LpmTrie::with_max_entries(PREFIX_TABLE, NO_PREALLOC);
#[map]
static CLIENTS: LpmTrie<AddressKey, Client> =
    LpmTrie::with_max_entries(CLIENT_PREFIXES, NO_PREALLOC);
#[map]
static PORT_CLASSES: Array<u64> = Array::with_max_entries(2 * PORTS * BANKS, 0);
#[map]
static VLAN_CLASSES: Array<u64> = Array::with_max_entries(VLANS * BANKS, 0);
#[map]
static MARK_CLASSES: HashMap<BankKey, u64> = HashMap::with_max_entries(MARK_TABLE, NO_PREALLOC);
#[map]
static CGROUP_CLASSES: HashMap<BankKey, u64> = HashMap::with_max_entries(CGROUP_TABLE, NO_PREALLOC);

/// The tables of one bank, for one packet.
pub struct InKernel<'a, 'b> {
    /// The bank of the policy that the packet sees.
    pub bank: u32,
    /// The packet.
    pub skb: &'a Skb<'b>,
}

impl Tables for InKernel<'_, '_> {
    #[inline(always)]
    fn prefix(&self, side: Side, version: u8, address: &[u32; 4]) -> Option<u64> {
        let key = TrieKey::new(
            AddressKey::whole(version),
            AddressKey::new(self.bank, side as u32, version, address),
        );
        PREFIXES.get(&key).copied()
    }

    #[inline(always)]
    fn port(&self, side: Side, port: u16) -> u64 {
        let place = (self.bank * 2 + side as u32) * PORTS + port as u32;
        PORT_CLASSES.get(place).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn vlan(&self, id: u16) -> u64 {
        let place = self.bank * VLANS + id as u32;
        VLAN_CLASSES.get(place).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn mark(&self, mark: u32) -> Option<u64> {
        let key = BankKey {
            value: mark as u64,
            bank: self.bank as u64,
        };
        // SAFETY: the value is one word, and only elements of the bank that no packet reads are changed.
        unsafe { MARK_CLASSES.get(key) }.copied()
    }

    #[inline(always)]
    fn cgroup(&self, levels: u32) -> u64 {
        let mut classes = 0;
        for level in 0..CGROUP_LEVELS {
            if levels >> level & 1 == 0 {
                continue;
            }
            // SAFETY: the context of a TC program is a valid __sk_buff. A packet without a socket
            // has cgroup 0.
            let id = unsafe { bpf_skb_ancestor_cgroup_id(self.skb.raw(), level as i32) };
            let key = BankKey {
                value: id,
                bank: self.bank as u64,
            };
            // SAFETY: as for marks.
            classes |= unsafe { CGROUP_CLASSES.get(key) }.copied().unwrap_or(0);
        }
        classes
    }
}

/// The client whose address the packet has, by the longest prefix. Clients have no banks: each is
/// replaced as a whole, by itself.
#[inline(always)]
pub fn client(classifier: &Classifier, headers: &Headers) -> Option<&'static Client> {
    if classifier.uses & uses::CLIENTS == 0 {
        return None;
    }
    let address = if classifier.client_side == 0 {
        &headers.source
    } else {
        &headers.destination
    };
    let key = TrieKey::new(
        AddressKey::whole(headers.version),
        AddressKey::new(0, 0, headers.version, address),
    );
    CLIENTS.get(&key)
}
