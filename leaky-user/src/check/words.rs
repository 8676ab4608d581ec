//! The explanation for people. Every value can be typed back in.

use super::{count, matching, rates};
use crate::config::Smooth;
use crate::config::{Action, Asked, Class, Client, Config, Control, Interface, Per};
use crate::limit::DEFAULT_MAX_WAIT;
use crate::units::{Capacity, Duration};

/// Explains each interface.
pub(super) fn explain(config: &Config) -> String {
    let interfaces: Vec<String> = config.interfaces.iter().map(interface).collect();
    interfaces.join("\n\n")
}

fn interface(interface: &Interface) -> String {
    let mut lines = vec![format!(
        "{}: what leaves by it, in {}; the first class that matches a packet takes it",
        interface.name,
        count(interface.classes.len(), "class", "classes")
    )];
    let mut line = |what: &str, text: String| lines.push(format!("  {what:<9} {text}"));
    match &interface.link {
        None => line("link", "no bucket of its own".to_owned()),
        Some(link) => line(
            "link",
            format!(
                "one bucket for all that the classes let out: {}, {}",
                link.rate.echo(),
                match (link.capacity, link.max_wait) {
                    (None, None) => format!(
                        "holds what drains in {} and the longest wait of a class",
                        DEFAULT_MAX_WAIT.echo()
                    ),
                    (capacity, wait) => holds(capacity, wait),
                }
            ),
        ),
    }
    line("counted", interface.counted_in_words(None));
    line(
        "control",
        match interface.control {
            Control::Pass => "ARP, neighbour discovery, IGMP, MLD and routing hellos pass unshaped",
            Control::Class => "ARP, neighbour discovery, IGMP, MLD and routing hellos are matched like other packets",
        }
        .to_owned(),
    );
    if interface.mark_mask != u32::MAX {
        line(
            "marks",
            format!(
                "only bits {:#x} of a packet's mark count",
                interface.mark_mask
            ),
        );
    }
    let smooth = match interface.smooth {
        Smooth::Auto => {
            "packets of the local stack are kept small where one rate rules and they would leave in lumps"
        }
        Smooth::On => "packets of the local stack are kept small where they would leave in lumps",
        Smooth::Off => "packets of the local stack keep their size",
    };
    line("hold", format!("{}; {smooth}", interface.hold));
    for (at, one) in interface.classes.iter().enumerate() {
        class(at + 1, one, interface.link.is_some(), &mut lines);
    }
    lines.push(format!("  {:<9} {}", "the rest", interface.rest_in_words()));
    let notices = interface.notices();
    lines.extend(
        notices
            .iter()
            .map(|notice| format!("  {:<9} {notice}", "note")),
    );
    lines.join("\n")
}

fn class(number: usize, class: &Class, has_link: bool, lines: &mut Vec<String>) {
    let action = match class.action {
        Action::Shape => "shaped",
        Action::Pass if has_link => "passes to the link's bucket",
        Action::Pass => "passes unshaped",
        Action::Drop => "dropped",
        Action::Monitor => "only counted, as if it were shaped",
    };
    lines.push(format!("  {number}. {}: {action}", class.name));
    let mut line = |what: &str, text: String| lines.push(format!("     {what:<9} {text}"));
    let side = match class.per {
        Per::Destination { .. } => "destination",
        _ => "source",
    };
    line(
        "takes",
        match &class.clients {
            None => matching::in_words(&class.matching),
            Some(_) => format!(
                "{}, if a client below has its {side} address",
                matching::in_words(&class.matching)
            ),
        },
    );
    if let Some(clients) = &class.clients {
        line(
            "buckets",
            format!(
                "each client has a bucket of its own; the longest prefix with the {side} address is the client"
            ),
        );
        line("clients", clients_in_words(clients));
        if let Some(limits) = &class.limits {
            line("default", format!("of clients: {}", asked(limits)));
        }
        return;
    }
    if let Some(limits) = &class.limits {
        line("buckets", class.per.in_words());
        line("each", asked(limits));
    }
}

fn clients_in_words(clients: &[Client]) -> String {
    let number = count(clients.len(), "client", "clients");
    match rates(clients) {
        None => number,
        Some((lowest, highest)) if lowest == highest => format!("{number}, {}", lowest.echo()),
        Some((lowest, highest)) => format!("{number}, {} to {}", lowest.echo(), highest.echo()),
    }
}

fn asked(asked: &Asked) -> String {
    let mut text = format!(
        "{}, {}",
        asked.rate.echo(),
        holds(asked.capacity, asked.max_wait)
    );
    if let Some(burst) = asked.burst {
        text += &format!(", {} may leave at once after a pause", burst.echo());
    }
    if let Some(ecn) = asked.ecn {
        text += &format!(", marked (CE) when the wait passes {}", ecn.echo());
    }
    text
}

fn holds(capacity: Option<Capacity>, max_wait: Option<Duration>) -> String {
    match (capacity, max_wait) {
        (None, None) => format!("holds what drains in {}", DEFAULT_MAX_WAIT.echo()),
        (None, Some(wait)) => format!("holds what drains in {}, the longest wait", wait.echo()),
        (Some(capacity), None) => format!("holds {}", capacity.echo()),
        (Some(capacity), Some(wait)) => {
            format!(
                "holds {}, no wait longer than {}",
                capacity.echo(),
                wait.echo()
            )
        }
    }
}
