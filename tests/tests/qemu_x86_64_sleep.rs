//! Doorbells of a bare-metal x86_64 machine: MSI-X one way, the card's register the other.

hamr_tests::sleeping!(
    "qemu:x86_64",
    || Box::new(hamr::qemu::QemuLauncher::machine(hamr::qemu::Machine::X86_64)),
    10_000
);
