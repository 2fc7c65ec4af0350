//! In the place of `shown` in images without worlds, which show nothing of it.

use hamr_shared_abi::task_line::WaitKind;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Place;

impl Place {
    #[track_caller]
    #[inline(always)]
    pub(crate) const fn caller() -> Self {
        Self
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reason;

impl Reason {
    pub(crate) const fn new(_: WaitKind, _: Place) -> Self {
        Self
    }

    pub(crate) const fn of(_: WaitKind, _: u16, _: u16, _: Place) -> Self {
        Self
    }

    pub(crate) const fn again(self) -> Self {
        self
    }
}
