use super::link;
use crate::hold::smooth;
use crate::net::Link;
use crate::units::Rate;
use proptest::prelude::*;

#[test]
fn one_millisecond_or_one_frame() {
    let at = |mbit: u64| smooth(&link(), Rate::BytesPerSecond(mbit * 125_000));
    assert_eq!(at(1), Some(1));
    assert_eq!(at(20), Some(1));
    // 3,044 B in 1 ms.
    assert_eq!(at(24), Some(1));
    assert_eq!(at(25), Some(2));
    assert_eq!(at(100), Some(8));
    // 83,002 B in 1 ms.
    assert_eq!(at(664), Some(54));
    assert_eq!(at(665), None);
    assert_eq!(at(10_000), None);
    let packets = |rate| smooth(&link(), Rate::PacketsPerSecond(rate));
    assert_eq!(packets(10), Some(1));
    assert_eq!(packets(2_000), Some(2));
    assert_eq!(packets(1_000_000), None);
}

#[test]
fn limits_that_are_small_enough_stay() {
    let small = Link {
        gso_max_segs: 1,
        ..link()
    };
    assert_eq!(smooth(&small, Rate::BytesPerSecond(125)), None);
    let small = Link {
        gso_max_segs: 4,
        ..link()
    };
    assert_eq!(smooth(&small, Rate::BytesPerSecond(6_100_000)), None);
    assert_eq!(smooth(&small, Rate::BytesPerSecond(4_600_000)), Some(3));
}

proptest! {
    #[test]
    fn never_more_than_a_millisecond_beyond_one_frame(
        rate in 125..50_000_000_000_u64, mtu in 68..65_536_u32, segments in 1..65_536_u32,
    ) {
        let link = Link { mtu, gso_max_segs: segments, ..link() };
        let set = smooth(&link, Rate::BytesPerSecond(rate));
        if let Some(set) = set {
            prop_assert!((1..segments).contains(&set));
        }
        let now = Link { gso_max_segs: set.unwrap_or(segments), ..link };
        let frame = u64::from(now.full_frame());
        prop_assert!(now.largest_gso_packet() <= frame.max(rate / 1_000));
    }
}
