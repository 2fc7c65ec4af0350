//! The state of an image without an operating system beside its device. It is one static, so that
//! everything that interrupts and faults may touch is in one place.
//!
//! Only the window for early faults and the rank are elsewhere, in `crash` and `rank`: `pci`, below
//! this module, stores them.
//!
//! There is one processor, and an interrupt runs to its end. So nothing waits for a lock once the
//! serve loop runs: code uses `try_lock` and goes on without the state if it is taken. No code
//! takes a second lock while it has one.

#![expect(unsafe_code)]
// UNSAFETY: what the board found and what the poller does are in frames, reached through pointers
// (contract "abandoning").

use super::record::Fault;
use crate::arch::BusOrder;
use crate::log::LoggerState;
use crate::pci::Registers;
use crate::runaway::RunawayDetector;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use hamr_comm::abi::preamble::word;
use hamr_comm::abi::window::{DeviceWindow, KeptWord};
use hamr_comm::am::{Activity, ControlHandoff};
use spin::Mutex;

/// The host's doorbell: the card's register, and the window's word with the value to write there.
pub(super) struct HostDoorbell {
    registers: Registers,
    host: KeptWord<()>,
}

impl HostDoorbell {
    /// `None` where the window is too short for a preamble.
    pub(super) fn of(registers: &Registers, window: &DeviceWindow<()>) -> Option<Self> {
        Some(Self { registers: registers.again(), host: window.keep_word(word::HOST_DOORBELL).ok()? })
    }

    /// Notifies the host.
    pub(super) fn notify(&self) {
        self.notify_peer(self.host.word().load());
    }

    /// Notifies the peer that this value belongs to.
    pub(super) fn notify_peer(&self, value: u32) {
        self.registers.again().notify(value);
    }
}

/// What the board found, as far as code that cannot reach the board needs it.
pub(super) struct Found {
    /// Steps of the clock per second, not zero.
    pub(super) hz: u64,
    /// The host's doorbell.
    pub(super) doorbell: Option<HostDoorbell>,
    /// Where `alive` is in the window.
    pub(super) alive: Option<KeptWord<()>>,
    /// The window's word with the value that the host writes to notify this device.
    pub(super) own_doorbell: Option<KeptWord<()>>,
    /// How the board acknowledges notifications.
    pub(super) acknowledge: Option<fn()>,
}

/// The state beside the device; the module's head describes it.
pub(crate) struct Runtime {
    /// Null until the board has started.
    found: AtomicPtr<Found>,
    /// Null while no host is served.
    activity: AtomicPtr<Activity>,
    /// The control stream, while a task runs and the tick serves it.
    pub(super) control: ControlHandoff<(), BusOrder>,
    /// What the ticks have seen, and the time in microseconds by their count.
    pub(super) runaways: Mutex<(RunawayDetector, u64)>,
    /// The call that is in a no-abort section (`no_abort`); zero: none.
    pub(super) marked: AtomicU32,
    /// Not zero: the host has notified. Also stored by x86_64's entry, in assembly.
    pub(crate) notified: AtomicU32,
    /// Whether a fault can be survived (`fault`).
    pub(super) fault_state: AtomicU32,
    /// The fault that ended the serve loop.
    pub(super) last_fault: Mutex<Fault>,
    /// The logger's.
    pub(super) log: Mutex<LoggerState<(), BusOrder>>,
}

/// The only one.
pub(crate) static RUNTIME: Runtime = Runtime {
    found: AtomicPtr::new(null_mut()),
    activity: AtomicPtr::new(null_mut()),
    control: ControlHandoff::new(),
    runaways: Mutex::new((RunawayDetector::new(0), 0)),
    marked: AtomicU32::new(0),
    notified: AtomicU32::new(0),
    fault_state: AtomicU32::new(0),
    last_fault: Mutex::new(Fault::none()),
    log: Mutex::new(LoggerState::new()),
};

impl Runtime {
    /// The board has started.
    ///
    /// # Safety
    /// `found` stays where it is for good, and is only read.
    pub(super) unsafe fn set_found(&self, found: &Found) {
        self.found.store((&raw const *found).cast_mut(), Ordering::Release);
    }

    /// What the board found; `None` before.
    pub(super) fn found(&self) -> Option<&Found> {
        // SAFETY: null, or in place for good and never written (contract of `set_found`).
        unsafe { self.found.load(Ordering::Acquire).as_ref() }
    }

    /// Sets where the poller reports what it is doing; `None` while no host is served. The activity
    /// stays there until the next call of this function.
    pub(super) fn set_activity(&self, activity: Option<&Activity>) {
        let activity = activity.map_or(null_mut(), |activity| (&raw const *activity).cast_mut());
        self.activity.store(activity, Ordering::Release);
    }

    /// What the poller is doing.
    pub(super) fn activity(&self) -> Option<&Activity> {
        // SAFETY: null, or in the device, which is in the frame of `main` for good. Code that comes
        // here was called by the poller or has interrupted it, so the device does not move now.
        unsafe { self.activity.load(Ordering::Acquire).as_ref() }
    }

    /// The number of the call that runs, for code that it has called or interrupted.
    pub(super) fn running(&self) -> Option<u32> {
        self.activity().and_then(Activity::running)
    }

    /// Notifies the host, where it has a doorbell.
    pub(super) fn notify(&self) {
        if let Some(doorbell) = self.found().and_then(|found| found.doorbell.as_ref()) {
            doorbell.notify();
        }
    }
}
