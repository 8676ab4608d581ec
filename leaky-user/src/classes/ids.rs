//! Places of state that stay the same while classes and clients come, go and change their order.

use ipnet::IpNet;
use leaky_core::policy::MAX_CLASSES;
use std::collections::HashMap;

/// Who has which place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    classes: HashMap<String, u32>,
    /// The place that is tried first for a class that is new: the one that was free for longest.
    next_class: u32,
    clients: HashMap<IpNet, u32>,
    free_clients: Vec<u32>,
    /// Client places given out so far.
    clients_used: u32,
}

impl Ids {
    /// The place of a class, and whether it is new: the one it has, else a free one. A class is known by
    /// its name, by whose buckets it has (with other keys the old ones mean nothing), and by whether it is
    /// only watched (then what it counted has not happened, and its keys have no queues).
    pub(super) fn class(&mut self, name: &str, per: &str) -> (u32, bool) {
        let name = format!("{name} per {per}");
        if let Some(id) = self.classes.get(&name) {
            return (*id, false);
        }
        let most = u32::try_from(MAX_CLASSES).unwrap_or(u32::MAX);
        let mut free = (self.next_class..most)
            .chain(0..self.next_class)
            .filter(|id| !self.classes.values().any(|taken| taken == id));
        // There are never more than MAX_CLASSES at a time: `keep_classes` has made room.
        let id = free.next().unwrap_or(0);
        self.next_class = (id + 1) % most;
        self.classes.insert(name, id);
        (id, true)
    }

    /// Forgets classes that are not among these.
    pub(super) fn keep_classes<'a>(&mut self, names: impl Iterator<Item = (&'a str, String)>) {
        let names: Vec<String> = names
            .map(|(name, per)| format!("{name} per {per}"))
            .collect();
        self.classes.retain(|name, _| names.contains(name));
    }

    /// The place of a client, and whether it is new.
    pub(super) fn client(&mut self, prefix: IpNet) -> (u32, bool) {
        if let Some(slot) = self.clients.get(&prefix) {
            return (*slot, false);
        }
        let slot = self.free_clients.pop().unwrap_or_else(|| {
            self.clients_used += 1;
            self.clients_used - 1
        });
        self.clients.insert(prefix, slot);
        (slot, true)
    }

    /// Forgets clients that are not among these, and returns who they were.
    pub(super) fn keep_clients(&mut self, prefixes: &[IpNet]) -> Vec<IpNet> {
        let kept: std::collections::HashSet<&IpNet> = prefixes.iter().collect();
        let gone: Vec<IpNet> = self
            .clients
            .keys()
            .filter(|prefix| !kept.contains(prefix))
            .copied()
            .collect();
        for prefix in &gone {
            self.free_clients.extend(self.clients.remove(prefix));
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_keeps_its_place_and_a_new_one_takes_a_free_one() {
        let mut ids = Ids::default();
        let ((a, _), (b, new)) = (ids.class("a", "src"), ids.class("b", "class"));
        assert!(new && a != b);
        ids.keep_classes([("b", "class".to_owned()), ("c", "class".to_owned())].into_iter());
        assert_eq!(ids.class("b", "class"), (b, false));
        let (c, new) = ids.class("c", "class");
        assert!(new && c != a && c != b, "the place of a rests");
        assert_ne!(ids.class("b", "flow").0, b, "other keys, other state");
        let mut places: Vec<u32> = (0..61)
            .map(|n| ids.class(&format!("n{n}"), "class").0)
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 61);
        assert!(places.contains(&a), "with 64 classes it is needed");
    }

    #[test]
    fn a_client_keeps_its_place() {
        let mut ids = Ids::default();
        let net = |text: &str| text.parse().expect("a prefix");
        assert_eq!(ids.client(net("10.0.0.1/32")), (0, true));
        assert_eq!(ids.client(net("10.0.0.2/32")), (1, true));
        assert_eq!(ids.client(net("10.0.0.1/32")), (0, false));
        assert_eq!(
            ids.keep_clients(&[net("10.0.0.2/32")]),
            [net("10.0.0.1/32")]
        );
        assert_eq!(ids.client(net("10.0.0.3/32")), (0, true));
    }
}
