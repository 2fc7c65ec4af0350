//! Times that a test asserts, on a machine that may do something else beside.

use std::time::Duration;

/// How often a measurement is made at most.
const ATTEMPTS: usize = 5;

/// Asserts that something takes less than `limit`, which `measure` says. What takes longer is done anew, because whatever else the
/// machine does only adds to it; a delay that is the product's comes each time.
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
