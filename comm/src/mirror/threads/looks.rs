//! What threads of the host look at in the device's copy: bytes that nothing is notified of.

use crate::mirror::Lost;
use crate::mirror::asked::{MOST_LOOK, MOST_LOOKS, Range};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Looks of the host's threads, which a mirror carries.
#[derive(Default)]
pub struct Looks {
    /// How many are not carried yet: who carries takes no lock for none.
    waiting: AtomicUsize,
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    /// Not carried yet, then those on their way. By number.
    waiting: VecDeque<(u64, Range)>,
    sent: VecDeque<(u64, Range)>,
    /// Answers that were not taken.
    seen: Vec<(u64, Vec<u8>)>,
    last: u64,
    is_lost: bool,
}

impl Looks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of the device's copy, behind what it had published before; at most [`MOST_LOOK`] of them. `carry` wakes
    /// the mirror. `None`: they did not come within `limit`, or come no more.
    pub fn look(&self, off: u64, len: u32, limit: Duration, carry: impl FnOnce()) -> Option<Vec<u8>> {
        let mut state = self.state();
        if state.is_lost || len > MOST_LOOK || state.waiting.len() + state.sent.len() >= MOST_LOOKS {
            return None;
        }
        state.last += 1;
        let number = state.last;
        state.waiting.push_back((number, (off, len)));
        self.waiting.store(state.waiting.len(), Ordering::Relaxed);
        drop(state);
        carry();
        let begin = Instant::now();
        let mut state = self.state();
        loop {
            if let Some(index) = state.seen.iter().position(|(of, _)| *of == number) {
                return Some(state.seen.swap_remove(index).1);
            }
            let left = limit.saturating_sub(begin.elapsed());
            if state.is_lost || left.is_zero() {
                // What is on its way is dropped when it comes.
                state.waiting.retain(|(of, _)| *of != number);
                self.waiting.store(state.waiting.len(), Ordering::Relaxed);
                state.sent.iter_mut().filter(|(of, _)| *of == number).for_each(|(of, _)| *of = 0);
                return None;
            }
            state = self.answered.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// None is answered any more.
    pub fn end(&self) {
        self.state().is_lost = true;
        self.answered.notify_all();
    }

    pub(in crate::mirror) fn take(&self) -> Option<Range> {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut state = self.state();
        let look = state.waiting.pop_front()?;
        self.waiting.store(state.waiting.len(), Ordering::Relaxed);
        state.sent.push_back(look);
        Some(look.1)
    }

    /// The oldest look that was carried is answered.
    pub(in crate::mirror) fn put(&self, off: u64, bytes: &[u8]) -> Result<(), Lost> {
        let mut state = self.state();
        match state.sent.pop_front() {
            Some((number, range)) if range == (off, bytes.len() as u32) => {
                if number != 0 {
                    state.seen.push((number, bytes.into()));
                }
                self.answered.notify_all();
                Ok(())
            }
            _ => Err(Lost(format!("expected an answer to a look, got {} bytes of {off:#x}", bytes.len()))),
        }
    }
}
