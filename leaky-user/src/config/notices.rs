//! What is allowed and may still not be what was meant.

use super::model::{Action, Class, Fallback, Interface};
use super::per::Per;
use super::reach::partial_overlaps;
use crate::units::{Capacity, Rate};

impl Interface {
    /// What is worth a second look, a sentence each: classes that overlap in part, rates above the
    /// link's, thresholds that are hardly reached.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        for (at, earlier) in partial_overlaps(&self.classes) {
            let names: Vec<&str> = earlier
                .iter()
                .map(|before| self.classes[*before].name.as_str())
                .collect();
            notices.push(format!(
                "packets that match class {} and also {} go to the first of them in the file",
                self.classes[at].name,
                names.join(" or ")
            ));
        }
        self.above_link(&mut notices);
        for class in &self.classes {
            threshold_beyond_capacity(class, &mut notices);
        }
        if let (Fallback::Drop, false) = (self.fallback, self.takes_everything()) {
            notices.push("what matches no class is dropped".to_owned());
        }
        notices
    }

    /// Whether a class without a match is there, so that nothing is left for `default`.
    pub fn takes_everything(&self) -> bool {
        let mut classes = self.classes.iter();
        classes.any(|class| class.matching.is_all() && class.clients.is_none())
    }

    fn above_link(&self, notices: &mut Vec<String>) {
        let Some(link) = self.link.and_then(|link| link.rate.bytes_per_second()) else {
            return;
        };
        let shown = |bytes| Rate::BytesPerSecond(bytes);
        let mut sum: u64 = 0;
        let mut buckets: u64 = 0;
        for class in self
            .classes
            .iter()
            .filter(|class| class.action == Action::Shape)
        {
            if let Some(rate) = class
                .limits
                .and_then(|limits| limits.rate.bytes_per_second())
            {
                if rate > link {
                    notices.push(format!(
                        "the rate of class {}, {}, is above the link's, {}: the link limits it first",
                        class.name,
                        shown(rate),
                        shown(link)
                    ));
                }
                if class.per == Per::Class {
                    sum = sum.saturating_add(rate);
                    buckets += 1;
                }
            }
            let rates = class.clients.iter().flatten();
            let rates = rates.filter_map(|client| client.asked.rate.bytes_per_second());
            let above = rates.filter(|rate| *rate > link).count();
            if above > 0 {
                notices.push(format!(
                    "{above} clients of class {} have rates above the link's, {}",
                    class.name,
                    shown(link)
                ));
            }
        }
        if sum > link && buckets > 1 {
            notices.push(format!(
                "the rates of the classes with one bucket add up to {}, above the link's {}: when all \
                 are busy they share the link",
                shown(sum),
                shown(link)
            ));
        }
    }
}

/// A wait that the capacity hardly allows is never marked.
fn threshold_beyond_capacity(class: &Class, notices: &mut Vec<String>) {
    let Some(limits) = class.limits else { return };
    if let (Some(ecn), Some(Capacity::Time(drains))) = (limits.ecn, limits.capacity)
        && ecn >= drains
    {
        notices.push(format!(
            "class {} marks after a wait of {ecn}, but its bucket drains in {drains}: hardly a packet \
             is marked",
            class.name
        ));
    }
}
