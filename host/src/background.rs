//! Work that a thread of this library does for the program, transfers and host functions, and what
//! the program has of it meanwhile.

use crate::Error;
use crate::wait_queue::contain;
use hamr_qemu::origin::Origin;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that does one piece of work after the other. It starts with the first, and ends when
/// this was dropped and nothing is left to do.
pub(crate) struct Worker {
    name: &'static str,
    jobs: Mutex<Option<Sender<Job>>>,
}

/// Whose work it is, for its errors.
#[derive(Clone)]
pub(crate) struct WorkSite {
    pub(crate) device: String,
    pub(crate) stage: &'static str,
    /// How long [`PendingWork::wait`] waits.
    pub(crate) deadline: Option<Duration>,
}

/// Work of this process for a device, done in the background: a transfer
/// ([`Node::put_async`](crate::Node::put_async)) or a host function
/// ([`SharedStream::run_on_host`](crate::SharedStream::run_on_host)).
///
/// Dropping it detaches: the work is done, its value is dropped. It owns what it works on, so no
/// memory is freed before it ends. As a future it needs no runtime, as a
/// [`Pending`](crate::Pending) does not.
#[must_use = "its error is reported here"]
pub struct PendingWork<V> {
    shared: Arc<Shared<V>>,
    site: WorkSite,
    /// The process that has the thread.
    origin: Origin,
}

struct Shared<V> {
    state: Mutex<State<V>>,
    ended: Condvar,
}

enum State<V> {
    /// With who is woken at the end.
    Unfinished(Option<Waker>),
    Ended(Result<V, Error>),
    Taken,
}

impl Worker {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, jobs: Mutex::new(None) }
    }

    /// Has `work` done after everything that was submitted before.
    pub(crate) fn submit<V: Send + 'static>(
        &self,
        site: WorkSite,
        work: impl FnOnce() -> Result<V, Error> + Send + 'static,
    ) -> Result<PendingWork<V>, Error> {
        let shared = Arc::new(Shared { state: Mutex::new(State::Unfinished(None)), ended: Condvar::new() });
        let pending = PendingWork { shared: shared.clone(), site, origin: Origin::here() };
        let site = pending.site.clone();
        let job: Job = Box::new(move || {
            // What the work owns is dropped by the end of the call, so before others see the end.
            let outcome = catch_unwind(AssertUnwindSafe(work));
            shared.end(outcome.unwrap_or_else(|payload| Err(site.none(format!("it panicked: {}", message(payload))))));
        });
        self.start(job)?;
        Ok(pending)
    }

    fn start(&self, job: Job) -> Result<(), Error> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match &mut *jobs {
            Some(sender) => sender,
            none => {
                let (sender, queue) = channel::<Job>();
                let run = move || queue.into_iter().for_each(|job| contain(Some(job)));
                let thread = std::thread::Builder::new().name(self.name.into());
                thread.spawn(run).map_err(Error::io(format!("starting the thread {}", self.name)))?;
                none.insert(sender)
            }
        };
        // The thread takes jobs as long as there is a sender.
        let sent = sender.send(job);
        drop(jobs);
        // The job, which is the program's, is dropped without the lock.
        sent.map_err(|_| Error::io("submitting work")(std::io::ErrorKind::BrokenPipe.into()))
    }
}

impl<V> PendingWork<V> {
    /// Has the work ended, so that [`Self::wait`] returns at once?
    pub fn is_done(&self) -> bool {
        !self.origin.is_here() || !matches!(*self.shared.state(), State::Unfinished(_))
    }

    /// [`Self::is_done`]; if not, `waker` is woken when the work ends.
    pub fn poll_done(&mut self, waker: &Waker) -> bool {
        if !self.origin.is_here() {
            return true;
        }
        match &*self.shared.state() {
            State::Unfinished(Some(known)) if known.will_wake(waker) => return false,
            State::Unfinished(_) => {}
            State::Ended(_) | State::Taken => return true,
        }
        // A waker is its executor's code: cloned and dropped without the lock.
        let mut other = Some(waker.clone());
        let mut state = self.shared.state();
        let is_done = match &mut *state {
            State::Unfinished(known) => {
                std::mem::swap(known, &mut other);
                false
            }
            State::Ended(_) | State::Taken => true,
        };
        drop(state);
        drop(other);
        is_done
    }

    /// Waits for the outcome, at most as long as the device's default deadline.
    ///
    /// # Errors
    /// Those of the work; [`Error::Timeout`], after which the work goes on;
    /// [`Error::NoOutcome`] when it panicked.
    pub fn wait(self) -> Result<V, Error> {
        self.wait_at_most(self.site.deadline)
    }

    /// [`Self::wait`], at most this long.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn wait_timeout(self, limit: Duration) -> Result<V, Error> {
        self.wait_at_most(Some(limit))
    }

    fn wait_at_most(&self, limit: Option<Duration>) -> Result<V, Error> {
        if !self.origin.is_here() {
            return Err(self.elsewhere());
        }
        let unfinished = |state: &mut State<V>| matches!(state, State::Unfinished(_));
        let (state, ended) = (self.shared.state(), &self.shared.ended);
        let mut state = match limit {
            Some(limit) => ended.wait_timeout_while(state, limit, unfinished).unwrap_or_else(PoisonError::into_inner).0,
            None => ended.wait_while(state, unfinished).unwrap_or_else(PoisonError::into_inner),
        };
        self.take(&mut state).unwrap_or_else(|| {
            let WorkSite { device, stage, .. } = self.site.clone();
            Err(Error::Timeout { device, stage, after: limit.unwrap_or_default() })
        })
    }

    /// Its thread is in the process that this one is a copy of.
    #[cold]
    fn elsewhere(&self) -> Error {
        self.site.none("another process submitted it, of which this one is a fork".into())
    }

    fn take(&self, state: &mut State<V>) -> Option<Result<V, Error>> {
        match std::mem::replace(state, State::Taken) {
            State::Ended(outcome) => Some(outcome),
            State::Taken => Some(Err(self.site.none("it was taken before".into()))),
            unfinished @ State::Unfinished(_) => {
                *state = unfinished;
                None
            }
        }
    }
}

impl<V> Future for PendingWork<V> {
    type Output = Result<V, Error>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.poll_done(task.waker()) {
            return Poll::Pending;
        }
        if !self.origin.is_here() {
            return Poll::Ready(Err(self.elsewhere()));
        }
        self.take(&mut self.shared.state()).map_or(Poll::Pending, Poll::Ready)
    }
}

impl<V> std::fmt::Debug for PendingWork<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PendingWork({} {}, done: {})", self.site.device, self.site.stage, self.is_done())
    }
}

impl<V> Shared<V> {
    fn state(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, outcome: Result<V, Error>) {
        let before = std::mem::replace(&mut *self.state(), State::Ended(outcome));
        self.ended.notify_all();
        if let State::Unfinished(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl WorkSite {
    fn none(&self, why: String) -> Error {
        Error::NoOutcome { device: self.device.clone(), stage: self.stage, why }
    }
}

/// The text of a panic.
fn message(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".into())
}
