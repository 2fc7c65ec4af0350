//! Types that can never cross the link, such as references. They are refused at their place in the
//! source, with what to write instead. All other types are left to the bound `Migratable`.

use syn::spanned::Spanned;
use syn::{Error, GenericArgument, PathArguments, ReturnType, Type};

/// Appends an error for each part of `ty` that cannot cross. `what` names its role: "argument",
/// "result", "field".
pub(crate) fn check(ty: &Type, what: &str, errors: &mut Vec<Error>) {
    let mut refuse = |why: &str| errors.push(Error::new_spanned(ty, why));
    match ty {
        Type::Reference(r) => match &*r.elem {
            Type::Path(p) if p.path.is_ident("str") => refuse(
                "references cannot cross: the sides share no addresses; for short text use `heapless::String<N>`, which \
                 owns its bytes",
            ),
            _ => refuse(
                "references cannot cross: the sides share no addresses; pass small values by value, put data into a \
                 device buffer and take a `BufferPtr<T>`",
            ),
        },
        Type::Ptr(_) => refuse(
            "pointers cannot cross: the sides share no addresses; put the data into a device buffer and take a \
             `BufferPtr<T>`",
        ),
        Type::BareFn(_) => refuse(
            "function pointers cannot cross: code lies at other addresses on the other side; call another `#[offload]` \
             handler instead",
        ),
        Type::ImplTrait(_) => {
            refuse(&format!("`impl Trait` has no one shape on the wire: name the concrete type of this {what}"));
        }
        Type::TraitObject(_) => refuse(&format!("trait objects cannot cross: name the concrete type of this {what}")),
        Type::Slice(_) => refuse(
            "a slice has no fixed length: use an array `[T; N]` for few elements, a device buffer and `BufferPtr<T>` \
             for many",
        ),
        Type::Infer(_) => refuse(&format!("name the type of this {what}: both sides compare it")),
        Type::Never(_) => {
            refuse("a handler must return, because its caller waits for the reply: `()`, a value, or a `Result`")
        }
        Type::Array(a) => check(&a.elem, what, errors),
        Type::Paren(p) => check(&p.elem, what, errors),
        Type::Group(g) => check(&g.elem, what, errors),
        Type::Tuple(t) => t.elems.iter().for_each(|ty| check(ty, what, errors)),
        Type::Path(p) => path(p, what, errors),
        _ => {}
    }
}

fn path(ty: &syn::TypePath, what: &str, errors: &mut Vec<Error>) {
    for (name, wide, narrow) in [("usize", "u64", "u32"), ("isize", "i64", "i32")] {
        if ty.qself.is_none() && ty.path.is_ident(name) {
            let why = format!(
                "`{name}` differs in width between host and device: use {wide} or {narrow} for this {what} and convert \
                 inside"
            );
            errors.push(Error::new_spanned(ty, why));
        }
    }
    for segment in &ty.path.segments {
        match &segment.arguments {
            PathArguments::None => {}
            PathArguments::AngleBracketed(list) => {
                for argument in &list.args {
                    match argument {
                        GenericArgument::Type(ty) => check(ty, what, errors),
                        GenericArgument::Lifetime(l) => errors.push(borrowed(l, what)),
                        _ => {}
                    }
                }
            }
            PathArguments::Parenthesized(list) => {
                errors.push(Error::new(list.span(), format!("a closure's type cannot cross as {what}")));
            }
        }
    }
}

/// The error for a type that borrows.
pub(crate) fn borrowed(at: &impl quote::ToTokens, what: &str) -> Error {
    let why = format!(
        "a {what} that borrows cannot cross: the sides share no addresses; own the value, or put the data into a device \
         buffer and take a `BufferPtr<T>`"
    );
    Error::new_spanned(at, why)
}

/// Does the type mention one of these type parameters?
pub(crate) fn mentions(ty: &Type, params: &[&syn::Ident]) -> bool {
    match ty {
        Type::Array(a) => mentions(&a.elem, params),
        Type::Paren(p) => mentions(&p.elem, params),
        Type::Group(g) => mentions(&g.elem, params),
        Type::Tuple(t) => t.elems.iter().any(|ty| mentions(ty, params)),
        Type::Path(p) => {
            p.qself.as_ref().is_some_and(|q| mentions(&q.ty, params))
                || p.path.segments.first().is_some_and(|first| params.contains(&&first.ident))
                || p.path.segments.iter().any(|s| match &s.arguments {
                    PathArguments::AngleBracketed(list) => {
                        list.args.iter().any(|a| matches!(a, GenericArgument::Type(ty) if mentions(ty, params)))
                    }
                    _ => false,
                })
        }
        _ => false,
    }
}

/// The type a function returns.
pub(crate) fn returned(output: &ReturnType) -> Type {
    match output {
        ReturnType::Default => syn::parse_quote!(()),
        ReturnType::Type(_, ty) => (**ty).clone(),
    }
}
