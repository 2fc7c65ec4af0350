//! Doorbells of a bare-metal riscv64 machine: MSI-X one way, the card's register the other.

hamr_tests::sleeping!(
    "qemu:riscv64",
    || Box::new(hamr::qemu::QemuLauncher::machine(hamr::qemu::Machine::RISCV64)),
    10_000
);
