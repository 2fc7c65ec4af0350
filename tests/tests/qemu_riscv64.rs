//! The conformance suite on a bare-metal riscv64 machine behind PCI Express, under QEMU.

use hamr::{Node, Options};

fn open(options: Options) -> Node {
    hamr_tests::devices::open("qemu:riscv64", options)
}

hamr_tests::conformance!(open);
hamr_tests::crashes!("qemu:riscv64");
hamr_tests::broken!("qemu:riscv64");
hamr_tests::logs!("qemu:riscv64");
hamr_tests::machine!(hamr::qemu::Machine::RISCV64);
