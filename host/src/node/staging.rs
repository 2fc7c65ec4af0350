//! Calls with slices of the program: staged in buffers for the time of the call.

use super::{Buffer, Node};
use crate::{CallError, Error, SubmitError};
use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::abi::slot::SECOND_BYTES;
use hamr_comm::{BufferPtr, Call, Element, ErrorOf, Handler, Stage, Staged, Staging, ValueOf};
use zerocopy::FromZeros;

/// The slices of one call.
struct Slices<'n, 'd> {
    node: &'n Node,
    /// Their buffers, and where the bytes go when the call has succeeded.
    staged: Vec<(Buffer<u8>, Option<&'d mut [u8]>)>,
    /// One that fits the call's message, and travels in it: its bytes, how many, and its buffer.
    with_call: Option<([u8; SECOND_BYTES], usize, BufferPtr<u8>)>,
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
        let mut stage = Slices { node: self, staged: Vec::new(), with_call: None, failed: None };
        let call = bind(&mut Staging::new(&mut stage));
        let site = |stage| self.device().site::<H>(stage);
        if let Some(why) = stage.failed {
            return Err(SubmitError::NoRoom { site: site("staging its slices"), why: why.to_string() }.into());
        }
        let value = match &stage.with_call {
            Some((bytes, len, to)) => self.put_sync(bytes.get(..*len).unwrap_or_default(), *to, call)?,
            None => self.sync(call)?,
        };
        for (buffer, back) in stage.staged {
            if let Some(to) = back {
                let lost = |why: Error| CallError::DeviceLost(site("reading its slices"), why.to_string().into());
                self.get(buffer.ptr(), to).map_err(lost)?;
            }
        }
        Ok(value)
    }

    /// Calls a handler whose result is a slice: `bind` gets a buffer of `most` elements for it, and the handler returns how many of
    /// them it wrote, from the first on. Slices of the program are staged as by [`Self::sync_staged`].
    ///
    /// ```no_run
    /// # use hamr_comm::{offload, Context};
    /// # fn f(dev: &hamr::Node, xs: &[i32]) -> Result<(), Box<dyn std::error::Error>> {
    /// #[offload]
    /// pub fn positive(_: &mut Context, x: &[i32], out: &mut [i32]) -> u32 {
    ///     let found = out.iter_mut().zip(x.iter().filter(|x| **x > 0));
    ///     found.map(|(to, from)| *to = *from).count() as u32
    /// }
    ///
    /// let found: Vec<i32> = dev.sync_to_vec(xs.len(), |s, out| positive::with(s.input(xs), out))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Self::sync_staged`]; [`CallError::Corrupt`] when the handler returns more than `most`.
    pub fn sync_to_vec<'d, T: Element, H: Handler>(
        &self,
        most: usize,
        bind: impl FnOnce(&mut Staging<'_, 'd>, BufferPtr<T>) -> Call<H>,
    ) -> Result<Vec<T>, CallError<ErrorOf<H>>>
    where
        ValueOf<H>: Into<u64>,
    {
        let site = |stage| self.device().site::<H>(stage);
        let no_room = |why: Error| SubmitError::NoRoom { site: site("staging its result"), why: why.to_string() };
        let buffer = self.allocate::<T>(most).map_err(no_room)?;
        let written = self.sync_staged(|staging| bind(staging, buffer.ptr()))?.into();
        let corrupt = || format!("{written} as the length of a result with room for {most}").into();
        let len = usize::try_from(written).ok().filter(|len| *len <= most);
        let len = len.ok_or_else(|| CallError::Corrupt(site("reading its result"), corrupt()))?;
        let mut values = vec![T::zeroed(); len];
        let lost = |why: Error| CallError::DeviceLost(site("reading its result"), why.to_string().into());
        self.get(buffer.ptr(), &mut values).map_err(lost)?;
        Ok(values)
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
    fn filled(&mut self, bytes: &[u8]) -> Result<Buffer<u8>, Error> {
        let buffer = self.node.allocate(bytes.len())?;
        let mut small = [0; SECOND_BYTES];
        match small.get_mut(..bytes.len()) {
            Some(to) if self.with_call.is_none() => {
                to.copy_from_slice(bytes);
                self.with_call = Some((small, bytes.len(), buffer.ptr()));
            }
            _ => self.node.put(bytes, buffer.ptr())?,
        }
        Ok(buffer)
    }
}
