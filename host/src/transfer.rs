//! Moves data: one copy straight to its place (the window is mapped).
//!
//! `node.put` is seen by every call submitted later, and is not ordered with calls in flight: a
//! buffer that one of them names is refused. `stream.put` waits for the stream's own calls first.
//! Transfers of several threads that meet in one buffer come one after the other, but for those
//! that only read it.
//!
//! `node.put_async` and its relatives only submit: a thread of the device makes the copies, in the
//! order of their submission. Until a copy ends it uses its buffers as a call in flight does.

use crate::device::Device;
use crate::memory::{End, Submitted};
use crate::{BufferError, Error, Node, PendingWork};
use hamr_comm::abi::window::Words;
use hamr_comm::{BufferPtr, Element};

impl Node {
    /// Copies `from` to the front of a buffer. Calls submitted later see it. Other threads'
    /// transfers of the same buffer are waited for: no copy sees half of another one.
    ///
    /// # Errors
    /// A freed or foreign pointer, more than the buffer has room for, or a buffer that a call in
    /// flight names.
    #[inline]
    pub fn put<T: Element>(&self, from: &[T], to: BufferPtr<T>) -> Result<(), Error> {
        self.device().put(from, to)
    }

    /// Copies the front of a buffer to `to`: `to.len()` elements. Waits for another thread's
    /// [`Self::put`] into the same buffer, not for its `get` of more than 4 KiB.
    ///
    /// # Errors
    /// As [`Self::put`].
    #[inline]
    pub fn get<T: Element>(&self, from: BufferPtr<T>, to: &mut [T]) -> Result<(), Error> {
        self.device().get(from, to)
    }

    /// A copy of everything in a buffer.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn read<T: Element>(&self, from: BufferPtr<T>) -> Result<Vec<T>, Error> {
        // A handler may have returned the pointer: its length is a device's word until it is
        // checked.
        self.memory().check_live(from).map_err(|why| self.buffer_error(why))?;
        let mut to = vec![T::zeroed(); from.len()];
        self.get(from, &mut to)?;
        Ok(to)
    }

    /// Copies one buffer to another of the same device; the ranges may overlap. Other threads'
    /// transfers of the two are waited for, as in [`Self::put`] and [`Self::get`].
    ///
    /// # Errors
    /// As [`Self::put`]; also when the lengths differ.
    pub fn copy<T: Element>(&self, from: BufferPtr<T>, to: BufferPtr<T>) -> Result<(), Error> {
        self.device().check_open("copying")?;
        if from.bytes() != to.bytes() {
            return Err(self.buffer_error(BufferError::Overrun { wanted: from.bytes(), has: to.bytes() }));
        }
        self.memory().copy(from, to).map_err(|why| self.buffer_error(why))
    }

    /// Copies a buffer to one of another device: one copy in this process, which maps both. With
    /// the same device as `other`, this is [`Self::copy`].
    ///
    /// # Errors
    /// As [`Self::copy`]; the message names the device that the pointer in question is of.
    pub fn copy_to<T: Element>(&self, from: BufferPtr<T>, other: &Self, to: BufferPtr<T>) -> Result<(), Error> {
        self.device().check_open("copying")?;
        if self.device().id == other.device().id {
            return self.copy(from, to);
        }
        if from.bytes() != to.bytes() {
            return Err(other.buffer_error(BufferError::Overrun { wanted: from.bytes(), has: to.bytes() }));
        }
        self.memory().copy_to(from, other.memory(), to).map_err(|(end, why)| match end {
            End::Source => self.buffer_error(why),
            End::Target => other.buffer_error(why),
        })
    }

    /// Submits a copy of `from` to the front of a buffer, and returns within microseconds, whatever
    /// the length. `from` is anything that owns elements, such as a `Vec`, an `Arc<[T]>` or a
    /// `&'static [T]`; it comes back from the wait.
    ///
    /// One thread per node makes the copies that were submitted on it, one after the other in the
    /// order of their submission. Until this one ends it uses the buffer: calls that name it, and
    /// transfers that are not submitted, are refused ([`BufferError::InTransfer`]), and a buffer
    /// that is dropped is freed afterwards.
    ///
    /// # Errors
    /// As [`Self::put`], at once: nothing was submitted then. Later [`Error::Lost`], when the node is
    /// dropped before the copy.
    pub fn put_async<T: Element, S: AsRef<[T]> + Send + 'static>(
        &self,
        from: S,
        to: BufferPtr<T>,
    ) -> Result<PendingWork<S>, Error> {
        let device = self.device();
        let target = device.submit(to, size_of_val(from.as_ref()) as u64)?;
        let here = device.clone();
        device.submit_transfer("putting", move || {
            let put = target.write(bytemuck::cast_slice(from.as_ref()));
            put.map_err(|why| here.buffer_error(why)).map(|()| from)
        })
    }

    /// Submits a copy of the front of a buffer to `to`, all of it, as [`Self::put_async`]. `to`
    /// comes back from the wait.
    ///
    /// # Errors
    /// As [`Self::put_async`].
    pub fn get_async<T: Element, D: AsMut<[T]> + Send + 'static>(
        &self,
        from: BufferPtr<T>,
        mut to: D,
    ) -> Result<PendingWork<D>, Error> {
        let device = self.device();
        let source = device.submit(from, size_of_val(to.as_mut()) as u64)?;
        let here = device.clone();
        device.submit_transfer("getting", move || {
            let got = source.read(bytemuck::cast_slice_mut(to.as_mut()));
            got.map_err(|why| here.buffer_error(why)).map(|()| to)
        })
    }

    /// Submits [`Self::copy_to`], as [`Self::put_async`]: the copy uses both buffers, and this
    /// node's thread makes it.
    ///
    /// # Errors
    /// As [`Self::copy_to`], at once, and as [`Self::put_async`].
    pub fn copy_to_async<T: Element>(
        &self,
        from: BufferPtr<T>,
        other: &Self,
        to: BufferPtr<T>,
    ) -> Result<PendingWork<()>, Error> {
        if from.bytes() != to.bytes() {
            return Err(other.buffer_error(BufferError::Overrun { wanted: from.bytes(), has: to.bytes() }));
        }
        let (here, there) = (self.device().clone(), other.device().clone());
        let (source, target) = (here.submit(from, from.bytes())?, there.submit(to, to.bytes())?);
        self.device().submit_transfer("copying", move || {
            there.check_open("copying")?;
            source.copy_to(&target).map_err(|(end, why)| match end {
                End::Source => here.buffer_error(why),
                End::Target => there.buffer_error(why),
            })
        })
    }

    /// Transfers that borrow the caller's memory and may run while `f` goes on. All of them are
    /// complete when `scope` returns, also when `f` panics: that is why the borrow is safe, which
    /// it would not be in a future that could be forgotten.
    ///
    /// # Errors
    /// Those of the first transfer that failed, unless its [`Transfer`] was waited for.
    pub fn scope<'env, R>(&self, f: impl for<'s> FnOnce(&'s Scope<'s, 'env>) -> R) -> Result<R, Error> {
        let scope = Scope { node: self, failed: std::cell::RefCell::new(None), _env: std::marker::PhantomData };
        let result = f(&scope);
        match scope.failed.into_inner() {
            None => Ok(result),
            Some(e) => Err(e),
        }
    }

    /// The words of a buffer, for signalling with a handler while it runs
    /// ([`hamr_comm::Context::words`] is the other end): every access is an atomic, one writer per
    /// word.
    ///
    /// # Errors
    /// A freed or foreign pointer.
    pub fn words(&self, of: BufferPtr<u32>) -> Result<Words<'_>, Error> {
        self.device().check_open("finding words")?;
        self.device().memory.words(of).map_err(|why| self.buffer_error(why))
    }

    pub(crate) fn buffer_error(&self, why: BufferError) -> Error {
        self.device().buffer_error(why)
    }
}

/// Copies of a [`Node`] and of its buffers.
impl Device {
    #[inline(always)]
    pub(crate) fn put<T: Element>(&self, from: &[T], to: BufferPtr<T>) -> Result<(), Error> {
        match self.memory.put_by_bias(from, to) {
            Some(()) => Ok(()),
            None => self.put_otherwise(from, to),
        }
    }

    #[inline(always)]
    pub(crate) fn get<T: Element>(&self, from: BufferPtr<T>, to: &mut [T]) -> Result<(), Error> {
        match self.memory.get_by_bias(from, to) {
            Some(()) => Ok(()),
            None => self.get_otherwise(from, to),
        }
    }

    // Functions of their own, out of line: a closure over the arguments would keep the first
    // attempt, which is a handful of instructions, from being compiled into its caller.
    #[cold]
    #[inline(never)]
    fn put_otherwise<T: Element>(&self, from: &[T], to: BufferPtr<T>) -> Result<(), Error> {
        if self.memory.put_at_once(from, to).is_some() {
            return Ok(());
        }
        self.check_open("copying")?;
        let Err(why) = self.memory.put(from, to) else { return Ok(()) };
        self.unless_busy(why)?;
        self.memory.put(from, to).map_err(|why| self.buffer_error(why))
    }

    #[cold]
    #[inline(never)]
    fn get_otherwise<T: Element>(&self, from: BufferPtr<T>, to: &mut [T]) -> Result<(), Error> {
        if self.memory.get_at_once(from, to).is_some() {
            return Ok(());
        }
        self.check_open("copying")?;
        let Err(why) = self.memory.get(from, to) else { return Ok(()) };
        self.unless_busy(why)?;
        self.memory.get(from, to).map_err(|why| self.buffer_error(why))
    }

    /// One end of a transfer that is submitted.
    fn submit<T: Element>(&self, ptr: BufferPtr<T>, bytes: u64) -> Result<Submitted, Error> {
        match self.memory.submit(ptr, bytes) {
            Ok(submitted) => Ok(submitted),
            Err(why) => {
                self.unless_busy(why)?;
                self.memory.submit(ptr, bytes).map_err(|why| self.buffer_error(why))
            }
        }
    }

    /// A buffer may be busy only because the replies of a dropped stream, or of detached calls of
    /// this thread, have not been polled yet.
    fn unless_busy(&self, why: BufferError) -> Result<(), Error> {
        if why != BufferError::Busy {
            return Err(self.buffer_error(why));
        }
        self.reap_unread();
        Ok(())
    }

    /// Ends the uses of buffers by calls of dropped streams and of the calling thread's own one, as
    /// far as they are answered. For a caller that finds a buffer busy or the heap full: perhaps no
    /// other thread polls for those replies.
    #[cold]
    pub(crate) fn reap_unread(&self) {
        crate::stream::reap_local(self);
        self.poll_idle_queues();
    }

    pub(crate) fn buffer_error(&self, why: BufferError) -> Error {
        Error::Buffer { device: self.name.clone(), why }
    }
}

/// See [`Node::scope`].
pub struct Scope<'s, 'env> {
    node: &'s Node,
    failed: std::cell::RefCell<Option<Error>>,
    // Invariant: a longer borrow must not be taken for a shorter one.
    _env: std::marker::PhantomData<&'env mut &'env ()>,
}

/// A transfer of a scope. Over a mapped window, and every window is mapped, it is complete when it
/// is made: [`Self::wait`] reads its outcome, and there is nothing to ask for or to time.
#[must_use = "its error is reported here, or by the scope when this is dropped"]
pub struct Transfer<'s, 'env> {
    scope: &'s Scope<'s, 'env>,
    outcome: Option<Result<(), Error>>,
}

impl<'s, 'env> Scope<'s, 'env> {
    /// Starts a copy into a buffer.
    pub fn put<T: Element>(&'s self, from: &'env [T], to: BufferPtr<T>) -> Transfer<'s, 'env> {
        Transfer { scope: self, outcome: Some(self.node.put(from, to)) }
    }

    /// Starts a copy out of a buffer.
    pub fn get<T: Element>(&'s self, from: BufferPtr<T>, to: &'env mut [T]) -> Transfer<'s, 'env> {
        Transfer { scope: self, outcome: Some(self.node.get(from, to)) }
    }
}

impl Transfer<'_, '_> {
    /// Waits until it is complete.
    ///
    /// # Errors
    /// As [`Node::put`] and [`Node::get`].
    pub fn wait(mut self) -> Result<(), Error> {
        self.outcome.take().unwrap_or(Ok(()))
    }
}

impl Drop for Transfer<'_, '_> {
    fn drop(&mut self) {
        if let Some(Err(e)) = self.outcome.take() {
            self.scope.failed.borrow_mut().get_or_insert(e);
        }
    }
}
