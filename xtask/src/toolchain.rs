//! The targets that the workspace compiles for, and the compiler of each (`hamr_linker::compiler`).

pub(crate) use hamr_linker::compiler::{Compiler, PACKAGES};

use std::process::Command;

/// The target of x86_64 images, the same as the host's: Rust's own target without a system has no
/// hardware floats.
pub(crate) const X86_64: &str = "x86_64-unknown-linux-gnu";

/// The targets on which the device's crates must compile, beside [`X86_64`]: one per ISA family
/// that a device image is built for, and one without 64-bit pointers or atomics, which no emulator
/// here runs but every shared crate must support.
pub(crate) const TARGETS: &[&str] = &["aarch64-unknown-none", "riscv64gc-unknown-none-elf", "thumbv7em-none-eabihf"];

/// The compiler for `target`; `None` when no compiler here has it.
pub(crate) fn compiler_of(target: &str) -> Option<Compiler> {
    Compiler::of(target, &crate::root()).ok().flatten()
}

/// `cargo SUBCOMMAND --target TARGET`, in the workspace.
pub(crate) fn cargo(compiler: Compiler, subcommand: &str, target: &str) -> Command {
    let mut command = compiler.cargo(subcommand, target);
    command.current_dir(crate::root());
    command
}

/// The command that makes a target compile.
pub(crate) fn install(target: &str) -> String {
    format!("rustup target add {target}")
}
