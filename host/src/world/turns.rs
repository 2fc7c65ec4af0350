//! A lock that threads get in the order in which they ask, and that one may ask for until some time only. (The
//! standard library's has neither: a thread that looks now and then would find it taken, by others that come often.)

use super::calls::lock;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Default)]
pub(super) struct InTurn<T> {
    /// Locked by the thread whose turn it is.
    value: Mutex<T>,
    turns: Mutex<Turns>,
    ended: Condvar,
}

#[derive(Default)]
struct Turns {
    /// Numbers of the thread whose turn it is, and of those that wait.
    asked: VecDeque<u64>,
    next: u64,
}

impl<T> InTurn<T> {
    /// Waits for a turn, until then at most; without a time, as long as it takes.
    pub(super) fn take(&self, until: Option<Instant>) -> Option<Turn<'_, T>> {
        let mut turns = lock(&self.turns);
        let mine = turns.next;
        turns.next += 1;
        turns.asked.push_back(mine);
        while turns.asked.front() != Some(&mine) {
            turns = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => self.ended.wait(turns).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => {
                    turns.asked.retain(|asked| *asked != mine);
                    return None;
                }
                Some(left) => self.ended.wait_timeout(turns, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        drop(turns);
        Some(Turn { value: lock(&self.value), _end: End(self) })
    }
}

/// The lock.
pub(super) struct Turn<'t, T> {
    // In this order: the next thread finds it free.
    value: MutexGuard<'t, T>,
    _end: End<'t, T>,
}

struct End<'t, T>(&'t InTurn<T>);

impl<T> Drop for End<'_, T> {
    fn drop(&mut self) {
        lock(&self.0.turns).asked.pop_front();
        self.0.ended.notify_all();
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Threads that take it again and again keep away none that waits until some time; one that asks while it is taken
    /// gets it no later than it said.
    #[test]
    fn turns_are_in_the_order_of_asking_and_end_in_time() {
        let count = InTurn::<u32>::default();
        let in_time = || Some(Instant::now() + Duration::from_secs(20));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        *count.take(in_time()).expect("no thread takes 20 s") += 1;
                    }
                });
            }
        });
        let held = count.take(None).expect("free");
        assert_eq!(*held, 3000);
        std::thread::scope(|scope| {
            let late = scope.spawn(|| count.take(Some(Instant::now())).is_none());
            assert!(late.join().expect("no panic"), "it is taken");
        });
        drop(held);
        assert!(count.take(Some(Instant::now())).is_some(), "the one that came too late has no turn");
    }
}
