//! Map values of leaky-core as aya wants them.

use aya::Pod;
use leaky_core::abi;
use leaky_core::policy;

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
    Policy(policy::Policy)
);
map_value!(
    /// What one CPU counted for a class.
    Counters(abi::Counters)
);
map_value!(
    /// The bucket of one key.
    Bucket(abi::Bucket)
);
map_value!(
    /// The key of a bucket.
    Key(leaky_core::key::Key)
);
map_value!(
    /// A client's limits.
    Client(policy::Client)
);
map_value!(
    /// An address in a table by prefix.
    Address(abi::AddressKey)
);
map_value!(
    /// A mark or a cgroup in a table by it.
    InBank(abi::BankKey)
);
