//! Locks within a limit.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// A lock that another thread may have for long. `None`: it has it after `limit`.
pub fn lock_within<T>(lock: &Mutex<T>, limit: Duration) -> Option<MutexGuard<'_, T>> {
    let begin = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(locked) => return Some(locked),
            Err(TryLockError::Poisoned(locked)) => return Some(locked.into_inner()),
            Err(TryLockError::WouldBlock) if begin.elapsed() >= limit => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK.min(limit)),
        }
    }
}
