//! The control stream: calls of the library itself.

use super::Node;
use crate::device::Device;
use crate::stream::{Submitter, fresh_submitter, in_use, sync_with};
use crate::{CallError, SubmitError};
use hamr_comm::{Call, ErrorOf, Handler, ValueOf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

/// The submitter of the control stream, which one thread after the other takes out: its lock is free while that
/// thread waits for the reply.
#[derive(Default)]
pub(super) struct Control {
    state: Mutex<State>,
    put_back: Condvar,
}

#[derive(Default)]
enum State {
    /// Before the first use.
    #[default]
    Fresh,
    Idle(Box<Submitter>),
    InUse(ThreadId),
}

/// The submitter in use. Puts it back, also when a panic unwinds.
struct Taken<'c> {
    of: &'c Control,
    /// `None`: there is none yet.
    submitter: Option<Box<Submitter>>,
}

impl Control {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: another thread has it until then.
    fn take(&self, until: Option<Instant>) -> Option<Taken<'_>> {
        let me = thread::current().id();
        let mut state = self.state();
        while let State::InUse(by) = *state {
            if by == me {
                drop(state);
                in_use();
            }
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(left) if left.is_zero() => return None,
                Some(left) => self.put_back.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.put_back.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let submitter = match std::mem::replace(&mut *state, State::InUse(me)) {
            State::Idle(submitter) => Some(submitter),
            State::Fresh | State::InUse(_) => None,
        };
        Some(Taken { of: self, submitter })
    }
}

impl Taken<'_> {
    fn submitter(&mut self, device: &Device) -> Result<&mut Submitter, crate::Error> {
        match &mut self.submitter {
            Some(submitter) => Ok(submitter),
            none => Ok(none.insert(Box::new(fresh_submitter(device, 0)?))),
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.of.state() = self.submitter.take().map_or(State::Fresh, State::Idle);
        self.of.put_back.notify_one();
    }
}

impl Node {
    /// Calls through the control stream.
    pub(super) fn control_call<H: Handler>(&self, call: Call<H>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let device = &*self.device;
        let until = device.options.deadline.map(crate::stream::in_time);
        if !device.is_here() {
            // Another thread may have the submitter, which is not in this copy of the process.
            let site = device.site::<H>("submitting");
            return Err(SubmitError::DeviceLost { site, why: device.loss_reason() }.into());
        }
        let late = || CallError::Deadline(device.site::<H>("submitting"));
        let mut taken = self.common.control.take(until).ok_or_else(late)?;
        let no_room =
            |e: crate::Error| SubmitError::NoRoom { site: device.site::<H>("submitting"), why: e.to_string() };
        sync_with(taken.submitter(device).map_err(no_room)?, device, call)
    }
}
