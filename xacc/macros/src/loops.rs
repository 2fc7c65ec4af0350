//! What stands in `each!(…)`: `[i, j] in SHARE => BODY`, or `… => KIND { BODY }`.

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, Result, Token, bracketed, token};

/// Kinds of local reductions, and the types of `hamr_xacc` that compute them.
const KINDS: [(&str, &str); 14] = [
    ("sum", "Sum"),
    ("exact_sum", "ExactSum"),
    ("prod", "Prod"),
    ("max", "Max"),
    ("min", "Min"),
    ("and", "And"),
    ("or", "Or"),
    ("xor", "Xor"),
    ("any", "Any"),
    ("all", "All"),
    ("firstmax", "FirstMax"),
    ("firstmin", "FirstMin"),
    ("lastmax", "LastMax"),
    ("lastmin", "LastMin"),
];

/// A loop.
pub(crate) struct Each {
    /// The loop variables, the innermost last.
    pub(crate) variables: Vec<Ident>,
    pub(crate) share: Expr,
    /// The type of the reduction, if the body has a value.
    pub(crate) kind: Option<Ident>,
    pub(crate) body: Expr,
}

impl Parse for Each {
    fn parse(input: ParseStream) -> Result<Self> {
        let list;
        bracketed!(list in input);
        let variables: Vec<Ident> = Punctuated::<Ident, Token![,]>::parse_terminated(&list)?.into_iter().collect();
        if variables.is_empty() {
            return Err(list.error("expected the loop's variables, as in `[i, j]`"));
        }
        for (at, name) in variables.iter().enumerate() {
            if variables[..at].contains(name) {
                return Err(syn::Error::new(name.span(), format!("`{name}` is named twice")));
            }
        }
        input.parse::<Token![in]>()?;
        // `grid.all() => …`: no struct literal, so that the arrow ends it.
        let share = input.call(Expr::parse_without_eager_brace)?;
        input.parse::<Token![=>]>()?;
        let kind = kind(input)?;
        let body: Expr = input.parse()?;
        input.parse::<Option<Token![,]>>()?;
        if !input.is_empty() {
            return Err(input.error("expected one expression or block"));
        }
        Ok(Self { variables, share, kind, body })
    }
}

/// `sum {`, as far as the name. Any other name in front of a brace is a mistake, too: a struct
/// would not be a body.
fn kind(input: ParseStream) -> Result<Option<Ident>> {
    if !(input.peek(Ident) && input.peek2(token::Brace)) {
        return Ok(None);
    }
    let name: Ident = input.parse()?;
    match KINDS.iter().find(|(kind, _)| name == kind) {
        Some((_, of)) => Ok(Some(Ident::new(of, name.span()))),
        None => {
            let names: Vec<_> = KINDS.iter().map(|(kind, _)| *kind).collect();
            Err(syn::Error::new(name.span(), format!("expected one of {}", names.join(", "))))
        }
    }
}
