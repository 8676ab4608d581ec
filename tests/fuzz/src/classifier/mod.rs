//! The classifier and the keys against a slow model, on classes and packets made from arbitrary bytes.
//! The fuzz target, the property test and the test that replays the corpus all call [`check`].

mod case;
mod frame;
mod keys;
mod model;
mod tables;

use arbitrary::Unstructured;
use case::{Case, Packet};
use leaky_core::classify::{Classifier, classify};
use leaky_core::policy::REST;
use leaky_core::wire::{Headers, parse};
use model::Seen;
use tables::Searched;

/// Panics where classifier or keys are wrong. Returns how many things the class asks for that the first
/// of the packets is in, if it is in one. Where there are too few bytes they are taken for zeros.
pub(crate) fn check(bytes: &[u8]) -> Option<usize> {
    let case = Case::from_bytes(&mut Unstructured::new(bytes)).unwrap_or_default();
    let headers = case.packets.each_ref().map(read);
    let classifier = tables::classifier(&case);
    let prefixes = tables::prefixes(&case);
    let places = case.packets.iter().zip(&headers).map(|(packet, headers)| {
        let tables = Searched::new(&case, packet, &prefixes);
        let place = find(&classifier, packet, headers, &tables);
        let wanted = model::first_match(&case, packet);
        assert_eq!(
            place,
            wanted,
            "{packet:?}\nseen as {:?}\nread as {headers:x?}\n{case:#?}",
            Seen::of(packet)
        );
        place
    });
    let places: Vec<Option<usize>> = places.collect();
    keys::check(&case, &headers);
    places[0].map(|place| case.rules[place].asks_for())
}

fn find(
    classifier: &Classifier,
    packet: &Packet,
    headers: &Headers,
    tables: &Searched,
) -> Option<usize> {
    let client = tables.is_client(headers);
    let place = classify(classifier, headers, packet.mark, client, tables);
    usize::try_from(place).ok().filter(|place| *place != REST)
}

/// The headers as the kernel program reads them.
fn read(packet: &Packet) -> Headers {
    let mut headers = Headers::default();
    let beside = packet.beside.then(|| packet.tags.first().copied());
    parse(
        &*frame::of(packet),
        packet.layer(),
        beside.flatten(),
        &mut headers,
    );
    headers
}
