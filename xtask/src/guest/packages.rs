//! What a guest is made of and no part of this repository: Debian's kernel for clouds and busybox, unpacked below `target`.
//! Nothing is installed. Downloaded once; `cargo clean` or removing the folder forgets them.

use crate::child;
use crate::test::Outcome;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// 29 MB from a slow mirror.
const LIMIT: Duration = Duration::from_secs(600);
/// Between two attempts.
const PAUSE: Duration = Duration::from_secs(2);
/// Depends on the newest kernel, whose name moves.
const KERNEL: &str = "linux-image-cloud-amd64";
const BUSYBOX: &str = "busybox-static";
/// Made last, so that half an unpacking does not count.
const DONE: &str = "complete";

/// Files of the packages.
pub(super) struct Packages {
    root: PathBuf,
}

impl Packages {
    /// Those of an earlier run, or downloaded now.
    pub(super) fn find(cache: &Path) -> Result<Self, Outcome> {
        let this = Self { root: cache.join("packages") };
        if !this.root.join(DONE).is_file() {
            this.fetch().map_err(|why| {
                Outcome::missing(
                    &format!("a Linux guest ({KERNEL}, {BUSYBOX}: {why})"),
                    "apt-get update && cargo xtask guest, with network",
                )
            })?;
        }
        Ok(this)
    }

    fn fetch(&self) -> Result<(), String> {
        let text = |e: std::io::Error| e.to_string();
        // What an interrupted run left.
        let _ = std::fs::remove_dir_all(&self.root);
        std::fs::create_dir_all(&self.root).map_err(text)?;
        for name in [KERNEL, BUSYBOX] {
            self.download(name)?;
        }
        for file in files(&self.root, 1).iter().filter(|file| file.extension().is_some_and(|e| e == "deb")) {
            child::run(Command::new("dpkg").arg("-x").args([file, &self.root]), LIMIT).map_err(|e| e.to_string())?;
            std::fs::remove_file(file).map_err(text)?;
        }
        self.kernel().ok_or("no kernel in the package")?;
        std::fs::write(self.root.join(DONE), "").map_err(text)
    }

    /// A mirror may be out of reach for a moment, and no longer have what old lists of packages name.
    fn download(&self, name: &str) -> Result<(), String> {
        const ATTEMPTS: u32 = 6;
        let mut attempt = 1;
        loop {
            let package = if name == KERNEL { kernel_package()? } else { name.into() };
            let mut download = Command::new("apt-get");
            download.current_dir(&self.root).args(["download", "--quiet", &package]);
            match child::run(&mut download, LIMIT) {
                Ok(()) => return Ok(()),
                Err(e) if attempt == ATTEMPTS => return Err(e.to_string()),
                Err(_) if attempt == ATTEMPTS / 2 => update(),
                Err(_) => std::thread::sleep(PAUSE),
            }
            attempt += 1;
        }
    }

    /// What QEMU starts.
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

/// The package that the name without a version stands for.
fn kernel_package() -> Result<String, String> {
    let ask = || {
        child::capture(Command::new("apt-cache").args(["depends", KERNEL]), Duration::from_secs(60))
            .map_err(|e| e.to_string())
    };
    let find = |text: String| text.lines().find_map(|line| line.trim().strip_prefix("Depends: ").map(str::to_owned));
    if let Some(name) = find(ask()?) {
        return Ok(name);
    }
    // A fresh container has no lists of packages.
    update();
    find(ask()?).ok_or_else(|| format!("no package {KERNEL} is known here"))
}

/// The lists of packages anew. Where this may not be done, whoever asked says what is missing.
fn update() {
    let _ = child::run(Command::new("apt-get").args(["update", "--quiet"]), LIMIT);
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
