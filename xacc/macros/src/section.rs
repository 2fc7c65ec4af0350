//! `s![2..10, .., 5, (..).step(2)]`.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, Result, Token};

/// What is selected of each dimension.
pub(crate) struct Section(Punctuated<Expr, Token![,]>);

impl Parse for Section {
    fn parse(input: ParseStream) -> Result<Self> {
        Punctuated::parse_terminated(input).map(Self)
    }
}

pub(crate) fn expand(section: &Section) -> TokenStream {
    let dimensions = section.0.iter();
    quote_spanned! {Span::mixed_site() =>
        {
            #[allow(unused_imports)]
            use ::hamr_xacc::section::Step as _;
            [#(::hamr_xacc::section::Sel::from(#dimensions)),*]
        }
    }
}
