//! Which targets the workspace compiles for, and with which compiler (`hamr_linker::compiler`).

pub(crate) use hamr_linker::compiler::{Compiler, PACKAGES};

use std::process::Command;

/// Where images of x86_64 are compiled, beside the host: Rust's own target without a system has no hardware floats.
pub(crate) const X86_64: &str = "x86_64-unknown-linux-gnu";

/// The targets on which the device's crates must compile, beside [`X86_64`]: one per ISA family that a device image is built
/// for, and one without 64-bit pointers or atomics, which nothing emulates but every shared crate must allow.
pub(crate) const TARGETS: &[&str] = &["aarch64-unknown-none", "riscv64gc-unknown-none-elf", "thumbv7em-none-eabihf"];

/// Who compiles for `target`; `None` when nobody here can.
pub(crate) fn compiler_of(target: &str) -> Option<Compiler> {
    Compiler::of(target, &crate::root()).ok().flatten()
}

/// `cargo SUBCOMMAND --target TARGET`, in the workspace.
pub(crate) fn cargo(compiler: Compiler, subcommand: &str, target: &str) -> Command {
    let mut command = compiler.cargo(subcommand, target);
    command.current_dir(crate::root());
    command
}

/// How to make a target compile.
pub(crate) fn install(target: &str) -> String {
    format!("rustup target add {target}")
}
