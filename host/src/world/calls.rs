//! The calls of a run, and how it fails.

use super::watch::Watched;
use crate::error::debug_as_display;
use crate::stream::{Outcome, Pending, is_value};
use crate::{CallError, SharedStream};
use hamr_comm::abi::ids::RankId;
use hamr_comm::{ErrorOf, Handler, Never, ValueOf};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long the calls of a failed run may take to end once they are cancelled.
const CANCEL_TIME: Duration = Duration::from_secs(2);

/// A run that failed, and the rank whose call failed first.
pub struct RunError<E = Never> {
    /// The rank.
    pub rank: RankId,
    /// Its name in messages: `rank 2 (shm)`.
    pub name: String,
    /// How its call ended.
    pub error: CallError<E>,
}

impl<E: fmt::Debug> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.error)
    }
}

debug_as_display! {
    RunError<E>, E;
}

impl<E: fmt::Debug> std::error::Error for RunError<E> {}

impl<E> RunError<E> {
    /// The rank was lost, and its world with it.
    pub fn is_lost(&self) -> bool {
        matches!(self.error, CallError::DeviceLost(..))
    }
}

/// A call of a run. Only [`Self::take`] runs code of the program.
pub(super) trait Sent<V, E> {
    /// Looks for its answer.
    fn poll(&mut self, task: &mut Context<'_>);
    fn has_ended(&self) -> bool;
    /// Is its answer no value? Of one that has ended.
    fn has_failed(&self) -> bool;
    /// Has it failed because its rank was lost?
    fn is_lost(&self) -> bool;
    fn cancel(&self);
    /// Decodes its answer; `None` when it has not ended.
    fn take(self: Box<Self>) -> Option<Result<V, CallError<E>>>;
}

/// [`Sent`] of a stream.
pub(super) struct SentCall<H: Handler> {
    pending: Pending<H, SharedStream>,
    answer: Option<Outcome<H>>,
}

impl<H: Handler> SentCall<H> {
    pub(super) fn new(pending: Pending<H, SharedStream>) -> Self {
        Self { pending, answer: None }
    }
}

impl<H: Handler> Sent<ValueOf<H>, ErrorOf<H>> for SentCall<H> {
    fn poll(&mut self, task: &mut Context<'_>) {
        if self.answer.is_none()
            && let Poll::Ready(answer) = self.pending.poll_answer(task)
        {
            self.answer = Some(answer);
        }
    }
    fn has_ended(&self) -> bool {
        self.answer.is_some()
    }
    fn has_failed(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !is_value(answer))
    }
    fn is_lost(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| self.pending.is_lost(answer))
    }
    fn cancel(&self) {
        self.pending.cancel();
    }
    fn take(self: Box<Self>) -> Option<Result<ValueOf<H>, CallError<ErrorOf<H>>>> {
        let Self { pending, answer } = *self;
        answer.map(|answer| pending.decoded(answer))
    }
}

impl Watched {
    pub(super) fn site(&self, rank: usize, stage: &'static str) -> Box<crate::Site> {
        Box::new(crate::Site { device: self.name_of(rank), handler: "a run".into(), stage, task: None })
    }

    pub(super) fn name_of(&self, rank: usize) -> String {
        self.nodes().get(rank).map_or_else(String::new, |node| node.device().name.clone())
    }
}

/// A world has a rank.
pub(super) fn of_first<T>(mut values: Vec<T>) -> T {
    values.swap_remove(0)
}

pub(super) fn lock<T: ?Sized>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calls of a run. Dropped with some that have not ended, as by a panic, it cancels them: their ranks may wait
/// for one that was never called.
pub(super) struct Calls<V, E, S: Sent<V, E> + ?Sized> {
    watched: Arc<Watched>,
    /// By rank.
    sent: Vec<Box<S>>,
    failure: Option<Failure<E>>,
    _values: PhantomData<fn() -> V>,
    /// Behind a failure: how long the others may take.
    until: Option<Instant>,
}

/// The first failure of a run.
struct Failure<E> {
    rank: usize,
    /// `None`: the answer of its call says it.
    why: Option<CallError<E>>,
}

impl<V, E, S: Sent<V, E> + ?Sized> Calls<V, E, S> {
    /// None so far.
    pub(super) fn new(watched: Arc<Watched>) -> Self {
        Self { watched, sent: Vec::new(), failure: None, _values: PhantomData, until: None }
    }

    /// One has been sent to the next rank.
    pub(super) fn push(&mut self, sent: Box<S>) {
        self.sent.push(sent);
    }

    /// The call of a rank has failed, unless another one has before.
    pub(super) fn fail(&mut self, rank: usize, why: CallError<E>) {
        self.failure.get_or_insert(Failure { rank, why: Some(why) });
    }

    /// Waits for all of them; after a failure, whose rank `failed` is told, and whether it was lost, for so long only.
    pub(super) fn wait(&mut self, failed: impl FnOnce(usize, bool)) {
        let mut failed = Some(failed);
        park_until(|task| {
            let has_ended = self.step(task, |rank, is_lost| {
                if let Some(failed) = failed.take() {
                    failed(rank, is_lost);
                }
            });
            if has_ended { Ok(()) } else { Err(self.until) }
        });
    }

    /// Looks for answers. The first failure cancels the other calls. True: all have ended, or have had
    /// their time.
    pub(super) fn step(&mut self, task: &mut Context<'_>, failed: impl FnOnce(usize, bool)) -> bool {
        for (rank, sent) in self.sent.iter_mut().enumerate() {
            sent.poll(task);
            if sent.has_failed() {
                // The others end because of the first.
                self.failure.get_or_insert(Failure { rank, why: None });
            }
        }
        if let (Some(rank), None) = (self.failed_at(), self.until) {
            self.until = Some(Instant::now() + CANCEL_TIME);
            failed(rank, self.is_lost());
            self.cancel_open();
        }
        self.sent.iter().all(|sent| sent.has_ended()) || self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn cancel_open(&self) {
        // The end of the world ends them where a rank was lost, and tells their tasks which.
        if !self.is_lost() {
            self.sent.iter().filter(|sent| !sent.has_ended()).for_each(|sent| sent.cancel());
        }
    }

    /// The rank whose call failed first.
    pub(super) fn failed_at(&self) -> Option<usize> {
        self.failure.as_ref().map(|failure| failure.rank)
    }

    fn is_lost(&self) -> bool {
        match &self.failure {
            Some(Failure { why: Some(why), .. }) => matches!(why, CallError::DeviceLost(..)),
            Some(Failure { rank, why: None }) => self.sent.get(*rank).is_some_and(|sent| sent.is_lost()),
            None => false,
        }
    }

    /// Of calls that have ended: decodes, which is code of the program, so without the lock of runs.
    pub(super) fn outcome(mut self) -> Result<Vec<V>, RunError<E>> {
        let (watched, sent, failure) = (self.watched.clone(), std::mem::take(&mut self.sent), self.failure.take());
        let error = |rank: usize, error| RunError { rank: RankId(rank as u32), name: watched.name_of(rank), error };
        let not_known = |rank| CallError::Cancelled(watched.site(rank, "behind the failure of another rank"));
        let mut values = Vec::new();
        if let Some(Failure { rank, why: Some(why) }) = failure {
            return Err(error(rank, why));
        }
        let first = failure.map_or(0, |failure| failure.rank);
        for (rank, sent) in sent.into_iter().enumerate().skip(first) {
            match sent.take() {
                Some(Ok(value)) => values.push(value),
                Some(Err(why)) => return Err(error(rank, why)),
                None => return Err(error(rank, not_known(rank))),
            }
        }
        Ok(values)
    }

    /// When the calls that are left are given up.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// A run before this one has failed on a rank.
    pub(super) fn spoil(&mut self, rank: usize) {
        let error = CallError::Cancelled(self.watched.site(rank, "behind a run that has failed"));
        self.fail(rank, error);
    }
}

impl<V, E, S: Sent<V, E> + ?Sized> Drop for Calls<V, E, S> {
    fn drop(&mut self) {
        self.cancel_open();
    }
}

/// Calls `look` until it is content; it says how long this thread may sleep if nothing wakes it.
pub(super) fn park_until(mut look: impl FnMut(&mut Context<'_>) -> Result<(), Option<Instant>>) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    while let Err(until) = look(&mut Context::from_waker(&waker)) {
        match until {
            None => std::thread::park(),
            Some(until) => std::thread::park_timeout(until.saturating_duration_since(Instant::now())),
        }
    }
}

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
