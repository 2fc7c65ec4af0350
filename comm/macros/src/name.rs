//! The name under which an item travels.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::Path;

/// The name of a generic item's instance: its path, and the names of its type arguments.
pub(crate) fn of_instance(path: &TokenStream, krate: &Path, params: &[impl ToTokens]) -> TokenStream {
    if params.is_empty() {
        return path.clone();
    }
    quote! {
        const {
            #krate::migrate::Name::new(#path)
                .then("<")
                .then_list(&[#(<#params as #krate::Migratable>::TYPE_NAME),*])
                .then(">")
        }
        .as_str()
    }
}
