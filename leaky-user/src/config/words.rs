//! What holds for a whole interface, in words: the same before it is in force (`leaky check`) and after.

use super::model::{Fallback, Interface};
use leaky_core::wire::Layer;

impl Interface {
    /// What happens to packets of no class.
    pub fn rest_in_words(&self) -> String {
        match self.fallback {
            _ if self.takes_everything() => "nothing: a class takes every packet".to_owned(),
            Fallback::Pass if self.link.is_some() => "passes to the link's bucket".to_owned(),
            Fallback::Pass => "passes unshaped".to_owned(),
            Fallback::Drop => "is dropped".to_owned(),
            Fallback::Class(at) => {
                let name = self.classes.get(at).map_or("", |class| &class.name);
                format!("is of class {name}")
            }
        }
    }

    /// What a packet counts as where rates are in bytes; `None` where it is not known yet whether the
    /// interface's frames have a link header.
    pub fn counted_in_words(&self, layer: Option<Layer>) -> String {
        let ethernet =
            "bytes of Ethernet frames (headers and VLAN tags yes, preamble and checksum no)";
        let mut words = match layer {
            Some(Layer::Ethernet) => ethernet.to_owned(),
            Some(Layer::Ip) => "bytes of IP packets (no link header here)".to_owned(),
            None => format!("{ethernet}, or of IP packets where the interface has no link header"),
        };
        words.push_str(", for each segment of a GSO packet");
        if self.overhead > 0 {
            words.push_str(&format!(", and {} B more for each", self.overhead));
        }
        if self.mpu > 0 {
            words.push_str(&format!(", at least {} B", self.mpu));
        }
        words
    }
}
