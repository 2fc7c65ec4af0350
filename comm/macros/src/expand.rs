//! The expansion of `#[offload]`: the function itself, a type of its name, and table entries.

use crate::name;
use crate::options::{Options, Side};
use crate::signature::{self, Signature, Slice};
use crate::tokens;
use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Generics, Ident, ItemFn, Meta, Type};

/// Expands. A refused function is kept beside the errors, so that its other uses are not reported
/// as well.
pub(crate) fn offload(options: TokenStream, item: TokenStream) -> TokenStream {
    let function = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => function,
        Err(_) => {
            let error = Error::new_spanned(&item, "#[offload] goes on a free function with a body");
            let error = error.into_compile_error();
            return quote!(#item #error);
        }
    };
    let mut errors = Vec::new();
    let options = syn::parse2::<Options>(options).map_err(|e| errors.push(e)).ok();
    let signature = signature::read(&function).map_err(|e| errors.push(e)).ok();
    if let (Some(options), Some(signature)) = (options, signature) {
        check_instances(&options, &signature, &mut errors);
        if errors.is_empty() {
            return Handler { function: &function, options: &options, signature: &signature }.tokens();
        }
    }
    let errors = signature::all(errors).map(Error::into_compile_error);
    quote!(#function #errors)
}

fn check_instances(options: &Options, signature: &Signature, errors: &mut Vec<Error>) {
    let Some((span, instances)) = &options.instances else { return };
    let wanted = signature.params.len();
    if wanted == 0 {
        errors.push(Error::new(*span, "`instances` is for generic functions, this one has no type parameters"));
        return;
    }
    for instance in instances.iter().filter(|instance| instance.len() != wanted) {
        let at = quote!(#(#instance),*);
        let why = if wanted == 1 {
            format!("one type per instance, got {}: `instances(f32, f64)`", instance.len())
        } else {
            format!("{wanted} types per instance, got {}: `instances((f32, u8), (f64, u8))`", instance.len())
        };
        errors.push(if at.is_empty() { Error::new(*span, why) } else { Error::new_spanned(at, why) });
    }
}

struct Handler<'a> {
    function: &'a ItemFn,
    options: &'a Options,
    signature: &'a Signature,
}

/// Where the function exists.
enum Body {
    Everywhere,
    /// Under this condition.
    If(TokenStream),
    /// Where no image is built: it takes `&mut Host`.
    InHostPrograms,
}

impl Handler<'_> {
    fn tokens(&self) -> TokenStream {
        let function = self.function;
        let krate = &self.options.krate;
        let kept = match self.body() {
            Body::Everywhere => quote!(#function),
            Body::If(cfg) => quote!(#[cfg(#cfg)] #function),
            Body::InHostPrograms => quote!(#krate::on_host! { #function }),
        };
        let (functor, binder, handler, entries) = (self.functor(), self.binder(), self.handler(), self.entries());
        quote! {
            #kept
            #functor
            #binder
            #handler
            #entries
        }
    }

    /// The type of the function's name. It stands in the type namespace only, the function in that
    /// of values: an empty enum and a struct with braces have no constructor that would clash.
    fn functor(&self) -> TokenStream {
        let (inherited, vis, name) = (self.inherited(), &self.function.vis, &self.function.sig.ident);
        let shown = signature::plain_name(self.function);
        let names = &self.signature.names;
        let arguments = quote!(#(#names),*).to_string().replace(" ,", ",");
        let doc = format!("`{shown}::with({arguments})` is a call of the handler `{shown}`, to be sent.");
        let params = &self.signature.params;
        let body = if params.is_empty() {
            quote!(enum #name {})
        } else {
            quote! { struct #name<#(#params),*> { _types: ::core::marker::PhantomData<fn(#(#params),*)> } }
        };
        quote! {
            #(#inherited)*
            #[doc = #doc]
            #[allow(non_camel_case_types, dead_code)]
            #vis #body
        }
    }

    fn binder(&self) -> TokenStream {
        let krate = &self.options.krate;
        let (inherited, vis, name) = (self.inherited(), &self.function.vis, &self.function.sig.ident);
        let (names, types) = (&self.signature.names, self.sent_types());
        let generics = self.generics();
        let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
        let doc = format!("Binds the arguments of `{}`.", signature::plain_name(self.function));
        let staged = self.signature.has_slices().then(|| self.staged_binder());
        let after = self.after_binder(&types);
        quote! {
            #(#inherited)*
            impl #impl_generics #name #type_generics #where_clause {
                #[doc = #doc]
                #[allow(dead_code, clippy::too_many_arguments, clippy::type_complexity)]
                #[inline(always)]
                #vis fn with(#(#names: #types),*) -> #krate::Call<Self> {
                    #krate::Call::new((#(#names,)*))
                }
                #staged
                #after
            }
        }
    }

    /// The binder of all arguments but the first, of a handler that can stand in a chain.
    fn after_binder(&self, types: &[TokenStream]) -> Option<TokenStream> {
        let krate = &self.options.krate;
        let (first, rest) = types.split_first().filter(|_| self.signature.may_be_inline)?;
        let names = self.signature.names.get(1..)?;
        let vis = &self.function.vis;
        let doc = format!(
            "Binds the arguments of `{}` but the first, which is the result of the call before it in a chain.",
            signature::plain_name(self.function)
        );
        Some(quote! {
            #[doc = #doc]
            #[allow(dead_code, clippy::too_many_arguments, clippy::type_complexity)]
            #vis fn after(#(#names: #rest),*) -> #krate::chain::After<Self, #first, (#(#rest,)*)> {
                #krate::chain::After::new((#(#names,)*))
            }
        })
    }

    /// The binder that takes slices of the program.
    fn staged_binder(&self) -> TokenStream {
        let krate = &self.options.krate;
        let (vis, names) = (&self.function.vis, &self.signature.names);
        let life = syn::Lifetime::new("'slices", Span::mixed_site());
        let staging = Ident::new("staging", Span::mixed_site());
        let types = self.arguments().map(|(ty, slice)| match slice {
            Some(Slice { is_mut: true, element }) => quote!(&#life mut [#element]),
            Some(Slice { element, .. }) => quote!(&#life [#element]),
            None => ty.to_token_stream(),
        });
        let values = self.arguments().zip(names).map(|((_, slice), name)| match slice {
            Some(Slice { is_mut: true, .. }) => quote!(#staging.in_out(#name)),
            Some(_) => quote!(#staging.input(#name)),
            None => name.to_token_stream(),
        });
        let doc = format!(
            "Binds the arguments of `{}`; its slices are staged in buffers for the time of the call.",
            signature::plain_name(self.function)
        );
        quote! {
            #[doc = #doc]
            #[allow(dead_code, clippy::too_many_arguments, clippy::type_complexity)]
            #vis fn staged<#life>(
                #(#names: #types),*
            ) -> impl ::core::ops::FnOnce(&mut #krate::Staging<'_, #life>) -> #krate::Call<Self> {
                move |#staging| #krate::Call::new((#(#values,)*))
            }
        }
    }

    /// Each argument's type, and what it is as a slice.
    fn arguments(&self) -> impl Iterator<Item = (&Type, Option<&Slice>)> {
        self.signature.types.iter().zip(self.signature.slices.iter().map(Option::as_ref))
    }

    /// The types that travel.
    fn sent_types(&self) -> Vec<TokenStream> {
        let krate = &self.options.krate;
        let sent = |(ty, slice): (&Type, Option<&Slice>)| match slice {
            Some(Slice { element, .. }) => quote!(#krate::BufferPtr<#element>),
            None => ty.to_token_stream(),
        };
        self.arguments().map(sent).collect()
    }

    fn handler(&self) -> TokenStream {
        let krate = &self.options.krate;
        let (inherited, name) = (self.inherited(), &self.function.sig.ident);
        let (kind, types) = (&self.signature.kind, self.sent_types());
        let output = self.sent_output();
        let generics = self.generics();
        let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
        let shown = self.name();
        let parameters = self.signature.names.iter().map(|name| name.unraw().to_string()).collect::<Vec<_>>().join(",");
        let flags = self.flags();
        // Attributes are left out: documentation does not make an image stale.
        let body = {
            let (sig, block) = (&self.function.sig, &self.function.block);
            tokens::hash(quote!(#sig #block))
        };
        let (cx, args) = (Ident::new("cx", Span::mixed_site()), Ident::new("args", Span::mixed_site()));
        let run = self.run(&cx, &args);
        let args_type = self.args_type(&types);
        quote! {
            #(#inherited)*
            #[automatically_derived]
            #[doc(hidden)]
            #[allow(clippy::type_complexity)]
            impl #impl_generics #krate::Handler for #name #type_generics #where_clause {
                const NAME: &'static str = #shown;
                const PARAMETERS: &'static str = #parameters;
                const BODY: u64 = #body;
                const FLAGS: u32 = #flags;
                type Kind = #kind;
                type Args = #args_type;
                type Output = #output;
                #[inline(always)]
                #[allow(deprecated, unused_variables)]
                fn run(#cx: &mut <Self::Kind as #krate::Enter>::This<'_>, #args: Self::Args) -> Self::Output {
                    #run
                }
            }
        }
    }

    /// The tuple of the arguments. The compiler reports one that cannot travel at its own parameter, where a sum
    /// of zeros asks it of each; that of a generic function, of which no constant can ask, at the list of parameters.
    fn args_type(&self, types: &[TokenStream]) -> TokenStream {
        let krate = &self.options.krate;
        let mut tuple = Group::new(Delimiter::Parenthesis, quote!(#(#types,)*));
        tuple.set_span(self.function.sig.paren_token.span.join());
        if types.is_empty() || !self.signature.params.is_empty() {
            return tuple.to_token_stream();
        }
        let checks = types.iter().zip(&self.signature.types).map(|(ty, written)| {
            let at = Group::new(Delimiter::None, ty.clone());
            quote_spanned!(written.span() => #krate::handler::travels::<#at>())
        });
        quote!(<[(); #(#checks)+*] as #krate::handler::Checked<#tuple>>::Args)
    }

    /// The result that travels.
    fn sent_output(&self) -> TokenStream {
        let (krate, output) = (&self.options.krate, &self.signature.output);
        if !self.signature.has_slices() {
            return output.to_token_stream();
        }
        quote_spanned!(output.span() => <#output as #krate::handler::Viewing>::Output)
    }

    /// Calls the function where there is one.
    fn run(&self, cx: &Ident, args: &Ident) -> TokenStream {
        let krate = &self.options.krate;
        let (name, params) = (&self.function.sig.ident, &self.signature.params);
        let context = &self.signature.context;
        let turbofish = if params.is_empty() { quote!() } else { quote!(::<#(#params),*>) };
        let handler = Ident::new("handler", Span::mixed_site());
        let bound = signature::wrapper_bound(self.signature, krate);
        // The call goes through a pointer. The pointer's type gives one clear error for a function
        // that requires more of its first parameter than a call can give. To the optimiser it is a
        // constant.
        let (mut passed, mut asked, mut views) = (Vec::new(), Vec::new(), Vec::new());
        for (i, slice) in self.signature.slices.iter().enumerate() {
            let index = syn::Index::from(i);
            let Some(Slice { is_mut, .. }) = slice else {
                passed.push(quote!(#args.#index));
                continue;
            };
            let view = Ident::new(&format!("view{i}"), Span::mixed_site());
            asked.push(if *is_mut { quote!(#args.#index.write()) } else { quote!(#args.#index.read()) });
            passed.push(view.to_token_stream());
            views.push(view);
        }
        let mut call = quote!(#handler(#cx, #(#passed),*));
        let kind = &self.signature.kind;
        let check =
            (!views.is_empty()).then(|| quote_spanned!(context.span() => #krate::handler::takes_slices::<#kind>();));
        if !views.is_empty() {
            call = quote!(#krate::handler::Viewing::or(#cx.with_views((#(#asked,)*), |#cx, (#(#views,)*)| #call)));
        }
        let here = quote! {
            let #handler: #bound = #name #turbofish;
            #check
            #call
        };
        // The closure keeps the import of the first parameter's type in use where the function is left out.
        let absent = quote! {
            let _ = |_: #context| ();
            #krate::handler::no_body()
        };
        match self.body() {
            Body::Everywhere => here,
            Body::If(cfg) => quote! {
                #[cfg(#cfg)]
                { #here }
                #[cfg(not(#cfg))]
                { #absent }
            },
            Body::InHostPrograms => quote!(#krate::__in_host!({ #here } { #absent })),
        }
    }

    fn entries(&self) -> TokenStream {
        let krate = &self.options.krate;
        let (cfgs, name) = (self.cfgs(), &self.function.sig.ident);
        let path = self.path();
        let entries = match &self.options.instances {
            _ if self.options.unlisted => return TokenStream::new(),
            None if !self.signature.params.is_empty() => return TokenStream::new(), // register! names them
            None => vec![quote!(#krate::__entry!(#name, #path);)],
            // The section's name follows the instance's name as far as the source shows it: a
            // user's type is here as it was written, and in the instance's name with its path.
            Some((_, instances)) => instances
                .iter()
                .map(|types| {
                    let shown = types.iter().map(shown_type).collect::<Vec<_>>().join(", ");
                    let section = concat(&[path.clone(), format!("<{shown}>").to_token_stream()]);
                    // All tokens get the position of the first type argument, where the compiler
                    // then reports a bound that fails.
                    let at = types.first().map_or_else(Span::call_site, first_span);
                    let name = Ident::new(&name.to_string(), at);
                    let handler = quote_spanned!(at => #name<#(#types),*>);
                    quote!(#krate::__entry!(#handler, #section);)
                })
                .collect(),
        };
        let cfgs = quote!(#(#cfgs)*);
        let entries = quote!(#(#cfgs #entries)*);
        // No device calls a body on the host in an image.
        if self.signature.is_host { quote!(#krate::on_host! { #entries }) } else { entries }
    }

    /// Path of the function, or the name that the user gave instead.
    fn path(&self) -> TokenStream {
        match &self.options.name {
            Some(name) => name.to_token_stream(),
            None => {
                let shown = format!("::{}", signature::plain_name(self.function));
                concat(&[quote!(::core::module_path!()), shown.to_token_stream()])
            }
        }
    }

    /// The full name: the path, and the names of type arguments.
    fn name(&self) -> TokenStream {
        name::of_instance(&self.path(), &self.options.krate, &self.signature.params)
    }

    fn flags(&self) -> TokenStream {
        let krate = &self.options.krate;
        let flag = quote!(#krate::__private::record_flag);
        let mut flags = match self.body() {
            Body::Everywhere => quote!(#flag::HAS_BODY),
            Body::If(cfg) => quote!((if ::core::cfg!(#cfg) { #flag::HAS_BODY } else { 0 })),
            Body::InHostPrograms => quote!((if #krate::__private::ON_HOST { #flag::HAS_BODY } else { 0 })),
        };
        let kind = &self.signature.kind;
        flags.extend(quote!(| <#kind as #krate::Enter>::FLAGS));
        if self.options.unordered {
            flags.extend(quote!(| #flag::UNORDERED));
        }
        flags
    }

    fn body(&self) -> Body {
        match self.options.side {
            _ if self.signature.is_host => Body::InHostPrograms,
            Side::Both => Body::Everywhere,
            Side::Device(span) => Body::If(quote_spanned!(span => feature = "device")),
            Side::Host(span) => Body::If(quote_spanned!(span => not(feature = "device"))),
        }
    }

    /// The function's generics, with what a handler asks of its type arguments.
    fn generics(&self) -> Generics {
        let krate = &self.options.krate;
        let mut generics = self.function.sig.generics.clone();
        for param in generics.type_params_mut() {
            param.colon_token.get_or_insert_default();
            param.bounds.push(syn::parse_quote!(#krate::Migratable));
            param.bounds.push(syn::parse_quote!('static));
        }
        generics
    }

    /// Attributes of the function that apply to everything made of it: `cfg`, and levels of lints, since its
    /// parameters stand there, too.
    fn inherited(&self) -> Vec<Attribute> {
        let inherits =
            |attr: &&Attribute| ["cfg", "allow", "expect", "warn", "deny"].iter().any(|it| attr.path().is_ident(it));
        let mut attributes: Vec<Attribute> = self.function.attrs.iter().filter(inherits).cloned().collect();
        for attribute in &mut attributes {
            // What is expected of the function need not be there in what is made of it.
            if let Meta::List(list) = &mut attribute.meta
                && list.path.is_ident("expect")
            {
                list.path = Ident::new("allow", list.path.span()).into();
            }
        }
        attributes
    }

    /// `cfg` attributes alone, for entries of the table.
    fn cfgs(&self) -> Vec<&Attribute> {
        self.function.attrs.iter().filter(|attr| attr.path().is_ident("cfg")).collect()
    }
}

fn concat(parts: &[TokenStream]) -> TokenStream {
    quote!(::core::concat!(#(#parts),*))
}

fn first_span(ty: &Type) -> Span {
    ty.to_token_stream().into_iter().next().map_or_else(Span::call_site, |token| token.span())
}

/// A type as people write it, without the spaces between tokens.
fn shown_type(ty: &Type) -> String {
    ty.to_token_stream().to_string().replace(' ', "").replace(',', ", ").replace(';', "; ")
}
