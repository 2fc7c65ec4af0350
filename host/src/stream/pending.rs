//! A call in flight.

use super::reply::{Answer, Outcome, decoded, is_lost, short_value};
use super::table::Name;
use super::wait::{Stop, Wait, in_time, spins};
use super::{StreamRef, Submitter};
use crate::CallError;
use crate::device::{Fence, GRACE_STEP};
use hamr_comm::am::patience;
use hamr_comm::{ErrorOf, Handler, ValueOf};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Polls of a task without result from one check of clock and peer to the next. A count that has
/// stopped at its last value checks at every poll.
const CLOCK_EVERY: u16 = 16;
const MOST_POLLS: u16 = (1 << 14) - 1;
const _: () = assert!(MOST_POLLS % CLOCK_EVERY == CLOCK_EVERY - 1);

/// A call in flight, or its unread result.
///
/// Its slot goes on before it is read, so any number of them may wait unread, up to
/// `Options::max_outstanding`.
///
/// # Dropping
/// Detaches, at any time, also after polls: the call runs on, its result is discarded, and its
/// buffers stay in use until the stream finds the device's reply (`flush` waits for that), so that
/// no memory is freed under a handler. A timeout or a `select` that drops a `Pending` therefore
/// loses the result and nothing else. To keep the call, give the combinator `&mut pending`, which is
/// a future too; to end it, call [`Self::cancel`] first.
///
/// # Futures
/// It needs no runtime, and works with all of them: `join_all`, `select`, a timeout. Polled again
/// after its end it returns an error. A program that waits in `epoll` or `poll` has [`Self::poll_done`]
/// with a [`WakeFd`](crate::WakeFd). Submitting (`offload`) waits for a free slot when the ring is
/// full, which lasts until the device has read a call, or one of this stream's handlers has ended.
#[must_use = "dropping it detaches the call"]
pub struct Pending<H: Handler, S: StreamRef> {
    stream: S,
    call: Unread,
    _handler: PhantomData<fn() -> H>,
}

/// A call's name; above it how often it was polled without result, as a future, and a flag.
#[derive(Clone, Copy)]
struct Unread(u64);

impl Unread {
    const ONE_POLL: u64 = 1 << Name::BITS;
    const TAKEN: u64 = 1 << 63;

    #[inline(always)]
    fn name(self) -> Name {
        Name(self.0 & (Self::ONE_POLL - 1))
    }

    #[inline(always)]
    fn is_taken(self) -> bool {
        self.0 & Self::TAKEN != 0
    }

    /// Marks it taken. True if it was before.
    #[inline(always)]
    fn take(&mut self) -> bool {
        let was_taken = self.is_taken();
        self.0 |= Self::TAKEN;
        was_taken
    }

    /// Counts a poll, up to [`MOST_POLLS`], and returns how many there were before.
    fn count_poll(&mut self) -> u16 {
        let polls = (self.0 / Self::ONE_POLL) as u16 & MOST_POLLS;
        if polls != MOST_POLLS {
            self.0 += Self::ONE_POLL;
        }
        polls
    }
}

impl<H: Handler, S: StreamRef> Pending<H, S> {
    #[inline(always)]
    pub(super) fn new(stream: S, name: Name) -> Self {
        // Few words, which the compiler keeps in registers. A value of more is written in pieces and copied
        // whole, and such a copy waits for the processor's earlier stores: those of the request, among them.
        const { assert!(size_of::<Self>() == size_of::<S>() + size_of::<u64>()) };
        Self { stream, call: Unread(name.0), _handler: PhantomData }
    }

    /// The call's deadline, unless it has none of its own and the device's default was not needed yet.
    fn until(&self) -> Option<Instant> {
        self.stream.with(|submitter, _| submitter.until(self.call.name()))
    }

    #[cold]
    pub(super) fn set_until(&mut self, until: Option<Instant>) {
        if let Some(until) = until {
            let name = self.stream.with(|submitter, _| submitter.set_until(self.call.name(), until));
            self.call.0 = self.call.0 & !(Unread::ONE_POLL - 1) | name.0;
        }
    }

    /// Is the outcome there, so that [`Self::wait`] returns at once? Never waits, but gives a
    /// device without a processor of its own a chance to run.
    pub fn is_done(&self) -> bool {
        if self.call.is_taken() {
            return true;
        }
        if self.stream.with(|submitter, device| submitter.try_complete(device, self.call.name())) {
            return true;
        }
        // A caller that only polls must notice the device's end as well.
        self.stream.device().poll_peer();
        self.stream.with(|submitter, device| {
            submitter.follow_epoch(device);
            submitter.try_complete(device, self.call.name())
        })
    }

    /// Is the outcome there, so that [`Self::wait`] returns at once? If not, `waker` is woken when it
    /// may be, at the latest at the call's deadline; then ask again. Never spins, whatever
    /// [`crate::WaitMode`] the device has. A device without a doorbell cannot wake: the waker is
    /// then woken at once, and the program polls.
    pub fn poll_done(&mut self, waker: &Waker) -> bool {
        if self.is_done() {
            return true;
        }
        let device = self.stream.device();
        let until = self.until().or_else(|| device.options.deadline.map(in_time));
        self.set_until(until);
        if until.is_some_and(|until| Instant::now() >= until) {
            return true;
        }
        if !self.stream.device().wait_queue.is_notified() {
            waker.wake_by_ref();
            return false;
        }
        self.register(waker, until);
        self.is_done()
    }

    /// Waits for the outcome, at most until the call's deadline (or the device's default one).
    ///
    /// # Errors
    /// See [`CallError`]. After a deadline the call is abandoned: it may still run, its result is
    /// discarded.
    #[inline]
    pub fn wait(mut self) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        if self.call.take() {
            return Err(self.already_taken());
        }
        if let Some(words) = self.stream.with(|submitter, device| submitter.take_short::<H>(device, self.call.name())) {
            return short_value::<H>(self.stream.device(), &words);
        }
        self.wait_slowly(None)
    }

    /// [`Self::wait`], at most this long from now. Beyond it the call is abandoned: a caller that
    /// wants to check and keep the call uses [`Self::is_done`].
    ///
    /// # Errors
    /// See [`CallError`]; [`CallError::Deadline`] when the time is over.
    pub fn wait_timeout(mut self, limit: Duration) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        if self.call.take() {
            return Err(self.already_taken());
        }
        self.wait_slowly(Some(in_time(limit)))
    }

    /// Has the waker woken when the device notifies or its epoch ends, and at `until`. Rule 23: the
    /// device notifies for nothing that it published before it could see that this side sleeps, so
    /// the caller looks once more.
    fn register(&self, waker: &Waker, until: Option<Instant>) {
        let device = self.stream.device();
        device.wait_queue.register(waker, until, &device.me);
        device.notify(Fence::Full);
        device.link.watch();
        if self.stream.with(|submitter, _| submitter.epoch()).is_ending(device) {
            device.wait_queue.register(waker, Some(in_time(GRACE_STEP)), &device.me);
        }
        self.stream.with(Submitter::follow_epoch);
    }

    /// The outcome, when it is there; its name is no longer used then.
    fn try_take(&self) -> Option<Outcome<H>> {
        self.stream.with(|submitter, device| match submitter.take_short::<H>(device, self.call.name()) {
            Some(words) => Some(Ok(Answer::Short(words))),
            None => {
                submitter.try_complete(device, self.call.name()).then(|| submitter.take::<H>(device, self.call.name()))
            }
        })
    }

    pub(crate) fn decoded(&self, outcome: Outcome<H>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        decoded::<H>(self.stream.device(), outcome)
    }

    /// Was the device of a call lost that ended so?
    pub(crate) fn is_lost(&self, outcome: &Outcome<H>) -> bool {
        is_lost(self.stream.device(), outcome)
    }

    /// The deadline is over. A caller that is woken late may still find the reply; otherwise the
    /// call is abandoned.
    #[cold]
    fn try_take_last(&self) -> Outcome<H> {
        self.try_take().unwrap_or_else(|| {
            let late = self.stream.with(|submitter, device| {
                let late = device.late_site::<H>(submitter.place(self.call.name()));
                submitter.abandon(device, self.call.name());
                late
            });
            Err(CallError::Deadline(late))
        })
    }

    /// It was polled to its end before, as a future; its name may be another call's by now.
    #[cold]
    fn already_taken(&self) -> CallError<ErrorOf<H>> {
        let site = self.stream.device().site::<H>("reading the reply");
        CallError::Corrupt(site, "nothing: its result was taken before".into())
    }

    #[cold]
    fn wait_slowly(&mut self, until: Option<Instant>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        // One use of the stream for all these polls: of a shared one the lock, which is free again
        // after about a microsecond.
        let words = self.stream.with(|submitter, device| {
            // What nobody carries does not come by itself.
            let polls = if device.wait_queue.is_carried() { 1 } else { spins() };
            for _ in 0..polls {
                if let Some(words) = submitter.take_short::<H>(device, self.call.name()) {
                    return Some(words);
                }
                if submitter.try_complete(device, self.call.name()) {
                    return None;
                }
                std::hint::spin_loop();
            }
            None
        });
        if let Some(words) = words {
            return short_value::<H>(self.stream.device(), &words);
        }
        let epoch = self.stream.with(|submitter, _| submitter.epoch());
        let mut wait = Wait::new(self.stream.device(), epoch, until.or_else(|| self.until()));
        loop {
            if let Some(outcome) = self.try_take() {
                return self.decoded(outcome);
            }
            match wait.step() {
                Ok(()) => {}
                Err(Stop::Deadline) => return self.decoded(self.try_take_last()),
                // A reply published just before the end still counts; the next poll finds it, or
                // the end.
                Err(Stop::EpochEnded(_)) => self.stream.with(|submitter, device| submitter.follow_epoch(device)),
            }
            let place = self.stream.with(|submitter, _| submitter.place(self.call.name()));
            wait.serve(place, || {
                self.stream.with(|submitter, device| submitter.try_complete(device, self.call.name()))
            });
        }
    }

    /// A poll as a future, of a call whose outcome was not taken; nothing is decoded.
    pub(crate) fn poll_answer(&mut self, task: &mut Context<'_>) -> Poll<Outcome<H>> {
        let mut outcome = self.try_take();
        if outcome.is_none() {
            // Not a tight loop: as in `Stream::sync`.
            std::hint::spin_loop();
            outcome = self.try_take();
        }
        if let Some(outcome) = outcome {
            self.call.take();
            return Poll::Ready(outcome);
        }
        let polls = self.call.count_poll();
        let device = self.stream.device();
        // A poll and what its executor does around it take a microsecond or so, so a count is as
        // good as a clock.
        let spins =
            device.options.spin_time().is_none_or(|spin| u128::from(polls) < spin.as_micros().min(MOST_POLLS.into()));
        let sleeps = (!spins || polls != 0 && patience::must_sleep()) && device.wait_queue.is_notified();
        // A call's own deadline may be over before the first poll.
        let is_due = polls % CLOCK_EVERY == CLOCK_EVERY - 1 || polls == 0 && self.until().is_some();
        if !sleeps && !is_due {
            device.link.wait(0);
            self.stream.with(Submitter::follow_epoch);
            task.waker().wake_by_ref();
            return Poll::Pending;
        }
        let limit = device.options.deadline;
        let until = self.until().or_else(|| limit.map(in_time));
        if until.is_some_and(|until| Instant::now() >= until) {
            self.call.take();
            return Poll::Ready(self.try_take_last());
        }
        device.poll_peer();
        self.set_until(until);
        if !sleeps {
            self.stream.with(Submitter::follow_epoch);
            task.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.register(task.waker(), until);
        match self.try_take() {
            Some(outcome) => {
                self.call.take();
                Poll::Ready(outcome)
            }
            None => Poll::Pending,
        }
    }

    /// Asks the device to stop the call. The outcome is still read with [`Self::wait`]:
    /// [`CallError::Cancelled`], or the value when the call was too far along. A handler that is
    /// running notices only if it asks ([`hamr_comm::Context::cancelled`]).
    pub fn cancel(&self) {
        if !self.call.is_taken() {
            self.stream.with(|submitter, device| submitter.cancel(device, self.call.name()));
        }
    }
}

impl<H: Handler, S: StreamRef> Drop for Pending<H, S> {
    #[inline]
    fn drop(&mut self) {
        if !self.call.is_taken() {
            self.stream.with(|submitter, device| submitter.abandon(device, self.call.name()));
        }
    }
}

// Nothing in it is pinned: the result is elsewhere.
impl<H: Handler, S: StreamRef> Unpin for Pending<H, S> {}

/// Polling never blocks. A poll that finds nothing wakes its own task again, so that an executor
/// polls it in a loop between other tasks, for about as long as the device's [`crate::Options`] let
/// a wait spin; from then on the task sleeps until the device notifies. Devices without a doorbell
/// are polled in a loop for good.
impl<H: Handler, S: StreamRef> Future for Pending<H, S> {
    type Output = Result<ValueOf<H>, CallError<ErrorOf<H>>>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        if self.call.is_taken() {
            return Poll::Ready(Err(self.already_taken()));
        }
        self.poll_answer(task).map(|outcome| self.decoded(outcome))
    }
}
