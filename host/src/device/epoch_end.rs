//! How an epoch of a device ends: how the host notices, what the device reports, what is kept.

use super::snapshots::youngest_first;
use super::{Device, NO_EPOCH};
use crate::CrashReport;
use crate::link::Peer;
use hamr_comm::abi::preamble::{DeviceState, HostState, word};
use hamr_comm::abi::rings::CrashRecord;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::ReqHdr;
use hamr_comm::am::SlotAccess;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a crashed device may take to end, or to publish that it waits.
const CRASH_GRACE_PERIOD: Duration = Duration::from_secs(2);
/// The time between two checks counts as no more: this machine may have had no time for the device
/// either. A thread that sleeps during a grace period checks again after so much.
pub(crate) const GRACE_STEP: Duration = Duration::from_millis(50);

/// What is known of the end of the last epoch.
#[derive(Default)]
pub(super) struct Loss {
    reason: Mutex<LossReason>,
    /// Of the last epoch that ended by a fault.
    crash: Mutex<Option<CrashReport>>,
    grace_period: Mutex<GracePeriod>,
}

/// How an epoch ended.
#[derive(Default)]
pub(super) struct LossReason {
    pub(super) why: String,
    /// The device ended it by itself, after a fault; the next call may start another epoch.
    pub(super) by_fault: Option<ByFault>,
    /// This program ended it.
    pub(super) by_program: bool,
}

impl Loss {
    pub(super) fn reason(&self) -> MutexGuard<'_, LossReason> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is left of a device whose epoch ended by a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ByFault {
    /// It runs, and waits for an offer.
    Waits,
    /// It has to be restarted.
    Crashed,
}

/// How long a device that published a crash has been seen to exist since.
#[derive(Default)]
pub(super) struct GracePeriod {
    /// The epoch that crashed.
    epoch: u32,
    looked: Option<Instant>,
    passed: Duration,
}

impl Device {
    /// Has its present epoch ended, or was there none?
    pub(crate) fn is_lost(&self) -> bool {
        self.epoch.load(Ordering::Acquire) == NO_EPOCH
    }

    pub(crate) fn loss_reason(&self) -> String {
        if self.is_here() { self.loss.reason().why.clone() } else { self.why_closed().into() }
    }

    /// Asks the link whether the device is there, and takes note.
    pub(crate) fn check_peer(&self) {
        // Loaded first: before the link returns, another thread may have restarted the device.
        let epoch = self.epoch.load(Ordering::Acquire);
        if epoch == NO_EPOCH {
            return;
        }
        // In this order: a process that has ended published its reason before.
        let peer = self.link.peer();
        let by_fault = self.end_by_fault(epoch);
        match peer {
            Peer::Gone(why) if by_fault.is_none() => self.mark_lost(epoch, &why, None),
            Peer::Alive if by_fault == Some(ByFault::Crashed) && !self.grace_period_is_over(epoch) => {}
            _ => self.mark_lost_by_fault(epoch),
        }
    }

    /// A reply reported that its handler was ended, and the device may have ended with it. This
    /// check finds that out before the next call is sent.
    #[cold]
    pub(crate) fn check_after_fault(&self) {
        let epoch = self.epoch.load(Ordering::Acquire);
        if epoch != NO_EPOCH {
            self.mark_lost_by_fault(epoch);
        }
    }

    /// Ends the epoch `epoch` if the device published that it ended it by itself.
    fn mark_lost_by_fault(&self, epoch: u32) {
        if let Some(by_fault) = self.end_by_fault(epoch) {
            let text = self.keep_crash(epoch).map_or_else(|| "without a crash record".into(), |crash| crash.text);
            self.mark_lost(epoch, &format!("it ended by a fault: {text}"), Some(by_fault));
        }
    }

    /// For a thread that is about to sleep in the epoch `epoch`: a device that ended it by itself
    /// notifies once, perhaps before any thread slept. True when the device did so. Then the epoch
    /// is lost by now, which wakes waiters, or is to be checked again [`GRACE_STEP`] later.
    pub(crate) fn is_ending(&self, epoch: u32) -> bool {
        let is_ending = self.end_by_fault(epoch).is_some();
        if is_ending {
            self.check_peer();
        }
        is_ending
    }

    /// What the device published of its own end, if it has ended the epoch `epoch` by itself.
    pub(super) fn end_by_fault(&self, epoch: u32) -> Option<ByFault> {
        let window = self.link.window();
        let observe = |at| window.word(at).map_or(0, |word| word.observe());
        let by_fault = match DeviceState(observe(word::DEVICE_STATE)) {
            DeviceState::CRASHED => ByFault::Crashed,
            // It left because this host asked it to: a link does so on its own when the system
            // takes the function back.
            DeviceState::STOPPED if HostState(observe(word::HOST_STATE)) == HostState::CLOSING => return None,
            DeviceState::STOPPED => ByFault::Waits,
            _ => return None,
        };
        (observe(word::EPOCH_ACK) == epoch).then_some(by_fault)
    }

    /// Reads the crash record of the epoch `epoch`, if there is one, and keeps it: the next epoch
    /// wipes the window.
    pub(super) fn keep_crash(&self, epoch: u32) -> Option<CrashReport> {
        let section = self.layout.section(SectionKind::CRASH).ok()?;
        let record: CrashRecord = self.link.window().read(section.off).ok()?;
        if epoch == NO_EPOCH || record.valid != CrashRecord::VALID || record.epoch != epoch {
            return None;
        }
        let report = CrashReport::read(&record, self.symbols());
        *self.loss.crash.lock().unwrap_or_else(PoisonError::into_inner) = Some(report.clone());
        Some(report)
    }

    /// What the device wrote before its last epoch that ended by a fault did so.
    pub(crate) fn last_crash(&self) -> Option<CrashReport> {
        self.keep_crash(self.epoch.load(Ordering::Acquire));
        self.loss.crash.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A device publishes its crash before the reply to the call that crashed it. That reply still
    /// counts, so the host waits a moment, unless the device ends before.
    pub(super) fn grace_period_is_over(&self, epoch: u32) -> bool {
        let mut grace_period = self.loss.grace_period.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if grace_period.epoch != epoch {
            *grace_period = GracePeriod { epoch, ..GracePeriod::default() };
        }
        let since = grace_period.looked.replace(now).map_or(Duration::ZERO, |looked| now - looked);
        grace_period.passed += since.min(GRACE_STEP);
        grace_period.passed >= CRASH_GRACE_PERIOD
    }

    /// Ends the epoch `epoch`, unless it has ended or another one has begun.
    pub(super) fn mark_lost(&self, epoch: u32, why: &str, by_fault: Option<ByFault>) {
        let mut kept = self.loss.reason();
        self.keep_crash(epoch);
        let ended = self.epoch.compare_exchange(epoch, NO_EPOCH, Ordering::AcqRel, Ordering::Acquire);
        if epoch != NO_EPOCH && ended.is_ok() {
            *kept = LossReason { why: why.into(), by_fault, by_program: false };
            // No doorbell comes for a reply that does not come any more: all waiters check again.
            self.link.wake();
        }
    }

    /// Ends the present epoch for this program: the device is about to be ended.
    pub(crate) fn give_up(&self, why: &str) {
        // If the device ended by itself, its own reason is the better one.
        self.check_peer();
        self.mark_lost(self.epoch.load(Ordering::Acquire), why, None);
    }

    /// [`Self::stop`], also of an epoch that another thread is beginning: behind it there is none.
    pub(crate) fn stop_finally(&self, why: &str) {
        if !self.is_here() {
            return;
        }
        let no_other = self.last_epoch.try_lock();
        if no_other.is_err() {
            // What there is of it is ended at once: an epoch that does not begin is not waited for.
            self.stop(why);
        }
        let _no_other = no_other.unwrap_or_else(|_| self.last_epoch.lock().unwrap_or_else(PoisonError::into_inner));
        self.stop(why);
    }

    /// Ends the present epoch. Another thread may be about to begin one, unless the caller has
    /// locked `last_epoch`.
    pub(super) fn stop(&self, why: &str) {
        // If the device ended by itself, its own reason is the better one.
        self.check_peer();
        let epoch = self.epoch.load(Ordering::Acquire);
        self.mark_lost(epoch, why, None);
        // A device that the program stops is not to be restarted by the next call, or by a thread
        // that waits until it is back.
        let mut reason = self.loss.reason();
        (reason.by_fault, reason.by_program) = (None, true);
        drop(reason);
        if self.link.outlives_host() {
            // From here on the device replies only because it is asked to leave.
            if epoch != NO_EPOCH {
                self.take_snapshot(epoch);
            }
            self.cancel_all();
        }
        self.link.stop(Duration::MAX);
    }

    /// Cancels whatever is in flight, for a device that finishes its call before it leaves. The
    /// flag does no harm in slots without a call: the next epoch clears them. A request that
    /// another thread publishes at this moment may be withdrawn: it ends with the epoch.
    ///
    /// The youngest first: a call that runs ends as soon as it sees its own, and what is behind it in its queue
    /// would run for as long as this thread took to mark that, too.
    fn cancel_all(&self) {
        let window = self.link.window();
        for index in 0..self.layout.queues() {
            for slot in self.queue_in(window, index).iter().flat_map(youngest_first) {
                slot.set_req_hdr(slot.req_hdr() | ReqHdr::CANCEL);
            }
        }
    }
}
