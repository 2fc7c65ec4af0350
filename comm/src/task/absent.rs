//! The switch of an image without the feature `tasks`: no task runs there, so no value of
//! [`super::Task`] exists and its code is not linked.

use super::wait::Wait;
use super::{Marks, Reason, Slice};
use crate::buffer::BufferPtr;
use crate::fault::Fault;
use core::cell::Cell;
use core::convert::Infallible;
use core::marker::PhantomData;
use hamr_shared_abi::window::Words;

pub(crate) struct Suspender<'t> {
    never: Infallible,
    /// Neither `Send` nor `Sync`, as the present one.
    _task: PhantomData<&'t Cell<()>>,
}

impl<'t> Suspender<'t> {
    pub(super) fn suspend(&self, _: Wait, _: Reason) {
        match self.never {}
    }

    pub(super) fn marks(&self) -> &'t Cell<Marks> {
        match self.never {}
    }

    pub(super) fn slice(&mut self) -> &mut Slice<'t> {
        match self.never {}
    }

    pub(super) fn words(&self, _: BufferPtr<u32>) -> Result<Words<'_>, Fault> {
        match self.never {}
    }

    pub(super) fn with_scratch<R>(&self, _: impl FnOnce(&mut [u8]) -> R) -> R {
        match self.never {}
    }

    pub(super) fn with<R>(&self, _: impl FnOnce(&mut Slice<'_>) -> R) -> R {
        match self.never {}
    }
}
