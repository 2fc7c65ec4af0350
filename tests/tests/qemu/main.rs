//! Machines without an operating system: every test that starts a QEMU is in a binary of this name.

mod aarch64;
mod arm;
mod device_driven;
mod driven;
mod far;
mod gas;
mod images;
mod launch;
mod microvm;
mod mixed;
mod modules;
mod relay;
mod riscv64;
mod serve;
mod sleep;
mod split;
mod steps;
mod world_mixed;
mod worlds;
mod x86_64;
mod xacc;

/// Waits that must end within two seconds.
mod alone {
    mod world_lost;
}
