//! What is to be done with the packets of an interface, as the kernel program reads it.
//!
//! A policy stands in an array of two banks with the index of the active one beside it, so that a
//! packet sees the old policy or the new one and never half of each.

use crate::bucket::Limits;
use crate::classify::Classifier;
use crate::key::KeyMask;
use crate::size::Framing;
use crate::time::Span;
use crate::wire::Layer;

/// Banks of the policy.
pub const BANKS: u32 = 2;
/// Classes that an interface can have; each is one bit of a word in [`Classifier`].
pub const MAX_CLASSES: usize = 64;
/// The place of what matches no class, behind the classes.
pub const REST: usize = MAX_CLASSES;

/// What is done with the packets of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// They go through a bucket.
    Shape,
    /// They pass; only the link's bucket, if there is one, counts them.
    Pass,
    /// They are dropped.
    Drop,
    /// Counted as if they were shaped, and let pass untouched.
    Monitor,
}

/// What a class is, beside which packets are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Class {
    /// The limits of each of its buckets.
    pub limits: Limits,
    /// Packets that wait longer are marked as having met congestion (ECN); [`Span::MAX`] never.
    pub mark_above: Span,
    /// Whose buckets they are, unless `single`.
    pub key: KeyMask,
    /// The place of its state and counters, below [`MAX_CLASSES`] + 1. It stays the same while the
    /// order of classes changes.
    pub id: u32,
    action: u32,
    /// Not 0: the class has one bucket for all.
    pub single: u32,
    /// Not 0: buckets and limits are those of the clients ([`Client`]).
    pub clients: u32,
    /// The queue of the hold for the one bucket, or of those that share the overflow bucket.
    pub queue: u32,
    /// Which pool of the hold's queues its keys take theirs from, below [`POOLS`].
    pub pool: u32,
}

/// Pools of queues that a hold with queues can have.
pub const POOLS: u32 = 4;

impl Class {
    /// The same class with this action.
    #[must_use]
    pub const fn with_action(mut self, action: Action) -> Class {
        self.action = match action {
            Action::Shape => 0,
            Action::Pass => 1,
            Action::Drop => 2,
            Action::Monitor => 3,
        };
        self
    }

    /// What is done with its packets.
    #[inline(always)]
    pub const fn action(&self) -> Action {
        match self.action {
            0 => Action::Shape,
            1 => Action::Pass,
            2 => Action::Drop,
            _ => Action::Monitor,
        }
    }
}

/// The limits of one client of a class that has a table of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Client {
    /// The limits of its bucket.
    pub limits: Limits,
    /// As [`Class::mark_above`].
    pub mark_above: Span,
    /// The place of its bucket, which stays the same when its limits change.
    pub slot: u32,
    /// The hold's queue for it, or 0.
    pub queue: u32,
}

/// What the program does to the packets of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Policy {
    layer: u32,
    /// Not 0: control traffic is matched like any other.
    pub classify_control: u32,
    /// What a frame is charged.
    pub framing: Framing,
    /// The hold's queue for what is limited by the link only. Where its lower half is 0 the hold has
    /// none: packets then must not carry any of its queues.
    pub rest_queue: u32,
    /// Not 0: `link` holds.
    pub has_link: u32,
    /// The limits of the link's bucket.
    pub link: Limits,
    /// Which packets are in which class.
    pub classifier: Classifier,
    /// The classes in order, and what is done with the rest.
    pub classes: [Class; MAX_CLASSES + 1],
}

impl Policy {
    /// A policy without classes that lets everything pass, for frames of this kind.
    pub const fn new(layer: Layer) -> Policy {
        let none = Limits {
            rate: crate::rate::Rate::NONE,
            capacity: Span::ZERO,
            max_wait: Span::ZERO,
            burst: Span::ZERO,
            stale_after: Span::ZERO,
        };
        let class = Class {
            limits: none,
            mark_above: Span::MAX,
            key: KeyMask::NOTHING,
            id: crate::abi::CLASS_SLOTS - 1,
            action: 0,
            single: 1,
            clients: 0,
            queue: 0,
            pool: 0,
        }
        .with_action(Action::Pass);
        Policy {
            layer: match layer {
                Layer::Ethernet => 0,
                Layer::Ip => 1,
            },
            classify_control: 0,
            framing: Framing {
                overhead: 0,
                minimum: 0,
            },
            rest_queue: 0,
            has_link: 0,
            link: none,
            classifier: Classifier::EMPTY,
            classes: [class; MAX_CLASSES + 1],
        }
    }

    /// Where the network header of the interface's frames is.
    #[inline(always)]
    pub const fn layer(&self) -> Layer {
        if self.layer == 0 {
            Layer::Ethernet
        } else {
            Layer::Ip
        }
    }
}

const _: () = {
    assert!(size_of::<Class>() == 48 + 8 + 88 + 24);
    assert!(size_of::<Client>() == 64);
    assert!(size_of::<Policy>() == 72 + size_of::<Classifier>() + 65 * size_of::<Class>());
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_comes_out() {
        for layer in [Layer::Ethernet, Layer::Ip] {
            assert_eq!(Policy::new(layer).layer(), layer);
        }
        for action in [Action::Shape, Action::Pass, Action::Drop, Action::Monitor] {
            assert_eq!(Class::default().with_action(action).action(), action);
        }
    }

    #[test]
    fn without_classes_everything_passes() {
        let policy = Policy::new(Layer::Ethernet);
        assert_eq!(policy.classes[REST].action(), Action::Pass);
        assert_eq!(policy.has_link, 0);
    }
}
