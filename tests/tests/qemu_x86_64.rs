//! The conformance suite on a bare-metal x86_64 machine behind PCI Express, under QEMU.

use hamr::{Node, Options};

fn open(options: Options) -> Node {
    hamr_tests::devices::open("qemu:x86_64", options)
}

hamr_tests::conformance!(open);
hamr_tests::logs!("qemu:x86_64");
hamr_tests::machine!(hamr::qemu::Machine::X86_64);
