//! The machines that bare-metal images run on: whether images build for them here, and whether a
//! QEMU runs them.

use crate::test::Outcome;
use crate::toolchain;
use hamr_qemu::{Machine, Program, Version};

/// The machines with a card: those that have all images of tests.
pub(crate) const MACHINES: [Machine; 3] = [Machine::X86_64, Machine::AARCH64, Machine::RISCV64];

/// The device that is this machine.
pub(crate) fn device(machine: &Machine) -> String {
    format!("qemu:{}", machine.name)
}

/// Whether images for the machine can be compiled; if not, the outcome of a step that needs one.
pub(crate) fn can_build(machine: &Machine) -> Result<(), Outcome> {
    match toolchain::compiler_of(machine.triple) {
        Some(_) => Ok(()),
        None => Err(Outcome::missing(machine.triple, &toolchain::install(machine.triple))),
    }
}

/// Whether images for it can be compiled and run.
pub(crate) fn can_run(machine: &Machine) -> Result<(), Outcome> {
    can_build(machine)?;
    can_start(machine, hamr_qemu::MINIMUM)
}

/// Whether there is a QEMU for the machine that is as new as `version`.
pub(crate) fn can_start(machine: &Machine, version: Version) -> Result<(), Outcome> {
    let found = Program::find(machine).and_then(|program| program.version());
    match found {
        Ok(found) if found >= version => Ok(()),
        Ok(found) => {
            let name = format!("{} of version {version} or later, found {found}", machine.program);
            Err(Outcome::missing(&name, "cargo xtask setup, without an older one in PATH"))
        }
        Err(e) => Err(Outcome::missing(&format!("{}: {e}", machine.program), "cargo xtask setup")),
    }
}
