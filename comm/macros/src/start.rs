//! The expansion of `#[hamr::main]`: a `main` without parameters around the function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, ItemFn, LitStr, Path, Token};

/// The options in the parentheses.
struct Options {
    image: Option<LitStr>,
    krate: Path,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self { image: None, krate: syn::parse_quote!(::hamr) };
        while !input.is_empty() {
            if input.peek(Token![crate]) {
                input.parse::<Token![crate]>()?;
                input.parse::<Token![=]>()?;
                options.krate = input.parse()?;
            } else {
                let name = input.parse::<Ident>()?;
                if name != "image" {
                    return Err(Error::new(name.span(), "the options are `image = \"…\"` and `crate = path`"));
                }
                input.parse::<Token![=]>()?;
                options.image = Some(input.parse()?);
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

/// Expands.
pub(crate) fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    match expand(options, item) {
        Ok(tokens) => tokens,
        // Without a `main` the compiler would report that as well.
        Err(error) => {
            let error = error.into_compile_error();
            quote!(fn main() {} #error)
        }
    }
}

fn expand(options: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let Options { image, krate } = syn::parse2(options)?;
    let function = syn::parse2::<ItemFn>(item.clone())
        .map_err(|_| Error::new_spanned(&item, "#[hamr::main] goes on the function `main`"))?;
    let signature = &function.sig;
    let refused = match () {
        () if signature.ident != "main" => Some((signature.ident.to_token_stream(), "the function is called `main`")),
        () if signature.asyncness.is_some() => {
            Some((signature.asyncness.to_token_stream(), "`main` is not async: its calls are futures of any runtime"))
        }
        () if !signature.generics.params.is_empty() => {
            Some((signature.generics.to_token_stream(), "`main` has no type parameters"))
        }
        () if signature.inputs.len() != 1 => {
            Some((signature.to_token_stream(), "`main` has one parameter, the device: `dev: &hamr::Node`"))
        }
        () => None,
    };
    if let Some((at, why)) = refused {
        return Err(Error::new_spanned(at, why));
    }
    let image = match image {
        Some(image) => quote!(::core::option::Option::Some(#image)),
        None => quote!(::core::option::Option::None),
    };
    Ok(quote! {
        fn main() -> ::std::process::ExitCode {
            #function
            #krate::start::run(#image, main)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(options: TokenStream, item: TokenStream) -> String {
        expand(options, item).expect_err("refused").to_string()
    }

    #[test]
    fn a_main_of_another_form_is_refused() {
        let good = || {
            quote!(
                fn main(dev: &hamr::Node) {}
            )
        };
        for (options, item, why) in [
            (
                quote!(),
                quote!(
                    struct Main;
                ),
                "goes on the function",
            ),
            (
                quote!(),
                quote!(
                    fn start(dev: &hamr::Node) {}
                ),
                "called `main`",
            ),
            (
                quote!(),
                quote!(
                    async fn main(dev: &hamr::Node) {}
                ),
                "not async",
            ),
            (
                quote!(),
                quote!(
                    fn main<T>(dev: T) {}
                ),
                "no type parameters",
            ),
            (
                quote!(),
                quote!(
                    fn main() {}
                ),
                "one parameter",
            ),
            (quote!(device = "shm"), good(), "`image = "),
            (quote!(image = 3), good(), "string literal"),
        ] {
            let error = error(options, item);
            assert!(error.contains(why), "{error}");
        }
        let tokens = expand(quote!(image = "mine", crate = other::hamr), good()).expect("expands").to_string();
        assert!(tokens.contains("Some (\"mine\")") && tokens.contains("other :: hamr :: start :: run"), "{tokens}");
    }
}
