//! A program with what follows from a config file.

use crate::rig::{Bench, Context, Failed};
use leaky_core::wire::Layer;
use leaky_user::bpf::{Kind, Program, Sizes};
use leaky_user::classes::{Compiled, Ids, compile};
use leaky_user::config::{self, Interface};
use leaky_user::net::Link;
use std::ops::{Deref, DerefMut};

/// Class, client or rest: where a packet was counted.
pub(crate) const NO_CLASS: &str = "(no class)";

/// A program with the classes of an interface.
pub(crate) struct Classes {
    bench: Bench,
    pub(crate) compiled: Compiled,
    ids: Ids,
}

impl Deref for Classes {
    type Target = Bench;
    fn deref(&self) -> &Bench {
        &self.bench
    }
}

impl DerefMut for Classes {
    fn deref_mut(&mut self) -> &mut Bench {
        &mut self.bench
    }
}

impl Classes {
    /// From the text of a config file of one interface.
    pub(crate) fn new(kind: Kind, text: &str) -> Result<Classes, Failed> {
        Classes::of(kind, &interface(text)?)
    }

    pub(crate) fn of(kind: Kind, interface: &Interface) -> Result<Classes, Failed> {
        let sizes = Sizes {
            keys: 4_096,
            clients: 4_096,
            classes: true,
        };
        let mut ids = Ids::default();
        let compiled = compile(interface, &link(), MEMORY, &mut ids)?;
        let mut bench = Bench {
            program: Program::load(kind, sizes)?,
        };
        put(&mut bench, &compiled)?;
        Ok(Classes {
            bench,
            compiled,
            ids,
        })
    }

    /// Puts another configuration in force, as SIGHUP does.
    pub(crate) fn change(&mut self, interface: &Interface) -> Result<(), Failed> {
        self.compiled = compile(interface, &link(), MEMORY, &mut self.ids)?;
        put(&mut self.bench, &self.compiled)
    }

    /// Sends a packet and tells where it was counted.
    pub(crate) fn class_of(&mut self, frame: &[u8], context: &Context) -> Result<String, Failed> {
        let before = self.program.counters()?;
        self.bench.send(frame, context)?;
        let after = self.program.counters()?;
        let counted: Vec<usize> = (0..after.len())
            .filter(|id| {
                let (was, is) = (&before[*id], &after[*id]);
                is.offered.packets + is.passed.packets != was.offered.packets + was.passed.packets
            })
            .collect();
        let [id] = counted.as_slice() else {
            return Err(Failed::from(format!("counted in {counted:?}")));
        };
        let named = |class: &&leaky_user::classes::Resolved| class.id as usize == *id;
        let class = self.compiled.classes.iter().find(named);
        Ok(class.map_or(NO_CLASS.to_owned(), |class| class.name.clone()))
    }

    /// What was counted for a class.
    pub(crate) fn counted(&self, class: &str) -> Result<leaky_core::abi::Counters, Failed> {
        let classes = &self.compiled.classes;
        let id = match classes.iter().find(|resolved| resolved.name == class) {
            Some(class) => class.id as usize,
            None => leaky_core::policy::REST,
        };
        Ok(self.program.counters()?[id])
    }
}

fn put(bench: &mut Bench, compiled: &Compiled) -> Result<(), Failed> {
    for place in &compiled.clients {
        bench
            .program
            .put_client(&place.prefix, &place.client, place.new)?;
    }
    bench
        .program
        .set_policy(&compiled.policy, &compiled.tables)?;
    for prefix in &compiled.gone {
        bench.program.remove_client(prefix)?;
    }
    Ok(())
}

const MEMORY: u64 = 8 << 30;

/// An interface whose largest packet is one frame of 1,522 B.
pub(crate) fn link() -> Link {
    Link {
        index: 7,
        name: "t0".to_owned(),
        mtu: 1_500,
        layer: Layer::Ethernet,
        loopback: false,
        up: true,
        tx_queues: 1,
        gso_max_segs: 1,
        gso_max_size: 65_536,
    }
}

/// Reads the only interface of a config file.
pub(crate) fn interface(text: &str) -> Result<Interface, Failed> {
    let path = std::env::temp_dir().join(format!("leaky-bpf-test-{}.toml", std::process::id()));
    let text = format!("version = 1\n\n[[interface]]\nname = \"t0\"\n{text}");
    std::fs::write(&path, text)?;
    let config = config::load(&path);
    std::fs::remove_file(&path)?;
    let mut interfaces = config?.interfaces;
    interfaces
        .pop()
        .ok_or_else(|| Failed::from("the config has no interface"))
}
