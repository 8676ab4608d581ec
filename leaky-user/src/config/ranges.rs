//! Sets of numbers and addresses as sorted ranges: comparing two takes time in their lengths, not in
//! the product of them.

use ipnet::IpNet;

/// Ranges, sorted, disjoint and not adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<(u128, u128)>);

impl Ranges {
    /// From ranges in any order.
    pub(super) fn new(ranges: impl IntoIterator<Item = (u128, u128)>) -> Ranges {
        let mut all: Vec<(u128, u128)> = ranges.into_iter().collect();
        all.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last)
                }
                _ => merged.push((first, last)),
            }
        }
        Ranges(merged)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first range that does not end before `number`.
    fn from(&self, number: u128) -> usize {
        self.0.partition_point(|(_, last)| *last < number)
    }

    /// Whether every number of `other` is in it.
    pub(super) fn covers(&self, other: &Ranges) -> bool {
        other.0.iter().all(|(first, last)| {
            let mine = self.0.get(self.from(*first));
            mine.is_some_and(|mine| mine.0 <= *first && mine.1 >= *last)
        })
    }

    /// Whether a number is in both.
    pub(super) fn meets(&self, other: &Ranges) -> bool {
        let (few, many) = if self.0.len() < other.0.len() {
            (self, other)
        } else {
            (other, self)
        };
        few.0.iter().any(|(first, last)| {
            let mine = many.0.get(many.from(*first));
            mine.is_some_and(|mine| mine.0 <= *last)
        })
    }

    fn and(&self, other: &Ranges) -> Ranges {
        let (mut mine, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(a), Some(b)) = (mine.peek(), theirs.peek()) {
            let (first, last) = (a.0.max(b.0), a.1.min(b.1));
            if first <= last {
                both.push((first, last));
            }
            if a.1 < b.1 {
                mine.next();
            } else {
                theirs.next();
            }
        }
        Ranges(both)
    }
}

/// Addresses of both families.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses {
    v4: Ranges,
    v6: Ranges,
}

impl Addresses {
    pub(super) fn of(prefixes: impl Iterator<Item = IpNet>) -> Addresses {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for prefix in prefixes {
            match prefix {
                IpNet::V4(net) => v4.push((
                    net.network().to_bits().into(),
                    net.broadcast().to_bits().into(),
                )),
                IpNet::V6(net) => v6.push((net.network().to_bits(), net.broadcast().to_bits())),
            }
        }
        Addresses {
            v4: Ranges::new(v4),
            v6: Ranges::new(v6),
        }
    }

    pub(super) fn all() -> Addresses {
        Addresses {
            v4: Ranges::new([(0, u32::MAX.into())]),
            v6: Ranges::new([(0, u128::MAX)]),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    pub(super) fn covers(&self, other: &Addresses) -> bool {
        self.v4.covers(&other.v4) && self.v6.covers(&other.v6)
    }

    pub(super) fn meets(&self, other: &Addresses) -> bool {
        self.v4.meets(&other.v4) || self.v6.meets(&other.v6)
    }

    pub(super) fn and(&self, other: &Addresses) -> Addresses {
        Addresses {
            v4: self.v4.and(&other.v4),
            v6: self.v6.and(&other.v6),
        }
    }

    /// Without the addresses of a family that `other` has none of.
    pub(super) fn in_families_of(&self, other: &Addresses) -> Addresses {
        let kept = |mine: &Ranges, theirs: &Ranges| match theirs.is_empty() {
            true => Ranges::default(),
            false => mine.clone(),
        };
        Addresses {
            v4: kept(&self.v4, &other.v4),
            v6: kept(&self.v6, &other.v6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn small() -> impl Strategy<Value = Vec<(u128, u128)>> {
        prop::collection::vec((0_u128..40, 0_u128..6), 0..8).prop_map(|ranges| {
            ranges
                .into_iter()
                .map(|(at, more)| (at, at + more))
                .collect()
        })
    }

    proptest! {
        #[test]
        fn sets_of_ranges_are_sets(a in small(), b in small()) {
            let set = |ranges: &[(u128, u128)]| {
                ranges.iter().flat_map(|(first, last)| *first..=*last)
                    .collect::<std::collections::BTreeSet<u128>>()
            };
            let (plain_a, plain_b) = (set(&a), set(&b));
            let (a, b) = (Ranges::new(a), Ranges::new(b));
            prop_assert_eq!(set(&a.0), plain_a.clone());
            prop_assert_eq!(a.covers(&b), plain_a.is_superset(&plain_b));
            prop_assert_eq!(a.meets(&b), !plain_a.is_disjoint(&plain_b));
            let both: std::collections::BTreeSet<u128> = &plain_a & &plain_b;
            prop_assert_eq!(set(&a.and(&b).0), both);
        }
    }
}
