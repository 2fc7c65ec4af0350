//! `#[offload]`, `register!` and `#[derive(Migratable)]`: the macros of handler crates
//! (docs/offload.md). And `#[hamr::main]`, of host programs.
//!
//! They check syntax only: shapes of signatures, types that can never cross, options. Types are
//! checked by the compiler, through bounds on the traits of `hamr_comm` whose messages contain what
//! to do. Only `hamr_comm` and `hamr` depend on this crate; each re-exports
//! its own.

mod crossing;
mod derive;
mod expand;
mod name;
mod options;
mod register;
mod signature;
mod start;
mod tokens;

use proc_macro::TokenStream;
use syn::parse_macro_input;

/// Makes a function callable across the link: adds a type of its name with `with(…)`, and an entry
/// in the handler table.
///
/// ```text
/// #[offload]
/// pub fn axpy(cx: &mut Context, a: f64, x: BufferPtr<f64>, y: BufferPtr<f64>) -> Result<(), Fault> { … }
/// ```
///
/// The function itself is unchanged. The first parameter says what the handler is: `&mut Context`
/// runs inline and cannot wait, `&mut Task` runs on a stack of its own and may wait, `&mut Host` is
/// a body on the host; another type implements `hamr_comm::Program`. Its lifetime is not `'static`. Up
/// to 12 other parameters, without `#[cfg]`, are `Migratable`; up to six of an inline handler's may be
/// slices `&[T]`, `&mut [T]`, and then its context opens no more views, and it returns a value or a
/// `Result` with a `Fault`. The result is `Migratable`, or a `Result` whose error is `Fault` or
/// `Migratable`.
///
/// The function is free: no `self`; not `async`, `unsafe`, `extern` or `const`; no lifetime or const
/// parameters. The parameters of `with` have the function's names without leading underscores; one that
/// is a pattern or `_` is `arg3`, counted from 1 behind the context. The type has the function's
/// visibility and `#[cfg]`s.
///
/// Options, separated by commas:
/// - `device`, `host`: the body is compiled on that side only, with its imports inside of it: where the
///   crate's feature `device` (`[features] device = []`) is on (images) or off (hosts). A side without
///   the body replies `NO_BODY`;
/// - `instances(f32, f64)`, `instances((f32, u8), (f64, u8))`: table entries for a generic
///   function, whose type arguments are `Migratable`; `instances(((u8, u16),))` for a single one that is
///   a tuple;
/// - `name = "…"`: replaces the path as the handler's name: for functions in function bodies, which may
///   share one, and for hosts built before a handler moved;
/// - `unordered`: may overtake its stream;
/// - `unlisted`: no table entry; for libraries whose programs choose their handlers;
/// - `crate = path`: where `hamr_comm` is, when the manifest renames it.
#[proc_macro_attribute]
pub fn offload(options: TokenStream, function: TokenStream) -> TokenStream {
    expand::offload(options.into(), function.into()).into()
}

/// Puts instances of generic handlers into the table, also of handlers from other crates:
/// `register!(kernels::fill::<u8>, kernels::fill::<i64>);`. Ends with `crate = path` where
/// `hamr_comm` is renamed.
#[proc_macro]
pub fn register(input: TokenStream) -> TokenStream {
    register::expand(&parse_macro_input!(input as register::Register)).into()
}

/// Lets a struct or an enum travel: its fields in order, without padding; an enum as one tag byte
/// and the variant's fields.
///
/// The names of type (without its module), fields and variants are part of the shape that both sides
/// compare, with their order; an enum has at most 256 variants. Type parameters need `Migratable`; lifetime
/// and const parameters are refused. With `bytemuck::Pod` the type is an `Element`: buffers hold it as
/// it lies in memory.
///
/// `#[migratable(postcard)]` on the type encodes it through serde instead, for types that own memory:
/// `String`, `Vec`, maps. The sides compare the definition's source, not that of its fields' types.
/// Malformed are more than 128 levels (a struct, variant, tuple, sequence, map, option or newtype each),
/// and more elements in sequences and maps than bytes and than 16384. The host neither checks buffers
/// inside of it nor counts them as in use.
///
/// `#[migratable(crate = path)]` serves renamed dependencies.
#[proc_macro_derive(Migratable, attributes(migratable))]
pub fn migratable(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as syn::DeriveInput);
    derive::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Starts a device and runs the function with it: the program chooses no device, its user does.
///
/// ```text
/// #[hamr::main(image = "my-image")]
/// fn main(dev: &hamr::Node) -> Result<(), Box<dyn std::error::Error>> { … }
/// ```
///
/// The device is that of `--device NAME`, else of `HAMR_DEVICE`, else `shm`; its image is that of
/// `--image NAME|PATH`, else the file of `HAMR_IMAGE`, else the one that is named here. Options come
/// from `--option NAME=VALUE`, else from `HAMR_…` variables (`hamr help options` lists them). All other
/// arguments are the program's: `hamr::start::arguments()`. Where the device cannot be started, the
/// program says why in one line and ends with exit code 2.
///
/// `crate = path` says where `hamr` is, when the manifest renames it.
#[proc_macro_attribute]
pub fn main(options: TokenStream, function: TokenStream) -> TokenStream {
    start::main(options.into(), function.into()).into()
}
