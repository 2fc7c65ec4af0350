//! Time limits in tests, on a machine that may also run other programs.

use std::time::Duration;

/// The most measurements of one limit.
const ATTEMPTS: usize = 5;

/// Asserts that something takes less than `limit`; `measure` returns the time. A longer time is
/// measured again, because other programs only add to some measurements, and a delay of the product
/// is in each.
///
/// # Panics
/// When it took too long each time.
pub fn within(limit: Duration, mut measure: impl FnMut() -> Duration) {
    let mut took = Vec::new();
    while took.last().is_none_or(|last| *last >= limit) {
        assert!(took.len() < ATTEMPTS, "expected less than {limit:?}, got {took:?}");
        took.push(measure());
    }
}
