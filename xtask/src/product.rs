//! Builds `leaky`, with the eBPF programs inside.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{captured, host_cargo, note};
use crate::ebpf::{self, Objects};
use crate::setup;
use crate::workspace::Workspace;

/// A finished build.
#[derive(Debug, Clone)]
pub(crate) struct Product {
    /// The binary `leaky`.
    pub(crate) binary: PathBuf,
    /// The eBPF objects that were built for it.
    pub(crate) objects: Objects,
}

impl Product {
    /// The variables that tests, demo and bench expect; the first also makes leaky's build script embed the object.
    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 3] {
        [
            ("LEAKY_EBPF_OBJECT", self.objects.leaky.clone()),
            ("LEAKY_BENCH_OBJECT", self.objects.bench.clone()),
            ("LEAKY_BIN", self.binary.clone()),
        ]
    }
}

/// The test programs, which are run as they are: natively and in guests alike.
#[derive(Debug, Clone)]
pub(crate) struct TestPrograms {
    /// Tests of what leaky tells the kernel over netlink.
    pub(crate) netlink: PathBuf,
    /// Tests of the eBPF programs by test run.
    pub(crate) bpf: PathBuf,
    /// End-to-end tests.
    pub(crate) e2e: PathBuf,
    /// What they test.
    pub(crate) product: Product,
}

/// Sets up, then builds the eBPF programs and the binary.
///
/// # Errors
/// When set-up or one of the builds fails.
pub(crate) fn build(workspace: &Workspace) -> Result<Product> {
    let tools = setup::tools(workspace)?;
    note("building the eBPF programs");
    let objects = ebpf::build(workspace, &tools)?;
    note("building leaky");
    let mut cargo = host_cargo();
    cargo.args(["build", "-p", "leaky-user", "--bin", "leaky"]);
    let messages = release(workspace, &objects, &mut cargo)?;
    let binary = executable(&messages, "leaky")?;
    Ok(Product { binary, objects })
}

/// Builds the test programs. Optimised like the product: they judge microseconds.
///
/// # Errors
/// When they do not build.
pub(crate) fn build_tests(workspace: &Workspace, product: Product) -> Result<TestPrograms> {
    note("building the tests");
    let mut cargo = host_cargo();
    cargo.args(["test", "--no-run", "-p", "leaky-user", "-p", "leaky-tests"]);
    for program in ["netlink", "bpf", "e2e"] {
        cargo.args(["--test", program]);
    }
    let messages = release(workspace, &product.objects, &mut cargo)?;
    Ok(TestPrograms {
        netlink: executable(&messages, "netlink")?,
        bpf: executable(&messages, "bpf")?,
        e2e: executable(&messages, "e2e")?,
        product,
    })
}

/// Builds a program of the test package and returns where it is.
///
/// # Errors
/// When it does not build.
pub(crate) fn build_test_binary(
    workspace: &Workspace,
    product: &Product,
    name: &str,
) -> Result<PathBuf> {
    note(&format!("building the {name}"));
    let mut cargo = host_cargo();
    cargo.args(["build", "-p", "leaky-tests", "--bin", name]);
    executable(&release(workspace, &product.objects, &mut cargo)?, name)
}

/// Runs a cargo command in release mode with the object embedded; returns cargo's JSON messages.
fn release(workspace: &Workspace, objects: &Objects, cargo: &mut Command) -> Result<String> {
    // The same environment each time: another one would build leaky anew.
    cargo
        .current_dir(&workspace.root)
        .args(["--release", "--message-format=json-render-diagnostics"])
        .env("LEAKY_EBPF_OBJECT", &objects.leaky);
    captured(cargo)
}

fn executable(messages: &str, name: &str) -> Result<PathBuf> {
    executables(messages, name)
        .pop()
        .with_context(|| format!("cargo built `{name}` but did not say where it is"))
}

/// The executables of target `name` in cargo's JSON messages, one message a line.
///
/// The three fields that matter are plain strings; a path that needed escapes (a quote, a backslash) is not found.
fn executables(messages: &str, name: &str) -> Vec<PathBuf> {
    let of_target = format!("\"name\":\"{name}\"");
    messages
        .lines()
        .filter(|line| {
            line.contains("\"reason\":\"compiler-artifact\"") && line.contains(&of_target)
        })
        .filter_map(|line| line.split_once("\"executable\":\"")?.1.split('"').next())
        .filter(|path| !path.contains('\\'))
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_read_from_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","package_id":"path+file:///p#0.1.0","target":{"kind":["bin"],"name":"leaky","src_path":"/p/src/main.rs"},"filenames":["/t/release/leaky"],"executable":"/t/release/leaky","fresh":true}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"leaky_user"},"executable":null,"fresh":true}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(
            executables(messages, "leaky"),
            [PathBuf::from("/t/release/leaky")]
        );
        assert!(executables(messages, "leaky_user").is_empty());
        assert!(executables("", "leaky").is_empty());
    }
}
