//! The conformance suite on a bare-metal aarch64 machine behind PCI Express, under QEMU.

use hamr::{Node, Options};

fn open(options: Options) -> Node {
    hamr_tests::devices::open("qemu:aarch64", options)
}

hamr_tests::conformance!(open);
hamr_tests::crashes!("qemu:aarch64");
hamr_tests::resources!("qemu:aarch64");
hamr_tests::broken!("qemu:aarch64");
hamr_tests::logs!("qemu:aarch64");
hamr_tests::machine!(hamr::qemu::Machine::AARCH64);
