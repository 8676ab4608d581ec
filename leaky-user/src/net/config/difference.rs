//! What the kernel holds otherwise than it was told.

use std::fmt;

/// The first field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its name.
    pub field: &'static str,
    /// What the kernel was told.
    pub asked: String,
    /// What it says.
    pub read: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {} instead of {}",
            self.field, self.read, self.asked
        )
    }
}

impl Difference {
    /// Where the kernel does not say what is looked for.
    pub(super) fn unreadable() -> Difference {
        Difference {
            field: "the list of options",
            asked: "one that leaky understands".to_owned(),
            read: "another one".to_owned(),
        }
    }
}

/// A field that must be the same.
pub(super) fn same<T: fmt::Display + PartialEq>(
    field: &'static str,
    asked: T,
    read: T,
) -> Result<(), Difference> {
    if asked == read {
        return Ok(());
    }
    Err(Difference {
        field,
        asked: asked.to_string(),
        read: read.to_string(),
    })
}

/// A time in ticks, which the kernel may have rounded by `off`.
pub(super) fn close(
    field: &'static str,
    asked: u32,
    read: u32,
    off: u32,
) -> Result<(), Difference> {
    if asked.abs_diff(read) <= off {
        return Ok(());
    }
    let ticks = |n: u32| format!("{} ns", u64::from(n) * super::TICK_NS);
    Err(Difference {
        field,
        asked: ticks(asked),
        read: ticks(read),
    })
}

/// The least charge, which older kernels do not know and dump as 0.
pub(super) fn mpu(asked: u16, read: u16) -> Result<(), Difference> {
    if read == 0 {
        return Ok(());
    }
    same("mpu", asked, read)
}
