//! The linker arguments of an image. Its build script is one line: `fn main() {
//! hamr_linker::image() }`.
//!
//! Hosted images need only a build id, which ties logs and backtraces to one file. Bare-metal
//! images get the scripts of this folder: one shared body, one short script per instruction set,
//! and the board's `memory.x`. A `memory.x` beside the image's Cargo.toml replaces that of the
//! instruction set's usual board.
//!
//! A program that builds images also needs [`compiler`], before any build script runs, and starts that, as every other
//! program, by [`child`].
//!
//! Who may depend on it: build scripts, and programs that start builds or machines. It depends on nothing.

pub mod child;
pub mod compiler;

use std::path::{Path, PathBuf};

/// The scripts of one instruction set.
struct Isa {
    /// As cargo names it (`CARGO_CFG_TARGET_ARCH`).
    name: &'static str,
    script: &'static str,
    /// RAM of the board that `image!()` uses by default.
    memory: &'static str,
}

const ISAS: &[Isa] = &[
    Isa {
        name: "x86_64",
        script: include_str!("../scripts/x86_64.x"),
        memory: include_str!("../scripts/memory-x86_64.x"),
    },
    Isa {
        name: "aarch64",
        script: include_str!("../scripts/aarch64.x"),
        memory: include_str!("../scripts/memory-aarch64.x"),
    },
    Isa {
        name: "riscv64",
        script: include_str!("../scripts/riscv64.x"),
        memory: include_str!("../scripts/memory-riscv64.x"),
    },
    Isa { name: "arm", script: include_str!("../scripts/arm.x"), memory: include_str!("../scripts/memory-arm.x") },
];
const BODY: &str = include_str!("../scripts/body.x");
/// The section for log statements: symbols and contents.
const LOG_SYMBOLS: &str = include_str!("../scripts/defmt.x");
const LOG_SECTIONS: &str = include_str!("../scripts/defmt-sections.x");
/// The same for a program of an operating system, which has a linker script of its own.
const HOSTED: &str = include_str!("../scripts/hosted.x");
/// The linker's script of a bare-metal module, on every instruction set.
pub const MODULE: &str = include_str!("../scripts/module.x");
/// An environment variable for the build script of an image: whether its package has a `memory.x`.
pub const OWN_MEMORY: &str = "HAMR_OWN_MEMORY";

/// Sets `cfg(hamr_bare)` where the target has no operating system, and returns whether this build runs without one: because the
/// target has none, or because cargo was told `--cfg hamr_bare` for a target that has.
pub fn bare() -> bool {
    println!("cargo::rustc-check-cfg=cfg(hamr_bare)");
    if on_no_system() {
        println!("cargo::rustc-cfg=hamr_bare");
    }
    on_no_system() || std::env::var_os("CARGO_CFG_HAMR_BARE").is_some()
}

/// Does the target have no operating system?
fn on_no_system() -> bool {
    variable("CARGO_CFG_TARGET_OS") == "none"
}

/// Emits the linker arguments of an image for the target that cargo is building, and sets `cfg(hamr_bare)` as [`bare`] does.
///
/// # Panics
/// When there is no script for the instruction set, or cargo's folder cannot be written. The panic
/// stops the build with its message.
pub fn image() {
    println!("cargo::rerun-if-changed=build.rs");
    // Images with a board of their own ask for it.
    let is_bare = bare();
    let out = PathBuf::from(variable("OUT_DIR"));
    write(&out, "hamr-defmt.x", LOG_SYMBOLS);
    write(&out, "hamr-defmt-sections.x", LOG_SECTIONS);
    if !is_bare {
        argument("-Wl,--build-id=sha1");
        // The build function of `hamr` sets it; in any other build the package is a program without
        // logs.
        if std::env::var_os("CARGO_CFG_HAMR_IMAGE").is_some() {
            write(&out, "hamr-hosted.x", HOSTED);
            println!("cargo::rustc-link-search={}", out.display());
            // Ids are addresses, so they must not depend on where the program is loaded.
            argument("-no-pie");
            argument("-Wl,-Thamr-hosted.x");
        }
        return;
    }
    let isa = variable("CARGO_CFG_TARGET_ARCH");
    let Some(isa) = ISAS.iter().find(|known| known.name == isa) else {
        let known: Vec<&str> = ISAS.iter().map(|isa| isa.name).collect();
        panic!(
            "hamr-linker has scripts for {}, not for {isa}: docs/porting.md lists what a new one needs",
            known.join(", ")
        );
    };
    write(&out, "hamr.x", isa.script);
    write(&out, "hamr-body.x", BODY);
    write(&out, "memory.x", &memory(isa));
    println!("cargo::rustc-link-search={}", out.display());
    argument("-Thamr.x");
    if on_no_system() {
        // rustc calls the linker itself.
        argument("--build-id=sha1");
        argument("--no-dynamic-linker");
    } else {
        // A freestanding program on a hosted target: rustc calls the C compiler, which would add
        // its start-up code.
        for flag in ["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=sha1"] {
            argument(flag);
        }
    }
}

/// The board's memory: the package's own file, or the usual board's.
fn memory(isa: &Isa) -> String {
    let own = Path::new(&variable("CARGO_MANIFEST_DIR")).join("memory.x");
    // Cargo treats a file that does not exist as changed, and would link the image again at each
    // start of a device. So the builder of images passes on whether the file exists.
    println!("cargo::rerun-if-env-changed={OWN_MEMORY}");
    if own.exists() || std::env::var_os(OWN_MEMORY).is_none() {
        println!("cargo::rerun-if-changed={}", own.display());
    }
    match std::fs::read_to_string(&own) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => isa.memory.into(),
        Err(e) => panic!("cannot read the board's memory from {}: {e}", own.display()),
    }
}

fn argument(text: &str) {
    println!("cargo::rustc-link-arg-bins={text}");
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    if let Err(e) = std::fs::write(&path, text) {
        panic!("cannot write the linker script {}: {e}", path.display());
    }
}

/// A variable that cargo sets for every build script.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: call this from a build script"))
}
