//! Calls with slices of the program: staged in buffers for the time of the call.

use super::{Buffer, Node};
use crate::{CallError, Error, SubmitError};
use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::{BufferPtr, Call, Element, ErrorOf, Handler, ValueOf};
use zerocopy::FromZeros;

/// Makes buffers of slices while a call is bound: see [`Node::sync_staged`].
pub struct Staging<'n, 'd> {
    node: &'n Node,
    staged: Vec<Staged<'d>>,
    /// The first failure. The call is not sent then.
    failed: Option<Error>,
}

/// One slice.
struct Staged<'d> {
    buffer: Buffer<u8>,
    /// Where its bytes go when the call has succeeded.
    back: Option<&'d mut [u8]>,
}

impl Node {
    /// Calls a handler that takes buffers with slices of the program: `bind` makes buffers of them,
    /// which live as long as the call. When it has succeeded, the slices that it wrote are copied
    /// back; otherwise they are as before.
    ///
    /// ```no_run
    /// # use hamr_comm::{offload, BufferPtr, Context, Fault};
    /// # #[offload] pub fn axpy(cx: &mut Context, a: f64, x: BufferPtr<f64>, y: BufferPtr<f64>) -> Result<(), Fault> { Ok(()) }
    /// # fn f(dev: &hamr::Node, xs: &[f64], ys: &mut [f64]) -> Result<(), Box<dyn std::error::Error>> {
    /// dev.sync_staged(|s| axpy::with(2.0, s.input(xs), s.in_out(ys)))?;
    /// # Ok(()) }
    /// ```
    ///
    /// Data that lies in a [`Buffer`] needs no staging: the call names the buffer's pointer.
    ///
    /// # Errors
    /// As [`Self::sync`]; [`SubmitError::NoRoom`] when the heap has no room for the slices.
    pub fn sync_staged<'d, H: Handler>(
        &self,
        bind: impl FnOnce(&mut Staging<'_, 'd>) -> Call<H>,
    ) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let mut staging = Staging { node: self, staged: Vec::new(), failed: None };
        let call = bind(&mut staging);
        let site = |stage| self.device().site::<H>(stage);
        if let Some(why) = staging.failed {
            return Err(SubmitError::NoRoom { site: site("staging its slices"), why: why.to_string() }.into());
        }
        let value = self.sync(call)?;
        for Staged { buffer, back } in staging.staged {
            if let Some(to) = back {
                let lost = |why: Error| CallError::DeviceLost(site("reading its slices"), why.to_string().into());
                self.get(buffer.ptr(), to).map_err(lost)?;
            }
        }
        Ok(value)
    }
}

impl<'d> Staging<'_, 'd> {
    /// The handler reads the slice.
    pub fn input<T: Element>(&mut self, from: &[T]) -> BufferPtr<T> {
        self.stage(from.len(), Some(bytemuck::cast_slice(from)), None)
    }

    /// The handler writes all of the slice. What it does not write is unspecified.
    pub fn output<T: Element>(&mut self, to: &'d mut [T]) -> BufferPtr<T> {
        self.stage(to.len(), None, Some(bytemuck::cast_slice_mut(to)))
    }

    /// The handler reads and writes the slice.
    pub fn in_out<T: Element>(&mut self, both: &'d mut [T]) -> BufferPtr<T> {
        let len = both.len();
        let bytes: &'d mut [u8] = bytemuck::cast_slice_mut(both);
        match self.buffer(bytes.len(), Some(bytes)) {
            Ok(buffer) => self.keep(buffer, len, Some(bytes)),
            Err(why) => self.fail(why),
        }
    }

    fn stage<T: Element>(&mut self, len: usize, from: Option<&[u8]>, back: Option<&'d mut [u8]>) -> BufferPtr<T> {
        match self.buffer(len * size_of::<T>(), from) {
            Ok(buffer) => self.keep(buffer, len, back),
            Err(why) => self.fail(why),
        }
    }

    fn buffer(&self, bytes: usize, from: Option<&[u8]>) -> Result<Buffer<u8>, Error> {
        let buffer = self.node.allocate(bytes)?;
        if let Some(from) = from {
            self.node.put(from, buffer.ptr())?;
        }
        Ok(buffer)
    }

    fn keep<T: Element>(&mut self, buffer: Buffer<u8>, len: usize, back: Option<&'d mut [u8]>) -> BufferPtr<T> {
        let pointer = buffer.elements(len);
        self.staged.push(Staged { buffer, back });
        pointer
    }

    /// A pointer of no buffer: the call that names it is not sent.
    fn fail<T: Element>(&mut self, why: Error) -> BufferPtr<T> {
        self.failed.get_or_insert(why);
        BufferPtr::from_wire(WireBuffer::new_zeroed())
    }
}
