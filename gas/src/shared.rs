//! A rank that several threads of its program use (`GASNET_PAR`).

#![expect(unsafe_code)]
// UNSAFETY: a rank holds its task, which no other thread may have (contract "shared ranks").
//
// Contract "shared ranks". `SharedRank` is `Sync` though a rank has its task, whose stack and slice
// are one thread's. The lock lets one thread at a time into the rank; others than the task's get no
// reference to the task and never suspend it. The proof is at the impl.

use crate::lock::Hsl;
use crate::thread::{pause, this_thread};
use crate::{BarrierName, Event, GasError, Rank};

/// A rank behind a lock, for the time of [`Rank::share`]. Handlers run on the thread that polls, one at
/// a time.
///
/// A wait of the rank inside of [`Self::with`] keeps the others out until it ends, so a program waits
/// with the functions of this type for what its other threads bring about.
pub struct SharedRank<'r, 't, S: 'static> {
    rank: Hsl<&'r mut Rank<'t, S>>,
}

// SAFETY: the lock lets one thread at a time use the rank. Of what a rank is made of, all but the state
// and the task may be used by any thread: lanes, counters, and memory of the world. The state is `Send`.
// The task stays on its own thread's stack, below `Rank::share`. Other threads get no reference to it
// (`Rank::task` asserts the owner) and never suspend it: while there is an owner, waits do not
// (`Rank::rest_for`), and turns of the serve loop are the owner's (`Rank::turn`). Other threads reach this
// rank's own segment through the slice that the task was lent, under the lock; the owner suspends under the
// lock alone, so the slice stays meanwhile. No view exists: views borrow the task mutably, which the rank
// borrows. What is claimed of the segment is stated in the rank, so all threads find the same bytes.
unsafe impl<S: Send> Sync for SharedRank<'_, '_, S> {}

impl<'t, S: Send> Rank<'t, S> {
    /// Lets threads that `f` starts use this rank, each through the same reference
    /// (`std::thread::scope`). Their number has no limit. This thread serves the rank meanwhile as always: by
    /// polls and waits.
    ///
    /// # Panics
    /// The rank is shared already.
    pub fn share<R>(&mut self, f: impl FnOnce(&SharedRank<'_, 't, S>) -> R) -> R {
        /// The rank has one thread again, also behind a panic.
        struct Ends<'r, 't, S: 'static>(SharedRank<'r, 't, S>);
        impl<S: 'static> Drop for Ends<'_, '_, S> {
            fn drop(&mut self) {
                self.0.rank.with(|rank| rank.owner = 0);
            }
        }
        assert!(self.owner == 0, "hamr: the rank is shared already");
        self.owner = this_thread();
        f(&Ends(SharedRank { rank: Hsl::new(self) }).0)
    }
}

impl<S: Send> SharedRank<'_, '_, S> {
    /// The rank, for one thread at a time. Other threads than its own do not get its task.
    ///
    /// # Panics
    /// This thread has it already, further out.
    pub fn with<R>(&self, f: impl FnOnce(&mut Rank<'_, S>) -> R) -> R {
        self.rank.with(|rank| f(rank))
    }

    /// Polls until `done` returns true ([`Rank::block_until`]). Other threads may use the rank between two
    /// polls.
    pub fn block_until(&self, mut done: impl FnMut(&mut S) -> bool) -> Result<(), GasError> {
        self.until(|rank| Ok(done(rank.state_mut()).then_some(())))
    }

    /// Waits for an event ([`Rank::wait`]), likewise.
    pub fn wait(&self, mut event: Event) -> Result<(), GasError> {
        self.until(|rank| Ok(rank.test(&mut event).then_some(())))
    }

    /// The barrier of all ranks ([`Rank::barrier`]), likewise. One thread of a rank comes to it.
    pub fn barrier(&self, name: BarrierName) -> Result<Option<u32>, GasError> {
        self.with(|rank| rank.barrier_notify(name))?;
        self.until(|rank| rank.barrier_try(name))
    }

    fn until<R>(&self, mut ready: impl FnMut(&mut Rank<'_, S>) -> Result<Option<R>, GasError>) -> Result<R, GasError> {
        loop {
            let looked = self.with(|rank| match ready(rank) {
                Ok(None) => rank.poll().map(Err),
                ready => ready.map(|done| done.ok_or(0)),
            });
            match looked? {
                Ok(done) => return Ok(done),
                Err(0) => pause(),
                Err(_) => {}
            }
        }
    }
}
