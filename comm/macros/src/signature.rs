//! The signature of a function under `#[offload]`, and the errors for functions that cannot be
//! handlers.

use crate::crossing;
use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, FnArg, GenericArgument, GenericParam, Ident, ItemFn, Pat, PatType, PathArguments, Type};

/// More arguments than tuples are implemented for.
const MAX_ARGUMENTS: usize = 12;
/// More buffers than a context opens at once.
const MAX_SLICES: usize = 6;

const CONTEXT_FIRST: &str = "the first parameter says what a handler is: `cx: &mut Context` runs inline and cannot wait, \
                             `task: &mut Task` runs on a stack of its own and may wait, `cx: &mut Host` is a body on the host";
const CONTEXT_LENT: &str =
    "the first parameter is lent for the length of one call, it cannot be `'static`: write `cx: &mut Context`";

/// A function that can become a handler.
pub(crate) struct Signature {
    /// The type of the first parameter, as written.
    pub(crate) context: Type,
    /// The type behind its `&mut`, with `'static` for its lifetime.
    pub(crate) kind: Type,
    /// It is `Context`, or a type by another name, of which the compiler decides.
    pub(crate) may_be_inline: bool,
    /// It is `Host`: the body is on the host.
    pub(crate) is_host: bool,
    pub(crate) names: Vec<Ident>,
    /// The types of the arguments as the function has them.
    pub(crate) types: Vec<Type>,
    /// Those that are slices, which travel as buffers.
    pub(crate) slices: Vec<Option<Slice>>,
    pub(crate) output: Type,
    /// Type parameters in order.
    pub(crate) params: Vec<Ident>,
}

/// An argument that is a slice.
pub(crate) struct Slice {
    pub(crate) is_mut: bool,
    pub(crate) element: Type,
}

impl Signature {
    pub(crate) fn has_slices(&self) -> bool {
        self.slices.iter().any(Option::is_some)
    }
}

/// Reads a function. One error contains everything that is wrong with it.
pub(crate) fn read(function: &ItemFn) -> syn::Result<Signature> {
    let mut errors = Vec::new();
    qualifiers(function, &mut errors);
    let params = generics(function, &mut errors);
    let mut inputs = function.sig.inputs.iter();
    let context = context(function, inputs.next(), &mut errors);
    let mut typed = Vec::new();
    for input in inputs {
        match input {
            FnArg::Typed(argument) => typed.push(argument),
            FnArg::Receiver(_) => {} // only ever first
        }
    }
    for argument in &typed {
        if is_context(&argument.ty) {
            errors.push(Error::new_spanned(argument, "a handler has one parameter of this kind, its first"));
            continue;
        }
        if let Some(cfg) = argument.attrs.iter().find(|a| a.path().is_ident("cfg") || a.path().is_ident("cfg_attr")) {
            errors
                .push(Error::new_spanned(cfg, "a handler has one signature on both sides: no `cfg` on its parameters"));
        }
        match slice(&argument.ty) {
            Some(Slice { element, .. }) => crossing::check(&element, "element", &mut errors),
            None => crossing::check(&argument.ty, "argument", &mut errors),
        }
    }
    if let Some((_, kind)) = &context {
        slices(kind, &typed, &mut errors);
    }
    if let Some(extra) = typed.get(MAX_ARGUMENTS) {
        errors.push(Error::new_spanned(
            extra,
            "a handler has at most 12 arguments behind its context: group some in a struct with `#[derive(Migratable)]`",
        ));
    }
    let output = crossing::returned(&function.sig.output);
    crossing::check(&output, "result", &mut errors);
    let signature = context.map(|(context, kind)| Signature {
        context,
        may_be_inline: !is_named(&kind, "Task") && !is_named(&kind, "Host"),
        is_host: is_named(&kind, "Host"),
        kind,
        names: names(&typed),
        types: typed.iter().map(|argument| (*argument.ty).clone()).collect(),
        slices: typed.iter().map(|argument| slice(&argument.ty)).collect(),
        output,
        params,
    });
    match (signature, all(errors)) {
        (Some(signature), None) => Ok(signature),
        (_, Some(error)) => Err(error),
        (None, None) => Err(Error::new(function.sig.ident.span(), CONTEXT_FIRST)),
    }
}

/// Refuses slices where they could not be views of buffers for as long as the function runs.
fn slices(kind: &Type, arguments: &[&PatType], errors: &mut Vec<Error>) {
    let (most, why) = if is_named(kind, "Host") {
        (0, "a body on the host has no view of the device's buffers: pass small values by value")
    } else if is_named(kind, "Task") {
        (0, "a task's views end at a wait, which a slice would outlive: take a `BufferPtr<T>` and call `task.view(x)?`")
    } else {
        // Of a type by another name the compiler decides: `TakesSlices`.
        (MAX_SLICES, "a handler has at most 6 slices: take a `BufferPtr<T>` and view it inside")
    };
    if let Some(refused) = arguments.iter().filter(|argument| slice(&argument.ty).is_some()).nth(most) {
        errors.push(Error::new_spanned(&refused.ty, why));
    }
}

/// The slice that a parameter of type `&[T]` or `&mut [T]` is.
fn slice(ty: &Type) -> Option<Slice> {
    let Type::Reference(reference) = bare(ty) else { return None };
    let Type::Slice(slice) = bare(&reference.elem) else { return None };
    if reference.lifetime.as_ref().is_some_and(|lifetime| lifetime.ident != "_") {
        return None;
    }
    Some(Slice { is_mut: reference.mutability.is_some(), element: (*slice.elem).clone() })
}

/// Many errors as one.
pub(crate) fn all(errors: Vec<Error>) -> Option<Error> {
    errors.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    })
}

fn qualifiers(function: &ItemFn, errors: &mut Vec<Error>) {
    let sig = &function.sig;
    if let Some(word) = &sig.asyncness {
        errors.push(Error::new_spanned(
            word,
            "a handler runs to its end on the device, it cannot be `async`: drop `async`, and take `task: &mut \
             Task` first to wait; the *caller* may await the result",
        ));
    }
    if let Some(word) = &sig.unsafety {
        errors.push(Error::new_spanned(
            word,
            "a handler is called with whatever arguments the peer sends, so it cannot be `unsafe`: check the arguments \
             and keep `unsafe` blocks inside",
        ));
    }
    if let Some(word) = &sig.abi {
        errors.push(Error::new_spanned(
            word,
            "a handler is a plain Rust function: drop `extern`; calls are encoded, no C ABI is involved",
        ));
    }
    if let Some(word) = &sig.constness {
        errors.push(Error::new_spanned(word, "a handler cannot be `const`: drop `const`, or call a const fn from it"));
    }
}

fn generics(function: &ItemFn, errors: &mut Vec<Error>) -> Vec<Ident> {
    let mut params = Vec::new();
    for param in &function.sig.generics.params {
        match param {
            GenericParam::Type(ty) => params.push(ty.ident.clone()),
            GenericParam::Lifetime(l) => errors.push(Error::new_spanned(
                l,
                "a handler has no lifetime parameters: nothing borrowed crosses, and the first parameter is written \
                 `cx: &mut Context`",
            )),
            GenericParam::Const(c) => errors.push(Error::new_spanned(
                c,
                "a handler has no const parameters: pass the value as an argument, or write a handler per value that \
                 calls a shared generic function",
            )),
        }
    }
    params
}

/// The type of the first parameter, and the one behind its `&mut` with `'static` for its lifetime.
fn context(function: &ItemFn, first: Option<&FnArg>, errors: &mut Vec<Error>) -> Option<(Type, Type)> {
    let argument = match first {
        Some(FnArg::Typed(argument)) => argument,
        Some(FnArg::Receiver(receiver)) => {
            errors.push(Error::new_spanned(
                receiver,
                "a handler is a free function, there is no `self` on the device: take `cx: &mut Context` first, keep \
                 device state in a `Resource`",
            ));
            return None;
        }
        None => {
            let at = function.sig.paren_token.span.join();
            errors.push(Error::new(at, CONTEXT_FIRST));
            return None;
        }
    };
    let Type::Reference(reference) = bare(&argument.ty) else {
        errors.push(Error::new_spanned(argument, CONTEXT_FIRST));
        return None;
    };
    if let Some(lifetime) = reference.lifetime.as_ref().filter(|l| l.ident == "static") {
        errors.push(Error::new_spanned(lifetime, CONTEXT_LENT));
        return None;
    }
    let Type::Path(path) = bare(&reference.elem) else {
        errors.push(Error::new_spanned(argument, CONTEXT_FIRST));
        return None;
    };
    if reference.mutability.is_none() {
        let why = if is_context(&reference.elem) {
            "the first parameter is mutable, views of buffers are taken from it: write `cx: &mut Context`"
        } else {
            CONTEXT_FIRST
        };
        errors.push(Error::new_spanned(argument, why));
        return None;
    }
    if let Some(segment) = path.path.segments.last()
        && let PathArguments::AngleBracketed(list) = &segment.arguments
        && list.args.iter().any(|a| matches!(a, syn::GenericArgument::Lifetime(l) if l.ident == "static"))
    {
        errors.push(Error::new_spanned(list, CONTEXT_LENT));
        return None;
    }
    let mut kind = path.clone();
    if let Some(segment) = kind.path.segments.last_mut() {
        forever(segment);
    }
    Some(((*argument.ty).clone(), Type::Path(kind)))
}

/// Puts `'static` in the place of the type's lifetime, which is its first parameter.
fn forever(segment: &mut syn::PathSegment) {
    let forever: GenericArgument = GenericArgument::Lifetime(syn::Lifetime::new("'static", segment.ident.span()));
    match &mut segment.arguments {
        PathArguments::AngleBracketed(list) => match list.args.first_mut() {
            Some(first @ GenericArgument::Lifetime(_)) => *first = forever,
            _ => list.args.insert(0, forever),
        },
        arguments => {
            *arguments = PathArguments::AngleBracketed(syn::parse_quote!(<#forever>));
        }
    }
}

/// Without the parentheses, and without the invisible ones that a `macro_rules!` puts around
/// `$t:ty`.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(g) => bare(&g.elem),
        Type::Paren(p) => bare(&p.elem),
        ty => ty,
    }
}

fn is_named(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(p) if p.path.segments.last().is_some_and(|s| s.ident == name))
}

fn is_context(ty: &Type) -> bool {
    match bare(ty) {
        Type::Reference(r) => is_context(&r.elem),
        Type::Path(p) => {
            p.path.segments.last().is_some_and(|s| s.ident == "Context" || s.ident == "Task" || s.ident == "Host")
        }
        _ => false,
    }
}

/// Names for the parameters of `with`: the user's where there is one, without a leading underscore.
fn names(arguments: &[&PatType]) -> Vec<Ident> {
    let mut names = Vec::<Ident>::new();
    for (i, argument) in arguments.iter().enumerate() {
        let wanted = match &*argument.pat {
            Pat::Ident(pat) => Some(&pat.ident),
            _ => None,
        };
        let shown = wanted.and_then(|ident| {
            let text = ident.to_string();
            match text.trim_start_matches('_') {
                "" => None,
                stripped if stripped.len() == text.len() => Some(ident.clone()),
                // `_type` has no name without its underscore.
                stripped => syn::parse_str::<Ident>(stripped).ok().map(|mut name| {
                    name.set_span(ident.span());
                    name
                }),
            }
        });
        names.push(match shown {
            Some(name) if !names.contains(&name) => name,
            _ => quote::format_ident!("arg{}", i + 1, span = argument.pat.span()),
        });
    }
    names
}

/// The name of the function as it stands in paths.
pub(crate) fn plain_name(function: &ItemFn) -> String {
    function.sig.ident.unraw().to_string()
}

/// The shape of a handler: a function that borrows its first parameter for any lifetimes.
pub(crate) fn wrapper_bound(signature: &Signature, krate: &syn::Path) -> TokenStream {
    let (kind, types, output) = (&signature.kind, &signature.types, &signature.output);
    quote_spanned! { signature.context.span() =>
        for<'a, 'c> fn(&'a mut <#kind as #krate::Enter>::This<'c>, #(#types),*) -> #output
    }
}
