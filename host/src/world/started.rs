//! Runs that are started, and waited for later.
//!
//! The calls of each are sent at once. A stream runs its tasks one after the other, so on every rank
//! the runs follow each other in the order of their starts. What waits for one looks at all of them:
//! a call that fails cancels the runs behind its own, too, because signals and barriers of the ranks
//! may be out of step from there on.

use super::World;
use super::calls::{Calls, RunError, Sent, SentCall, lock, of_first, park_until};
use crate::CallOptions;
use hamr_comm::{Call, ErrorOf, Handler, ValueOf};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Instant;

/// Runs at once: the start of another one waits for the first of them. Each has a ticket of the stream
/// of each rank, so there are no more than a rank has tickets.
const MOST: usize = 8;

/// What a run waits for before it begins.
#[derive(Clone, Copy)]
pub(super) enum Before {
    /// All runs that were started have ended.
    Ended,
    /// There are fewer than so many, and none of them has failed.
    Room(usize),
}

/// A run that [`World::start`] has begun, or its outcome.
///
/// Dropped, it runs on; the next run waits for it, and fails if it has failed.
#[must_use = "a failure of it is found by `wait`, or ends the next run"]
pub struct StartedRun<'w, H: Handler> {
    world: &'w World,
    run: Arc<Mutex<Started<ValueOf<H>, ErrorOf<H>>>>,
}

struct Started<V: 'static, E: 'static> {
    /// `None`: their outcome is known, or about to be.
    calls: Option<Calls<V, E, dyn Sent<V, E> + Send>>,
    outcome: Option<Result<Vec<V>, RunError<E>>>,
    has_ended: bool,
    /// A run before it has failed, so its own failure says nothing.
    is_spoiled: bool,
}

impl<H: Handler> fmt::Debug for StartedRun<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedRun").finish_non_exhaustive()
    }
}

impl World {
    /// Begins a [`run`](Self::run) and does not wait for it. The next run, started or not, begins on each
    /// rank behind this one; up to eight are started at a time, or as many as a rank has tickets;
    /// then this waits for the first.
    ///
    /// When a call fails, the runs that were started behind it are cancelled. The first run or start that
    /// comes then fails and says why, unless a [`StartedRun::wait`] has.
    ///
    /// # Errors
    /// An earlier run has failed, and no wait has said so; the calls could not be sent.
    pub fn start<H: Handler>(&self, call: Call<H>) -> Result<StartedRun<'_, H>, RunError<ErrorOf<H>>>
    where
        ValueOf<H>: Send + 'static,
        ErrorOf<H>: fmt::Debug + Send + 'static,
    {
        let tickets = self.nodes().iter().map(|node| node.device().options.tickets as usize);
        let arguments = self.encoded(call);
        let mut runs = self.begin_run(Before::Room(tickets.fold(MOST, usize::min)), None)?;
        let send = |_, stream: &crate::SharedStream| -> Result<Box<dyn Sent<ValueOf<H>, ErrorOf<H>> + Send>, _> {
            Ok(Box::new(SentCall::<H>::new(stream.offload_encoded(&arguments, CallOptions::default())?)))
        };
        let mut calls = self.calls(&mut runs, send);
        if calls.failed_at().is_some() {
            // Those that were sent are cancelled.
            calls.step(&mut Context::from_waker(Waker::noop()), |_, _| {});
            drop(runs);
            return Err(calls.outcome().err().unwrap_or_else(|| self.outcome_is_taken()));
        }
        // Each run before it that has failed is seen before the next one begins.
        runs.open.is_stale = false;
        let run = Started { calls: Some(calls), outcome: None, has_ended: false, is_spoiled: false };
        let run = Arc::new(Mutex::new(run));
        runs.open.runs.push_back(run.clone());
        Ok(StartedRun { world: self, run })
    }
}

impl<H: Handler> StartedRun<'_, H>
where
    ErrorOf<H>: fmt::Debug,
{
    /// Has it ended, so that [`Self::wait`] returns at once? Never waits.
    pub fn is_done(&self) -> bool {
        if !self.world.origin.is_here() {
            return true;
        }
        if let Some(mut runs) = self.world.runs.take(Some(Instant::now())) {
            runs.open.look(&mut Context::from_waker(Waker::noop()));
            self.world.end_run(&mut runs);
        }
        lock(&self.run).has_ended
    }

    /// Waits for it; the value of rank 0. In a body that a rank called, this is refused while it goes on.
    ///
    /// # Errors
    /// As for [`World::run`]; a run before it has failed, and it was cancelled.
    pub fn wait(self) -> Result<ValueOf<H>, RunError<ErrorOf<H>>> {
        self.wait_all().map(of_first)
    }

    /// Waits for it; the values of all ranks, in order.
    ///
    /// # Errors
    /// As for [`Self::wait`].
    pub fn wait_all(self) -> Result<Vec<ValueOf<H>>, RunError<ErrorOf<H>>> {
        if !self.world.origin.is_here() {
            // Another thread may have the turn, which is not in this copy of the process.
            return Err(self.world.refused_in_copy());
        }
        if self.world.is_in_body() && !self.is_done() {
            return Err(self.world.refused_in_body());
        }
        // Other threads that wait for runs of this world wait for this one first. None: another run goes on, and the
        // outcome is there.
        if let Some(mut runs) = self.world.runs.take(self.world.may_wait_until(None)) {
            park_until(|task| {
                runs.open.look(task);
                if lock(&self.run).has_ended { Ok(()) } else { Err(runs.open.until()) }
            });
            self.world.end_run(&mut runs);
            // Said now; that of another run is not.
            runs.open.failed.take_if(|failed| std::ptr::addr_eq(Arc::as_ptr(failed), Arc::as_ptr(&self.run)));
        }
        let (calls, outcome) = {
            let mut run = lock(&self.run);
            (run.calls.take(), run.outcome.take())
        };
        let outcome = outcome.or_else(|| Some(calls?.outcome()));
        outcome.unwrap_or_else(|| Err(self.world.outcome_is_taken()))
    }
}

/// Runs that were started.
#[derive(Default)]
pub(super) struct Open {
    /// Those that have not ended, in their order.
    runs: VecDeque<Arc<dyn Ongoing>>,
    /// One that has failed, which no wait has said.
    failed: Option<Arc<dyn Ongoing>>,
    /// A run has failed, started or not: barrier and signal words may be anything.
    pub(super) is_stale: bool,
}

/// A run of any type.
pub(super) trait Ongoing: Send + Sync {
    /// Looks for outcomes.
    fn look(&self, task: &mut Context<'_>);
    fn has_ended(&self) -> bool;
    /// Where it has failed.
    fn failed_at(&self) -> Option<usize>;
    /// Where and why it has failed. Runs code of the program.
    fn say(&self) -> Option<(usize, String)>;
    /// When the calls that are left of a failed one are given up.
    fn until(&self) -> Option<Instant>;
    /// One before it has failed on this rank.
    fn spoil(&self, rank: usize);
    fn is_spoiled(&self) -> bool;
}

impl<V: Send, E: fmt::Debug + Send> Ongoing for Mutex<Started<V, E>> {
    fn look(&self, task: &mut Context<'_>) {
        let mut run = lock(self);
        run.has_ended = run.calls.as_mut().is_none_or(|calls| calls.step(task, |_, _| {}));
    }
    fn has_ended(&self) -> bool {
        lock(self).has_ended
    }
    fn failed_at(&self) -> Option<usize> {
        lock(self).calls.as_ref()?.failed_at()
    }
    fn say(&self) -> Option<(usize, String)> {
        let calls = lock(self).calls.take()?;
        let outcome = calls.outcome();
        let said = outcome.as_ref().err().map(|failure| (failure.rank.0 as usize, failure.to_string()));
        lock(self).outcome = Some(outcome);
        said
    }
    fn until(&self) -> Option<Instant> {
        lock(self).calls.as_ref()?.until()
    }
    fn spoil(&self, rank: usize) {
        let mut run = lock(self);
        run.is_spoiled = true;
        if let Some(calls) = &mut run.calls {
            calls.spoil(rank);
        }
    }
    fn is_spoiled(&self) -> bool {
        lock(self).is_spoiled
    }
}

impl Open {
    /// Has each run that was started ended?
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// A run that has failed, if no wait has returned that.
    pub(super) fn take_failed(&mut self) -> Option<Arc<dyn Ongoing>> {
        self.failed.take()
    }

    fn until(&self) -> Option<Instant> {
        self.runs.iter().filter_map(|run| run.until()).min()
    }

    /// Looks for outcomes of all runs that were started.
    fn look(&mut self, task: &mut Context<'_>) {
        // The last one first: where it has ended, those before it have, and so their failures are seen.
        self.runs.iter().rev().for_each(|run| run.look(task));
        let mut failed_at = None;
        for run in &self.runs {
            if let Some(rank) = failed_at {
                run.spoil(rank);
                run.look(task);
            } else if !run.is_spoiled()
                && let Some(rank) = run.failed_at()
            {
                failed_at = Some(rank);
                self.is_stale = true;
                self.failed.get_or_insert_with(|| run.clone());
            }
        }
        self.runs.retain(|run| !run.has_ended());
    }

    /// Waits for runs that were started, until this time at most. False: they go on.
    pub(super) fn wait_for(&mut self, before: Before, until: Option<Instant>) -> bool {
        let mut is_free = false;
        park_until(|task| {
            self.look(task);
            is_free = self.runs.is_empty()
                || match before {
                    Before::Room(most) => !self.is_stale && self.runs.len() < most,
                    Before::Ended => false,
                };
            let is_over = is_free || until.is_some_and(|until| Instant::now() >= until);
            if is_over { Ok(()) } else { Err(self.until().into_iter().chain(until).min()) }
        });
        is_free
    }
}
