//! A call in its stream's hot slot.

use super::reply::{decoded, short_value};
use super::wait::in_time;
use super::{Access, Pending, Stream, Submitter};
use crate::CallError;
use crate::device::Device;
use hamr_comm::{ErrorOf, Handler, ValueOf};
use std::time::Duration;

/// A call in its stream's hot slot (see [`Stream::start`]). Dropping it detaches: the call runs,
/// its result is discarded.
#[must_use = "dropping it detaches the call"]
pub struct Started<'s, 'n, H: Handler> {
    state: State<'s, 'n, H>,
}

enum State<'s, 'n, H: Handler> {
    Hot(HotCall<'s, 'n>),
    Queued(Pending<H, &'s Stream<'n>>),
}

/// The hot slot's call; dropping it abandons the call.
struct HotCall<'s, 'n> {
    stream: &'s Stream<'n>,
    /// The word that its request carries: after a restart the slot may belong to another call. A whole one, as which
    /// it is copied.
    seq: u64,
}

impl<'s, 'n> HotCall<'s, 'n> {
    #[inline(always)]
    fn seq(&self) -> u32 {
        self.seq as u32
    }

    /// The stream and the word, without abandoning the call.
    #[inline(always)]
    fn into_parts(self) -> (&'s Stream<'n>, u32) {
        let parts = (self.stream, self.seq());
        // From here on the call ends by its result, and not by the drop.
        std::mem::forget(self);
        parts
    }
}

impl<'s, 'n, H: Handler> Started<'s, 'n, H> {
    #[inline(always)]
    pub(super) fn hot(stream: &'s Stream<'n>, seq: u32) -> Self {
        Self { state: State::Hot(HotCall { stream, seq: seq.into() }) }
    }

    pub(super) fn queued(pending: Pending<H, &'s Stream<'n>>) -> Self {
        Self { state: State::Queued(pending) }
    }

    /// As [`Pending::is_done`].
    pub fn is_done(&self) -> bool {
        let call = match &self.state {
            State::Queued(pending) => return pending.is_done(),
            State::Hot(call) => call,
        };
        let is_done = || call.stream.with(|submitter, _| submitter.hot_is_done(call.seq()));
        if is_done() {
            return true;
        }
        call.stream.device().poll_peer();
        call.stream.with(Submitter::follow_epoch);
        is_done()
    }

    /// As [`Pending::wait`]: the second half of [`Stream::sync`].
    ///
    /// # Errors
    /// See [`CallError`].
    #[inline]
    pub fn wait(self) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        match self.state {
            State::Hot(call) => {
                let (stream, seq) = call.into_parts();
                let words = stream.enter().take_started::<H>(stream.device(), seq);
                match words {
                    Some(words) => short_value::<H>(stream.device(), &words),
                    None => finish::<H>(stream, seq),
                }
            }
            State::Queued(pending) => pending.wait(),
        }
    }

    /// As [`Pending::wait_timeout`].
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn wait_timeout(self, limit: Duration) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        match self.state {
            State::Hot(call) => {
                let (stream, seq) = call.into_parts();
                let until = in_time(limit);
                let outcome = stream.with(|submitter, device| submitter.finish_started_until::<H>(device, seq, until));
                decoded::<H>(stream.device(), outcome)
            }
            State::Queued(pending) => pending.wait_timeout(limit),
        }
    }
}

/// The outcome of a call whose result has not come at once, or is no short value.
#[cold]
#[inline(never)]
fn finish<H: Handler>(stream: &Stream<'_>, seq: u32) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    let outcome = stream.with(|submitter, device| submitter.finish_started::<H>(device, seq));
    decoded::<H>(stream.device(), outcome)
}

impl Drop for HotCall<'_, '_> {
    fn drop(&mut self) {
        self.stream.with(|submitter: &mut Submitter, device: &Device| submitter.abandon_hot(device, self.seq()));
    }
}
