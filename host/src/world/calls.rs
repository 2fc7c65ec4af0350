//! The calls of a run, and how it fails.

use super::watch::Watched;
use crate::error::debug_as_display;
use crate::stream::Pending;
use crate::{CallError, SharedStream};
use hamr_comm::abi::ids::RankId;
use hamr_comm::{ErrorOf, Handler, Never, ValueOf};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
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

impl<'c, V, E> Calls<'c, V, E> {
    /// None so far.
    pub(super) fn new(watched: Arc<Watched>) -> Self {
        Self { watched, open: Vec::new(), values: Vec::new(), failure: None, until: None }
    }

    /// One has been sent to the next rank.
    pub(super) fn push(&mut self, sent: Box<dyn Sent<V, E> + 'c>) {
        self.open.push(Some(sent));
    }

    pub(super) fn end(&mut self, rank: usize, outcome: Result<V, CallError<E>>) {
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
    pub(super) fn wait(mut self, failed: impl FnOnce(&RunError<E>)) -> Result<Vec<V>, RunError<E>> {
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
