//! The device's end: its window, doorbells and process, as its link has them.

use super::carry::{Descriptor, FarSide, PAUSE};
use crate::link::{Link, Peer};
use hamr_comm::abi::window::{OutOfWindow, Shared};
use hamr_comm::mirror::{Body, DeviceCopy, DeviceSide, DrivenCopy, DrivenMemory, Lost, Message, Side};
use rustix::event::PollFlags;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// A device of this program, for a host elsewhere. Nobody else is its host.
pub struct Served<C = DeviceCopy<Shared>> {
    link: Arc<dyn Link>,
    copy: C,
    /// Empty: the device notifies nobody.
    descriptors: Vec<Arc<OwnedFd>>,
    /// The device runs in its host's waits.
    runs_in_waits: bool,
    /// How its process has ended; and the host was told.
    end: Option<(String, bool)>,
    /// What the host is to be told of a new start.
    renewed: Option<Result<(), String>>,
    /// How long a start may take.
    limit: Duration,
    /// The host has offered an epoch since the device was started last.
    was_offered: bool,
    /// Has the host gone? Then nothing that it asked for is begun any more.
    has_gone: Box<dyn Fn() -> bool + Send>,
}

impl Served {
    /// At the other end of `link`. A new start may take `limit`.
    ///
    /// # Errors
    /// The window has no beginning.
    pub fn new(link: Arc<dyn Link>, limit: Duration) -> Result<Self, OutOfWindow> {
        let window = link.window();
        let mut copy = DeviceCopy::new(window.part(0, window.len())?);
        if link.capabilities().doorbell {
            let device = link.clone();
            copy = copy.with_doorbell(Box::new(move || device.notify()), link.doorbell());
        }
        let descriptors = link.descriptors();
        Ok(Self::of(link, copy, descriptors, limit))
    }
}

impl<M: DrivenMemory> Served<DrivenCopy<M>> {
    /// The same by reads and writes of `memory`, in which the device has a window of `len` bytes: nobody notifies.
    ///
    /// # Errors
    /// It is not reached.
    pub fn driven(link: Arc<dyn Link>, memory: M, len: u64, limit: Duration) -> Result<Self, Lost> {
        let copy = DrivenCopy::new(memory, len)?;
        Ok(Self::of(link, copy, Vec::new(), limit))
    }
}

impl<C: DeviceSide> Served<C> {
    fn of(link: Arc<dyn Link>, copy: C, descriptors: Vec<Arc<OwnedFd>>, limit: Duration) -> Self {
        let (end, renewed, was_offered, has_gone) = (None, None, false, Box::new(|| false));
        let runs_in_waits = link.descriptors().is_empty();
        Self { link, copy, descriptors, runs_in_waits, end, renewed, limit, was_offered, has_gone }
    }

    /// For a host of which this says that it has gone.
    #[must_use]
    pub fn until(mut self, has_gone: impl Fn() -> bool + Send + 'static) -> Self {
        self.has_gone = Box::new(has_gone);
        self
    }

    /// Has the process ended? What it had published is carried first.
    fn look_at_process(&mut self) {
        if self.end.is_none()
            && let Peer::Gone(why) = self.link.peer()
        {
            self.end = Some((why, false));
            self.copy.look_now();
        }
    }
}

impl<C: DeviceSide> Side for Served<C> {
    fn take(&mut self, message: &mut Message) -> Result<bool, Lost> {
        if let Some(outcome) = self.renewed.take() {
            message.body = Body::Renewed(outcome.is_ok());
            message.bytes.clear();
            message.bytes.extend(outcome.err().unwrap_or_default().bytes());
            return Ok(true);
        }
        if self.copy.take(message)? {
            return Ok(true);
        }
        if self.runs_in_waits {
            self.link.wait(0);
            if self.copy.take(message)? {
                return Ok(true);
            }
        }
        if let Some((why, is_told @ false)) = &mut self.end {
            *is_told = true;
            message.body = Body::Ended;
            message.bytes.clear();
            message.bytes.extend(why.bytes());
            return Ok(true);
        }
        Ok(false)
    }

    fn put(&mut self, message: &Message) -> Result<(), Lost> {
        self.was_offered |= matches!(message.body, Body::Offer);
        if let Body::Renew = message.body {
            if (self.has_gone)() {
                return Err(Lost("it has gone".into()));
            }
            self.look_at_process();
            if !std::mem::take(&mut self.was_offered) && self.end.is_none() {
                return Err(Lost("expected an epoch between two starts, got none".into()));
            }
            self.link.stop(self.limit);
            let outcome = self.link.restart(self.limit);
            if outcome.is_ok() {
                self.copy.renew();
                self.end = None;
                if !self.descriptors.is_empty() {
                    self.descriptors = self.link.descriptors();
                }
            }
            self.renewed = Some(outcome);
            return Ok(());
        }
        self.copy.put(message)
    }

    fn flush(&mut self) -> Result<(), Lost> {
        self.copy.flush()
    }

    fn prepare_wait(&mut self) -> bool {
        let is_notified = self.copy.prepare_wait();
        self.look_at_process();
        is_notified && !self.descriptors.is_empty() || self.end.is_some()
    }

    fn cancel_wait(&mut self) {
        self.copy.cancel_wait();
    }
}

impl<C: DeviceSide + Send> FarSide for Served<C> {
    const BLOCKS: bool = C::BLOCKS;

    fn descriptors(&self) -> Vec<Descriptor> {
        // The descriptor of a process that has ended is ready for good.
        let alive = self.descriptors.iter().filter(|_| self.end.is_none());
        alive.map(|fd| (fd.clone(), PollFlags::IN)).collect()
    }

    fn is_asked(&self) -> bool {
        self.copy.pause().is_some()
    }

    fn pause(&self) -> Duration {
        self.copy.pause().unwrap_or(PAUSE)
    }

    fn woken(&mut self) {
        // Takes the notification.
        self.link.wait(1);
    }
}
