//! What images with worlds show of the waits of their tasks.

use core::panic::Location;
use hamr_shared_abi::task_line::WaitKind;

/// Where in the source a task waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(&'static Location<'static>);

impl Place {
    #[track_caller]
    #[inline(always)]
    pub(crate) const fn caller() -> Self {
        Self(Location::caller())
    }
}

/// What a wait is for, and where in the source: for people (abi §12.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reason {
    pub(crate) kind: WaitKind,
    pub(crate) of: u16,
    pub(crate) word: u16,
    /// The task has looked, and goes on with the same wait.
    pub(crate) again: bool,
    pub(crate) at: &'static Location<'static>,
}

impl Reason {
    pub(crate) const fn new(kind: WaitKind, at: Place) -> Self {
        Self::of(kind, 0, 0, at)
    }

    /// One that needs numbers, whose meaning is the kind's.
    pub(crate) const fn of(kind: WaitKind, of: u16, word: u16, at: Place) -> Self {
        Self { kind, of, word, again: false, at: at.0 }
    }

    pub(crate) const fn again(self) -> Self {
        Self { again: true, ..self }
    }
}
