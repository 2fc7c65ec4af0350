//! The machines that stand in for the PCIe device: QEMU runs a device image and has the window as
//! the memory of a PCI card.
//!
//! - [`Machine`]: one table row per machine, and the one function that makes a command line of it.
//! - [`start`]: runs a machine over a window, from a spawner thread, so that the machine ends with
//!   this process.
//! - [`spawn`]: starts what is to end with this process.
//! - [`MachineDoorbells`]: how host and image notify each other; this process is the ivshmem
//!   server.
//! - [`Program`]: the QEMU that is used; where there is none, [`setup`] unpacks one from
//!   [`Packages`].
//! - [`Console`]: the output of the image on its serial port, and of QEMU itself.
//!
//! Boards are not here: the device's side of these machines is in `device-fw`. Who may depend on
//! it: `hamr`, `xtask` and tests. It depends on `hamr-shared-abi` for the names of
//! instruction sets, and on `hamr-linker` for how programs are started.

mod child;
mod console;
mod error;
mod folders;
mod inherit;
mod machine;
#[doc(hidden)]
pub mod origin;
mod packages;
mod program;
mod server;
mod spawner;
mod start;
mod version;

pub use console::{Console, Source};
pub use error::{Error, SetupCommand};
pub use folders::folders;
pub use machine::{Card, Exit, Machine, Place, Run};
pub use packages::Packages;
pub use program::{Program, Reach, setup};
pub use server::MachineDoorbells;
pub use spawner::spawn;
pub use start::{Started, start, vcpu_thread};
pub use version::{MINIMUM, Version};
