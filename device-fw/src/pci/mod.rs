//! PCI Express from the device's side of QEMU's bus: configuration space, base addresses, the
//! ivshmem function whose BAR2 is the window.
//!
//! A real card would *be* the function; an image under QEMU finds it on its own machine's bus, as
//! the host finds it on the host's. Nothing above this module knows the difference: a board
//! provides a window.

mod bar;
mod ecam;
mod ivshmem;
mod msix;

pub use bar::Space;
pub use ecam::Ecam;
pub use ivshmem::{Ivshmem, Registers};
pub use msix::Message;

/// Why no window was found on the bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PciError {
    /// No ivshmem function was found on any bus.
    NoDevice {
        /// How many other functions there were.
        functions: u32,
    },
    /// A base address register that the function lacks, or that is no memory.
    NotMemory {
        /// Which.
        bar: u8,
    },
    /// Memory at an address that the board does not map.
    OutOfReach {
        /// Which.
        bar: u8,
        /// Where it ends.
        end: u64,
    },
    /// The board's address space has no room for a base address register.
    NoRoom {
        /// Which.
        bar: u8,
        /// Bytes it needs.
        bytes: u64,
    },
}

impl core::fmt::Display for PciError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // Numbers have 32 bits or are in hexadecimal, as elsewhere in an image: any other type or base
        // would add formatting code.
        match *self {
            Self::NoDevice { functions } => write!(
                f,
                "expected an ivshmem function (1af4:1110) on the bus, found {functions} others; start QEMU with \
                 `-device ivshmem-doorbell` or `ivshmem-plain`"
            ),
            Self::NotMemory { bar } => write!(f, "expected memory behind BAR{} of ivshmem, found none", u32::from(bar)),
            Self::OutOfReach { bar, end } => {
                write!(
                    f,
                    "BAR{} ends at {end:#x}, which the board does not map; give the machine less memory or a smaller card",
                    u32::from(bar)
                )
            }
            Self::NoRoom { bar, bytes } => {
                write!(f, "BAR{} needs {bytes:#x} bytes of address space, the board has no such room", u32::from(bar))
            }
        }
    }
}

/// Where a board's bus is.
pub struct Bus {
    /// Configuration space.
    pub ecam: Ecam,
    /// Addresses below 4 GiB that base address registers may take.
    pub low: Space,
    /// Addresses above.
    pub high: Space,
    /// Memory below this address is mapped; firmware may place a register above.
    pub reach: u64,
}

use bar::Bar;
use ecam::Function;
