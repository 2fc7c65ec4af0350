//! Doorbells of bare-metal machines: MSI-X one way, the card's register the other.

macro_rules! machines {
    ($($module:ident $machine:ident)*) => {$(
        mod $module {
            hamr_tests::sleeping!(
                concat!("qemu:", stringify!($module)),
                || Box::new(hamr::qemu::QemuLauncher::machine(hamr::qemu::Machine::$machine)),
                10_000
            );
        }
    )*};
}
machines! { aarch64 AARCH64 riscv64 RISCV64 x86_64 X86_64 }
