//! The process's clock and doorbells for drivers (`hal`).

use super::doorbells::ProcessDoorbells;
use std::sync::OnceLock;
use std::time::Instant;

static DOORBELLS: OnceLock<ProcessDoorbells> = OnceLock::new();
static BEGIN: OnceLock<Instant> = OnceLock::new();

/// Sets the doorbells that came from the host. If their descriptors cannot be duplicated, drivers
/// have no doorbell.
pub(super) fn connect(doorbells: Option<&ProcessDoorbells>) {
    if let Some(Ok(again)) = doorbells.map(ProcessDoorbells::again) {
        let _ = DOORBELLS.set(again);
    }
}

pub(crate) fn now_ns() -> u64 {
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

pub(crate) fn notify() {
    if let Some(doorbells) = DOORBELLS.get() {
        doorbells.notify();
    }
}

pub(crate) fn is_notified() -> bool {
    DOORBELLS.get().is_some_and(ProcessDoorbells::is_notified)
}
