//! The machines that bare-metal images run on here: what builds for them, and which QEMU they need.
//!
//! The names repeat the table of `hamr-qemu`, which a test below compares. Using it directly would make everything that this
//! program checks wait for what it depends on.

use crate::child;
use crate::test::Outcome;
use crate::toolchain;

/// The oldest QEMU that knows every argument it is started with.
pub(crate) const MINIMUM: (u32, u32) = (7, 0);

/// One instruction set.
pub(crate) struct Machine {
    /// What devices call it: `qemu:NAME`.
    pub(crate) name: &'static str,
    /// What its images are compiled for.
    pub(crate) triple: &'static str,
    /// QEMU's program for it.
    pub(crate) program: &'static str,
    /// The Debian package that has the program.
    pub(crate) package: &'static str,
    /// What follows `-M`.
    pub(crate) machine: &'static str,
    /// What follows `-cpu`; empty for the machine's own.
    pub(crate) cpu: &'static str,
    /// Further arguments.
    pub(crate) args: &'static [&'static str],
}

/// Every machine that tests use.
pub(crate) const MACHINES: [Machine; 3] = [
    Machine {
        name: "x86_64",
        triple: toolchain::X86_64,
        program: "qemu-system-x86_64",
        package: "qemu-system-x86",
        machine: "q35",
        cpu: "max",
        args: &["-device", "isa-debug-exit,iobase=0xf4,iosize=4"],
    },
    Machine {
        name: "aarch64",
        triple: "aarch64-unknown-none",
        program: "qemu-system-aarch64",
        package: "qemu-system-arm",
        machine: "virt,gic-version=2",
        cpu: "max",
        args: &["-semihosting-config", "enable=on,target=native"],
    },
    Machine {
        name: "riscv64",
        triple: "riscv64gc-unknown-none-elf",
        program: "qemu-system-riscv64",
        package: "qemu-system-misc",
        machine: "virt,aia=aplic-imsic",
        cpu: "",
        args: &["-bios", "none"],
    },
];

impl Machine {
    /// The device that is this machine.
    pub(crate) fn device(&self) -> String {
        format!("qemu:{}", self.name)
    }

    /// Whether its QEMU is installed and new enough.
    pub(crate) fn has_qemu(&self) -> bool {
        child::version(self.program).is_some_and(|found| found >= MINIMUM)
    }

    /// Whether its images can be compiled; the outcome of what needs one, if not.
    pub(crate) fn can_build(&self) -> Result<(), Outcome> {
        match toolchain::compiler_of(self.triple) {
            Some(_) => Ok(()),
            None => Err(Outcome::missing(self.triple, &toolchain::install(self.triple))),
        }
    }

    /// Whether its images can be compiled and run.
    pub(crate) fn can_run(&self) -> Result<(), Outcome> {
        self.can_build()?;
        match self.has_qemu() {
            true => Ok(()),
            false => Err(Outcome::missing(self.program, &format!("apt-get install {}", self.package))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_one_that_starts_qemu() {
        for (ours, theirs) in MACHINES.iter().zip(hamr_qemu::Machine::ALL) {
            let Machine { name, triple, program, package, machine, cpu, args } = *ours;
            assert_eq!([name, triple, program, package], [theirs.name, theirs.triple, theirs.program, theirs.package]);
            assert_eq!((machine, cpu, args), (theirs.machine, theirs.cpu, theirs.args), "{name}");
        }
        assert_eq!(MACHINES.len(), hamr_qemu::Machine::ALL.len());
        assert_eq!(MINIMUM, (hamr_qemu::MINIMUM.major, hamr_qemu::MINIMUM.minor));
    }
}
