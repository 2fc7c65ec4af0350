//! Calls with slices of the program: staged in buffers for the time of the call.

use super::{Buffer, Node};
use crate::{CallError, Error, SubmitError};
use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::{BufferPtr, Call, ErrorOf, Handler, Stage, Staged, Staging, ValueOf};
use zerocopy::FromZeros;

/// The slices of one call.
struct Slices<'n, 'd> {
    node: &'n Node,
    /// Their buffers, and where the bytes go when the call has succeeded.
    staged: Vec<(Buffer<u8>, Option<&'d mut [u8]>)>,
    /// The first failure. The call is not sent then.
    failed: Option<Error>,
}

impl Node {
    /// Calls a handler with slices of the program: `bind` makes buffers of them, which live as long
    /// as the call. When it has succeeded, the slices that it wrote are copied back; otherwise they
    /// are as before.
    ///
    /// ```no_run
    /// # use hamr_comm::{offload, BufferPtr, Context, Fault};
    /// # fn f(dev: &hamr::Node, xs: &[f64], ys: &mut [f64], zs: &hamr::Buffer<f64>) -> Result<(), Box<dyn std::error::Error>> {
    /// #[offload]
    /// pub fn axpy(_: &mut Context, a: f64, x: &[f64], y: &mut [f64]) {
    ///     y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
    /// }
    ///
    /// dev.sync_staged(axpy::staged(2.0, xs, ys))?;
    /// dev.sync_staged(|s| axpy::with(2.0, zs.ptr(), s.in_out(ys)))?;   // some of it lies in a buffer
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
        let mut stage = Slices { node: self, staged: Vec::new(), failed: None };
        let call = bind(&mut Staging::new(&mut stage));
        let site = |stage| self.device().site::<H>(stage);
        if let Some(why) = stage.failed {
            return Err(SubmitError::NoRoom { site: site("staging its slices"), why: why.to_string() }.into());
        }
        let value = self.sync(call)?;
        for (buffer, back) in stage.staged {
            if let Some(to) = back {
                let lost = |why: Error| CallError::DeviceLost(site("reading its slices"), why.to_string().into());
                self.get(buffer.ptr(), to).map_err(lost)?;
            }
        }
        Ok(value)
    }
}

impl<'d> Stage<'d> for Slices<'_, 'd> {
    fn buffer(&mut self, of: Staged<'_, 'd>) -> BufferPtr<u8> {
        let buffer = match &of {
            Staged::In(bytes) => self.filled(bytes),
            Staged::InOut(bytes) => self.filled(bytes),
            Staged::Out(bytes) => self.node.allocate(bytes.len()),
        };
        match buffer {
            Ok(buffer) => {
                let pointer = buffer.ptr();
                let back = match of {
                    Staged::In(_) => None,
                    Staged::Out(bytes) | Staged::InOut(bytes) => Some(bytes),
                };
                self.staged.push((buffer, back));
                pointer
            }
            Err(why) => {
                self.failed.get_or_insert(why);
                BufferPtr::from_wire(WireBuffer::new_zeroed())
            }
        }
    }
}

impl Slices<'_, '_> {
    fn filled(&self, bytes: &[u8]) -> Result<Buffer<u8>, Error> {
        let buffer = self.node.allocate(bytes.len())?;
        self.node.put(bytes, buffer.ptr())?;
        Ok(buffer)
    }
}
