//! The process's clock and doorbells for drivers (`hal`).

use super::doorbells::ProcessDoorbells;
use super::runtime::RUNTIME;

pub(crate) fn now_ns() -> u64 {
    RUNTIME.begin.elapsed().as_nanos() as u64
}

pub(crate) fn notify() {
    RUNTIME.notify();
}

pub(crate) fn is_notified() -> bool {
    RUNTIME.doorbells.get().is_some_and(ProcessDoorbells::is_notified)
}
