//! The state of a hosted image beside its device. It is one static, as on bare metal
//! (`bare/runtime.rs`), so that everything that handlers of signals, the second thread and drivers
//! may touch is in one place.
//!
//! Handlers of signals use the atomics alone. The locks are for threads: no code takes a second one
//! while it has one, and no code waits for anything while it has one.
//!
//! Elsewhere are only what the linker defines (`trace`), and the variable of each thread whose
//! address tells the writers of logs apart (`logging`).

use super::doorbells::ProcessDoorbells;
use super::map::Mapping;
use super::{HostedDriving, Process};
use crate::Device;
#[cfg(hamr_image)]
use crate::log::LoggerState;
use crate::rank::Rank;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use hamr_comm::am::{Activity, ControlHandoff};
use hamr_comm::fault::Trace;
use rustix::fd::OwnedFd;
use std::string::String;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::Instant;
use std::vec::Vec;

/// The state beside the device; the module's head describes it.
pub(super) struct Runtime {
    /// The device that a handler of a signal completes calls with; null before it serves.
    pub(super) device: AtomicPtr<Device<'static, Process>>,
    /// Where the poller reports what it is doing; null while no host is served.
    pub(super) activity: AtomicPtr<Activity>,
    /// The thread that handlers run in.
    pub(super) dispatcher: AtomicU32,
    /// The number of the call that is over its time.
    pub(super) overdue_serial: AtomicU32,
    /// What it was allowed.
    pub(super) limit_us: AtomicU64,
    /// A trap is being handled: another one is the handling's own.
    pub(super) handling: AtomicU32,
    /// The control stream, while a task runs and the second thread serves it.
    pub(super) control: ControlHandoff<Arc<Mapping>>,
    /// The doorbells, if the host sent any.
    pub(super) doorbells: OnceLock<ProcessDoorbells>,
    /// What it notifies the program by that serves a section beside the host.
    pub(super) side_doorbell: OnceLock<OwnedFd>,
    /// Of a rank: what it notifies the ranks by, in their order.
    pub(super) rank_doorbells: OnceLock<Vec<OwnedFd>>,
    /// The file in which the launcher says which processes the ranks are.
    pub(super) processes: OnceLock<OwnedFd>,
    /// The rank that this image is, if it is one.
    pub(super) rank: OnceLock<Rank>,
    /// What carries, where it drives its host's memory.
    pub(super) driving: OnceLock<HostedDriving>,
    /// When the image's clock begins: at its first use.
    pub(super) begin: LazyLock<Instant>,
    /// The message of the last panic, and where it was.
    pub(super) last_panic: Mutex<(String, Trace)>,
    /// The logger's.
    #[cfg(hamr_image)]
    pub(super) log: spin::Mutex<LoggerState<Arc<Mapping>, hamr_comm::abi::sync::Coherent>>,
}

/// The only one.
pub(super) static RUNTIME: Runtime = Runtime {
    device: AtomicPtr::new(null_mut()),
    activity: AtomicPtr::new(null_mut()),
    dispatcher: AtomicU32::new(0),
    overdue_serial: AtomicU32::new(0),
    limit_us: AtomicU64::new(0),
    handling: AtomicU32::new(0),
    control: ControlHandoff::new(),
    doorbells: OnceLock::new(),
    side_doorbell: OnceLock::new(),
    rank_doorbells: OnceLock::new(),
    processes: OnceLock::new(),
    rank: OnceLock::new(),
    driving: OnceLock::new(),
    begin: LazyLock::new(Instant::now),
    last_panic: Mutex::new((String::new(), Trace::NONE)),
    #[cfg(hamr_image)]
    log: spin::Mutex::new(LoggerState::new()),
};

impl Runtime {
    /// Microseconds of the image's clock.
    pub(super) fn micros(&self) -> u64 {
        self.begin.elapsed().as_micros() as u64
    }

    /// Notifies the host, where it has a doorbell.
    pub(super) fn notify(&self) {
        if let Some(doorbells) = self.doorbells.get() {
            doorbells.notify();
        }
    }
}
