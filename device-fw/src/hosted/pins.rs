//! The process's clock and doorbells for drivers (`hal`).

use super::bells::Bells;
use std::sync::OnceLock;
use std::time::Instant;

static BELLS: OnceLock<Bells> = OnceLock::new();
static BEGIN: OnceLock<Instant> = OnceLock::new();

/// What came from the host. Without descriptors to spare, drivers have no bell.
pub(super) fn connect(bells: Option<&Bells>) {
    if let Some(Ok(again)) = bells.map(Bells::again) {
        let _ = BELLS.set(again);
    }
}

pub(crate) fn now_ns() -> u64 {
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

pub(crate) fn ring() {
    if let Some(bells) = BELLS.get() {
        bells.ring();
    }
}

pub(crate) fn is_rung() -> bool {
    BELLS.get().is_some_and(Bells::is_rung)
}
