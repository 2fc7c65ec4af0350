//! `#[derive(Migratable)]`: fields in order; enums as one tag byte and the variant's fields.

use crate::crossing;
use crate::name;
use crate::options::default_crate;
use crate::signature::all;
use crate::tokens;
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, Fields, Generics, Ident, Path, Token, Type};

/// The implementation.
pub(crate) fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let options = options(input)?;
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return Err(crossing::borrowed(lifetime, "type"));
    }
    if let Some(param) = input.generics.const_params().next() {
        return Err(Error::new_spanned(
            param,
            "`#[derive(Migratable)]` has no const parameters: they are not part of the type's name; use a fixed length",
        ));
    }
    let variants = variants(input)?;
    let (name, krate) = (&input.ident, &options.krate);
    let (parts, bounds) = if options.postcard {
        (postcard(input, krate), vec![quote!(Self: #krate::migrate::hook::Owned)])
    } else {
        check_fields(&variants)?;
        (packed(input, &variants, krate), field_bounds(input, &variants, krate))
    };
    let generics = with_bounds(&input.generics, bounds, krate);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let type_name = type_name(input, krate);
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #krate::Migratable for #name #type_generics #where_clause {
            const TYPE_NAME: &'static str = #type_name;
            #parts
        }
    })
}

struct DeriveOptions {
    postcard: bool,
    krate: Path,
}

fn options(input: &DeriveInput) -> syn::Result<DeriveOptions> {
    let mut options = DeriveOptions { postcard: false, krate: default_crate() };
    for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("migratable")) {
        attr.parse_nested_meta(|meta| {
            if meta.path.is_ident("postcard") {
                options.postcard = true;
                Ok(())
            } else if meta.path.is_ident("crate") {
                meta.input.parse::<Token![=]>()?;
                options.krate = meta.input.call(Path::parse_mod_style)?;
                Ok(())
            } else {
                Err(meta.error("unknown option: #[migratable] knows `postcard` and `crate = path`"))
            }
        })?;
    }
    Ok(options)
}

/// A struct, or one variant of an enum.
struct Variant<'a> {
    /// `Self` or `Self::Variant`.
    path: TokenStream,
    name: Option<&'a Ident>,
    fields: &'a Fields,
}

impl Variant<'_> {
    fn types(&self) -> impl Iterator<Item = &Type> {
        self.fields.iter().map(|field| &field.ty)
    }

    /// Names under which the fields are bound in a pattern.
    fn locals(&self) -> Vec<Ident> {
        (0..self.fields.len()).map(|i| format_ident!("__field{i}")).collect()
    }

    /// `Self { x: __field0, … }`, also for tuple and unit shapes.
    fn pattern(&self) -> TokenStream {
        let (path, members, locals) = (&self.path, self.fields.members(), self.locals());
        quote!(#path { #(#members: #locals),* })
    }

    /// The sum of a constant of the fields, `SIZE` or `LONGEST`.
    fn sum(&self, krate: &Path, constant: &str) -> TokenStream {
        let (types, constant) = (self.types(), format_ident!("{constant}"));
        quote!(#krate::migrate::add_sizes(&[#(<#types as #krate::Migratable>::#constant),*]))
    }

    /// The names of the fields, or their numbers.
    fn names(&self) -> impl Iterator<Item = String> {
        self.fields.members().map(|member| match member {
            syn::Member::Named(name) => name.unraw().to_string(),
            syn::Member::Unnamed(index) => index.index.to_string(),
        })
    }

    /// Hash of each field's name, then its shape.
    fn shapes(&self, krate: &Path) -> TokenStream {
        let names = self.names();
        let types = self.types();
        quote!(#(#krate::__private::hash(#names.as_bytes()), <#types as #krate::Migratable>::SHAPE,)*)
    }
}

fn variants(input: &DeriveInput) -> syn::Result<Vec<Variant<'_>>> {
    match &input.data {
        Data::Struct(data) => Ok(vec![Variant { path: quote!(Self), name: None, fields: &data.fields }]),
        Data::Enum(data) if data.variants.is_empty() => {
            Err(Error::new_spanned(&input.ident, "an enum without variants has no value that could cross"))
        }
        Data::Enum(data) => {
            if let Some(extra) = data.variants.iter().nth(256) {
                return Err(Error::new_spanned(extra, "the tag on the wire is one byte: at most 256 variants"));
            }
            let variant = |v: &'_ syn::Variant| {
                let name = &v.ident;
                quote!(Self::#name)
            };
            let all = data.variants.iter();
            Ok(all.map(|v| Variant { path: variant(v), name: Some(&v.ident), fields: &v.fields }).collect())
        }
        Data::Union(data) => Err(Error::new_spanned(
            data.union_token,
            "a union does not say which of its fields is valid, so it cannot cross: use an enum, or `Bits<T>` around a \
             union that is `bytemuck::Pod`",
        )),
    }
}

fn check_fields(variants: &[Variant<'_>]) -> syn::Result<()> {
    let mut errors = Vec::new();
    variants.iter().flat_map(Variant::types).for_each(|ty| crossing::check(ty, "field", &mut errors));
    all(errors).map_or(Ok(()), Err)
}

/// The associated items of types that travel field by field.
fn packed(input: &DeriveInput, variants: &[Variant<'_>], krate: &Path) -> TokenStream {
    let is_enum = matches!(input.data, Data::Enum(_));
    let types = variants.iter().flat_map(Variant::types);
    let has_buffers = quote!(false #(|| <#types as #krate::Migratable>::HAS_BUFFERS)*);
    let of_variants = |constant, combine| {
        let sums = variants.iter().map(|v| v.sum(krate, constant));
        if is_enum { quote!(#krate::migrate::#combine(&[#(#sums),*])) } else { quote!(#(#sums)*) }
    };
    let (size, longest) = (of_variants("SIZE", quote!(same_sizes)), of_variants("LONGEST", quote!(longest)));
    let (shape, description) = (shape(input, variants, krate), description(input, variants, krate));
    let patterns = variants.iter().map(Variant::pattern);
    let encoders = variants.iter().enumerate().map(|(tag, v)| {
        let (locals, tag) = (v.locals(), tag as u8);
        let tag = is_enum.then(|| quote!(out.bytes(&[#tag]);));
        let types = v.types();
        quote!({ #tag #(<#types as #krate::Migratable>::encode(#locals, out);)* })
    });
    let decoders = variants.iter().map(|v| {
        let (path, members, types) = (&v.path, v.fields.members(), v.types());
        quote!(::core::result::Result::Ok(#path { #(#members: <#types as #krate::Migratable>::decode(from)?),* }))
    });
    let decode = if is_enum {
        let tags = (0..variants.len()).map(|tag| tag as u8);
        // A tag no variant has is a peer's mistake, never a panic. The arm is unreachable for 256
        // variants.
        quote! {
            let [tag] = from.array()?;
            #[allow(unreachable_patterns)]
            match tag {
                #(#tags => #decoders,)*
                _ => ::core::result::Result::Err(#krate::migrate::Malformed),
            }
        }
    } else {
        quote!(#(#decoders)*)
    };
    let visit_patterns = patterns.clone();
    let visitors = variants.iter().map(|v| {
        let locals = v.locals();
        let types = v.types();
        quote!({ #(<#types as #krate::Migratable>::visit_buffers(#locals, visit);)* })
    });
    quote! {
        const SIZE: ::core::option::Option<usize> = #size;
        const LONGEST: ::core::option::Option<usize> = #longest;
        const SHAPE: u64 = #shape;
        const DESCRIPTION: &'static str = #description;
        const HAS_BUFFERS: bool = #has_buffers;
        #[inline]
        #[allow(unused_variables)]
        fn encode(&self, out: &mut #krate::migrate::Encoder<'_>) {
            match self { #(#patterns => #encoders)* }
        }
        #[inline]
        #[allow(unused_variables)]
        fn decode(
            from: &mut #krate::migrate::Decoder<'_>,
        ) -> ::core::result::Result<Self, #krate::migrate::Malformed> {
            #decode
        }
        #[inline]
        #[allow(unused_variables)]
        fn visit_buffers(&self, visit: &mut impl #krate::__private::VisitBuffer) {
            match self { #(#visit_patterns => #visitors)* }
        }
    }
}

/// The type's own name, then the names and shapes of its fields. A variant puts its name and its
/// number of fields before them, so that no two enums flatten to the same list.
fn shape(input: &DeriveInput, variants: &[Variant<'_>], krate: &Path) -> TokenStream {
    let name = input.ident.unraw().to_string();
    let parts = variants.iter().map(|v| {
        let shapes = v.shapes(krate);
        match v.name {
            None => shapes,
            Some(variant) => {
                let (variant, count) = (variant.unraw().to_string(), v.fields.len() as u64);
                quote!(#krate::__private::hash(#variant.as_bytes()), #count, #shapes)
            }
        }
    });
    quote!(#krate::migrate::join_shapes(#name, &[#(#parts)*]))
}

/// `Name{a: T}`, or `enum Name{A{}, B{0: T}}`.
fn description(input: &DeriveInput, variants: &[Variant<'_>], krate: &Path) -> TokenStream {
    let name = input.ident.unraw().to_string();
    let start = match input.data {
        Data::Enum(_) => format!("enum {name}{{"),
        _ => name,
    };
    let parts = variants.iter().enumerate().map(|(i, v)| {
        let head = v.name.map(|variant| {
            let head = format!("{}{}", if i == 0 { "" } else { ", " }, variant.unraw());
            quote!(.then(#head))
        });
        let (names, types) = (v.names(), v.types());
        quote!(#head.then_fields(&[#(#names, <#types as #krate::Migratable>::DESCRIPTION),*]))
    });
    let end = matches!(input.data, Data::Enum(_)).then(|| quote!(.then("}")));
    quote!(const { #krate::migrate::Description::new(#start) #(#parts)* #end }.as_str())
}

/// The associated items of types that travel through serde. The shape is the source of the
/// definition: serde sees more than field types, for instance renamed and skipped fields.
fn postcard(input: &DeriveInput, krate: &Path) -> TokenStream {
    let name = input.ident.unraw().to_string();
    let source = tokens::hash(without_docs(input).to_token_stream());
    let params = input.generics.type_params().map(|param| &param.ident);
    quote! {
        const SIZE: ::core::option::Option<usize> = ::core::option::Option::None;
        const SHAPE: u64 = #krate::migrate::join_shapes(
            #name,
            &[#krate::__private::hash(b"postcard"), #source, #(<#params as #krate::Migratable>::SHAPE),*],
        );
        fn encode(&self, out: &mut #krate::migrate::Encoder<'_>) {
            #krate::migrate::hook::encode(self, out);
        }
        fn decode(
            from: &mut #krate::migrate::Decoder<'_>,
        ) -> ::core::result::Result<Self, #krate::migrate::Malformed> {
            #krate::migrate::hook::decode(from)
        }
    }
}

fn without_docs(input: &DeriveInput) -> DeriveInput {
    struct Strip;
    impl syn::visit_mut::VisitMut for Strip {
        fn visit_attributes_mut(&mut self, attrs: &mut Vec<syn::Attribute>) {
            attrs.retain(|attr| !attr.path().is_ident("doc"));
        }
    }
    let mut input = input.clone();
    syn::visit_mut::VisitMut::visit_derive_input_mut(&mut Strip, &mut input);
    input
}

/// Path and name, with the names of type arguments.
fn type_name(input: &DeriveInput, krate: &Path) -> TokenStream {
    let shown = format!("::{}", input.ident.unraw());
    let path = quote!(::core::concat!(::core::module_path!(), #shown));
    let params = input.generics.type_params().map(|param| &param.ident).collect::<Vec<_>>();
    name::of_instance(&path, krate, &params)
}

/// Fields whose types mention a type parameter must be able to travel: `T: Migratable` alone does
/// not make a `BufferPtr<T>` so.
fn field_bounds(input: &DeriveInput, variants: &[Variant<'_>], krate: &Path) -> Vec<TokenStream> {
    let params = input.generics.type_params().map(|param| &param.ident).collect::<Vec<_>>();
    let types = variants.iter().flat_map(Variant::types);
    types.filter(|ty| crossing::mentions(ty, &params)).map(|ty| quote!(#ty: #krate::Migratable)).collect()
}

fn with_bounds(generics: &Generics, bounds: Vec<TokenStream>, krate: &Path) -> Generics {
    let mut generics = generics.clone();
    let params = generics.type_params().map(|param| param.ident.clone()).collect::<Vec<_>>();
    let of_params = params.iter().map(|param| quote!(#param: #krate::Migratable));
    let all = of_params.chain(bounds).collect::<Vec<_>>();
    if !all.is_empty() {
        let clause = generics.make_where_clause();
        clause.predicates.extend(all.into_iter().map(|bound| -> syn::WherePredicate { syn::parse_quote!(#bound) }));
    }
    generics
}
