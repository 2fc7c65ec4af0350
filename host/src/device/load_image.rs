//! Another image in the place of the one that a device runs, in a new epoch: a process is started
//! anew, a machine without a system gets the image through the window and goes on (`docs/modules.md`).

use super::attach::pause;
use super::epoch_end::ByFault;
use super::{Device, Fence};
use crate::link::Peer;
use crate::lock::lock_within;
use crate::{Error, ImageFile};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::preamble::{DeviceState, word};
use hamr_comm::handshake::HostHandshake;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two looks at calls in flight.
const PAUSE: Duration = Duration::from_micros(50);
const WHY: &str = "its image is being replaced";

impl Device {
    /// Gives the device another image, which was checked to be of its kind. `hand_over` brings it to a
    /// device that the link cannot start.
    ///
    /// # Errors
    /// [`Error::LoadImage`]; the old image runs, unless the reason says otherwise. The device's loss.
    pub(crate) fn load_image(
        &self,
        next: ImageFile,
        limit: Duration,
        hand_over: impl FnOnce(&ImageFile) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let next = Arc::new(next);
        let refused = |why: String| Error::LoadImage { device: self.name.clone(), path: next.path.clone(), why };
        let lost = |why| Error::Lost { device: self.name.clone(), stage: "loading an image", why };
        let begin = Instant::now();
        let left = || limit.saturating_sub(begin.elapsed());
        let busy = |what: &str| refused(format!("another thread {what} after {limit:?}; load the image again"));
        // A copy of the process may have the lock for good.
        self.check_open("loading an image")?;
        let _one = lock_within(&self.image_load, left()).ok_or_else(|| busy("loads an image"))?;
        self.check_open("loading an image")?;
        self.check_peer();
        if self.is_lost() && !self.restart() {
            return Err(lost(self.loss_reason()));
        }
        let old = self.running().file;
        let old =
            old.ok_or_else(|| refused(format!("a {} link did not load the image that runs", self.link.kind())))?;
        // Its present image changes nothing: asks whether the link can.
        self.link.set_image(&old).map_err(refused)?;
        self.link.check_image(&next).map_err(refused)?;
        let epoch = self.epoch.load(Ordering::Acquire);
        let check_epoch = || {
            if self.epoch.load(Ordering::Acquire) == epoch && !self.is_lost() {
                return Ok(());
            }
            Err(lost(format!("it ended its epoch meanwhile: {}", self.loss_reason())))
        };
        self.await_replies(begin, limit).map_err(refused)?;
        check_epoch()?;
        if next.kind.is_bare() {
            hand_over(&next)?;
        }
        let mut last = lock_within(&self.last_epoch, left()).ok_or_else(|| busy("begins an epoch of the device"))?;
        self.check_peer();
        check_epoch()?;
        tracing::info!(device = self.name, image = %next.path.display(), "loads another image");
        let from = self.leave_image(*last, next.kind.is_bare());
        let given = self.link.set_image(&next).map_err(refused);
        let Err(why) =
            given.and_then(|()| self.begin_epoch(&mut last, from, Some(next.clone()), self.options.start_deadline))
        else {
            return Ok(());
        };
        self.link.stop(self.options.start_deadline);
        self.link.set_image(&old).map_err(refused)?;
        let again = self.begin_epoch(&mut last, ByFault::Crashed, None, self.options.start_deadline);
        Err(refused(match again {
            Ok(()) => format!("it did not start, so the device has its old image again, restarted: {why}"),
            Err(e) => format!("it did not start: {why}; starting the old image again failed: {e}"),
        }))
    }

    /// Waits until no call is in flight, or the device is lost, `limit` behind `begin` at most.
    pub(crate) fn await_replies(&self, begin: Instant, limit: Duration) -> Result<(), String> {
        while let Some(handler) = self.in_flight() {
            self.check_peer();
            if self.is_lost() {
                return Ok(());
            }
            if begin.elapsed() >= limit {
                return Err(format!(
                    "a call of `{handler}` is in flight after {limit:?}; end it, then load the image again"
                ));
            }
            self.reap_unread();
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Ends the epoch of the old image. A device with a `bare` one leaves it, for the next image.
    fn leave_image(&self, epoch: Epoch, bare: bool) -> ByFault {
        self.mark_lost(epoch.0, WHY, None);
        // No other thread starts the device again, as one that stopped by itself.
        self.loss.reason().by_program = true;
        if bare {
            HostHandshake::close(self.link.window());
            self.notify(Fence::Full);
            if self.has_left(epoch) {
                return ByFault::Waits;
            }
        }
        self.link.stop(self.options.start_deadline);
        ByFault::Crashed
    }

    /// Waits until the device acknowledges that the epoch is over; false when it does not.
    fn has_left(&self, epoch: Epoch) -> bool {
        let window = self.link.window();
        let load = |at| window.word(at).map_or(0, |word| word.observe());
        let begin = Instant::now();
        while load(word::DEVICE_STATE) != DeviceState::STOPPED.0 || load(word::EPOCH_ACK) != epoch.0 {
            if self.link.peer() != Peer::Alive || begin.elapsed() > self.options.start_deadline {
                return false;
            }
            pause(self.link.as_ref());
        }
        true
    }
}
