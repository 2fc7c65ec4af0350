//! The next epoch of a device: after a fault, or when the program asks for one.

use super::attach::{pause, shake_hands};
use super::epoch_end::ByFault;
use super::{Device, EpochInfo, NO_EPOCH, Running};
use crate::link::Peer;
use crate::lock::lock_within;
use crate::{BuildId, Error, ImageFile};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::preamble::{feature, word};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at a device that may be back.
const LOOK: Duration = Duration::from_millis(5);

impl Device {
    /// Begins another epoch of a device that ended its last by a fault
    /// ([`crate::Options::restart`]). True when the device has an epoch now.
    #[cold]
    pub(crate) fn restart(&self) -> bool {
        self.restart_within(self.options.start_deadline)
    }

    /// [`Self::restart`], until then at most.
    #[cold]
    pub(crate) fn restart_until(&self, until: Option<Instant>) -> bool {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let limit = self.options.start_deadline;
        self.restart_within(left.map_or(limit, |left| left.min(limit)))
    }

    /// [`Self::restart`] of a caller who waits so long for other threads and programs.
    fn restart_within(&self, limit: Duration) -> bool {
        if !self.options.restart || self.is_closed() {
            return false;
        }
        let begin = Instant::now();
        let Some(mut last) = self.last_epoch_within(limit) else { return false };
        if self.epoch.load(Ordering::Acquire) != NO_EPOCH {
            return true;
        }
        // Taken: an epoch that cannot begin is not tried again.
        let by_fault = self.loss.reason().by_fault.take();
        let Some(by_fault) = by_fault else { return false };
        let left = || limit.saturating_sub(begin.elapsed());
        let from = self.await_crash_end(by_fault, *last, left());
        let stopped = from.filter(|from| {
            if *from == ByFault::Crashed && !left().is_zero() {
                self.link.stop(left());
            }
            !left().is_zero()
        });
        let begun = stopped.map(|from| {
            tracing::warn!(device = self.name, why = self.loss_reason(), "begins a new epoch");
            self.begin_epoch(&mut last, from, None, left())
        });
        if let Some(Ok(())) = begun {
            return true;
        }
        let mut loss = self.loss.reason();
        if begun.is_none() || limit < self.options.start_deadline && left().is_zero() {
            // It had less time than devices have to end and start: one with more time tries again.
            loss.by_fault = Some(by_fault).filter(|_| !loss.by_program);
        } else if let Some(Err(e)) = begun {
            loss.why = format!("{}; starting it anew failed: {e}", loss.why);
        }
        false
    }

    /// Ends the epoch that there is, and begins another.
    pub(crate) fn restart_on_request(&self) -> Result<(), Error> {
        // Locked to the end: one restart at a time. The count is the host's own; the word in the
        // window is only a copy for the device.
        self.check_open("being restarted")?;
        let mut last = self.last_epoch.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop("being restarted");
        let begun = self.begin_epoch(&mut last, ByFault::Crashed, None, self.options.start_deadline);
        // What is not there may come back, such as a server.
        begun.inspect_err(|_| self.loss.reason().by_program = false)
    }

    /// The lock of the last epoch, which another thread has while it begins one.
    fn last_epoch_within(&self, limit: Duration) -> Option<MutexGuard<'_, Epoch>> {
        lock_within(&self.last_epoch, limit)
    }

    /// Waits until the device has an epoch: another thread began one, or the device is there again
    /// and this thread begins one.
    pub(crate) fn wait_until_back(&self, limit: Duration) -> Result<(), Error> {
        let begin = Instant::now();
        loop {
            self.check_open("waiting until it is back")?;
            self.check_peer();
            let left = || limit.saturating_sub(begin.elapsed());
            if !self.is_lost() || self.restart_within(left()) {
                return Ok(());
            }
            let may_be_back = !self.loss.reason().by_program;
            if may_be_back && let Some(last) = self.last_epoch_within(left()) {
                // A device that is back may have other memory.
                self.take_snapshot(last.0);
            }
            let is_back = if may_be_back { self.link.is_back(left()) } else { Err(None) };
            let tried = is_back.is_ok().then(|| self.begin_again(left()));
            if let Some(Ok(())) = tried {
                return Ok(());
            }
            if begin.elapsed() >= limit {
                let lost = self.loss_reason();
                let why = match (tried, is_back) {
                    (Some(Err(e)), _) => format!("{lost}; it is back, and beginning an epoch failed: {e}"),
                    (_, Err(Some(why))) => format!("{lost}; it is not back within {limit:?}: {why}"),
                    _ => format!("{lost}; it is not back within {limit:?}"),
                };
                return Err(Error::Lost { device: self.name.clone(), stage: "waiting until it is back", why });
            }
            std::thread::sleep(LOOK.min(limit));
        }
    }

    /// Begins an epoch of a device that came back by itself, unless another thread has.
    fn begin_again(&self, limit: Duration) -> Result<(), Error> {
        let begin = Instant::now();
        let stage = "beginning its epoch";
        let late = || Error::Timeout { device: self.name.clone(), stage, after: limit };
        let mut last = self.last_epoch_within(limit).ok_or_else(late)?;
        self.check_open("waiting until it is back")?;
        if !self.is_lost() {
            return Ok(());
        }
        self.begin_epoch(&mut last, ByFault::Crashed, None, limit.saturating_sub(begin.elapsed()))
    }

    /// A device publishes its crash before the reply to the call that crashed it. A device that
    /// then waits for an offer publishes that soon after. `None`: not within `limit`.
    fn await_crash_end(&self, from: ByFault, epoch: Epoch, limit: Duration) -> Option<ByFault> {
        let begin = Instant::now();
        loop {
            if self.link.peer() != Peer::Alive {
                return Some(ByFault::Crashed);
            }
            // In this order: the device is checked once more after the end of its grace period.
            let is_over = self.grace_period_is_over(epoch.0);
            match self.end_by_fault(epoch.0) {
                Some(ByFault::Crashed) if !is_over && begin.elapsed() >= limit => return None,
                Some(ByFault::Crashed) if !is_over => pause(self.link.as_ref()),
                now => return Some(now.unwrap_or(from)),
            }
        }
    }

    /// Begins a new epoch of a device that is stopped, or waits: with the image that it had, or with
    /// `next`, which it has by now: within `limit`.
    pub(super) fn begin_epoch(
        &self,
        last: &mut Epoch,
        from: ByFault,
        next: Option<Arc<ImageFile>>,
        limit: Duration,
    ) -> Result<(), Error> {
        let late = || Error::Timeout { device: self.name.clone(), stage: "ending its adapter", after: limit };
        let limit = self.side.close(limit).ok_or_else(late)?;
        // A body of the last epoch may run on; it writes nothing into the next.
        self.service.leave();
        self.take_snapshot(last.0);
        // Tags of epochs come again.
        self.tickets.clear();
        let old = self.running();
        let image = next.clone().or_else(|| old.file.clone());
        #[cfg(feature = "device-logs")]
        self.keep_log_backlog(image.clone(), last.0);
        // A thread that reads something of the window that is wiped from here on sees behind it
        // that the epoch is over.
        fence(Ordering::Release);
        let mut epoch = last.next();
        *last = epoch;
        let begin = Instant::now();
        if from == ByFault::Crashed {
            self.link.restart(limit).map_err(|why| Error::Launch { device: self.name.clone(), why })?;
            // Other hosts may have had the device since, up to this very epoch, which it has left by now.
            if self.link.window().word(word::EPOCH).is_ok_and(|word| word.observe() == epoch.0) {
                epoch = epoch.next();
                *last = epoch;
            }
        }
        self.link.if_memory_is_other(&|| self.memory.lose());
        let limit = limit.saturating_sub(begin.elapsed());
        let served =
            shake_hands(&self.name, self.id, self.link.as_ref(), &self.options, epoch, image.as_deref(), limit);
        let (record, handlers) = served.inspect_err(|_| {
            self.keep_crash(epoch.0);
        })?;
        let running = match next {
            Some(file) if file.build_id != BuildId::of(&record.build_id) => {
                self.link.stop(limit);
                let (path, runs) = (file.path.display(), BuildId::of(&record.build_id));
                let why = format!("expected {path} with build id {}, and an image with {runs} runs", file.build_id);
                return Err(Error::Launch { device: self.name.clone(), why });
            }
            Some(file) => Running::new(Some(file), handlers, old.number + 1),
            None if *handlers == *old.handlers => old,
            None => {
                self.link.stop(limit);
                let why = "it came back with other handlers; open it anew".into();
                return Err(Error::Launch { device: self.name.clone(), why });
            }
        };
        let epoch_info = EpochInfo::new(record, begin.elapsed(), running);
        *self.epoch_info.lock().unwrap_or_else(PoisonError::into_inner) = epoch_info;
        self.start_service().inspect_err(|_| self.link.stop(limit))?;
        self.show_open_queues();
        self.wait_queue.enter(record.features & feature::DOORBELL != 0);
        self.epoch.store(epoch.0, Ordering::Release);
        self.enter_service(epoch);
        Ok(())
    }

    /// Before [`Self::enter_service`]: threads serve what the device calls.
    pub(super) fn start_service(&self) -> Result<(), Error> {
        if self.accepted(feature::HOST_CALLS) { self.service.start(&self.this) } else { Ok(()) }
    }

    /// The device serves in `epoch`, and may call.
    pub(super) fn enter_service(&self, epoch: Epoch) {
        if self.accepted(feature::HOST_CALLS) {
            self.service.enter(epoch);
        }
    }
}
