//! Boards: what the runtime needs of the hardware around the processor. QEMU's machines are boards
//! like any other (`docs/porting.md` describes how to add one outside this crate).

// Contract "boards". Nothing can check a board file's addresses. Callers of `UniqueMmioPointer::new`
// and `pc::Port::new` name the machine. Each device pointer is made by the one function that then uses
// it; no interrupt that uses the device comes between. No Rust object is in device memory.

use core::task::Waker;
use hamr_comm::abi::sync::Order;
use hamr_comm::abi::window::{DeviceWindow, Window};
use hamr_comm::am::{Activity, ControlHandoff};

#[cfg(hamr_machine)]
pub(crate) mod bare_board;
#[cfg(any(not(hamr_bare), all(hamr_machine, feature = "driven")))]
mod host_memory;
#[cfg(all(hamr_bare, any(target_arch = "x86_64", all(feature = "image", target_arch = "riscv64"))))]
mod uart16550;
#[cfg(hamr_machine)]
pub(crate) mod window;
#[cfg(any(not(hamr_bare), all(hamr_machine, feature = "driven")))]
pub use host_memory::HostMemory;

#[cfg(all(hamr_bare, target_arch = "x86_64"))]
pub mod pc;
#[cfg(all(feature = "image", hamr_bare, target_arch = "x86_64"))]
mod q35;
#[cfg(all(feature = "image", hamr_bare, target_arch = "x86_64"))]
pub use q35::Q35 as Default;

#[cfg(all(feature = "image", hamr_bare, target_arch = "aarch64"))]
mod virt_aarch64;
#[cfg(all(feature = "image", hamr_bare, target_arch = "aarch64"))]
pub use virt_aarch64::VirtAarch64 as Default;

#[cfg(all(feature = "image", hamr_bare, target_arch = "arm"))]
mod mps2;
#[cfg(all(feature = "image", hamr_bare, target_arch = "arm"))]
pub use mps2::Mps2An386 as Default;

#[cfg(all(feature = "image", hamr_bare, target_arch = "riscv64"))]
mod virt_riscv64;
#[cfg(all(feature = "image", hamr_bare, target_arch = "riscv64"))]
pub use virt_riscv64::VirtRiscv64 as Default;

/// What the serve loop needs of the platform it runs on. The hosted process is one, every
/// `bare::BareBoard` is another; a program with a main loop of its own implements its own.
pub trait Board {
    /// What keeps the window mapped; `()` where nothing unmaps it.
    type Keep: Clone + 'static;
    /// The fences that the window's memory needs.
    type Order: Order;

    /// Name shown to hosts, at most 24 bytes.
    fn name(&self) -> &'static str;
    /// Bytes of the board's memory; 0 unknown.
    fn memory(&self) -> u64 {
        0
    }
    /// Process id of a hosted image; 0 otherwise.
    fn pid(&self) -> u32 {
        0
    }
    /// The image's build id; zero when it has none.
    fn build_id(&self) -> [u8; 20] {
        [0; 20]
    }
    /// The mapped window; called once.
    fn window(&mut self) -> Option<DeviceWindow<Self::Keep>>;
    /// Calls are served from now on, and `activity` has the number of the one that runs; with
    /// `None` no longer. The activity stays where it is until the next call of this function. For
    /// boards that find runaways.
    fn set_activity(&mut self, _activity: Option<&Activity>) {}
    /// Where the control stream is while a task runs, if this board has a tick or a
    /// thread that serves it then ([`ControlHandoff::serve`]): pings get their replies meanwhile.
    /// Otherwise they wait until the handler has ended.
    fn control_handoff(&self) -> Option<&'static ControlHandoff<Self::Keep, Self::Order>> {
        None
    }
    /// Is this device a rank of a world (abi §13)?
    fn is_rank(&self) -> bool {
        false
    }
    /// Does something carry between this window and the host's memory (`hamr_comm::mirror::Driver`)?
    fn is_driver(&self) -> bool {
        false
    }
    /// The host has left: the epoch is over, and nothing of the window is used before the next offer.
    fn left(&mut self) {}
    /// Does this image log?
    fn logs(&self) -> bool {
        false
    }
    /// Does something else than the dispatcher step `alive` (abi §3.3)? Where nothing else does,
    /// the dispatcher steps it when it finds no work, and its host uses `progress` otherwise.
    fn has_heartbeat(&self) -> bool {
        false
    }
    /// Sets where this image's logs go: the LOG section of the host that was accepted, or `None`
    /// when it leaves. A board that does not log ignores it.
    fn logs_to(&mut self, _section: Option<Window<Self::Keep>>) {}
    /// Notifies the host.
    fn notify(&mut self) {}
    /// What notifies the program that serves a section beside the host (abi §16), from handlers too.
    fn side_doorbell(&self) -> fn() {
        || ()
    }
    /// Can the host notify this board, and does that end [`Self::sleep`]? Otherwise the device only
    /// calls [`Self::idle`].
    fn doorbell(&self) -> bool {
        false
    }
    /// Sleeps until the host notifies, at most so many microseconds
    /// ([`hamr_comm::abi::preamble::FOR_EVER`]: no limit). A notification that came since the last
    /// sleep ends it at once. Returning early is always right.
    fn sleep(&mut self, _micros: u32) {}
    /// In place of [`Self::sleep`] and [`Self::idle`] where an executor runs the device ([`crate::Device::serving`]): returns at once, and wakes
    /// `waker` when the host notifies, and at the latest after so many microseconds
    /// ([`hamr_comm::abi::preamble::FOR_EVER`]: no limit). A notification that came since the last call wakes it at once. Waking it early is
    /// always right.
    fn wake(&mut self, waker: &Waker, _micros: u32) {
        waker.wake_by_ref();
    }
    /// Microseconds of any clock that never goes back. Needed where there is a [`Self::doorbell`];
    /// at start the device measures by it how long its polls take.
    fn micros(&mut self) -> u64 {
        0
    }
    /// Nanoseconds of the same clock, where it is finer.
    fn nanos(&mut self) -> u64 {
        self.micros().wrapping_mul(1000)
    }
    /// Reads from the far side of the bus, where there is one: what the host wrote before it could
    /// see this board's last store has arrived by then (abi §7.3, rule 25).
    fn read_back(&mut self) {}
    /// The last `rounds` rounds found nothing: the board spins, or sleeps a little. Returning early
    /// is always right.
    fn idle(&mut self, rounds: u32);
}
