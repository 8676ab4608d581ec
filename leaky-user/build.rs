//! Puts the eBPF object where the library includes it from.
//!
//! `cargo xtask build` names the object in `LEAKY_EBPF_OBJECT`. Without it (plain `cargo build`, `cargo test`, an
//! editor) an empty file stands in: everything compiles without an eBPF toolchain, and attaching says what is missing.

use std::path::PathBuf;
use std::{env, fs, process};

fn main() {
    println!("cargo::rerun-if-env-changed=LEAKY_EBPF_OBJECT");
    if let Err(error) = embed() {
        println!("cargo::error={error}");
        process::exit(1);
    }
}

fn embed() -> Result<(), String> {
    let out = env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?;
    let out = PathBuf::from(out).join("leaky.bpf.o");
    let Some(object) = env::var_os("LEAKY_EBPF_OBJECT") else {
        return fs::write(&out, []).map_err(|e| format!("cannot write {}: {e}", out.display()));
    };
    let object = PathBuf::from(object);
    println!("cargo::rerun-if-changed={}", object.display());
    fs::copy(&object, &out).map(drop).map_err(|e| {
        format!(
            "LEAKY_EBPF_OBJECT names {}, which cannot be read: {e}; \
             build it with `cargo xtask build`, or unset the variable for a build without eBPF",
            object.display()
        )
    })
}
