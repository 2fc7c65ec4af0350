//! The body with its accesses replaced by elements of rows.

use crate::access::{self, Index};
use crate::names::{Names, mentions};
use proc_macro2::Span;
use quote::{ToTokens, format_ident, quote};
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Error, Expr, ExprIndex, Ident, UnOp};

/// Accesses of one array whose rows lie at fixed distances.
pub(crate) struct Group {
    /// The array.
    pub(crate) array: Expr,
    /// Index of one of its rows; the shifts of all are in `rows`.
    pub(crate) indices: Vec<Index>,
    /// Shifts, all different; just zeros if the array is written.
    pub(crate) rows: Vec<Vec<i64>>,
    pub(crate) written: bool,
}

/// Name of the row of a group in the body, of what elements have the index [`lane`].
pub(crate) fn row_name(group: usize, row: usize) -> Ident {
    format_ident!("row_{group}_{row}", span = Span::mixed_site())
}

pub(crate) fn lane() -> Ident {
    Ident::new("lane", Span::mixed_site())
}

/// An element that is read by indexing.
struct Element {
    array: String,
    at: Expr,
}

/// The first access of a row.
struct Row {
    group: usize,
    shifted: bool,
    at: Expr,
}

pub(crate) struct Body<'a> {
    variables: &'a [Ident],
    names: &'a Names<'a>,
    pub(crate) groups: Vec<Group>,
    elements: Vec<Element>,
    seen: Vec<Row>,
    pub(crate) errors: Vec<Error>,
    /// The expression that is visited is written.
    write: bool,
}

impl<'a> Body<'a> {
    /// Rewrites a body.
    pub(crate) fn rewrite(body: &mut Expr, variables: &'a [Ident], names: &'a Names<'a>) -> Self {
        let (groups, elements, seen, errors) = Default::default();
        let mut this = Self { variables, names, groups, elements, seen, errors, write: false };
        this.visit_expr_mut(body);
        if this.errors.is_empty() {
            this.check_dependences();
        }
        this
    }

    /// A row's element instead of an access, where rows serve it. Other reads stay what they are:
    /// indexing, which is checked.
    fn access(&mut self, e: &mut ExprIndex, write: bool) -> Option<Expr> {
        let list = access::of(&e.index)?;
        let own = root(&e.expr).is_some_and(|name| self.names.bound.contains(&name.to_string()));
        let plain = is_place(&e.expr) && !self.names.varies(&e.expr);
        let indices = access::row(list, self.variables, self.names).filter(|_| plain);
        if write && !own && !indices.as_ref().is_some_and(|indices| self.names_all(indices)) {
            let all = self.variables.iter().map(Ident::to_string).collect::<Vec<_>>().join(", ");
            let what = format!("a write names each variable of the loop once and adds nothing, as in `[[{all}]]`");
            self.errors.push(Error::new_spanned(&e.index, what));
        }
        let Some(indices) = indices else {
            self.elements.push(Element { array: text(&e.expr), at: Expr::Index(e.clone()) });
            self.visit_expr_mut(&mut e.expr);
            self.visit_expr_mut(&mut e.index);
            return None;
        };
        let (group, row) = self.row(e, indices, write);
        let (row, lane) = (row_name(group, row), lane());
        Some(syn::parse_quote!(#row[#lane]))
    }

    /// A write with these indices hits another element in each iteration.
    fn names_all(&self, indices: &[Index]) -> bool {
        let times =
            |variable| indices.iter().filter(|i| matches!(i, Index::Variable(at, _) if *at == variable)).count();
        (0..self.variables.len()).all(|variable| times(variable) == 1) && indices.iter().all(|i| i.shift() == 0)
    }

    fn row(&mut self, e: &ExprIndex, indices: Vec<Index>, write: bool) -> (usize, usize) {
        let same = |group: &Group| {
            let bases = |indices: &[Index]| indices.iter().map(Index::base).collect::<Vec<_>>();
            text(&group.array) == text(&e.expr) && bases(&group.indices) == bases(&indices)
        };
        let shifts: Vec<i64> = indices.iter().map(Index::shift).collect();
        let group = self.groups.iter().position(same).unwrap_or_else(|| {
            let array = (*e.expr).clone();
            self.groups.push(Group { array, indices, rows: Vec::new(), written: false });
            self.groups.len() - 1
        });
        let rows = &mut self.groups[group];
        rows.written |= write;
        let row = rows.rows.iter().position(|row| *row == shifts).unwrap_or_else(|| {
            let shifted = shifts.iter().any(|shift| *shift != 0);
            self.seen.push(Row { group, shifted, at: Expr::Index(e.clone()) });
            rows.rows.push(shifts);
            rows.rows.len() - 1
        });
        (group, row)
    }

    /// A written array is accessed at the written element only.
    fn check_dependences(&mut self) {
        for (written, group) in self.groups.iter().enumerate().filter(|(_, group)| group.written) {
            let array = text(&group.array);
            let rows = self.seen.iter().filter(|row| text(&self.groups[row.group].array) == array);
            let others = rows.filter(|row| row.group != written || row.shifted).map(|row| &row.at);
            let elements = self.elements.iter().filter(|element| element.array == array).map(|element| &element.at);
            let what = format!("iterations depend on each other: `{array}` is written, and used at another index");
            self.errors.extend(others.chain(elements).map(|at| Error::new_spanned(at, &what)));
        }
    }

    /// The left side of an assignment.
    fn assigned(&mut self, left: &mut Expr) {
        if let Expr::Tuple(parts) = left {
            parts.elems.iter_mut().for_each(|part| self.assigned(part));
            return;
        }
        if let Some(name) = root(left) {
            let bound = self.names.bound.contains(&name.to_string());
            let what = match self.variables.contains(name) {
                true => Some(format!("`{name}` is set by the loop")),
                false if !bound => Some(format!("all iterations share `{name}`: use `=> sum` or another reduction")),
                false => None,
            };
            self.errors.extend(what.map(|what| Error::new_spanned(&*left, what)));
        }
        self.write = true;
        self.visit_expr_mut(left);
    }
}

impl VisitMut for Body<'_> {
    fn visit_expr_mut(&mut self, e: &mut Expr) {
        let write = std::mem::take(&mut self.write);
        match e {
            Expr::Index(index) if access::of(&index.index).is_some() => {
                if let Some(element) = self.access(index, write) {
                    *e = element;
                }
            }
            Expr::Index(index) => {
                self.visit_expr_mut(&mut index.index);
                self.write = write;
                self.visit_expr_mut(&mut index.expr);
            }
            Expr::Assign(assign) => {
                self.visit_expr_mut(&mut assign.right);
                self.assigned(&mut assign.left);
            }
            Expr::Binary(binary) if assigns(&binary.op) => {
                self.visit_expr_mut(&mut binary.right);
                self.assigned(&mut binary.left);
            }
            Expr::Reference(reference) => {
                self.write = reference.mutability.is_some();
                self.visit_expr_mut(&mut reference.expr);
            }
            Expr::Field(_) | Expr::Paren(_) | Expr::Group(_) => {
                self.write = write;
                visit_mut::visit_expr_mut(self, e);
            }
            _ => visit_mut::visit_expr_mut(self, e),
        }
        self.write = false;
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}

fn assigns(op: &BinOp) -> bool {
    use BinOp::*;
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

/// The variable that holds a place, unless an index is on the way.
fn root(e: &Expr) -> Option<&Ident> {
    match e {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Field(field) => root(&field.base),
        Expr::Paren(inner) => root(&inner.expr),
        Expr::Group(inner) => root(&inner.expr),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => root(&unary.expr),
        _ => None,
    }
}

/// An expression that names something and does nothing.
fn is_place(e: &Expr) -> bool {
    match e {
        Expr::Path(_) => true,
        Expr::Field(field) => is_place(&field.base),
        Expr::Index(index) => {
            is_place(&index.expr)
                && !mentions(&index.index, &|_| false)
                && matches!(*index.index, Expr::Lit(_) | Expr::Path(_))
        }
        Expr::Paren(inner) => is_place(&inner.expr),
        Expr::Group(inner) => is_place(&inner.expr),
        Expr::Unary(unary) => matches!(unary.op, UnOp::Deref(_)) && is_place(&unary.expr),
        _ => false,
    }
}

fn text(e: &Expr) -> String {
    match e {
        Expr::Paren(inner) => text(&inner.expr),
        Expr::Group(inner) => text(&inner.expr),
        other => other.to_token_stream().to_string(),
    }
}

/// The conversion to a wider float that ends a body, and the body without it. It is applied to all
/// lanes at once: a loop with one type of element is vectorised in twice as many lanes as one with
/// elements of 4 and of 8 bytes.
pub(crate) fn split_conversion(body: &mut Expr) -> Option<proc_macro2::TokenStream> {
    let tail = match body {
        Expr::Block(block) if block.label.is_none() && block.attrs.is_empty() => match block.block.stmts.last_mut()? {
            syn::Stmt::Expr(e, None) => e,
            _ => return None,
        },
        other => other,
    };
    let is_float = |path: &syn::Path| path.is_ident("f64") || path.is_ident("f32");
    let (inner, conversion) = match tail {
        Expr::Cast(cast) => match &*cast.ty {
            syn::Type::Path(ty) if ty.qself.is_none() && is_float(&ty.path) => {
                let inner = (*cast.expr).clone();
                (inner, quote!(|value| value as #ty))
            }
            _ => return None,
        },
        Expr::Call(call) if call.args.len() == 1 => match &*call.func {
            Expr::Path(path) if path.to_token_stream().to_string() == "f64 :: from" => {
                (call.args.first()?.clone(), quote!(#path))
            }
            _ => return None,
        },
        _ => return None,
    };
    *tail = inner;
    Some(conversion)
}
