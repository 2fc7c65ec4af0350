//! Handlers: what `#[offload]` makes of a function, and the static table both sides build from
//! them.
//!
//! HAM's idea is that two binaries built from one source agree on handler keys without talking, by
//! sorting the same names. Here the linker sorts (bare metal) or the first reader does (hosted);
//! the key that travels is the device's index, and a host translates through the table that the
//! device shows at attach. See `registry`.

use crate::context::Context;
use crate::fault::Fault;
use crate::frame::{Arguments, Frame, Reply};
#[cfg(not(hamr_bare))]
use crate::host::Host;
use crate::migrate::{Decoder, Description, Malformed, Migratable};
use crate::task::{Task, TaskThunk};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::table::{hash, hash_join, record_flag};

/// A function callable across the link. Only `#[offload]` implements it.
pub trait Handler: 'static {
    /// Path and type arguments, for readers: `my_kernels::fill<f64>`.
    const NAME: &'static str;
    /// Hash of path and type arguments, by which a host finds the handler.
    const ID: u64 = hash(Self::NAME.as_bytes());
    /// Hash of argument, result and error types.
    const SIGNATURE: u64 = hash_join(<Self::Args as Migratable>::SHAPE, <Self::Output as HandlerResult>::SHAPE);
    /// The names of the parameters behind the first, with commas between them: for readers.
    const PARAMETERS: &'static str = "";
    /// Hash of the source tokens.
    const BODY: u64 = 0;
    /// Bits of [`record_flag`].
    const FLAGS: u32 = record_flag::HAS_BODY | <Self::Kind as Enter>::FLAGS;
    /// What it is: the type of the first parameter.
    type Kind: Enter;
    /// The arguments behind the first parameter, as a tuple.
    type Args: Migratable;
    /// What the function returns.
    type Output: HandlerResult;
    /// Calls the function. Without a body on this side it is never called: the dispatcher replies
    /// NO_BODY.
    fn run(this: &mut <Self::Kind as Enter>::This<'_>, args: Self::Args) -> Self::Output;
}

/// A type that can be a handler's first parameter, with `'static` for its lifetime.
#[diagnostic::on_unimplemented(
    message = "`&mut {Self}` cannot be the first parameter of a handler",
    note = "`&mut Context` runs inline and cannot wait, `&mut Task` runs on its own stack and may wait, `&mut Host` is a body on the host",
    note = "a type of your own implements `hamr_comm::Program`: a handler with it is a task"
)]
pub trait Enter: Sized + 'static {
    /// The type with the lifetime of a call.
    type This<'c>;
    /// Bits of [`record_flag`] that follow from it.
    const FLAGS: u32;
    /// The dispatcher's way into `H`: decodes, runs, encodes.
    #[doc(hidden)]
    fn thunk<H: Handler<Kind = Self>>(cx: &mut Context<'_>, frame: &mut Frame<'_>, args: Arguments<'_>) -> Reply;
    /// The same of a task.
    #[doc(hidden)]
    fn start<H: Handler<Kind = Self>>(task: &mut Task<'_>) -> Reply;
    /// The same of a body on the host.
    #[cfg(not(hamr_bare))]
    #[doc(hidden)]
    fn serve<H: Handler<Kind = Self>>(host: &mut Host<'_>, frame: &mut Frame<'_>, args: Arguments<'_>) -> Reply {
        let _ = (host, args);
        frame.status(Status::NO_BODY)
    }
}

/// A handler bound to its arguments: `axpy::with(2.0, x, y)`. Only data; sending it is the host's
/// business.
#[must_use = "a bound call does nothing until it is given to `sync`, `offload` or `send`"]
pub struct Call<H: Handler> {
    /// The arguments.
    pub args: H::Args,
}

impl<H: Handler> Call<H> {
    /// Binds. Used by the generated `with`.
    #[inline(always)]
    pub const fn new(args: H::Args) -> Self {
        Self { args }
    }
}

impl<H: Handler> Clone for Call<H>
where
    H::Args: Clone,
{
    fn clone(&self) -> Self {
        Self { args: self.args.clone() }
    }
}

/// The value type of a handler, seen by the caller.
pub type ValueOf<H> = <<H as Handler>::Output as HandlerResult>::Value;
/// The error type of a handler, seen by the caller.
pub type ErrorOf<H> = <<H as Handler>::Output as HandlerResult>::Error;

mod sealed {
    use super::{Fault, HandlerError, Migratable};

    /// What replies with the frame of a device, which a program's own type could exchange.
    pub trait Outcome {}

    impl<T: Migratable> Outcome for T {}
    impl<T: Migratable, E: HandlerError> Outcome for Result<T, E> {}

    /// The same of errors.
    pub trait Error {}

    impl<E: Migratable> Error for E {}
    impl Error for Fault {}
}
#[cfg(not(hamr_bare))]
pub(crate) use sealed::Outcome as SealedOutcome;

/// What a handler may return: a `Migratable`, or a `Result` of one whose error is [`Fault`] or a
/// `Migratable`. Only this crate implements it:
///
/// ```compile_fail,E0277
/// # use hamr_comm::abi::status::Status;
/// # use hamr_comm::frame::{Frame, Reply};
/// # use hamr_comm::migrate::{Decoder, Malformed};
/// struct Takes;
/// impl hamr_comm::HandlerResult for Takes {
///     type Value = u32;
///     type Error = hamr_comm::Never;
///     const SHAPE: u64 = 5;
///     const DESCRIPTION: &'static str = "?Takes";
///     fn reply(self, frame: &mut Frame<'_>) -> Reply {
///         frame.value(Status::OK, &1u32)
///     }
///     fn decode_error(_: &mut Decoder<'_>) -> Result<hamr_comm::Never, Malformed> {
///         Err(Malformed)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    note = "return a `Migratable` value, or `Result<value, error>` with a `Migratable` error or `Fault`",
    note = "for a `Vec`, let the handler write into a `BufferPtr<T>` argument; for short text return `heapless::String<N>`"
)]
pub trait HandlerResult: sealed::Outcome {
    /// What the caller gets.
    type Value: Migratable;
    /// What the caller may get instead ([`Never`] when the handler has no error of its own).
    type Error;
    /// Hash of both types.
    const SHAPE: u64;
    /// As [`Migratable::DESCRIPTION`], of both types.
    const DESCRIPTION: &'static str;
    /// Whether it is a value, no error.
    fn is_value(&self) -> bool {
        true
    }
    /// Writes the outcome into the frame.
    fn reply(self, frame: &mut Frame<'_>) -> Reply;
    /// Reads the handler's own error back.
    fn decode_error(from: &mut Decoder<'_>) -> Result<Self::Error, Malformed>;
}

/// The error of a handler that has none: no value of it exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Never {}

impl core::fmt::Display for Never {
    fn fmt(&self, _: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {}
    }
}
impl core::error::Error for Never {}

impl<T: Migratable> HandlerResult for T {
    type Value = T;
    type Error = Never;
    const SHAPE: u64 = T::SHAPE;
    const DESCRIPTION: &'static str = T::DESCRIPTION;
    #[inline(always)]
    fn reply(self, frame: &mut Frame<'_>) -> Reply {
        frame.value(Status::OK, &self)
    }
    fn decode_error(_: &mut Decoder<'_>) -> Result<Never, Malformed> {
        Err(Malformed)
    }
}

impl<T: Migratable, E: HandlerError> HandlerResult for Result<T, E> {
    type Value = T;
    type Error = E::Remote;
    const SHAPE: u64 = crate::migrate::join_shapes("Result", &[T::SHAPE, E::SHAPE]);
    const DESCRIPTION: &'static str =
        const { Description::new("Result<").then_list(&[T::DESCRIPTION, E::DESCRIPTION]).then(">") }.as_str();
    fn is_value(&self) -> bool {
        self.is_ok()
    }
    #[inline(always)]
    fn reply(self, frame: &mut Frame<'_>) -> Reply {
        match &self {
            Ok(value) => frame.value(Status::OK, value),
            Err(error) => error.reply(frame),
        }
    }
    fn decode_error(from: &mut Decoder<'_>) -> Result<E::Remote, Malformed> {
        E::decode(from)
    }
}

/// What a handler with slices returns: a value, or a `Result` with a [`Fault`], which is also what a
/// buffer becomes that cannot be viewed.
#[diagnostic::on_unimplemented(
    message = "a handler with slices cannot return `{Self}`",
    note = "return a `Migratable` value or `Result<value, Fault>`: a buffer that is not there ends the call with a `Fault`",
    note = "for an error of your own take a `BufferPtr<T>` and call `cx.view(x)?`"
)]
#[doc(hidden)]
pub trait Viewing: Sized {
    /// The handler's result on the wire.
    type Output: HandlerResult;
    /// Of a function that ran, or whose buffers could not be viewed.
    fn or(ran: Result<Self, Fault>) -> Self::Output;
}

impl<T: Migratable> Viewing for T {
    type Output = Result<T, Fault>;
    #[inline(always)]
    fn or(ran: Result<T, Fault>) -> Result<T, Fault> {
        ran
    }
}

impl<T: Migratable> Viewing for Result<T, Fault> {
    type Output = Self;
    #[inline(always)]
    fn or(ran: Result<Self, Fault>) -> Self {
        ran.flatten()
    }
}

/// The first parameter of a handler that takes slices, with `'static` for its lifetime.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a handler whose first parameter is `&mut {Self}` takes no slices",
    note = "a task's views end at a wait, which a slice would outlive: take a `BufferPtr<T>` and call `task.view(x)?`",
    note = "a body on the host has no view of the device's buffers: pass small values by value"
)]
pub trait TakesSlices {}

impl TakesSlices for Context<'static> {}

/// Compiles where the handler may take slices.
#[doc(hidden)]
#[inline(always)]
pub const fn takes_slices<K: TakesSlices>() {}

/// 0, where arguments of this type can travel.
#[doc(hidden)]
pub const fn travels<T: Migratable>() -> usize {
    0
}

/// The arguments of a handler, of which [`travels`] was asked in an array's length: a type that cannot travel leaves the
/// compiler no array, and so no error but that one.
#[doc(hidden)]
pub trait Checked<A> {
    type Args;
}

impl<A> Checked<A> for [(); 0] {
    type Args = A;
}

/// The error half of a handler's `Result`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a handler's error",
    note = "use `Fault`, or `#[derive(Migratable)]` on your error type"
)]
pub trait HandlerError: sealed::Error {
    /// What the caller sees: the error itself, or [`Never`] for [`Fault`], which arrives as a
    /// fault.
    type Remote;
    /// Hash of the type.
    const SHAPE: u64;
    /// As [`Migratable::DESCRIPTION`].
    const DESCRIPTION: &'static str;
    /// Writes it into the frame. By reference: an error is large, and each handler would copy it.
    fn reply(&self, frame: &mut Frame<'_>) -> Reply;
    /// Reads it back.
    fn decode(from: &mut Decoder<'_>) -> Result<Self::Remote, Malformed>;
}

impl<E: Migratable> HandlerError for E {
    type Remote = E;
    const SHAPE: u64 = E::SHAPE;
    const DESCRIPTION: &'static str = E::DESCRIPTION;
    fn reply(&self, frame: &mut Frame<'_>) -> Reply {
        frame.value(Status::HANDLER_ERROR, self)
    }
    fn decode(from: &mut Decoder<'_>) -> Result<E, Malformed> {
        E::decode(from)
    }
}

impl HandlerError for Fault {
    type Remote = Never;
    const SHAPE: u64 = hash(b"Fault");
    const DESCRIPTION: &'static str = "Fault";
    #[cold]
    fn reply(&self, frame: &mut Frame<'_>) -> Reply {
        frame.fault(self)
    }
    fn decode(_: &mut Decoder<'_>) -> Result<Never, Malformed> {
        Err(Malformed)
    }
}

/// Stands for the body of a handler whose body is on the other side. The dispatcher checks HAS_BODY
/// first, so only a direct call of [`Handler::run`] comes here.
#[doc(hidden)]
#[cold]
pub fn no_body() -> ! {
    panic!("this side does not hold the body of the handler")
}

/// What the dispatcher calls: decodes, runs, encodes.
pub type Thunk = for<'a, 'c, 's> fn(&'a mut Context<'c>, &'a mut Frame<'s>, Arguments<'a>) -> Reply;

/// The same of a body on the host.
#[cfg(not(hamr_bare))]
pub type HostThunk = for<'a, 'h, 's> fn(&'a mut Host<'h>, &'a mut Frame<'s>, Arguments<'a>) -> Reply;

/// One entry of the static table.
#[repr(C)]
pub struct Entry {
    /// See [`Handler::NAME`].
    pub name: &'static str,
    /// See [`Handler::ID`].
    pub id: u64,
    /// See [`Handler::SIGNATURE`].
    pub signature: u64,
    /// See [`Handler::BODY`].
    pub body: u64,
    /// The dispatcher's way in. That of a task refuses: a task has a ticket.
    pub run: Thunk,
    /// The way into a task. That of another handler refuses.
    pub start: TaskThunk,
    /// See [`Handler::FLAGS`].
    pub flags: u32,
    /// Zero: rounds the entry to what the linker lays side by side.
    pub reserved: u32,
    /// Where the linker of a bare-metal image would sort it: the name but for registered instances
    /// and types of users, which stand in a section's name as the source shows them. Bare metal
    /// needs no such word, its table is in this order.
    #[cfg(not(hamr_bare))]
    pub order: &'static str,
    /// The host's way into a body of its own. That of another handler refuses.
    #[cfg(not(hamr_bare))]
    pub serve: HostThunk,
}

// The linker lays entries of many crates side by side; a size that is no multiple of the alignment
// would leave gaps.
#[cfg(hamr_bare)]
const _: () = assert!(size_of::<Entry>() == if size_of::<usize>() == 8 { 64 } else { 48 });
#[cfg(not(hamr_bare))]
const _: () = assert!(size_of::<Entry>() == 88);

impl Entry {
    /// The entry of `H`. Evaluated in a static, where a failed assertion stops the build and names
    /// the handler.
    pub const fn of<H: Handler>() -> Self {
        assert!(
            match H::Args::SIZE {
                Some(n) => n <= crate::migrate::MAX_MESSAGE,
                None => true,
            },
            "the arguments of this handler are longer than a message (16 KiB): put the data into a buffer and pass a BufferPtr"
        );
        assert!(
            match <H::Output as HandlerResult>::Value::SIZE {
                Some(n) => n <= crate::migrate::MAX_MESSAGE,
                None => true,
            },
            "the result of this handler is longer than a message (16 KiB): let it write into a BufferPtr argument"
        );
        Self {
            name: H::NAME,
            id: H::ID,
            signature: H::SIGNATURE,
            body: H::BODY,
            run: if H::FLAGS & record_flag::HAS_BODY != 0 { H::Kind::thunk::<H> } else { bodiless },
            start: H::Kind::start::<H>,
            flags: H::FLAGS,
            reserved: 0,
            #[cfg(not(hamr_bare))]
            order: H::NAME,
            #[cfg(not(hamr_bare))]
            serve: H::Kind::serve::<H>,
        }
    }

    /// The same entry for a table in which it sorts as `order`.
    #[cfg(not(hamr_bare))]
    #[must_use]
    pub const fn ordered(self, order: &'static str) -> Self {
        Self { order, ..self }
    }

    /// Does it run as a task?
    pub const fn is_task(&self) -> bool {
        self.flags & record_flag::TASK != 0
    }

    /// Is the body on this side?
    pub const fn has_body(&self) -> bool {
        self.flags & record_flag::HAS_BODY != 0
    }
}

/// Runs in place of a handler whose body is on the other side, so that no call needs a check.
fn bodiless(_cx: &mut Context<'_>, frame: &mut Frame<'_>, _args: Arguments<'_>) -> Reply {
    frame.status(Status::NO_BODY)
}
