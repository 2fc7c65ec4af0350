//! Signals and barriers: words that one rank stores and another waits for (abi §13.3).

use super::{OutOfReach, Rank, RankId, WorldRef};
use crate::fault::Fault;
use crate::task::{Interrupted, Place, Reason, Task};
use core::sync::atomic::Ordering;
use hamr_shared_abi::task_line::WaitKind;
use hamr_shared_abi::window::Word;

impl WorldRef<'_> {
    /// Stores a value in the word that this rank has at another, behind all its earlier puts there.
    /// What words and values mean is the program's to say; there are 32 words for each pair of ranks.
    /// A signal replaces the one before it in its word.
    pub fn signal(&self, to: RankId, word: u32, value: u32) -> Result<(), OutOfReach> {
        self.store_signal(to, word, value)?;
        if to != self.rank.me {
            self.rank.peers.wake(to);
        }
        Ok(())
    }

    pub(super) fn store_signal(&self, to: RankId, word: u32, value: u32) -> Result<(), OutOfReach> {
        let Rank { me, size, ref peers, .. } = *self.rank;
        if to.0 >= size {
            return Err(OutOfReach::Rank(to.0));
        }
        // W1, of which W2 is the other end.
        peers.signal(to, me, word).ok_or(OutOfReach::Word(word))?.publish(value);
        Ok(())
    }

    /// The last value that another rank has stored here; 0 before the first.
    pub fn signalled(&self, from: RankId, word: u32) -> Result<u32, OutOfReach> {
        self.rank.signal_from(from, word).map(Word::observe)
    }
}

impl Rank {
    fn signal_from(&self, from: RankId, word: u32) -> Result<Word<'_>, OutOfReach> {
        if from.0 >= self.size {
            return Err(OutOfReach::Rank(from.0));
        }
        self.peers.signal(self.me, from, word).ok_or(OutOfReach::Word(word))
    }

    /// When the words have started over, so do the counts of what ranks publish there. Returns which time it is. A
    /// count outside of runs is stated to the launcher, which has the words start over before the next run.
    pub(super) fn begin_anew(&self) -> u32 {
        self.peers.note_outside();
        let run = self.peers.run();
        if self.run.load(Ordering::Relaxed) != run {
            let none = before_first(run);
            self.barriers.store(none, Ordering::Relaxed);
            self.calls.begin_anew(none);
            // Last: a task that is ended before this leaves it to the next one.
            self.run.store(run, Ordering::Release);
        }
        run
    }
}

impl Task<'_> {
    /// Waits until `test` accepts the value that a rank has stored in a word, and returns that value.
    /// It sees all that the rank put here before.
    ///
    /// # Errors
    /// The wait was interrupted; there is no such rank or word.
    #[track_caller]
    pub fn wait_signal(&self, from: RankId, word: u32, test: impl Fn(u32) -> bool) -> Result<u32, Fault> {
        let rank = Rank::here().ok_or_else(|| Fault::msg("this device is no rank"))?;
        let reason = Reason::of(WaitKind::SIGNAL, from.0 as u16, word as u16, Place::caller());
        let word = rank.signal_from(from, word)?;
        let mut value = 0;
        self.wait_for_peer(reason, || {
            // W2, of which W1 is the other end.
            value = word.observe();
            test(value)
        })?;
        Ok(value)
    }

    /// Waits until every rank has come here, once more than before. All that ranks put before it is
    /// seen behind it. One task of a rank at a time; on a device alone it does nothing.
    ///
    /// # Errors
    /// The wait was interrupted. The next call goes on with the same barrier.
    #[track_caller]
    pub fn barrier(&self) -> Result<(), Interrupted> {
        let Some(rank) = Rank::here() else { return Ok(()) };
        let Rank { me, size, ref peers, .. } = *rank;
        let run = rank.begin_anew();
        // It counts when it ends: one that was interrupted is entered again.
        let number = next_number(rank.barriers.load(Ordering::Relaxed));
        let place = Place::caller();
        disseminate(
            me,
            size,
            |to, round| {
                // W3, of which W4 is the other end. Where words start over at this moment, the number's run says that
                // it is of before.
                if let Some(word) = peers.barrier(to, round) {
                    word.publish(number);
                    peers.wake(to);
                }
            },
            |round| {
                let Some(word) = peers.barrier(me, round) else { return Ok(()) };
                let writer = (me.0 + size - ((1 << round) % size)) % size;
                // W4, of which W3 is the other end.
                self.wait_for_peer(Reason::of(WaitKind::BARRIER, writer as u16, 0, place), || {
                    has_come(word.observe(), number) || peers.run() != run
                })?;
                if peers.run() == run { Ok(()) } else { Err(Interrupted::Cancelled) }
            },
        )?;
        rank.barriers.store(number, Ordering::Relaxed);
        Ok(())
    }
}

/// Bits of a number that count; those above are of the run.
const COUNT_BITS: u32 = 24;
const COUNT: u32 = (1 << COUNT_BITS) - 1;

/// The number before the first barrier or meeting of a run of the words (abi §13.3).
pub fn before_first(run: u32) -> u32 {
    run << COUNT_BITS
}

/// The number behind this one, in its run.
pub fn next_number(number: u32) -> u32 {
    number & !COUNT | number.wrapping_add(1) & COUNT
}

/// Is a rank whose word has this value in the barrier or meeting of this number, or in a later one of the same run? A
/// rank that has left a barrier may be in the next one already, so its word may be one ahead.
pub fn has_come(word: u32, number: u32) -> bool {
    (word ^ number) & !COUNT == 0 && (word.wrapping_sub(number) << (32 - COUNT_BITS)) as i32 >= 0
}

/// A barrier of `size` ranks by dissemination (Hensgen, Finkel, Manber 1988): in round k each rank
/// tells the one 2^k behind it, and waits for the one 2^k before it.
pub fn disseminate<E>(
    me: RankId,
    size: u32,
    mut tell: impl FnMut(RankId, u32),
    mut wait: impl FnMut(u32) -> Result<(), E>,
) -> Result<(), E> {
    let mut round = 0;
    while 1 << round < size {
        tell(RankId((me.0 + (1 << round)) % size), round);
        wait(round)?;
        round += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_behind_none_of_another_run() {
        for run in [0, 1, 127, 128, 254, 255, 256, u32::MAX] {
            let first = next_number(before_first(run));
            // Zeros, and whatever a rank has written in the runs around.
            for other in 1..256 {
                for count in [0, 1, 2, COUNT / 2, COUNT / 2 + 1, COUNT - 1, COUNT] {
                    assert!(!has_come(before_first(run.wrapping_add(other)) | count, first), "{run} {other} {count}");
                }
            }
            assert!(!has_come(0, first), "{run}");
        }
    }

    #[test]
    fn numbers_of_a_run_go_on_behind_the_last() {
        for run in [0, 1, 255, 256, u32::MAX] {
            for count in [0, 1, COUNT / 2, COUNT - 1, COUNT] {
                let before = before_first(run) | count;
                let number = next_number(before);
                assert_eq!(before_first(run), number & !COUNT, "{run} {count}");
                assert!(!has_come(before, number), "{run} {count}");
                assert!(has_come(number, number) && has_come(next_number(number), number), "{run} {count}");
            }
        }
    }
}
