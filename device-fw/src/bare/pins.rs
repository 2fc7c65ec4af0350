//! The board's clock and doorbells for drivers (`hal`), wherever the drivers run.

use super::doorbell;
use super::runtime::RUNTIME;
use crate::arch;

pub(crate) fn now_ns() -> u64 {
    let (now, hz) = (arch::now(), RUNTIME.found().map_or(1, |found| found.hz));
    (now / hz).wrapping_mul(1_000_000_000).wrapping_add(now % hz * 1_000_000 / hz.div_ceil(1000))
}

pub(crate) fn notify() {
    RUNTIME.notify();
}

pub(crate) fn is_notified() -> bool {
    doorbell::is_notified()
}
