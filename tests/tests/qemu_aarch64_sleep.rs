//! Doorbells of a bare-metal aarch64 machine: MSI-X one way, the card's register the other.

hamr_tests::sleeping!(
    "qemu:aarch64",
    || Box::new(hamr::qemu::QemuLauncher::machine(hamr::qemu::Machine::AARCH64)),
    10_000
);
