//! Sets `cfg(hamr_bare)` for builds without an operating system, and says what a module must agree on with its image. `links` in the
//! manifest asks for a build script, too.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    hamr_linker::bare();
    if std::env::var_os("CARGO_FEATURE_MODULES").is_some() {
        println!("cargo::rustc-env=HAMR_COMPILER={}", hash(&compiler()));
        println!("cargo::rustc-env=HAMR_SOURCE={}", hash(&source()));
    }
}

/// What Rust's layouts and calls depend on: the compiler, and the target.
fn compiler() -> Vec<u8> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = std::process::Command::new(rustc).arg("-vV").output();
    let mut text = said.map(|said| said.stdout).unwrap_or_default();
    text.extend(std::env::var("TARGET").unwrap_or_default().into_bytes());
    text
}

/// The source of this package, and of the one below it where that is beside it.
fn source() -> Vec<u8> {
    let own = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut text = std::env::var("CARGO_PKG_VERSION").unwrap_or_default().into_bytes();
    for folder in [own.join("src"), own.join("../shared-abi/src")] {
        println!("cargo::rerun-if-changed={}", folder.display());
        add(&folder, &mut text);
    }
    text
}

fn add(folder: &Path, text: &mut Vec<u8>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add(&path, text);
        } else {
            text.extend(std::fs::read(&path).unwrap_or_default());
        }
    }
}

/// FNV-1a, 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3))
}
