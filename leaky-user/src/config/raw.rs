//! What was written, before it is looked at: texts and where they stand. The config file and the
//! options of the command line both become this, and are then checked the same way.

use super::error::{Place, Problems};
use std::borrow::Cow;
use std::fmt::Display;

/// The value of a key.
#[derive(Debug)]
pub(super) struct Item<'a> {
    pub(super) key: &'static str,
    pub(super) text: Cow<'a, str>,
    pub(super) place: Place,
}

impl Item<'_> {
    /// Reads it. An error is told with the key, unless it begins with it or the place is the option.
    pub(super) fn read<T, E: Display>(
        &self,
        problems: &mut Problems,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        match read(&self.text) {
            Ok(value) => Some(value),
            Err(error) => {
                let error = error.to_string();
                let text = if error.starts_with(self.key) || !self.place.has_line() {
                    error
                } else {
                    format!("{}: {error}", self.key)
                };
                problems.add(self.place, text);
                None
            }
        }
    }
}

/// A list of values.
#[derive(Debug)]
pub(super) struct List<'a> {
    pub(super) key: &'static str,
    /// Its values, without those of a wrong type.
    pub(super) items: Vec<Item<'a>>,
    /// Nothing was written in it.
    pub(super) is_empty: bool,
    pub(super) place: Place,
}

/// An interface.
#[derive(Debug)]
pub(super) struct RawInterface<'a> {
    pub(super) place: Place,
    /// Its keys are known and of the right type: what is missing was not written.
    pub(super) sound: bool,
    pub(super) name: Option<Item<'a>>,
    pub(super) link: Option<RawLimits<'a>>,
    pub(super) overhead: Option<Item<'a>>,
    pub(super) mpu: Option<Item<'a>>,
    pub(super) hold: Option<Item<'a>>,
    pub(super) smooth: Option<Item<'a>>,
    pub(super) mark_mask: Option<Item<'a>>,
    pub(super) control: Option<Item<'a>>,
    pub(super) default: Option<Item<'a>>,
    pub(super) classes: Vec<RawClass<'a>>,
}

/// A class.
#[derive(Debug)]
pub(super) struct RawClass<'a> {
    pub(super) place: Place,
    /// As [`RawInterface::sound`], with its match and clients.
    pub(super) sound: bool,
    pub(super) name: Option<Item<'a>>,
    pub(super) matching: RawMatch<'a>,
    pub(super) per: Option<Item<'a>>,
    pub(super) action: Option<Item<'a>>,
    pub(super) limits: RawLimits<'a>,
    pub(super) clients: Option<RawClients<'a>>,
}

/// A match.
#[derive(Debug, Default)]
pub(super) struct RawMatch<'a> {
    pub(super) protocol: Option<List<'a>>,
    pub(super) source: Option<List<'a>>,
    pub(super) source_file: Option<Item<'a>>,
    pub(super) destination: Option<List<'a>>,
    pub(super) destination_file: Option<Item<'a>>,
    pub(super) source_port: Option<List<'a>>,
    pub(super) destination_port: Option<List<'a>>,
    pub(super) dscp: Option<List<'a>>,
    pub(super) mark: Option<List<'a>>,
    pub(super) vlan: Option<List<'a>>,
    pub(super) cgroup: Option<List<'a>>,
}

/// The limits of a class, a client or a link.
#[derive(Debug)]
pub(super) struct RawLimits<'a> {
    pub(super) place: Place,
    /// As [`RawInterface::sound`].
    pub(super) sound: bool,
    pub(super) rate: Option<Item<'a>>,
    pub(super) capacity: Option<Item<'a>>,
    pub(super) max_wait: Option<Item<'a>>,
    pub(super) burst: Option<Item<'a>>,
    pub(super) ecn: Option<Item<'a>>,
}

impl<'a> RawLimits<'a> {
    pub(super) fn none(place: Place) -> RawLimits<'a> {
        RawLimits {
            place,
            sound: true,
            rate: None,
            capacity: None,
            max_wait: None,
            burst: None,
            ecn: None,
        }
    }

    pub(super) fn given(&self) -> impl Iterator<Item = &Item<'a>> {
        let RawLimits {
            place: _,
            sound: _,
            rate,
            capacity,
            max_wait,
            burst,
            ecn,
        } = self;
        [rate, capacity, max_wait, burst, ecn].into_iter().flatten()
    }
}

/// The clients of a class.
#[derive(Debug)]
pub(super) struct RawClients<'a> {
    pub(super) place: Place,
    /// As [`RawInterface::sound`].
    pub(super) sound: bool,
    pub(super) file: Option<Item<'a>>,
    /// A prefix and its limits.
    pub(super) inline: Vec<(Item<'a>, RawLimits<'a>)>,
}
