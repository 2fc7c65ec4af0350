//! `#[offload]`, `register!`, `#[derive(Migratable)]`.
use proc_macro::TokenStream;
/// todo
#[proc_macro_attribute]
pub fn offload(_: TokenStream, item: TokenStream) -> TokenStream {
    item
}
/// todo
#[proc_macro]
pub fn register(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
/// todo
#[proc_macro_derive(Migratable, attributes(migratable))]
pub fn migratable(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
