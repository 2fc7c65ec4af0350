//! Boards: what the runtime needs of the hardware around the processor. QEMU's machines are boards like any other
//! (`docs/porting.md` says how to add one outside this crate).

use hamr_comm::abi::sync::Order;
use hamr_comm::abi::window::{DeviceWindow, Window};
use hamr_comm::am::{Activity, ControlHandoff};

#[cfg(hamr_bare)]
mod register;
#[cfg(hamr_bare)]
pub use register::Register;
#[cfg(all(hamr_bare, any(target_arch = "x86_64", all(feature = "image", target_arch = "riscv64"))))]
mod uart16550;

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

#[cfg(all(feature = "image", hamr_bare, target_arch = "riscv64"))]
mod virt_riscv64;
#[cfg(all(feature = "image", hamr_bare, target_arch = "riscv64"))]
pub use virt_riscv64::VirtRiscv64 as Default;

/// What the serve loop asks of whatever it runs on. The hosted process is one, every `bare::BareBoard` is another; people
/// with a main loop of their own write theirs.
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
    /// The mapped window; asked for once.
    fn window(&mut self) -> Option<DeviceWindow<Self::Keep>>;
    /// Calls are served from now on, and `activity` says which, where it is until this is called again; or no longer are. For
    /// boards that look for runaways.
    fn set_activity(&mut self, _activity: Option<&Activity>) {}
    /// Where the control stream lies while a queued handler runs, if something of this board interrupts the handler now and then
    /// and has it served ([`ControlHandoff::serve`]): pings are answered meanwhile. Otherwise they wait until the handler has ended.
    fn control_handoff(&self) -> Option<&'static ControlHandoff<Self::Keep, Self::Order>> {
        None
    }
    /// Does this image log?
    fn logs(&self) -> bool {
        false
    }
    /// Does something else than the dispatcher step `alive` (abi §3.3)? Where nothing does, the dispatcher steps it when it
    /// finds no work, and its host goes by `progress` otherwise.
    fn has_heartbeat(&self) -> bool {
        false
    }
    /// Where this image's logs go from now on: the LOG section of the host that was accepted, or `None` when it leaves. A board that
    /// logs nowhere ignores it.
    fn logs_to(&mut self, _section: Option<Window<Self::Keep>>) {}
    /// Notifies the host.
    fn notify(&mut self) {}
    /// Can the host ring this board, and is [`Self::sleep`] ended by it? Without, [`Self::idle`] is all the rest there is.
    fn doorbell(&self) -> bool {
        false
    }
    /// Sleeps until the host notifies, at most so many microseconds ([`hamr_comm::abi::preamble::FOR_EVER`]: no limit). A ring that
    /// came since the last sleep ends it at once. Returning early is always right.
    fn sleep(&mut self, _micros: u32) {}
    /// Microseconds of any clock that never goes back. Asked for only where there is a [`Self::doorbell`].
    fn micros(&mut self) -> u64 {
        0
    }
    /// Reads from the far side of the bus, where there is one: what the host wrote before it could see this board's last store
    /// has arrived by then (abi §7.3, rule 25).
    fn read_back(&mut self) {}
    /// Nothing was there for `rounds` rounds in a row: spin, or sleep a little. Returning early is always right.
    fn idle(&mut self, rounds: u32);
}
