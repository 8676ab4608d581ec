//! The slow model: walks the rules in order and returns the first that matches.

use super::case::{Address, Case, Packet, Prefix, Rule};

const HAVE_PORTS: [u8; 4] = [6, 17, 132, 136];
/// Tags and extension headers that are followed.
const TAGS: usize = 2;
const EXTENSIONS: u8 = 8;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// What there is to see of a packet, by the documentation of the parser.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Outer and inner; 0 for none.
    pub(super) vlans: [u16; 2],
    pub(super) ip: Option<SeenIp>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct SeenIp {
    pub(super) source: Address,
    pub(super) destination: Address,
    pub(super) protocol: u8,
    pub(super) dscp: u8,
    /// Source and destination; none in fragments and in protocols without.
    pub(super) ports: Option<(u16, u16)>,
}

impl Seen {
    pub(super) fn of(packet: &Packet) -> Seen {
        let tag = |at: usize| packet.tags.get(at).copied().unwrap_or(0);
        let in_frame = packet.tags.len() - usize::from(packet.beside).min(packet.tags.len());
        let ip = packet.ip.as_ref().filter(|_| in_frame <= TAGS);
        Seen {
            vlans: [tag(0), tag(1)],
            ip: ip.map(|ip| {
                let six = ip.source.six;
                let chain = ip.extensions + u8::from(ip.fragment);
                let (protocol, whole) = if six && ip.extensions > EXTENSIONS {
                    (DESTINATION_OPTIONS, false)
                } else if six && chain > EXTENSIONS {
                    (FRAGMENT, false)
                } else {
                    (ip.protocol, !ip.fragment)
                };
                let has_ports = whole && HAVE_PORTS.contains(&protocol);
                SeenIp {
                    source: ip.source,
                    destination: ip.destination,
                    protocol,
                    dscp: ip.traffic_class / 4,
                    ports: has_ports.then_some((ip.source_port, ip.destination_port)),
                }
            }),
        }
    }
}

/// Where the first class stands that the packet matches.
pub(super) fn first_match(case: &Case, packet: &Packet) -> Option<usize> {
    let seen = Seen::of(packet);
    case.rules
        .iter()
        .position(|rule| accepts(rule, case, packet, &seen))
}

fn accepts(rule: &Rule, case: &Case, packet: &Packet, seen: &Seen) -> bool {
    let of_ip = |nothing: bool, test: &dyn Fn(&SeenIp) -> bool| {
        nothing || seen.ip.as_ref().is_some_and(test)
    };
    of_ip(rule.protocols.is_empty(), &|ip| {
        rule.protocols.contains(&ip.protocol)
    }) && of_ip(rule.dscps.is_empty(), &|ip| rule.dscps.contains(&ip.dscp))
        && of_ip(rule.sources.is_empty(), &|ip| any(&rule.sources, ip.source))
        && of_ip(rule.destinations.is_empty(), &|ip| {
            any(&rule.destinations, ip.destination)
        })
        && of_ip(rule.source_ports.is_empty(), &|ip| {
            // Port 0 is no port.
            ip.ports.is_some_and(|(port, _)| {
                port != 0 && rule.source_ports.iter().any(|range| range.contains(&port))
            })
        })
        && of_ip(rule.destination_ports.is_empty(), &|ip| {
            ip.ports.is_some_and(|(_, port)| {
                port != 0
                    && rule
                        .destination_ports
                        .iter()
                        .any(|range| range.contains(&port))
            })
        })
        && of_ip(!rule.clients, &|ip| {
            any(
                &case.clients,
                if case.client_is_destination {
                    ip.destination
                } else {
                    ip.source
                },
            )
        })
        && (rule.vlans.is_empty() || rule.vlans.contains(&seen.vlans[0]))
        && (rule.marks.is_empty() || rule.marks.contains(&(packet.mark & case.mark_mask)))
        && (rule.cgroups.is_empty()
            || packet
                .cgroup
                .as_ref()
                .is_some_and(|path| rule.cgroups.iter().any(|asked| path.starts_with(asked))))
}

fn any(prefixes: &[Prefix], address: Address) -> bool {
    prefixes.iter().any(|prefix| prefix.contains(address))
}
