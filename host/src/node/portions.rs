//! Slices of the program that are longer than the device's heap, one portion after the other.

use super::{Buffer, Node};
use crate::{CallError, Error, Pending, Stream, SubmitError};
use hamr_comm::{BufferPtr, Call, Element, ErrorOf, Handler, ValueOf};
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of the longest portion.
const LONGEST: usize = 16 << 20;
/// Portions at once: one is copied while the device works on the other.
const AT_ONCE: usize = 2;
/// A portion takes no more of the heap that is free than this part.
const SHARE: u64 = 4;

/// A portion on the device.
struct Portion<'s, 'n, T: Element, H: Handler> {
    buffer: Buffer<T>,
    range: Range<usize>,
    call: Pending<H, &'s Stream<'n>>,
}

impl Node {
    /// Calls a handler with each portion of `data` in turn, which need not fit the device's memory:
    /// `bind` gets a buffer with a portion, and where in `data` the portion is. One portion is copied
    /// while the device works on the one before. Returns the results in the order of the portions,
    /// none for no data.
    ///
    /// A portion has as many elements as fit 16 MiB, and a quarter of the heap that is free.
    ///
    /// ```no_run
    /// # use hamr_comm::{offload, BufferPtr, Context, Fault};
    /// # #[offload] pub fn sum(cx: &mut Context, x: BufferPtr<f64>) -> Result<f64, Fault> { Ok(0.0) }
    /// # fn f(dev: &hamr::Node, xs: &[f64]) -> Result<(), Box<dyn std::error::Error>> {
    /// let total: f64 = dev.stream_in(xs, |portion, _| sum::with(portion))?.iter().sum();
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Of the first call that fails; [`SubmitError::NoRoom`] when the heap has no room for a portion or
    /// there is no stream. Later portions are not sent then, and those that were sent have run.
    pub fn stream_in<T: Element, H: Handler>(
        &self,
        data: &[T],
        mut bind: impl FnMut(BufferPtr<T>, Range<usize>) -> Call<H>,
    ) -> Result<Vec<ValueOf<H>>, CallError<ErrorOf<H>>> {
        let mut values = Vec::new();
        self.in_portions(
            data.len(),
            |node, buffer, range| {
                node.put(data.get(range.clone()).unwrap_or_default(), buffer)?;
                Ok(bind(buffer, range))
            },
            |_, _, value| {
                values.push(value);
                Ok(())
            },
        )?;
        Ok(values)
    }

    /// As [`Self::stream_in`], for handlers that write: each portion of `data` is what the call left in
    /// its buffer. What a call does not write is unspecified.
    ///
    /// # Errors
    /// As for [`Self::stream_in`]. Portions behind the one that failed are as before.
    pub fn stream_out<T: Element, H: Handler>(
        &self,
        data: &mut [T],
        mut bind: impl FnMut(BufferPtr<T>, Range<usize>) -> Call<H>,
    ) -> Result<Vec<ValueOf<H>>, CallError<ErrorOf<H>>> {
        let mut values = Vec::new();
        self.in_portions(
            data.len(),
            |_, buffer, range| Ok(bind(buffer, range)),
            |buffer: BufferPtr<T>, range, value| {
                self.get(buffer, data.get_mut(range).unwrap_or_default())?;
                values.push(value);
                Ok(())
            },
        )?;
        Ok(values)
    }

    fn in_portions<T: Element, H: Handler>(
        &self,
        len: usize,
        begin: impl FnMut(&Self, BufferPtr<T>, Range<usize>) -> Result<Call<H>, Error>,
        end: impl FnMut(BufferPtr<T>, Range<usize>, ValueOf<H>) -> Result<(), Error>,
    ) -> Result<(), CallError<ErrorOf<H>>> {
        let stream = self.stream().map_err(|why| self.no_portion::<H>(why))?;
        let outcome = self.portions_on(&stream, len, begin, end);
        if outcome.is_err() {
            // Behind their calls, buffers are free. That these fail too says nothing more.
            let _ = stream.flush();
        }
        outcome
    }

    fn no_portion<H: Handler>(&self, why: Error) -> CallError<ErrorOf<H>> {
        let site = self.device().site::<H>("moving a portion of a slice");
        SubmitError::NoRoom { site, why: why.to_string() }.into()
    }

    fn portions_on<T: Element, H: Handler>(
        &self,
        stream: &Stream<'_>,
        len: usize,
        mut begin: impl FnMut(&Self, BufferPtr<T>, Range<usize>) -> Result<Call<H>, Error>,
        mut end: impl FnMut(BufferPtr<T>, Range<usize>, ValueOf<H>) -> Result<(), Error>,
    ) -> Result<(), CallError<ErrorOf<H>>> {
        let failed = |why: Error| self.no_portion::<H>(why);
        let most = (LONGEST as u64).min(self.free_bytes() / SHARE) as usize / size_of::<T>().max(1);
        let most = most.max(1);
        let mut running = VecDeque::new();
        let mut finish = |portion: Portion<'_, '_, T, H>| {
            let value = portion.call.wait()?;
            end(
                portion.buffer.slice(0..portion.range.len()).map_err(|why| failed(self.buffer_error(why)))?,
                portion.range,
                value,
            )
            .map_err(failed)?;
            Ok::<_, CallError<ErrorOf<H>>>(portion.buffer)
        };
        let mut at = 0;
        while at < len {
            let range = at..len.min(at + most);
            at = range.end;
            let buffer = match running.len() < AT_ONCE {
                true => self.allocate::<T>(most.min(len)).map_err(failed)?,
                false => match running.pop_front() {
                    Some(portion) => finish(portion)?,
                    None => break,
                },
            };
            let overrun = |why| failed(self.buffer_error(why));
            let call = begin(self, buffer.slice(0..range.len()).map_err(overrun)?, range.clone()).map_err(failed)?;
            let call = stream.offload(call)?;
            running.push_back(Portion { buffer, range, call });
        }
        running.into_iter().try_for_each(|portion| finish(portion).map(drop))
    }
}
