//! What ranks do two by two, and waits for some of them.

use crate::task::wait::Wait;
use crate::task::{Interrupted, Place, Reason, Task};
use crate::world::waits::next_number;
use crate::world::{Caller, OutOfReach, RankId, WorldRef};
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_shared_abi::task_line::WaitKind;
use hamr_shared_abi::window::Value;

impl WorldRef<'_> {
    /// [`Self::signal`] without a fence: a rank that goes to sleep at this moment may miss it. [`Self::notify`]
    /// must follow before this rank waits or computes.
    #[inline]
    pub fn signal_relaxed(&self, to: RankId, word: u32, value: u32) -> Result<(), OutOfReach> {
        self.store_signal(to, word, value)?;
        self.rank.peers.wake_relaxed(to);
        Ok(())
    }

    /// Notifies a rank that sleeps of all that this one has published for it.
    #[inline]
    pub fn notify(&self, rank: RankId) {
        self.rank.peers.wake(rank);
    }

    /// The number of this rank's next meeting with another, for programs that publish it in a signal, and compare
    /// by [`has_come`](super::super::has_come). It is one more each time, also across calls; when the words of signals have started over,
    /// none of before is at it.
    pub fn meet(&self, with: RankId) -> Result<u32, OutOfReach> {
        self.rank.begin_anew();
        self.rank.calls.meetings.get(with.0 as usize).map(step).ok_or(OutOfReach::Rank(with.0))
    }

    /// The number of the last one, or one before the first.
    pub fn met(&self, with: RankId) -> u32 {
        self.rank.calls.meetings.get(with.0 as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Which time it is that the words of signals have started: the same on all ranks that meet.
    pub fn run(&self) -> u32 {
        self.rank.peers.run()
    }

    /// Does a number come to a multiple of its size in this rank's own segment, within as many looks as a task takes
    /// before it suspends itself for what another rank does?
    #[inline]
    pub fn comes_soon<T: Value + PartialEq>(&self, off: u64, value: T) -> Result<bool, OutOfReach> {
        let looks = match self.caller {
            Caller::Inline(_) => 1,
            Caller::Task(task) => task.looks(),
        };
        self.in_own(|segment| {
            for _ in 0..looks {
                if segment.load::<T>(off)? == value {
                    return Ok(true);
                }
                core::hint::spin_loop();
            }
            Ok(false)
        })
    }
}

fn step(number: &AtomicU32) -> u32 {
    let next = next_number(number.load(Ordering::Relaxed));
    number.store(next, Ordering::Relaxed);
    next
}

impl Task<'_> {
    /// [`Self::wait_until`] for what one of the ranks from `first` to `last` does, or is to do: who looks at the
    /// wait sees these.
    ///
    /// # Errors
    /// The wait was interrupted.
    #[track_caller]
    pub fn wait_until_ranks(
        &self,
        (first, last): (RankId, RankId),
        ready: impl FnMut() -> bool,
    ) -> Result<(), Interrupted> {
        let reason = Reason::of(WaitKind::RANKS, first.0 as u16, last.0 as u16, Place::caller());
        self.wait_while(Wait::Poll, reason, ready)
    }
}
