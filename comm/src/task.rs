//! What a task sees of its device.

use crate::buffer::{BufferPtr, Element};
use crate::context::{Context, ViewSet};
use crate::fault::Fault;
use crate::resource::Resource;
use hamr_shared_abi::ids::{Isa, NodeId};
use hamr_shared_abi::window::Words;

/// Handed to every task as its first argument.
pub struct Task<'t> {
    cx: Context<'t>,
}

impl<'t> Task<'t> {
    pub(crate) fn new(cx: Context<'t>) -> Self {
        Self { cx }
    }

    /// The task as an inline handler sees its device, for functions that both call.
    pub fn context(&mut self) -> &mut Context<'t> {
        &mut self.cx
    }

    /// [`Context::views`].
    pub fn views<V: ViewSet>(&mut self, set: V) -> Result<V::Views<'_>, Fault> {
        self.context().views(set)
    }

    /// [`Context::view`].
    pub fn view<T: Element>(&mut self, ptr: BufferPtr<T>) -> Result<&[T], Fault> {
        self.context().view(ptr)
    }

    /// [`Context::view_mut`].
    pub fn view_mut<T: Element>(&mut self, ptr: BufferPtr<T>) -> Result<&mut [T], Fault> {
        self.context().view_mut(ptr)
    }

    /// [`Context::copy_out`].
    pub fn copy_out<T: Element>(&self, from: BufferPtr<T>, to: &mut [T]) -> Result<(), Fault> {
        self.cx.copy_out(from, to)
    }

    /// [`Context::copy_in`].
    pub fn copy_in<T: Element>(&self, from: &[T], to: BufferPtr<T>) -> Result<(), Fault> {
        self.cx.copy_in(from, to)
    }

    /// [`Context::words`].
    pub fn words(&self, ptr: BufferPtr<u32>) -> Result<Words<'_>, Fault> {
        self.cx.words(ptr)
    }

    /// [`Context::with`].
    pub fn with<T, R>(&mut self, resource: &Resource<T>, f: impl FnOnce(&mut T) -> R) -> Result<R, Fault> {
        self.context().with(resource, f)
    }

    /// [`Context::clear_poison`].
    pub fn clear_poison<T>(&mut self, resource: &Resource<T>, fresh: T) {
        self.context().clear_poison(resource, fresh);
    }

    /// [`Context::node`].
    pub fn node(&self) -> NodeId {
        self.cx.node()
    }

    /// [`Context::isa`].
    pub fn isa(&self) -> Isa {
        self.cx.isa()
    }

    /// [`Context::cancelled`].
    pub fn cancelled(&self) -> bool {
        self.cx.cancelled()
    }

    /// [`Context::deadline_us`].
    pub fn deadline_us(&self) -> u32 {
        self.cx.deadline_us()
    }

    pub(crate) fn saw_cancel(&self) -> bool {
        self.cx.saw_cancel()
    }
}
