//! The machines that stand in for the PCIe device: QEMU with a device image, and the window as the memory of a PCI card.
//!
//! - [`Machine`]: one table row per machine, and the one function that makes a command line of it.
//! - [`start`]: runs a machine over a window, under a keeper that ends it when this process ends.
//! - [`MachineDoorbells`]: how host and image ring each other; this process is the ivshmem server.
//! - [`Program`]: which QEMU that is; [`setup`] brings one where there is none, by [`Packages`] that are unpacked.
//! - [`Console`]: what the image writes to its serial port, and what QEMU says.
//!
//! Boards are not here: the device's side of these machines is in `device-fw`. Who may depend on it: `hamr` (feature `qemu`),
//! `xtask` and tests. It depends on `hamr-shared-abi` for the names of instruction sets.

mod child;
mod console;
mod error;
mod folders;
mod inherit;
mod machine;
mod packages;
mod program;
mod server;
mod spawner;
mod start;
mod version;

pub use console::{Console, Source};
pub use error::{Error, SetupCommand};
pub use folders::folders;
pub use machine::{Card, Exit, Machine, Run};
pub use packages::Packages;
pub use program::{Program, setup};
pub use server::MachineDoorbells;
pub use start::{Started, start, vcpu_thread};
pub use version::{MINIMUM, Version};
