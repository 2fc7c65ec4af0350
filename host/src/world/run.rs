//! Runs: one call to every rank at once.

use super::World;
use super::started::{Before, Open};
use super::watch::Watched;
use crate::stream::Pending;
use crate::{CallError, CallOptions, Error, SharedStream, SubmitError};
use hamr_comm::abi::ids::RankId;
use hamr_comm::{Call, ErrorOf, Handler, Never, ValueOf};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long the calls of a failed run may take to end once they are cancelled.
const CANCEL_TIME: Duration = Duration::from_secs(2);
const NOT_SENT: &str = "before it was sent";

/// A run that failed, and the rank whose call failed first.
#[derive(Debug)]
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

impl<E: fmt::Debug> std::error::Error for RunError<E> {}

impl<E> RunError<E> {
    /// The rank was lost, and its world with it.
    pub fn is_lost(&self) -> bool {
        matches!(self.error, CallError::DeviceLost(..))
    }
}

/// What runs of a world share; its lock is taken for a whole run, unless that was started.
#[derive(Default)]
pub(super) struct Runs {
    /// One per rank, from the first run on.
    streams: Vec<SharedStream>,
    /// Those that were started and have not ended, and the failure of one that has.
    pub(super) open: Open,
    /// A run has failed: barrier and signal words may be anything.
    pub(super) is_stale: bool,
}

/// A call of a run, which has not ended.
pub(super) trait Sent<V, E>: Send {
    fn poll(&mut self, task: &mut Context<'_>) -> Poll<Result<V, CallError<E>>>;
    fn cancel(&self);
}

impl<H: Handler> Sent<ValueOf<H>, ErrorOf<H>> for Pending<H, SharedStream> {
    fn poll(&mut self, task: &mut Context<'_>) -> Poll<Result<ValueOf<H>, CallError<ErrorOf<H>>>> {
        Future::poll(Pin::new(self), task)
    }
    fn cancel(&self) {
        Pending::cancel(self);
    }
}

impl World {
    /// Calls a handler on every rank and returns the value of rank 0. Runs of a world follow each
    /// other; the ranks' programs meet by signals and barriers
    /// ([`Task::barrier`](hamr_comm::Task::barrier)).
    ///
    /// When the call of a rank fails, those of the others are cancelled, and the world stays: before
    /// the next run the words of signals and barriers start over, with zeros. A rank whose handler
    /// does not end within two seconds of that is waited for by the next run.
    ///
    /// # Errors
    /// How the first call failed, and on which rank.
    pub fn run<H: Handler>(&self, call: Call<H>) -> Result<ValueOf<H>, RunError<ErrorOf<H>>>
    where
        H::Args: Clone,
    {
        self.run_all(call).map(of_first)
    }

    /// [`Self::run`], and the values of all ranks, in order.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub fn run_all<H: Handler>(&self, call: Call<H>) -> Result<Vec<ValueOf<H>>, RunError<ErrorOf<H>>>
    where
        H::Args: Clone,
    {
        self.run_with(call, CallOptions::default(), |_| {})
    }

    /// [`Self::run`], in at most this time.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub fn run_within<H: Handler>(&self, call: Call<H>, limit: Duration) -> Result<ValueOf<H>, RunError<ErrorOf<H>>>
    where
        H::Args: Clone,
    {
        self.run_with(call, CallOptions::deadline(limit), |_| {}).map(of_first)
    }

    /// A run; `failed` is told of the first failure, before the others are waited for.
    pub(crate) fn run_with<H: Handler>(
        &self,
        call: Call<H>,
        options: CallOptions,
        failed: impl FnOnce(&RunError<ErrorOf<H>>),
    ) -> Result<Vec<ValueOf<H>>, RunError<ErrorOf<H>>>
    where
        H::Args: Clone,
    {
        self.run_each(|_, stream| Ok(Box::new(stream.offload_with(call.clone(), options)?)), failed)
    }

    /// A run whose calls `begin` sends, one to each rank.
    pub(super) fn run_each<'c, V, E>(
        &self,
        begin: impl Fn(u32, &SharedStream) -> Result<Box<dyn Sent<V, E> + 'c>, SubmitError>,
        failed: impl FnOnce(&RunError<E>),
    ) -> Result<Vec<V>, RunError<E>> {
        let mut runs = self.begin_run(Before::Ended)?;
        let outcome = self.calls(&runs, begin).wait(failed);
        runs.is_stale = outcome.is_err();
        outcome
    }

    /// The calls that `begin` sends.
    pub(super) fn calls<'c, V, E>(
        &self,
        runs: &Runs,
        begin: impl Fn(u32, &SharedStream) -> Result<Box<dyn Sent<V, E> + 'c>, SubmitError>,
    ) -> Calls<'c, V, E> {
        let watched = self.watched.clone();
        let mut calls = Calls { watched, open: Vec::new(), values: Vec::new(), failure: None, until: None };
        for (rank, stream) in runs.streams.iter().enumerate() {
            match begin(rank as u32, stream) {
                Ok(sent) => calls.open.push(Some(sent)),
                Err(why) => {
                    calls.end(rank, Err(why.into()));
                    break;
                }
            }
        }
        calls
    }

    pub(super) fn runs(&self) -> MutexGuard<'_, Runs> {
        lock(&self.runs)
    }

    /// Takes the lock, and leaves what a failed run has left behind.
    pub(super) fn begin_run<E>(&self, before: Before) -> Result<MutexGuard<'_, Runs>, RunError<E>> {
        let mut runs = self.runs();
        runs.wait_for_started(before);
        if let Some((rank, why)) = runs.open.take_failure() {
            return Err(self.not_sent(rank, format!("a run before it has failed: {why}")));
        }
        for (rank, node) in self.nodes().iter().enumerate().skip(runs.streams.len()) {
            let stream = node.shared_stream().map_err(|why| self.not_begun(rank, why))?;
            runs.streams.push(stream);
        }
        if runs.is_stale {
            for (rank, stream) in runs.streams.iter().enumerate() {
                // No call of that run writes a word any more.
                stream.flush().map_err(|why| self.not_begun(rank, why))?;
            }
            self.watched.restart_words();
            runs.is_stale = false;
        }
        Ok(runs)
    }

    fn not_begun<E>(&self, rank: usize, why: Error) -> RunError<E> {
        let error = match why {
            Error::Lost { why, .. } => CallError::DeviceLost(self.watched.site(rank, NOT_SENT), why.into()),
            Error::Timeout { .. } => CallError::Deadline(self.watched.site(rank, NOT_SENT)),
            other => return self.not_sent(rank, other.to_string()),
        };
        RunError { rank: RankId(rank as u32), name: self.watched.name_of(rank), error }
    }

    fn not_sent<E>(&self, rank: usize, why: String) -> RunError<E> {
        let error = SubmitError::NoRoom { site: self.watched.site(rank, NOT_SENT), why }.into();
        RunError { rank: RankId(rank as u32), name: self.watched.name_of(rank), error }
    }
}

impl Watched {
    fn site(&self, rank: usize, stage: &'static str) -> Box<crate::Site> {
        Box::new(crate::Site { device: self.name_of(rank), handler: "a run".into(), stage, task: None })
    }

    fn name_of(&self, rank: usize) -> String {
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

/// The calls of a run.
pub(super) struct Calls<'c, V, E> {
    watched: Arc<Watched>,
    /// Those that have not ended, by rank.
    open: Vec<Option<Box<dyn Sent<V, E> + 'c>>>,
    values: Vec<Option<V>>,
    failure: Option<RunError<E>>,
    /// Behind a failure: how long the others may take.
    until: Option<Instant>,
}

impl<V, E> Calls<'_, V, E> {
    fn end(&mut self, rank: usize, outcome: Result<V, CallError<E>>) {
        match outcome {
            Ok(value) => {
                self.values.resize_with(self.values.len().max(rank + 1), || None);
                self.values[rank] = Some(value);
            }
            Err(error) if self.failure.is_none() => {
                let name = self.watched.name_of(rank);
                self.failure = Some(RunError { rank: RankId(rank as u32), name, error });
            }
            // The others end because of the first.
            Err(_) => {}
        }
    }

    /// Waits for all of them; after a failure for so long only.
    fn wait(mut self, failed: impl FnOnce(&RunError<E>)) -> Result<Vec<V>, RunError<E>> {
        let mut failed = Some(failed);
        park_until(|task| {
            let has_ended = self.step(task, |failure| {
                if let Some(failed) = failed.take() {
                    failed(failure);
                }
            });
            if has_ended { Ok(()) } else { Err(self.until) }
        });
        self.outcome()
    }

    /// Looks for outcomes. The first failure cancels the other calls. True: all have ended, or have had
    /// their time.
    pub(super) fn step(&mut self, task: &mut Context<'_>, failed: impl FnOnce(&RunError<E>)) -> bool {
        self.poll(task);
        if let (Some(failure), None) = (&self.failure, self.until) {
            self.until = Some(Instant::now() + CANCEL_TIME);
            failed(failure);
            // The end of the world ends them where a rank was lost, and tells their tasks which.
            if !failure.is_lost() {
                self.open.iter().flatten().for_each(|sent| sent.cancel());
            }
        }
        self.open.iter().all(Option::is_none) || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Of calls that have ended.
    pub(super) fn outcome(&mut self) -> Result<Vec<V>, RunError<E>> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(std::mem::take(&mut self.values).into_iter().flatten().collect()),
        }
    }

    pub(super) fn failure(&self) -> Option<&RunError<E>> {
        self.failure.as_ref()
    }

    /// When the calls that are left are given up.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// A run before this one has failed on a rank.
    pub(super) fn spoil(&mut self, rank: usize) {
        let error = CallError::Cancelled(self.watched.site(rank, "behind a run that has failed"));
        self.end(rank, Err(error));
    }

    fn poll(&mut self, task: &mut Context<'_>) {
        for rank in 0..self.open.len() {
            if let Some(sent) = &mut self.open[rank]
                && let Poll::Ready(outcome) = sent.poll(task)
            {
                self.open[rank] = None;
                self.end(rank, outcome);
            }
        }
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
