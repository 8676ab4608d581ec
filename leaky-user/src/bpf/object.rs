//! The compiled kernel program inside this binary.

/// Gives the bytes the alignment that an ELF header needs.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static ALIGNED: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/leaky.bpf.o")));

/// The kernel program as an ELF object. Empty when this binary was built without it: `cargo xtask
/// build` puts it in, plain `cargo build` does not need the tools for it.
pub static OBJECT: &[u8] = &ALIGNED.0;
