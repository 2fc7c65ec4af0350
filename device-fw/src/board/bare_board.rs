//! What a board without an operating system provides to `bare`.

use crate::arch::{TimedSleep, Timer};
use crate::pci::{PciError, Registers};
#[cfg(feature = "driven")]
use alloc::boxed::Box;
use hamr_comm::abi::window::DeviceWindow;
#[cfg(feature = "driven")]
use hamr_comm::mirror::HostPort;

/// A board without an operating system: what `image!(board = ...)` takes. It has no value and no
/// state: its console and its exit must work wherever a fault happens.
pub trait BareBoard: 'static {
    /// Name shown to hosts, at most 24 bytes.
    const NAME: &'static str;

    /// Brings the hardware up as far as the runtime needs it and finds the window. Runs once, on
    /// the boot stack, with the processor set up by `arch/<isa>/boot`.
    ///
    /// # Errors
    /// What is missing; it is written to the console, and the image ends.
    fn start() -> Result<Hardware, StartError>;

    /// How this image reaches its host's memory, where the host has it drive that (abi §15.5): by loads, stores and the processor's copies,
    /// unless the board has an engine for these. Runs once, behind [`Self::start`].
    #[cfg(feature = "driven")]
    fn host_port(memory: super::HostMemory<(), crate::arch::BusOrder>) -> Box<dyn HostPort> {
        Box::new(memory)
    }

    /// Writes text where a person can see it. Called from fault paths too, so it keeps no state and
    /// never blocks for good.
    fn console(text: &str);

    /// Ends the machine with an exit code for the process that started it, or stops for good where
    /// a machine has no exit code.
    fn exit(code: u8) -> !;
}

/// What a board found.
pub struct Hardware {
    /// The memory shared with the host.
    pub window: DeviceWindow<()>,
    /// The function's registers, where the board has a doorbell.
    pub registers: Option<Registers>,
    /// How the image sleeps.
    pub timed_sleep: TimedSleep,
}

impl Hardware {
    /// A window without a doorbell, such as [`reserved_window`](crate::bare::reserved_window).
    pub fn without_doorbell(window: DeviceWindow<()>, timer: Timer) -> Self {
        Self { window, registers: None, timed_sleep: TimedSleep::new(timer) }
    }
}

/// Why an image cannot start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartError {
    /// The bus.
    Pci(PciError),
    /// Something that only the board knows.
    Board(&'static str),
}

impl From<PciError> for StartError {
    fn from(e: PciError) -> Self {
        Self::Pci(e)
    }
}

impl core::fmt::Display for StartError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Pci(e) => write!(f, "{e}"),
            Self::Board(text) => f.write_str(text),
        }
    }
}
