//! How a life of a device ends: who notices, what the device says of it, what is kept of it.

use super::past::lines;
use super::{DEAD, Inner};
use crate::CrashReport;
use hamr_comm::abi::preamble::{DeviceState, HostState, word};
use hamr_comm::abi::rings::CrashRecord;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::ReqHdr;
use hamr_comm::link::Peer;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a crashed device may take to end, or to say that it waits.
const SETTLED: Duration = Duration::from_secs(2);
/// The time between two looks counts as no more: this machine may have had no time for the device either. Whoever sleeps beside a
/// device that settles looks again after so much.
pub(crate) const STEP: Duration = Duration::from_millis(50);

/// How a life ended.
#[derive(Default)]
pub(super) struct Death {
    pub(super) why: String,
    /// The device ended it by itself, after a fault; the next call may start another life.
    pub(super) by_fault: Option<ByFault>,
}

/// What is left of a device whose life ended by a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ByFault {
    /// It runs, and waits for an offer.
    Waits,
    /// It has to be started anew.
    Crashed,
}

/// Since when a device that says that it crashed has been seen to go on.
#[derive(Default)]
pub(super) struct Settling {
    /// The life that crashed.
    life: u32,
    looked: Option<Instant>,
    passed: Duration,
}

impl Inner {
    /// Has its present life ended, or was there none?
    pub(crate) fn is_dead(&self) -> bool {
        self.life.load(Ordering::Acquire) == DEAD
    }

    pub(crate) fn why_dead(&self) -> String {
        self.why_dead.lock().unwrap_or_else(PoisonError::into_inner).why.clone()
    }

    /// Asks the link whether the device is there, and takes note.
    pub(crate) fn look_at_peer(&self) {
        // Loaded first: by the time the link answers, somebody may have restarted the device.
        let life = self.life.load(Ordering::Acquire);
        if life == DEAD {
            return;
        }
        // In this order: a process that has ended has said why before.
        let peer = self.link.peer();
        let by_fault = self.end_by_fault(life);
        match peer {
            Peer::Gone(why) if by_fault.is_none() => self.bury(life, &why, None),
            Peer::Alive if by_fault == Some(ByFault::Crashed) && !self.has_settled(life) => {}
            _ => self.bury_by_fault(life),
        }
    }

    /// An answer said that its handler was ended: perhaps the device did not survive that. Then the next call finds out before it
    /// is sent.
    #[cold]
    pub(crate) fn look_behind_fault(&self) {
        let life = self.life.load(Ordering::Acquire);
        if life != DEAD {
            self.bury_by_fault(life);
        }
    }

    /// Ends the life `life` if the device says that it did so itself.
    fn bury_by_fault(&self, life: u32) {
        if let Some(by_fault) = self.end_by_fault(life) {
            let text = self.keep_crash(life).map_or_else(|| "without a crash record".into(), |crash| crash.text);
            self.bury(life, &format!("it ended by a fault: {text}"), Some(by_fault));
        }
    }

    /// For whoever is about to sleep in the life `life`: a device that ended it by itself may have told of that before anybody slept,
    /// and tells once. True when that is so; its end is believed by now, and wakes sleepers, or is to be looked at again [`STEP`]
    /// later.
    pub(crate) fn is_ending(&self, life: u32) -> bool {
        let is_ending = self.end_by_fault(life).is_some();
        if is_ending {
            self.look_at_peer();
        }
        is_ending
    }

    /// What the device says of its own end, if it has ended the life `life` by itself.
    pub(super) fn end_by_fault(&self, life: u32) -> Option<ByFault> {
        let window = self.link.window();
        let observe = |at| window.word(at).map_or(0, |word| word.observe());
        let by_fault = match DeviceState(observe(word::DEVICE_STATE)) {
            DeviceState::CRASHED => ByFault::Crashed,
            // It left because this host asked it to: a link does so on its own when the system takes the function back.
            DeviceState::STOPPED if HostState(observe(word::HOST_STATE)) == HostState::CLOSING => return None,
            DeviceState::STOPPED => ByFault::Waits,
            _ => return None,
        };
        (observe(word::EPOCH_ACK) == life).then_some(by_fault)
    }

    /// Reads the crash record of the life `life`, if there is one, and keeps it: the next epoch wipes the window.
    pub(super) fn keep_crash(&self, life: u32) -> Option<CrashReport> {
        let section = self.layout.section(SectionKind::CRASH).ok()?;
        let record: CrashRecord = self.link.window().read(section.off).ok()?;
        if life == DEAD || record.valid != CrashRecord::VALID || record.epoch != life {
            return None;
        }
        let report = CrashReport::read(&record, self.symbols());
        *self.last_crash.lock().unwrap_or_else(PoisonError::into_inner) = Some(report.clone());
        Some(report)
    }

    /// A device says that it crashed before it answers the call that did it. That answer still counts, so its end is believed a
    /// moment later, when it has not come to an end before.
    pub(super) fn has_settled(&self, life: u32) -> bool {
        let mut settling = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if settling.life != life {
            *settling = Settling { life, ..Settling::default() };
        }
        let since = settling.looked.replace(now).map_or(Duration::ZERO, |looked| now - looked);
        settling.passed += since.min(STEP);
        settling.passed >= SETTLED
    }

    /// Ends the life `life`, unless it has ended or another one has begun.
    fn bury(&self, life: u32, why: &str, by_fault: Option<ByFault>) {
        let mut kept = self.why_dead.lock().unwrap_or_else(PoisonError::into_inner);
        self.keep_crash(life);
        let ended = self.life.compare_exchange(life, DEAD, Ordering::AcqRel, Ordering::Acquire);
        if life != DEAD && ended.is_ok() {
            *kept = Death { why: why.into(), by_fault };
            // Nobody rings for an answer that does not come any more. All who sleep have a turn.
            self.link.wake();
        }
    }

    /// [`Self::stop`], also of a life that another thread is beginning: behind it there is none.
    pub(super) fn stop_for_good(&self, why: &str) {
        let no_other = self.last_epoch.try_lock();
        if no_other.is_err() {
            // What there is of it is ended at once: a life that does not begin is not waited for.
            self.stop(why);
        }
        let _no_other = no_other.unwrap_or_else(|_| self.last_epoch.lock().unwrap_or_else(PoisonError::into_inner));
        self.stop(why);
    }

    /// Ends the life that there is. Another thread may be about to begin one, unless the caller holds `last_epoch`.
    pub(super) fn stop(&self, why: &str) {
        // If it died by itself, that is the better reason.
        self.look_at_peer();
        let life = self.life.load(Ordering::Acquire);
        self.bury(life, why, None);
        // Whoever stops a device wants it stopped.
        self.why_dead.lock().unwrap_or_else(PoisonError::into_inner).by_fault = None;
        if self.link.outlives_host() {
            // What it answers from here on, it answers because it is told to leave.
            if life != DEAD {
                self.keep_answers(life);
            }
            self.cancel_all();
        }
        self.link.stop();
    }

    /// Cancels whatever is in flight, for a device that finishes its call before it leaves. Lines without a call do not
    /// mind: the next epoch clears them.
    fn cancel_all(&self) {
        let window = self.link.window();
        for index in 0..self.layout.queues() {
            for line in self.queue_in(window, index).iter().flat_map(lines) {
                line.set_req_hdr(line.req_hdr() | ReqHdr::CANCEL);
            }
        }
    }
}
