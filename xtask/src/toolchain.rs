//! Which compiler builds for a target. Rustup's comes with the targets' libraries compiled; where its server cannot be
//! reached, the distribution's compiles `core` and `alloc` from their source, each time for the build at hand.

use crate::child;
use std::path::Path;
use std::process::Command;

/// Where images of x86_64 are compiled, beside the host: Rust's own target without a system has no hardware floats.
pub(crate) const X86_64: &str = "x86_64-unknown-linux-gnu";

/// The targets on which the device's crates must compile, beside [`X86_64`]: one per ISA family that a device image is built
/// for, and one without 64-bit pointers or atomics, which nothing emulates but every shared crate must allow.
pub(crate) const TARGETS: &[&str] = &["aarch64-unknown-none", "riscv64gc-unknown-none-elf", "thumbv7em-none-eabihf"];

/// Debian's packages of the other compiler.
pub(crate) const PACKAGES: &str = "rustc-web cargo-web rust-web-src lld";

// Full paths, because a rustup that lacks the target usually comes first in `PATH`.
const RUSTC: &str = "/usr/bin/rustc";
const CARGO: &str = "/usr/bin/cargo";
const SOURCE: &str = "/usr/lib/rustlib/src/rust/library/core/Cargo.toml";
/// Debian's compiler brings no linker for targets without a system.
const LINKER: &str = "ld.lld";

/// Who compiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compiler {
    /// The one that `cargo` stands for.
    Usual,
    /// The distribution's, with the standard library's source.
    System,
}

impl Compiler {
    /// Who compiles for `target`; `None` when nobody here can.
    pub(crate) fn of(target: &str) -> Option<Self> {
        if has_library(target) { Some(Self::Usual) } else { has_system().then_some(Self::System) }
    }

    /// `cargo SUBCOMMAND --target TARGET`.
    pub(crate) fn cargo(self, subcommand: &str, target: &str) -> Command {
        let mut command = child::cargo();
        if self == Self::System {
            command = Command::new(CARGO);
            command.current_dir(crate::root()).env("RUSTC", RUSTC);
            // Building the library from its source is unstable; the source is the compiler's own.
            command.env("RUSTC_BOOTSTRAP", "1").env(linker_variable(target), LINKER);
        }
        command.args([subcommand, "--target", target]);
        if self == Self::System {
            command.args(["-Zbuild-std=core,alloc", "-Zbuild-std-features=compiler-builtins-mem"]);
        }
        command
    }
}

/// How to make a target compile.
pub(crate) fn install(target: &str) -> String {
    format!("rustup target add {target}")
}

/// Whether the usual compiler has the target's library. Asks the compiler, so that one without rustup counts too.
fn has_library(target: &str) -> bool {
    let output = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

fn has_system() -> bool {
    let files = [CARGO, RUSTC, SOURCE].iter().all(|path| Path::new(path).is_file());
    // A distribution's plain `rustc` package is in the same place and years older.
    files
        && child::is_installed(LINKER)
        && child::version(RUSTC) >= child::parse_version(env!("CARGO_PKG_RUST_VERSION"))
}

/// Cargo's variable for the linker of a target.
fn linker_variable(target: &str) -> String {
    format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn the_system_compiler_builds_the_library_too() {
        let command = Compiler::System.cargo("check", "thumbv7em-none-eabihf");
        let words: Vec<&OsStr> = command.get_args().collect();
        assert_eq!(words[..3], ["check", "--target", "thumbv7em-none-eabihf"]);
        assert_eq!(words[3], "-Zbuild-std=core,alloc");
        let linker = command.get_envs().find(|(name, _)| *name == "CARGO_TARGET_THUMBV7EM_NONE_EABIHF_LINKER");
        assert_eq!(linker.and_then(|(_, value)| value), Some(OsStr::new(LINKER)));
    }

    #[test]
    fn the_host_is_compiled_as_usual() {
        assert_eq!(Compiler::of(X86_64), Some(Compiler::Usual));
        assert!(child::parse_version(env!("CARGO_PKG_RUST_VERSION")).is_some());
    }

    #[test]
    fn a_target_that_does_not_exist_has_no_library() {
        assert!(!has_library("no-such-target"));
    }
}
