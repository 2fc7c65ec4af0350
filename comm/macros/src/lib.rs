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
/// a body on the host. The other parameters and the result are `Migratable`.
///
/// Options, separated by commas:
/// - `device`, `host`: the body exists on that side only; the crate's feature `device`
///   distinguishes the two;
/// - `instances(f32, f64)`, `instances((f32, u8), (f64, u8))`: table entries for a generic
///   function;
/// - `name = "…"`: replaces the path as the handler's name;
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
/// The names of type, fields and variants are part of the shape that both sides compare.
/// `#[migratable(postcard)]` on the type encodes it through serde instead, for types that own
/// memory; `#[migratable(crate = path)]` serves renamed dependencies.
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
