//! The parts of a guest that are not in this repository: Debian's kernels and programs, unpacked below `target`.
//! Nothing is installed. They are downloaded once; `cargo clean`, or removing the folder, deletes them.

use crate::test::Outcome;
use hamr_qemu::Error;
use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};

const BUSYBOX: &str = "busybox-static";

/// Packages that are unpacked into one folder. The first depends on the newest kernel, whose name changes.
pub(super) struct Set {
    folder: &'static str,
    what: &'static str,
    names: &'static [&'static str],
    wanted: fn(&str) -> bool,
    /// Files besides kernel and shell without which the folder is not whole.
    files: &'static [&'static str],
    /// The command that downloads it.
    command: &'static str,
}

/// The kernel for clouds and a shell.
pub(super) const CLOUD: Set = Set {
    folder: "debian",
    what: "Debian's packages of a kernel and a shell",
    names: &["linux-image-cloud-amd64", BUSYBOX],
    wanted: |name| name.starts_with("linux-image-") || name == BUSYBOX,
    files: &[],
    command: "cargo xtask guest, with network",
};

/// The kernel with a software RDMA adapter (`rdma_rxe`), which that for clouds lacks, and the tools of users of RDMA.
pub(super) const RDMA: Set = Set {
    folder: "debian-rdma",
    what: "Debian's packages of a kernel and tools for RDMA",
    names: &["linux-image-amd64", BUSYBOX, "ibverbs-utils", "perftest", "iproute2"],
    wanted: |name| {
        ["linux-image-", "lib", "zlib1g", "ibverbs-", "perftest", "iproute2", BUSYBOX]
            .iter()
            .any(|begin| name.starts_with(begin))
    },
    files: &["usr/bin/ibv_rc_pingpong", "usr/bin/ib_write_lat", "usr/bin/rdma", "etc/libibverbs.d/rxe.driver"],
    command: "cargo xtask guest --rdma, with network",
};

/// Files of the packages.
pub(super) struct Packages {
    root: PathBuf,
}

impl Packages {
    /// The packages of an earlier run, or downloaded now.
    pub(super) fn find(cache: &Path, set: &Set) -> Result<Self, Outcome> {
        let root = cache.join(set.folder);
        let packages =
            hamr_qemu::Packages { folder: root.clone(), what: set.what, names: set.names, wanted: set.wanted };
        match packages.provide(|root| check(root, set), |what| println!("{what}")) {
            Ok(()) => Ok(Self { root }),
            Err(why) => Err(Outcome::missing(&format!("a Linux guest: {why}"), set.command)),
        }
    }

    /// The folder that is the root of their files.
    pub(super) fn root(&self) -> &Path {
        &self.root
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

    /// Modules of that kernel and those that they need, each behind the ones that it needs.
    pub(super) fn modules(&self, names: &[&str]) -> Result<Vec<(String, PathBuf)>, crate::Error> {
        let all: Vec<PathBuf> = files(&self.root.join("lib/modules"), 8);
        let mut found = Vec::new();
        for name in names {
            add(name, &all, &mut found)?;
        }
        Ok(found)
    }
}

/// Adds a module behind what it needs; no module needs itself.
fn add(name: &str, all: &[PathBuf], found: &mut Vec<(String, PathBuf)>) -> Result<(), crate::Error> {
    // A module's name has a low line where its file may have a hyphen.
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().replace('-', "_"));
    let name = name.replace('-', "_");
    if found.iter().any(|(known, _)| *known == name) {
        return Ok(());
    }
    let is_it = |path: &&PathBuf| {
        path.extension().is_some_and(|end| end == "ko") && stem(path).as_deref() == Some(name.as_str())
    };
    let path = all.iter().find(is_it);
    let path = path.ok_or_else(|| crate::Error::Failed(format!("the kernel's package has no module {name}")))?;
    for needed in depends(path)? {
        add(&needed, all, found)?;
    }
    found.push((name, path.clone()));
    Ok(())
}

/// The modules that a module says it needs.
fn depends(path: &Path) -> Result<Vec<String>, crate::Error> {
    let failed = |e: &dyn std::fmt::Display| crate::Error::Failed(format!("{}: {e}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| failed(&e))?;
    let module = object::File::parse(&*bytes).map_err(|e| failed(&e))?;
    let section = module.section_by_name(".modinfo").ok_or_else(|| failed(&"expected a section `.modinfo`"))?;
    let said = section.data().map_err(|e| failed(&e))?;
    Ok(needed(said))
}

/// `depends=a,b` among the entries of a module's section `.modinfo`, which end in zeros.
fn needed(said: &[u8]) -> Vec<String> {
    let list = said.split(|&byte| byte == 0).find_map(|entry| entry.strip_prefix(b"depends="));
    let list = String::from_utf8_lossy(list.unwrap_or_default());
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn check(root: &Path, set: &Set) -> Result<(), Error> {
    let packages = Packages { root: root.to_owned() };
    let files = set.files.iter().all(|file| root.join(file).is_file());
    match files && packages.kernel().is_some() && packages.busybox().is_file() {
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

#[cfg(test)]
mod tests {
    use super::needed;

    #[test]
    fn a_module_names_what_it_needs() {
        assert_eq!(needed(b"license=GPL\0depends=ib_core,udp_tunnel\0name=rdma_rxe\0"), ["ib_core", "udp_tunnel"]);
        assert!(needed(b"license=GPL\0depends=\0").is_empty() && needed(b"").is_empty());
    }
}
