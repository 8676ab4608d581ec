//! fq: holds each packet until its departure time.

use super::difference::{Difference, same};
use super::{Attributes, find, u32_at};

/// Options of fq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FqConfig {
    /// Packets in the whole qdisc at most (from kernel 6.7 on: in each priority band).
    pub limit: u32,
    /// Packets in one flow at most.
    pub flow_limit: u32,
    /// How far ahead a departure time may be, in microseconds.
    pub horizon_us: u32,
    /// Whether a packet beyond the horizon is dropped (else its departure time is capped).
    pub horizon_drop: bool,
    /// Whether fq paces flows by itself, besides departure times.
    pub pacing: bool,
}

const LIMIT: u16 = 1;
const FLOW_LIMIT: u16 = 2;
const RATE_ENABLE: u16 = 5;
const HORIZON: u16 = 14;
const HORIZON_DROP: u16 = 15;

impl FqConfig {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut options = Attributes::new();
        options.0.append_attr_u32(LIMIT, self.limit);
        options.0.append_attr_u32(FLOW_LIMIT, self.flow_limit);
        options
            .0
            .append_attr_u32(RATE_ENABLE, u32::from(self.pacing));
        options.0.append_attr_u32(HORIZON, self.horizon_us);
        options
            .0
            .append_attr_u8(HORIZON_DROP, u8::from(self.horizon_drop));
        options.finish()
    }

    /// From dumped options; `None` if one of them is missing.
    pub fn decode(options: &[u8]) -> Option<FqConfig> {
        Some(FqConfig {
            limit: u32_at(find(options, LIMIT)?, 0)?,
            flow_limit: u32_at(find(options, FLOW_LIMIT)?, 0)?,
            horizon_us: u32_at(find(options, HORIZON)?, 0)?,
            horizon_drop: *find(options, HORIZON_DROP)?.first()? != 0,
            pacing: u32_at(find(options, RATE_ENABLE)?, 0)? != 0,
        })
    }

    /// Compares with dumped options.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, options: &[u8]) -> Result<(), Difference> {
        let read = FqConfig::decode(options).ok_or_else(Difference::unreadable)?;
        same("limit", self.limit, read.limit)?;
        same("flow_limit", self.flow_limit, read.flow_limit)?;
        same("horizon in us", self.horizon_us, read.horizon_us)?;
        same("horizon_drop", self.horizon_drop, read.horizon_drop)?;
        same("pacing", self.pacing, read.pacing)
    }
}
