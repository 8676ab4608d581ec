//! fq_codel, put back.

use super::{Attributes, TYPE_MASK, u32_at};
use nlink::netlink::AttrIter;

/// Target, interval and CE threshold of fq_codel.
pub(super) const FQ_CODEL_TIMES: [u16; 3] = [1, 3, 7];

/// CoDel keeps times in units of 1,024 ns and cuts off the rest both when it is told microseconds
/// and when it dumps them, so that a dump put back would be 1 us less each time. One more gives
/// the same units.
pub(super) fn codel_put_back(dumped: &[u8], times: &[u16]) -> Vec<u8> {
    let mut options = Attributes::new();
    for (kind, value) in AttrIter::new(dumped) {
        match u32_at(value, 0) {
            Some(us) if times.contains(&(kind & TYPE_MASK)) => {
                options.0.append_attr_u32(kind, us.saturating_add(1));
            }
            _ => options.0.append_attr(kind, value),
        }
    }
    options.finish()
}
