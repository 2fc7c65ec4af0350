//! The ranges of a program, which may have several devices.

use super::ClaimedRange;
use alloc::vec::Vec;
use std::sync::{Mutex, PoisonError};

static RANGES: Mutex<Vec<ClaimedRange>> = Mutex::new(Vec::new());

/// Runs `f` with all ranges, alone; with a free one where it is to claim it.
pub(super) fn here<R>(claims: bool, f: impl FnOnce(&[ClaimedRange]) -> R) -> R {
    let mut ranges = RANGES.lock().unwrap_or_else(PoisonError::into_inner);
    if claims && ranges.iter().all(ClaimedRange::is_claimed) {
        ranges.push(ClaimedRange::free());
    }
    f(&ranges)
}
