//! Calls of handlers that a program does not link, by name.

use super::Node;
use crate::stream::KnownKey;
use crate::{CallError, CallOptions, HandlerInfo, LocalStream, Pending, SubmitError};
use hamr_comm::abi::table::record_flag;
use hamr_comm::{Call, Context, Enter, ErrorOf, Handler, HandlerResult, Migratable, Task, ValueOf};
use std::marker::PhantomData;

/// A handler of a device's image that was found by its name: see [`Node::named`]. Behind
/// [`Node::load_image`] its calls are refused ([`SubmitError::Unloaded`]).
pub struct Named<'n, F> {
    node: &'n Node,
    name: String,
    key: KnownKey,
    _types: PhantomData<F>,
}

/// The type of a handler's function: of `fn(&mut Context, …) -> …` and `fn(&mut Task, …) -> …` with up to
/// twelve arguments.
pub trait HandlerFn: 'static {
    /// The type of the first parameter.
    type Kind: Enter;
    /// The arguments behind it.
    type Args: Migratable;
    /// The result.
    type Output: HandlerResult;
}

/// Stands for the handler in its calls.
#[doc(hidden)]
pub struct ByName<F>(PhantomData<F>);

impl<F: HandlerFn> Handler for ByName<F> {
    const NAME: &'static str = "a handler called by name";
    const BODY: u64 = 0;
    const FLAGS: u32 = <F::Kind as Enter>::FLAGS;
    type Kind = F::Kind;
    type Args = F::Args;
    type Output = F::Output;
    fn run(_: &mut <F::Kind as Enter>::This<'_>, _: F::Args) -> F::Output {
        hamr_comm::handler::no_body()
    }
}

impl Node {
    /// Finds a handler of the device's image by its path, with type arguments, and compares its types
    /// with those of the function type `F`. So a program calls what it does not link.
    ///
    /// ```no_run
    /// # use hamr_comm::{BufferPtr, Context, Fault};
    /// # fn f(dev: &hamr::Node, x: BufferPtr<f64>, y: BufferPtr<f64>) -> Result<(), Box<dyn std::error::Error>> {
    /// type Axpy = fn(&mut Context, f64, BufferPtr<f64>, BufferPtr<f64>) -> Result<(), Fault>;
    /// let axpy = dev.named::<Axpy>("my_kernels::axpy")?;
    /// axpy.sync((2.0, x, y))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`SubmitError::MissingHandler`], [`SubmitError::OtherSignature`] (other types, or another kind of
    /// handler), [`SubmitError::NoBody`].
    pub fn named<F: HandlerFn>(&self, name: &str) -> Result<Named<'_, F>, SubmitError> {
        let running = self.device().running();
        let found = self.find_named::<F>(&running.handlers, name)?;
        Ok(Named::new(self, name, KnownKey::of_image(running.number, found.key)))
    }

    /// The handler of this name in a table.
    pub(super) fn find_named<'t, F: HandlerFn>(
        &self,
        table: &'t [HandlerInfo],
        name: &str,
    ) -> Result<&'t HandlerInfo, SubmitError> {
        let site = || {
            let mut site = self.device().site::<ByName<F>>("looking it up");
            site.handler = name.to_owned().into();
            site
        };
        let known = table.iter().find(|handler| handler.name == name);
        let known = known.ok_or_else(|| SubmitError::MissingHandler { site: site() })?;
        let kinds = record_flag::TASK | record_flag::HOST;
        if known.signature != ByName::<F>::SIGNATURE || known.flags & kinds != ByName::<F>::FLAGS & kinds {
            return Err(SubmitError::OtherSignature { site: site() });
        }
        if !known.has_body() {
            return Err(SubmitError::NoBody { site: site() });
        }
        Ok(known)
    }
}

impl<'n, F: HandlerFn> Named<'n, F> {
    pub(super) fn new(node: &'n Node, name: &str, key: KnownKey) -> Self {
        Self { node, name: name.to_owned(), key, _types: PhantomData }
    }

    /// [`Node::sync`] of the handler with these arguments.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn sync(&self, args: F::Args) -> Result<ValueOf<ByName<F>>, CallError<ErrorOf<ByName<F>>>> {
        self.sync_with(args, CallOptions::default())
    }

    /// [`Node::sync_with`] of the handler.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn sync_with(
        &self,
        args: F::Args,
        options: CallOptions,
    ) -> Result<ValueOf<ByName<F>>, CallError<ErrorOf<ByName<F>>>> {
        let outcome = self.node.sync_with(Call::<ByName<F>>::new(args), self.of_it(options));
        outcome.map_err(|mut error| {
            error.rename(&self.name);
            error
        })
    }

    /// [`Node::offload`] of the handler. Errors of its [`Pending`] do not have the handler's name.
    ///
    /// # Errors
    /// See [`SubmitError`]: nothing was sent.
    pub fn offload(&self, args: F::Args) -> Result<Pending<ByName<F>, LocalStream<'n>>, SubmitError> {
        let call = Call::<ByName<F>>::new(args);
        self.node.offload_with(call, self.of_it(CallOptions::default())).map_err(|mut error| {
            error.rename(&self.name);
            error
        })
    }

    fn of_it(&self, options: CallOptions) -> CallOptions {
        CallOptions { key: Some(self.key), ..options }
    }
}

macro_rules! function_types {
    ($([$($arg:ident)*])*) => {$(
        impl<$($arg,)* O> HandlerFn for fn(&mut Context<'_> $(, $arg)*) -> O
        where
            ($($arg,)*): Migratable,
            Self: 'static,
            O: HandlerResult,
        {
            type Kind = Context<'static>;
            type Args = ($($arg,)*);
            type Output = O;
        }

        impl<$($arg,)* O> HandlerFn for fn(&mut Task<'_> $(, $arg)*) -> O
        where
            ($($arg,)*): Migratable,
            Self: 'static,
            O: HandlerResult,
        {
            type Kind = Task<'static>;
            type Args = ($($arg,)*);
            type Output = O;
        }
    )*};
}
function_types! {
    []
    [A]
    [A B]
    [A B C]
    [A B C D]
    [A B C D E]
    [A B C D E F]
    [A B C D E F G]
    [A B C D E F G H]
    [A B C D E F G H I]
    [A B C D E F G H I J]
    [A B C D E F G H I J K]
    [A B C D E F G H I J K L]
}
