//! Map values of leaky-core as aya wants them.

use aya::Pod;
use leaky_core::abi;
use leaky_core::wire::FlowKey;

macro_rules! map_value {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        pub(super) struct $name(pub(super) $inner);

        // SAFETY: repr(C) over integers of fixed size without padding (leaky-core asserts the
        // sizes), so any bytes are a valid value.
        unsafe impl Pod for $name {}
    };
}

map_value!(
    /// The policy of an interface.
    Policy(abi::Policy)
);
map_value!(
    /// What one CPU counted.
    Counters(abi::Counters)
);
map_value!(
    /// The bucket of one key.
    Bucket(abi::Bucket)
);
map_value!(
    /// The key of a flow's bucket.
    Flow(FlowKey)
);
