//! The guest's first file system: busybox, the modules that reach the shared root, two scripts.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::kernel::Installed;

/// Modules without which the guest cannot see the machine's files or answer; some kernels have
/// them built in.
const MODULES: [&str; 5] = [
    "virtio_pci",
    "virtio_console",
    "9pnet_virtio",
    "9p",
    "overlay",
];

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;

/// Builds the archive that the kernel unpacks as its first root.
///
/// # Errors
/// When busybox or one of the kernel's modules cannot be read.
pub(super) fn build(kernel: &Installed, busybox: &Path, init: &str, job: &str) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "modules"] {
        archive.add(folder, DIRECTORY, (0, 0), &[]);
    }
    // The kernel opens it for the first process; making a real node would need root, this does not.
    archive.add("dev/console", CONSOLE, (5, 1), &[]);
    let program = fs::read(busybox).with_context(|| format!("reading {}", busybox.display()))?;
    archive.add("bin/busybox", PROGRAM, (0, 0), &program);
    archive.add("init", PROGRAM, (0, 0), init.as_bytes());
    archive.add("job", PROGRAM, (0, 0), job.as_bytes());
    let dependencies = fs::read_to_string(kernel.modules.join("modules.dep"))
        .with_context(|| format!("reading modules.dep of {}", kernel.release))?;
    let built_in = fs::read_to_string(kernel.modules.join("modules.builtin"))
        .with_context(|| format!("reading modules.builtin of {}", kernel.release))?;
    // The names sort in loading order.
    for (index, path) in load_order(&MODULES, &dependencies, &built_in)?
        .iter()
        .enumerate()
    {
        let module = read_module(&kernel.modules.join(path))?;
        archive.add(&format!("modules/{index:02}.ko"), PROGRAM, (0, 0), &module);
    }
    Ok(archive.finish())
}

/// Files of the modules and of what they need, each after everything it depends on.
fn load_order<'a>(modules: &[&str], dependencies: &'a str, built_in: &str) -> Result<Vec<&'a str>> {
    let mut order: Vec<&str> = Vec::new();
    for module in modules {
        if built_in.lines().any(|path| module_name(path) == *module) {
            continue;
        }
        let Some((path, needs)) = dependencies
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(path, _)| module_name(path) == *module)
        else {
            bail!("the kernel has no module {module}");
        };
        // modules.dep lists what to load last to first.
        for file in needs.split_whitespace().rev().chain([path]) {
            if !order.contains(&file) {
                order.push(file);
            }
        }
    }
    Ok(order)
}

/// Name of a module from its path: without folder and suffixes, `-` read as `_`.
fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file).replace('-', "_")
}

/// Reads a module, unpacked: busybox cannot load compressed ones.
fn read_module(path: &Path) -> Result<Vec<u8>> {
    let unpacker = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return fs::read(path).with_context(|| format!("reading {}", path.display())),
    };
    let output = Command::new(unpacker)
        .args(["-d", "-c"])
        .arg(path)
        .output()
        .with_context(|| format!("cannot start {unpacker}"))?;
    if !output.status.success() {
        bail!(
            "{unpacker} could not unpack {}: {}",
            path.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output.stdout)
}

/// A cpio archive in the "newc" layout, which is what the kernel unpacks
/// (Documentation/driver-api/early-userspace/buffer-format.rst in the kernel's sources).
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(content.len()).expect("a file of less than 4 GiB");
        let name_size = u32::try_from(name.len() + 1).expect("a short name");
        // inode, mode, user, group, links, time, size, device of the file, device that the file
        // is (major and minor each), length of the name, checksum.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            device.0,
            device.1,
            name_size,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Names and contents start at multiples of four bytes.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENCIES: &str = "kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz\n\
                                kernel/net/9p/9pnet_virtio.ko.xz: kernel/net/9p/9pnet.ko.xz\n\
                                kernel/net/9p/9pnet.ko.xz:\n\
                                kernel/fs/netfs/netfs.ko.xz:\n";

    #[test]
    fn modules_come_after_what_they_need_and_once() {
        let order = load_order(&["9pnet_virtio", "9p"], DEPENDENCIES, "").expect("an order");
        assert_eq!(
            order,
            [
                "kernel/net/9p/9pnet.ko.xz",
                "kernel/net/9p/9pnet_virtio.ko.xz",
                "kernel/fs/netfs/netfs.ko.xz",
                "kernel/fs/9p/9p.ko.xz",
            ]
        );
    }

    #[test]
    fn built_in_modules_are_left_out_and_unknown_ones_refused() {
        let built_in = "kernel/drivers/virtio/virtio-pci.ko\n";
        assert_eq!(
            load_order(&["virtio_pci"], DEPENDENCIES, built_in).expect("an order"),
            Vec::<&str>::new()
        );
        let error = load_order(&["overlay"], DEPENDENCIES, built_in).expect_err("no such module");
        assert!(error.to_string().contains("overlay"));
    }

    #[test]
    fn archive_is_read_back_by_cpio_rules() {
        let mut archive = Archive::default();
        archive.add("a/bc", PROGRAM, (0, 0), b"hello");
        let bytes = archive.finish();
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[54..62], b"00000005", "size of the content");
        assert_eq!(
            &bytes[94..102],
            b"00000005",
            "length of the name with its end"
        );
        assert_eq!(&bytes[110..115], b"a/bc\0");
        assert_eq!(&bytes[116..121], b"hello");
        assert_eq!(&bytes[124..130], b"070701", "the next entry is aligned");
        assert_eq!(bytes.len() % 4, 0);
    }
}
