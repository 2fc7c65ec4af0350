//! The parts of a guest that are not in this repository: Debian's kernel for clouds and busybox,
//! unpacked below `target`. Nothing is installed. They are downloaded once; `cargo clean`, or
//! removing the folder, deletes them.

use crate::test::Outcome;
use hamr_qemu::Error;
use std::path::{Path, PathBuf};

/// This package depends on the newest kernel, whose name changes.
const KERNEL: &str = "linux-image-cloud-amd64";
const BUSYBOX: &str = "busybox-static";

/// Files of the packages.
pub(super) struct Packages {
    root: PathBuf,
}

impl Packages {
    /// The packages of an earlier run, or downloaded now.
    pub(super) fn find(cache: &Path) -> Result<Self, Outcome> {
        let root = cache.join("debian");
        let wanted = |name: &str| name.starts_with("linux-image-") || name == BUSYBOX;
        let what = "Debian's packages of a kernel and a shell";
        let packages = hamr_qemu::Packages { folder: root.clone(), what, names: &[KERNEL, BUSYBOX], wanted };
        match packages.provide(check, |what| println!("{what}")) {
            Ok(()) => Ok(Self { root }),
            Err(why) => Err(Outcome::missing(&format!("a Linux guest: {why}"), "cargo xtask guest, with network")),
        }
    }

    /// The kernel that QEMU starts.
    pub(super) fn kernel(&self) -> Option<PathBuf> {
        let is_kernel =
            |file: &PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"));
        files(&self.root.join("boot"), 1).into_iter().find(is_kernel)
    }

    /// The shell and its commands, in one program.
    pub(super) fn busybox(&self) -> PathBuf {
        self.root.join("bin/busybox")
    }

    /// A module of that kernel.
    pub(super) fn module(&self, name: &str) -> Option<PathBuf> {
        let wanted = format!("{name}.ko");
        files(&self.root.join("lib/modules"), 8).into_iter().find(|file| file.ends_with(&wanted))
    }
}

fn check(root: &Path) -> Result<(), Error> {
    let packages = Packages { root: root.to_owned() };
    match packages.kernel().is_some() && packages.busybox().is_file() {
        true => Ok(()),
        false => Err(Error::Incomplete { what: "a kernel and a shell" }),
    }
}

/// Regular files below a folder.
fn files(folder: &Path, depth: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 1 => found.extend(files(&path, depth - 1)),
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
    found.sort();
    found
}
