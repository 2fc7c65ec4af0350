//! The calls of all receivers: `Node`, `Stream`, `LocalStream` and `SharedStream` have one set of
//! methods, in one order and with one text. The macro writes their signatures; the functions below
//! are their bodies, over any [`StreamRef`].

use super::arguments::{Encoded, Short};
use super::put_data::PutData;
use super::shape::takes_put;
use super::{CallOptions, Pending, StreamRef, StreamState, Submitter, submit, wait};
use crate::device::Device;
use crate::{BufferError, CallError, Error, SubmitError};
use hamr_comm::{BufferPtr, Call, Element, ErrorOf, Handler, ValueOf};
use std::time::Instant;

/// Writes the methods into an `impl` block. `call` is the [`Route`](super::Route) that a call takes, `keep` is
/// what its [`Pending`] keeps of it, of the type in front; `open` is an `Option` of the stream,
/// `None` when the receiver has opened none yet.
macro_rules! call_methods {
    ($self:ident, $Kept:ty, call: $call:expr, keep: $keep:expr, open: $open:expr) => {
        /// Calls a handler and waits for its result.
        ///
        /// # Errors
        /// See [`CallError`](crate::CallError).
        #[inline(always)]
        pub fn sync<H: hamr_comm::Handler>(
            &$self,
            call: hamr_comm::Call<H>,
        ) -> Result<hamr_comm::ValueOf<H>, $crate::CallError<hamr_comm::ErrorOf<H>>> {
            match $call {
                $crate::stream::Route::Own(stream) => $crate::stream::calls::sync(stream, call),
                $crate::stream::Route::Shared(stream) => $crate::stream::calls::sync_shared(stream, call),
            }
        }

        /// Puts `data` to the front of a buffer, then calls as [`Self::sync`]; the call may name the
        /// buffer. Up to 64 bytes of data and 32 bytes of arguments travel in one message.
        ///
        /// # Errors
        /// As of the two; [`SubmitError::Buffer`](crate::SubmitError::Buffer) if the buffer cannot
        /// be written: nothing was then sent. The data may be in the buffer after any other error.
        #[inline(always)]
        pub fn put_sync<T: hamr_comm::Element, H: hamr_comm::Handler>(
            &$self,
            data: &[T],
            to: hamr_comm::BufferPtr<T>,
            call: hamr_comm::Call<H>,
        ) -> Result<hamr_comm::ValueOf<H>, $crate::CallError<hamr_comm::ErrorOf<H>>> {
            match $call {
                $crate::stream::Route::Own(stream) => $crate::stream::calls::put_sync(stream, data, to, call),
                $crate::stream::Route::Shared(stream) => $crate::stream::calls::put_sync_shared(stream, data, to, call),
            }
        }

        /// [`Self::sync`] with options.
        ///
        /// # Errors
        /// See [`CallError`](crate::CallError).
        pub fn sync_with<H: hamr_comm::Handler>(
            &$self,
            call: hamr_comm::Call<H>,
            options: $crate::CallOptions,
        ) -> Result<hamr_comm::ValueOf<H>, $crate::CallError<hamr_comm::ErrorOf<H>>> {
            match $call {
                $crate::stream::Route::Own(stream) => $crate::stream::calls::sync_with(stream, call, options),
                $crate::stream::Route::Shared(stream) => $crate::stream::calls::sync_with(stream, call, options),
            }
        }

        /// Submits a call; its result is read from the [`Pending`](crate::Pending). Dropping that
        /// detaches: the call runs, its result is discarded.
        ///
        /// # Errors
        /// See [`SubmitError`](crate::SubmitError): nothing was sent.
        #[inline]
        pub fn offload<H: hamr_comm::Handler>(
            &$self,
            call: hamr_comm::Call<H>,
        ) -> Result<$crate::Pending<H, $Kept>, $crate::SubmitError> {
            $crate::stream::calls::offload($keep, call)
        }

        /// [`Self::offload`] with options.
        ///
        /// # Errors
        /// See [`SubmitError`](crate::SubmitError): nothing was sent.
        pub fn offload_with<H: hamr_comm::Handler>(
            &$self,
            call: hamr_comm::Call<H>,
            options: $crate::CallOptions,
        ) -> Result<$crate::Pending<H, $Kept>, $crate::SubmitError> {
            $crate::stream::calls::offload_with($keep, call, options)
        }

        /// Sends a call without a result: no [`Pending`](crate::Pending), no completion entry.
        /// Ordered with the other calls.
        ///
        /// # Errors
        /// See [`SubmitError`](crate::SubmitError): nothing was sent. What the handler itself
        /// reports is only counted: [`Self::one_way_failures`].
        #[inline]
        pub fn send<H: hamr_comm::Handler>(&$self, call: hamr_comm::Call<H>) -> Result<(), $crate::SubmitError> {
            match $call {
                $crate::stream::Route::Own(stream) => $crate::stream::calls::send(stream, call),
                $crate::stream::Route::Shared(stream) => $crate::stream::calls::send_shared(stream, call),
            }
        }

        /// One-way calls ([`Self::send`]) that are known to have ended otherwise than executed. The
        /// count belongs to the queue pair: a stream begins with the one of the stream that had the
        /// pair before.
        pub fn one_way_failures(&$self) -> u64 {
            $open.map_or(0, $crate::stream::calls::one_way_failures)
        }

        /// Calls of the stream that are in flight or whose results are unread.
        pub fn outstanding(&$self) -> usize {
            $open.map_or(0, $crate::stream::calls::outstanding)
        }

        /// Waits until every call that the stream has now has run.
        ///
        /// # Errors
        /// The device is gone, or the device's default deadline passed.
        pub fn flush(&$self) -> Result<(), $crate::Error> {
            $open.map_or(Ok(()), $crate::stream::calls::flush)
        }
    };
}
pub(crate) use call_methods;

#[inline(always)]
pub(crate) fn sync<H: Handler, S: StreamRef>(stream: S, call: Call<H>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    if S::IS_SHARED {
        return match super::sync::sync_shared::<H>(&stream, &call, None) {
            Some(outcome) => outcome,
            None => in_ring(stream, call),
        };
    }
    super::sync::sync(&stream, call)
}

// Of threads beyond the number of streams: not beside the path of the others.
#[cold]
#[inline(never)]
pub(crate) fn sync_shared<H: Handler, S: StreamRef>(
    stream: S,
    call: Call<H>,
) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    sync(stream, call)
}

#[cold]
#[inline(never)]
pub(crate) fn put_sync_shared<T: Element, H: Handler, S: StreamRef>(
    stream: S,
    data: &[T],
    to: BufferPtr<T>,
    call: Call<H>,
) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    put_sync(stream, data, to, call)
}

#[cold]
#[inline(never)]
pub(crate) fn send_shared<H: Handler, S: StreamRef>(stream: S, call: Call<H>) -> Result<(), SubmitError> {
    send(stream, call)
}

/// [`sync`] on a stream that threads share, whose hot slot is not open to the call.
#[cold]
#[inline(never)]
fn in_ring<H: Handler, S: StreamRef>(stream: S, call: Call<H>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    stream.with(Submitter::reopen_hot);
    offload(stream, call)?.wait()
}

#[inline(always)]
pub(crate) fn put_sync<T: Element, H: Handler, S: StreamRef>(
    stream: S,
    data: &[T],
    to: BufferPtr<T>,
    call: Call<H>,
) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    if const { takes_put::<H>() }
        && let Some(put) = PutData::new(data, to)
    {
        let outcome = match S::IS_SHARED {
            true => super::sync::sync_shared::<H>(&stream, &call, Some(put)),
            false => super::sync::put_sync::<H>(&stream, put, &call),
        };
        if let Some(outcome) = outcome {
            return outcome;
        }
    }
    put_then_sync(stream, data, to, call)
}

// Not inlined: beside one message, a second copy of `sync` would keep both from being inlined whole.
#[inline(never)]
fn put_then_sync<T: Element, H: Handler, S: StreamRef>(
    stream: S,
    data: &[T],
    to: BufferPtr<T>,
    call: Call<H>,
) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    put_before::<T, H>(&stream, data, to)?;
    sync(stream, call)
}

/// Puts in the order of the stream, before a call of `H`.
fn put_before<T: Element, H: Handler>(
    stream: &impl StreamRef,
    data: &[T],
    to: BufferPtr<T>,
) -> Result<(), SubmitError> {
    let device = stream.device();
    if device.memory.put_at_once(data, to).is_some() {
        return Ok(());
    }
    let refused = |why| match (why, device.site::<H>("putting")) {
        (BufferError::Unreachable, site) => SubmitError::DeviceLost { site, why: why.to_string() },
        (why, site) => SubmitError::Buffer { site, why },
    };
    match device.memory.put(data, to) {
        Err(BufferError::Busy) => {}
        other => return other.map_err(refused),
    }
    submit::flush(stream, None)
        .map_err(|stop| stream.with(|submitter, device| submitter.cannot_submit::<H>(device, stop)))?;
    device.memory.put(data, to).map_err(refused)
}

pub(crate) fn sync_with<H: Handler, S: StreamRef>(
    stream: S,
    call: Call<H>,
    options: CallOptions,
) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    if S::IS_SHARED {
        return offload_with(stream, call, options)?.wait();
    }
    super::sync::sync_slow(&stream, &call, &options)
}

#[inline(always)]
pub(crate) fn offload<H: Handler, S: StreamRef>(stream: S, call: Call<H>) -> Result<Pending<H, S>, SubmitError> {
    // Not `with`: a closure is not inlined for certain.
    let arguments = Short::of(&call);
    let name = stream.enter().offload::<H>(stream.device(), &arguments);
    let Some(name) = name else { return offload_long(stream, call) };
    let pending = Pending::new(stream, name);
    // Its arguments' destructors may panic: the call has its owner by now.
    drop(call);
    Ok(pending)
}

/// [`offload`] of a call whose arguments are not in the slot, or that finds no room there.
#[inline(never)]
fn offload_long<H: Handler, S: StreamRef>(stream: S, call: Call<H>) -> Result<Pending<H, S>, SubmitError> {
    let arguments = Encoded::of(stream.device(), &call);
    let name = stream.enter().offload_in_chunk::<H>(stream.device(), &arguments);
    let pending = match name {
        Some(name) => Ok(Pending::new(stream, name)),
        None => offload_encoded(stream, &arguments, CallOptions::default(), None),
    };
    drop(arguments);
    // As above.
    drop(call);
    pending
}

#[cold]
#[inline(never)]
pub(crate) fn offload_with<H: Handler, S: StreamRef>(
    stream: S,
    call: Call<H>,
    options: CallOptions,
) -> Result<Pending<H, S>, SubmitError> {
    let until = options.deadline.map(wait::in_time);
    let arguments = Encoded::of(stream.device(), &call);
    let pending = offload_encoded(stream, &arguments, options, until);
    drop(arguments);
    // As above: a value that is returned already is not dropped where they panic.
    drop(call);
    pending
}

/// [`offload_with`] of arguments that were encoded before.
pub(crate) fn offload_encoded<H: Handler, S: StreamRef>(
    stream: S,
    arguments: &Encoded<'_>,
    options: CallOptions,
    until: Option<Instant>,
) -> Result<Pending<H, S>, SubmitError> {
    let name = submit::offload_slow::<H>(&stream, arguments, &options, until)?;
    let mut pending = Pending::new(stream, name);
    pending.set_until(until);
    Ok(pending)
}

#[inline(always)]
pub(crate) fn send<H: Handler>(stream: impl StreamRef, call: Call<H>) -> Result<(), SubmitError> {
    let arguments = Short::of(&call);
    let is_sent = stream.enter().send::<H>(stream.device(), &arguments);
    match is_sent {
        true => Ok(()),
        false => send_otherwise(stream, &call),
    }
}

#[cold]
#[inline(never)]
fn send_otherwise<H: Handler>(stream: impl StreamRef, call: &Call<H>) -> Result<(), SubmitError> {
    submit::send_slow::<H>(&stream, &Encoded::of(stream.device(), call))
}

pub(crate) fn one_way_failures(stream: impl StreamRef) -> u64 {
    stream.with(|submitter, _| submitter.one_way_failures())
}

pub(crate) fn outstanding(stream: impl StreamRef) -> usize {
    stream.with(|submitter, _| submitter.outstanding())
}

pub(crate) fn state(stream: impl StreamRef) -> StreamState {
    stream.device().check_peer();
    stream.with(|submitter, device| {
        submitter.poll(device);
        let calls = submitter.calls_so_far();
        match submitter.epoch().is_none() {
            true => StreamState::Lost,
            false if submitter.have_run(device, calls) => StreamState::Idle,
            false => StreamState::Running,
        }
    })
}

pub(crate) fn flush(stream: impl StreamRef) -> Result<(), Error> {
    flush_until(stream, None)
}

/// [`flush`], until this time, or else as long as the device's default deadline says.
pub(crate) fn flush_until(stream: impl StreamRef, until: Option<Instant>) -> Result<(), Error> {
    submit::flush(&stream, until).map_err(|stop| stopped(stream.device(), "flushing a stream", stop))
}

/// The error of a wait for the calls of a stream.
pub(super) fn stopped(device: &Device, stage: &'static str, stop: wait::Stop) -> Error {
    let name = device.name.clone();
    match stop {
        wait::Stop::Deadline => {
            Error::Timeout { device: name, stage, after: device.options.deadline.unwrap_or_default() }
        }
        wait::Stop::EpochEnded(_) => Error::Lost { device: name, stage, why: device.loss_reason() },
    }
}
