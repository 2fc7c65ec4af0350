//! `register!(path::fill::<u8>)`.

use crate::options::default_crate;
use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Path, PathArguments, Token, TypePath};

/// Handlers to be put into the table.
pub(crate) struct Register {
    handlers: Vec<TypePath>,
    krate: Path,
}

impl Parse for Register {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut register = Self { handlers: Vec::new(), krate: default_crate() };
        while !input.is_empty() {
            if input.peek(Token![crate]) && input.peek2(Token![=]) {
                input.parse::<Token![crate]>()?;
                input.parse::<Token![=]>()?;
                register.krate = input.call(Path::parse_mod_style)?;
            } else {
                let handler = input.parse::<TypePath>()?;
                let last = handler.path.segments.last();
                if !last.is_some_and(|s| matches!(s.arguments, PathArguments::AngleBracketed(_))) {
                    return Err(Error::new_spanned(
                        &handler,
                        "name the instance: `register!(kernels::fill::<u8>)`; handlers without type parameters are \
                         registered by their `#[offload]`",
                    ));
                }
                register.handlers.push(handler);
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if register.handlers.is_empty() {
            return Err(input.error("name the instances: `register!(kernels::fill::<u8>)`"));
        }
        Ok(register)
    }
}

/// One table entry each. Only the compiler knows the handlers' names, so their sections cannot
/// follow these: on bare metal, a registered instance is sorted by the registering module, not
/// beside the other instances of its handler.
pub(crate) fn expand(register: &Register) -> TokenStream {
    let Register { handlers, krate } = register;
    quote! {
        #(#krate::__entry!(#handlers, ::core::concat!(::core::module_path!(), "::", ::core::stringify!(#handlers)));)*
    }
}
