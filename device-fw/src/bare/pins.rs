//! The board's clock and doorbell for drivers (`hal`), wherever they run.

use super::doorbell::{self, Bell};
use crate::arch::{self, Timer};
use core::sync::atomic::{AtomicU64, Ordering};
use spin::Mutex;

/// Steps of the clock per second.
static HZ: AtomicU64 = AtomicU64::new(1);
static BELL: Mutex<Option<Bell>> = Mutex::new(None);

/// What the board found.
pub(super) fn connect(timer: &Timer, bell: Option<Bell>) {
    HZ.store(timer.hz().max(1), Ordering::Relaxed);
    *BELL.lock() = bell;
}

pub(crate) fn now_ns() -> u64 {
    let (now, hz) = (arch::now(), HZ.load(Ordering::Relaxed));
    (now / hz).wrapping_mul(1_000_000_000).wrapping_add(now % hz * 1_000_000 / hz.div_ceil(1000))
}

pub(crate) fn ring() {
    // Held by nobody else for long: a call that was abandoned while it rang leaves drivers without a bell.
    if let Some(Some(bell)) = BELL.try_lock().as_deref_mut() {
        bell.ring();
    }
}

pub(crate) fn is_rung() -> bool {
    doorbell::is_rung()
}
