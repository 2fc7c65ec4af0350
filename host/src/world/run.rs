//! Runs: one call to every rank at once.

use super::World;
use super::calls::{Calls, RunError, Sent, SentCall, of_first};
use super::started::{Before, Open};
use super::turns::Turn;
use crate::device::Device;
use crate::device::service::is_called_by;
use crate::stream::{Encoded, in_time};
use crate::{CallError, CallOptions, Error, SharedStream, SubmitError};
use hamr_comm::abi::ids::RankId;
use hamr_comm::{Call, ErrorOf, Handler, ValueOf};
use std::time::{Duration, Instant};

/// How long calls of one rank alone are waited for that may still count.
const STRAYS: Duration = Duration::from_secs(2);
/// The same where none is known: beside and behind a started run that no thread waits for, ranks count none.
const UNCOUNTED: Duration = Duration::from_millis(50);

const NOT_SENT: &str = "before it was sent";

/// What runs of a world share; its lock is taken for a whole run, unless that was started.
#[derive(Default)]
pub(super) struct Runs {
    /// One per rank, from the first run on.
    streams: Vec<SharedStream>,
    /// Those that were started and have not ended, and the failure of one that has.
    pub(super) open: Open,
    /// What ranks had counted outside of runs when the words started over last.
    outside: Vec<u32>,
    /// The ranks are told that runs are under way, so they do not count.
    said: bool,
}

impl World {
    /// Calls a handler on every rank and returns the value of rank 0. Runs of a world follow each
    /// other, in the order of their calls; in a body that a rank calls, one is refused while another goes on, which
    /// may wait for the body.
    /// The ranks' programs meet by signals and barriers ([`Task::barrier`](hamr_comm::Task::barrier)).
    ///
    /// When the call of a rank fails, those of the others are cancelled, and the world stays: before
    /// the next run the words of signals and barriers start over, with zeros. A rank whose handler
    /// does not end within two seconds of that is waited for by the next run.
    ///
    /// # Errors
    /// How the first call failed, and on which rank.
    pub fn run<H: Handler>(&self, call: Call<H>) -> Result<ValueOf<H>, RunError<ErrorOf<H>>> {
        self.run_all(call).map(of_first)
    }

    /// [`Self::run`], and the values of all ranks, in order.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub fn run_all<H: Handler>(&self, call: Call<H>) -> Result<Vec<ValueOf<H>>, RunError<ErrorOf<H>>> {
        self.run_with(call, CallOptions::default())
    }

    /// [`Self::run`], in at most this time, in which runs before it end, too. Behind that the calls are cancelled, and
    /// waited for as those of any failed run.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub fn run_within<H: Handler>(&self, call: Call<H>, limit: Duration) -> Result<ValueOf<H>, RunError<ErrorOf<H>>> {
        self.run_with(call, CallOptions::deadline(limit)).map(of_first)
    }

    fn run_with<H: Handler>(
        &self,
        call: Call<H>,
        options: CallOptions,
    ) -> Result<Vec<ValueOf<H>>, RunError<ErrorOf<H>>> {
        let until = options.deadline.map(in_time);
        let arguments = self.encoded(call);
        let begin = |_, stream: &SharedStream| -> Result<Box<dyn Sent<ValueOf<H>, ErrorOf<H>>>, _> {
            // No deadline is none at all.
            let left = |until: Instant| until.saturating_duration_since(Instant::now()).max(Duration::from_micros(1));
            let options = CallOptions { deadline: until.map(left), ..options };
            Ok(Box::new(SentCall::<H>::new(stream.offload_encoded(&arguments, options)?)))
        };
        self.run_each(until, begin, |_, _| {})
    }

    /// The arguments of a run. Code of the program, which may panic, wait, or run something itself: so before a run
    /// waits for its turn.
    pub(super) fn encoded<H: Handler>(&self, call: Call<H>) -> Encoded<'static> {
        let takes = |device: &Device| device.longest_message(&device.epoch_info().record);
        // A world has a rank.
        let devices = self.nodes().iter().map(|node| node.device());
        let longest = devices.max_by_key(|device| takes(device)).unwrap_or(self.node(0).device());
        Encoded::of(longest, &call).into_owned()
    }

    /// A run whose calls `begin` sends, one to each rank, before this time; `failed` is told the rank of the first
    /// failure, and whether it was lost, before the others are waited for.
    pub(super) fn run_each<V, E, S: Sent<V, E> + ?Sized>(
        &self,
        until: Option<Instant>,
        begin: impl Fn(u32, &SharedStream) -> Result<Box<S>, SubmitError>,
        failed: impl FnOnce(usize, bool),
    ) -> Result<Vec<V>, RunError<E>> {
        let mut runs = self.begin_run(Before::Ended, until)?;
        let mut calls = self.calls(&mut runs, begin);
        calls.wait(failed);
        runs.open.is_stale = calls.failed_at().is_some();
        self.end_run(&mut runs);
        drop(runs);
        calls.outcome()
    }

    /// The calls that `begin` sends. Behind them the words of the ranks are taken for stale until the run has gone well.
    pub(super) fn calls<V, E, S: Sent<V, E> + ?Sized>(
        &self,
        runs: &mut Runs,
        begin: impl Fn(u32, &SharedStream) -> Result<Box<S>, SubmitError>,
    ) -> Calls<V, E, S> {
        let mut calls = Calls::new(self.watched.clone());
        runs.open.is_stale = true;
        for (rank, stream) in runs.streams.iter().enumerate() {
            match begin(rank as u32, stream) {
                Ok(sent) => calls.push(sent),
                Err(why) => {
                    calls.fail(rank, why.into());
                    break;
                }
            }
        }
        calls
    }

    /// Does this thread run a body that a rank called? A run, which may be the one that waits for that body, is not
    /// waited for there.
    pub(super) fn is_in_body(&self) -> bool {
        is_called_by(|caller| self.nodes().iter().any(|node| node.device().id == caller))
    }

    /// The time until which this thread may wait for runs: of a caller who has none, or has this one.
    pub(super) fn may_wait_until(&self, until: Option<Instant>) -> Option<Instant> {
        if self.is_in_body() { Some(Instant::now()) } else { until }
    }

    /// In a copy of the process.
    #[cold]
    pub(super) fn refused_in_copy<E>(&self) -> RunError<E> {
        self.not_sent(0, self.of_another_process().why)
    }

    pub(super) fn refused_in_body<E>(&self) -> RunError<E> {
        self.not_sent(0, "a body that a rank called cannot wait for the run that goes on".into())
    }

    /// Takes the lock, and leaves what a failed run has left behind; waits until this time at most.
    pub(super) fn begin_run<E>(&self, before: Before, until: Option<Instant>) -> Result<Turn<'_, Runs>, RunError<E>> {
        if !self.origin.is_here() {
            return Err(self.refused_in_copy());
        }
        let until = self.may_wait_until(until);
        let late = || match self.is_in_body() {
            true => self.refused_in_body(),
            false => self.not_in_time(0),
        };
        let mut runs = self.runs.take(until).ok_or_else(late)?;
        if !runs.open.wait_for(before, until) {
            return Err(late());
        }
        if let Some(failed) = runs.open.take_failed() {
            // Its error is the program's to decode and show.
            drop(runs);
            let (rank, why) = failed.say().unwrap_or_default();
            return Err(self.not_sent(rank, format!("a run before it has failed: {why}")));
        }
        for (rank, node) in self.nodes().iter().enumerate().skip(runs.streams.len()) {
            let stream = node.shared_stream().map_err(|why| self.not_begun(rank, why))?;
            runs.streams.push(stream);
        }
        // A call of one rank alone has numbers that its partners do not have.
        let outside = self.watched.outside();
        runs.outside.resize(outside.len(), 0);
        let has_counted = runs.outside != outside;
        let strays = runs.open.is_empty() && (runs.said || has_counted);
        if runs.open.is_stale || strays {
            for (rank, stream) in runs.streams.iter().enumerate() {
                // No call of that run writes a word any more.
                stream.flush_until(until).map_err(|why| self.not_begun(rank, why))?;
            }
            if strays {
                // One that was given up has not ended yet; another may go on beside the run.
                let end = Instant::now() + if has_counted { STRAYS } else { UNCOUNTED };
                let end = until.map_or(end, |until| end.min(until));
                let left = || end.saturating_duration_since(Instant::now());
                self.nodes().iter().for_each(|node| drop(node.device().await_replies(Instant::now(), left())));
            }
            self.watched.restart_words();
            (runs.open.is_stale, runs.outside) = (false, outside);
        }
        self.watched.say_in_run(true);
        runs.said = true;
        Ok(runs)
    }

    /// Behind the end of a run.
    pub(super) fn end_run(&self, runs: &mut Runs) {
        if runs.open.is_empty() {
            self.watched.say_in_run(false);
            runs.said = false;
        }
    }

    /// Of a started run whose failure the next run has just said.
    pub(super) fn outcome_is_taken<E>(&self) -> RunError<E> {
        self.not_sent(0, "its outcome is being read by the run behind it".into())
    }

    fn not_begun<E>(&self, rank: usize, why: Error) -> RunError<E> {
        let error = match why {
            Error::Lost { why, .. } => CallError::DeviceLost(self.watched.site(rank, NOT_SENT), why.into()),
            Error::Timeout { .. } => return self.not_in_time(rank),
            other => return self.not_sent(rank, other.to_string()),
        };
        RunError { rank: RankId(rank as u32), name: self.watched.name_of(rank), error }
    }

    fn not_in_time<E>(&self, rank: usize) -> RunError<E> {
        let error = CallError::Deadline(self.watched.site(rank, NOT_SENT));
        RunError { rank: RankId(rank as u32), name: self.watched.name_of(rank), error }
    }

    fn not_sent<E>(&self, rank: usize, why: String) -> RunError<E> {
        let error = SubmitError::NoRoom { site: self.watched.site(rank, NOT_SENT), why }.into();
        RunError { rank: RankId(rank as u32), name: self.watched.name_of(rank), error }
    }
}
