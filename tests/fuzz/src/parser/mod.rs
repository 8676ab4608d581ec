//! What must hold of the parser whatever the bytes of a frame are. The fuzz target and the tests that
//! replay its corpus both call [`check`].

mod control;
mod opinion;

use leaky_core::wire::{Headers, Layer, Parsed, parse};
use opinion::Opinion;

/// A tag beside the frame, with priority bits that are no part of the number.
const TAG: u16 = 0x6123;
const TAG_ID: u32 = 0x123;
/// A frame is also tried cut off at every so many bytes. Where that starts depends on its length, so that
/// frames of all lengths are cut everywhere; every byte of each would make fuzzing ten times slower.
const CUT_EVERY: usize = 11;

/// Panics where the parser is wrong about `frame`.
pub(crate) fn check(frame: &[u8]) {
    for layer in [Layer::Ethernet, Layer::Ip] {
        let whole = read(frame, layer, None);
        makes_sense(frame, layer, whole);
        behind_a_tag(frame, layer, whole);
        for readable in (frame.len() % CUT_EVERY..frame.len()).step_by(CUT_EVERY) {
            cut_off(frame, readable, layer, whole);
        }
        if let Some(opinion) = Opinion::of(frame, layer) {
            opinion.agrees(frame, whole);
        }
    }
}

fn read(frame: &[u8], layer: Layer, tag: Option<u16>) -> (Parsed, Headers) {
    let mut headers = Headers::default();
    (parse(frame, layer, tag, &mut headers), headers)
}

/// What was found does not contradict itself.
fn makes_sense(frame: &[u8], layer: Layer, (parsed, headers): (Parsed, Headers)) {
    let found = || format!("{parsed:?} {headers:x?} in {frame:02x?}");
    assert!(
        headers.cut_short == 0 || headers.version == 6 && headers.source_port == 0,
        "{}",
        found()
    );
    assert_eq!(headers.vlans & !0x0fff_0fff, 0, "{}", found());
    match headers.version {
        4 => {
            assert_eq!(headers.source[1..], [0; 3], "{}", found());
            assert_eq!(headers.destination[1..], [0; 3], "{}", found());
        }
        6 => {}
        // Nothing is taken for a header that is none.
        _ => {
            let tags_only = Headers {
                vlans: headers.vlans,
                ..Headers::default()
            };
            assert_eq!(headers, tags_only, "{}", found());
        }
    }
    if layer == Layer::Ip {
        assert_eq!(headers.vlans, 0, "{}", found());
    }
    // Which IP packets are control traffic is compared where etherparse reads them to the end.
    if !headers.is_readable() && !matches!(parsed, Parsed::Truncated(_)) {
        let control = matches!(parsed, Parsed::Control(_));
        let is_link = layer == Layer::Ethernet && control::is_link(frame);
        assert_eq!(control, is_link, "{}", found());
    }
}

/// A tag beside the frame changes the VLANs and nothing else.
fn behind_a_tag(frame: &[u8], layer: Layer, (parsed, headers): (Parsed, Headers)) {
    let mut wanted = headers;
    wanted.vlans = headers.vlans << 16 | TAG_ID;
    assert_eq!(
        read(frame, layer, Some(TAG)),
        (parsed, wanted),
        "behind a tag: {frame:02x?}"
    );
}

/// With only a part of the packet readable, the parser says the same or that it did not see all.
fn cut_off(frame: &[u8], readable: usize, layer: Layer, (parsed, headers): (Parsed, Headers)) {
    let part = &frame[..readable];
    let (part_parsed, found) = read(part, layer, None);
    if !matches!(part_parsed, Parsed::Truncated(_)) {
        assert_eq!(
            (part_parsed, found),
            (parsed, headers),
            "the first {readable} of {frame:02x?}"
        );
        return;
    }
    // The protocol may be that of the last extension header that was reached.
    let is_as_whole_or_none = found.source_port == 0 && found.destination_port == 0
        || (found.source_port, found.destination_port)
            == (headers.source_port, headers.destination_port);
    assert!(is_as_whole_or_none, "the first {readable} of {frame:02x?}");
    if found.is_readable() {
        assert_eq!(
            (
                found.source,
                found.destination,
                found.traffic_class,
                found.vlans
            ),
            (
                headers.source,
                headers.destination,
                headers.traffic_class,
                headers.vlans
            ),
            "the first {readable} of {frame:02x?}"
        );
    }
}
