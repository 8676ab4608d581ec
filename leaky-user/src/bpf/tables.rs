//! The tables beside the policy, as user space builds and writes them: for each value that classes can
//! ask for, the classes that accept it.

use super::program::{Program, map_error, no_map};
use super::{Error, values};
use aya::maps::lpm_trie::{Key as TrieKey, LpmTrie};
use aya::maps::{Array, HashMap, MapData};
use ipnet::IpNet;
use leaky_core::abi::{ADDRESS_AT, AddressKey, BankKey, PORTS, VLANS};
use leaky_core::classify::Side;
use leaky_core::policy::Client;
use std::net::IpAddr;

/// What is written beside a policy. Empty where no class asks for such a thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Classes by prefix.
    pub prefixes: Vec<(Side, IpNet, u64)>,
    /// Classes by source port: one word for each port.
    pub source_ports: Vec<u64>,
    /// Classes by destination port.
    pub destination_ports: Vec<u64>,
    /// Classes by VLAN: one word for each number.
    pub vlans: Vec<u64>,
    /// Classes by packet mark.
    pub marks: Vec<(u32, u64)>,
    /// Classes by cgroup id.
    pub cgroups: Vec<(u64, u64)>,
}

/// A prefix as a key of a table.
pub(super) fn trie_key(bank: u32, side: u32, prefix: &IpNet) -> TrieKey<values::Address> {
    let (version, words) = match prefix.network() {
        IpAddr::V4(address) => (4, [u32::from_ne_bytes(address.octets()), 0, 0, 0]),
        IpAddr::V6(address) => {
            let mut words = [0; 4];
            for (word, bytes) in words.iter_mut().zip(address.octets().chunks_exact(4)) {
                *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
            (6, words)
        }
    };
    let length = ADDRESS_AT + u32::from(prefix.prefix_len());
    TrieKey::new(
        length,
        values::Address(AddressKey::new(bank, side, version, &words)),
    )
}

impl Program {
    /// Writes the tables of a bank that no packet reads.
    pub(super) fn write_tables(&mut self, bank: u32, tables: &Tables) -> Result<(), Error> {
        self.write_prefixes(bank, &tables.prefixes)?;
        for (side, ports) in [
            (Side::Source, &tables.source_ports),
            (Side::Destination, &tables.destination_ports),
        ] {
            let first = (bank * 2 + side as u32) * PORTS;
            self.write_words("PORT_CLASSES", "write the classes by port", first, ports)?;
        }
        let first = bank * VLANS;
        self.write_words(
            "VLAN_CLASSES",
            "write the classes by VLAN",
            first,
            &tables.vlans,
        )?;
        let marks = tables
            .marks
            .iter()
            .map(|(mark, classes)| (u64::from(*mark), *classes));
        self.write_by_value("MARK_CLASSES", "write the classes by mark", bank, marks)?;
        let cgroups = tables.cgroups.iter().copied();
        self.write_by_value(
            "CGROUP_CLASSES",
            "write the classes by cgroup",
            bank,
            cgroups,
        )
    }

    fn write_prefixes(&mut self, bank: u32, prefixes: &[(Side, IpNet, u64)]) -> Result<(), Error> {
        let doing = "write the classes by address";
        let old = std::mem::take(&mut self.written[bank as usize]);
        let map = self.ebpf.map_mut("PREFIXES").ok_or_else(|| no_map(doing))?;
        let mut trie: LpmTrie<&mut MapData, values::Address, u64> =
            LpmTrie::try_from(map).map_err(map_error(doing))?;
        for (side, prefix) in &old {
            trie.remove(&trie_key(bank, *side as u32, prefix))
                .map_err(map_error(doing))?;
        }
        for (side, prefix, classes) in prefixes {
            trie.insert(&trie_key(bank, *side as u32, prefix), classes, 0)
                .map_err(map_error(doing))?;
            self.written[bank as usize].push((*side, *prefix));
        }
        Ok(())
    }

    fn write_words(
        &mut self,
        map: &str,
        doing: &'static str,
        first: u32,
        words: &[u64],
    ) -> Result<(), Error> {
        let mut array: Array<&mut MapData, u64> = self.array(map, doing)?;
        for (place, classes) in (first..).zip(words) {
            array.set(place, *classes, 0).map_err(map_error(doing))?;
        }
        Ok(())
    }

    fn write_by_value(
        &mut self,
        map: &str,
        doing: &'static str,
        bank: u32,
        entries: impl Iterator<Item = (u64, u64)>,
    ) -> Result<(), Error> {
        let bank = u64::from(bank);
        let map = self.ebpf.map_mut(map).ok_or_else(|| no_map(doing))?;
        let mut hash: HashMap<&mut MapData, values::InBank, u64> =
            HashMap::try_from(map).map_err(map_error(doing))?;
        let old: Vec<values::InBank> = hash
            .keys()
            .filter_map(Result::ok)
            .filter(|key| key.0.bank == bank)
            .collect();
        for key in &old {
            hash.remove(key).map_err(map_error(doing))?;
        }
        for (value, classes) in entries {
            hash.insert(values::InBank(BankKey { value, bank }), classes, 0)
                .map_err(map_error(doing))?;
        }
        Ok(())
    }

    /// Puts a client's limits in force: at once and as a whole, whether it is new or known. A new
    /// client's bucket is empty.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn put_client(&mut self, prefix: &IpNet, client: &Client, new: bool) -> Result<(), Error> {
        let doing = "put a client's limits in force";
        if new {
            self.empty_client(client.slot)?;
        }
        let map = self.ebpf.map_mut("CLIENTS").ok_or_else(|| no_map(doing))?;
        let mut trie: LpmTrie<&mut MapData, values::Address, values::Client> =
            LpmTrie::try_from(map).map_err(map_error(doing))?;
        trie.insert(&trie_key(0, 0, prefix), values::Client(*client), 0)
            .map_err(map_error(doing))
    }

    /// Takes a client out of the table: its packets are then matched by the other classes.
    ///
    /// # Errors
    /// [`Error::Map`], also if it is not there.
    pub fn remove_client(&mut self, prefix: &IpNet) -> Result<(), Error> {
        let doing = "remove a client";
        let map = self.ebpf.map_mut("CLIENTS").ok_or_else(|| no_map(doing))?;
        let mut trie: LpmTrie<&mut MapData, values::Address, values::Client> =
            LpmTrie::try_from(map).map_err(map_error(doing))?;
        trie.remove(&trie_key(0, 0, prefix))
            .map_err(map_error(doing))
    }
}
