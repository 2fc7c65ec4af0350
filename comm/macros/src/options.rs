//! The options of `#[offload(…)]`.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Ident, LitStr, Path, Token, Type, parenthesized};

/// The sides that have the body.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    /// In images and hosts.
    Both,
    /// Where the crate's feature `device` is on. The span is the option's, so that the compiler's
    /// remark about an undeclared feature points at it.
    Device(Span),
    /// Where it is off.
    Host(Span),
}

/// The options in the parentheses.
pub(crate) struct Options {
    pub(crate) side: Side,
    pub(crate) unordered: bool,
    /// No entry in the table: programs and images name the handler where they want it.
    pub(crate) unlisted: bool,
    /// One list of type arguments per entry.
    pub(crate) instances: Option<(Span, Vec<Vec<Type>>)>,
    pub(crate) name: Option<LitStr>,
    /// Path of `hamr_comm`.
    pub(crate) krate: Path,
}

/// Path of `hamr_comm` in manifests that do not rename it.
pub(crate) fn default_crate() -> Path {
    syn::parse_quote!(::hamr_comm)
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self {
            side: Side::Both,
            unordered: false,
            unlisted: false,
            instances: None,
            name: None,
            krate: default_crate(),
        };
        let mut seen = Vec::<Ident>::new();
        while !input.is_empty() {
            let option = input.call(Ident::parse_any)?;
            if seen.contains(&option) {
                return Err(Error::new(option.span(), format!("`{option}` is given twice")));
            }
            options.one(&option, input)?;
            seen.push(option);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        match &options.instances {
            Some((at, _)) if options.unlisted => {
                Err(Error::new(*at, "`instances` are entries in the table, and `unlisted` handlers have none"))
            }
            _ => Ok(options),
        }
    }
}

impl Options {
    fn one(&mut self, option: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        match option.to_string().as_str() {
            side @ ("device" | "host") => {
                if !matches!(self.side, Side::Both) {
                    return Err(Error::new(
                        option.span(),
                        "a body on both sides is what `#[offload]` means: drop `device` and `host`",
                    ));
                }
                self.side = if side == "device" { Side::Device(option.span()) } else { Side::Host(option.span()) };
            }
            "queued" => {
                return Err(Error::new(
                    option.span(),
                    "`queued` is no option: a handler that takes `task: &mut Task` first is a task, which runs on a stack \
                     of its own and may wait",
                ));
            }
            "unordered" => self.unordered = true,
            "unlisted" => self.unlisted = true,
            "instances" => self.instances = Some((option.span(), instances(option, input)?)),
            "name" => {
                input.parse::<Token![=]>()?;
                self.name = Some(name(input.parse()?)?);
            }
            "crate" => {
                input.parse::<Token![=]>()?;
                self.krate = input.call(Path::parse_mod_style)?;
            }
            _ => {
                return Err(Error::new(
                    option.span(),
                    format!(
                        "unknown option `{option}`: #[offload] knows `device`, `host`, `instances(…)`, `name = \"…\"`, \
                         `unordered`, `unlisted` and `crate = path`"
                    ),
                ));
            }
        }
        Ok(())
    }
}

fn instances(option: &Ident, input: ParseStream<'_>) -> syn::Result<Vec<Vec<Type>>> {
    if !input.peek(syn::token::Paren) {
        return Err(Error::new(option.span(), "name the types: `instances(f32, f64)`"));
    }
    let list;
    parenthesized!(list in input);
    let types = Punctuated::<Type, Token![,]>::parse_terminated(&list)?;
    if types.is_empty() {
        return Err(Error::new(option.span(), "name at least one type: `instances(f32, f64)`"));
    }
    // A tuple stands for several type arguments; a tuple that is itself one argument needs a second
    // pair of parentheses.
    Ok(types
        .into_iter()
        .map(|ty| match ty {
            // `()` names a type, too: there is no handler without type parameters here.
            Type::Tuple(tuple) if !tuple.elems.is_empty() => tuple.elems.into_iter().collect(),
            one => vec![one],
        })
        .collect())
}

/// Names end up in section names, in a table in device memory and in messages.
fn name(name: LitStr) -> syn::Result<LitStr> {
    let text = name.value();
    if text.is_empty() || text.len() > 200 || text.chars().any(|c| !c.is_ascii_graphic()) {
        return Err(Error::new(
            name.span(),
            "a handler's name is 1 to 200 printable ASCII characters without spaces, for instance \"my_crate::axpy\"",
        ));
    }
    Ok(name)
}
