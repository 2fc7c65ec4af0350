//! The index of an access `a[[i + 1, j, 0]]`.

use crate::names::Names;
use quote::ToTokens;
use syn::{BinOp, Expr, ExprArray, Ident, Lit, UnOp};

/// One index of an access.
#[derive(Clone)]
pub(crate) enum Index {
    /// A variable of the loop, by its place among them, and what is added to it.
    Variable(usize, i64),
    /// The same in all iterations.
    Fixed(Expr),
}

impl Index {
    /// How this index is written without its shift: equal for accesses whose rows lie at fixed
    /// distances.
    pub(crate) fn base(&self) -> String {
        match self {
            Self::Variable(at, _) => format!("v{at}"),
            Self::Fixed(e) => e.to_token_stream().to_string(),
        }
    }

    pub(crate) fn shift(&self) -> i64 {
        match self {
            Self::Variable(_, shift) => *shift,
            Self::Fixed(_) => 0,
        }
    }
}

/// The array index of `a[[…]]`, which no other indexing has.
pub(crate) fn of(index: &Expr) -> Option<&ExprArray> {
    match index {
        Expr::Array(list) => Some(list),
        Expr::Paren(inner) => of(&inner.expr),
        Expr::Group(inner) => of(&inner.expr),
        _ => None,
    }
}

/// The indices of an access that rows serve: the last one is the innermost variable and no other
/// one uses it, and each is a variable, a little more or less, or fixed.
pub(crate) fn row(list: &ExprArray, variables: &[Ident], names: &Names) -> Option<Vec<Index>> {
    let indices: Vec<Index> = list.elems.iter().map(|e| index(e, variables, names)).collect::<Option<_>>()?;
    let innermost = |index: &Index| matches!(index, Index::Variable(at, _) if *at == variables.len() - 1);
    let (last, others) = indices.split_last()?;
    (innermost(last) && !others.iter().any(innermost)).then_some(indices)
}

fn index(e: &Expr, variables: &[Ident], names: &Names) -> Option<Index> {
    let shifted = match e {
        Expr::Paren(inner) => return index(&inner.expr, variables, names),
        Expr::Group(inner) => return index(&inner.expr, variables, names),
        Expr::Binary(sum) => match sum.op {
            BinOp::Add(_) => variable(&sum.left, variables)
                .zip(literal(&sum.right))
                .or_else(|| variable(&sum.right, variables).zip(literal(&sum.left))),
            BinOp::Sub(_) => variable(&sum.left, variables).zip(literal(&sum.right).map(|by| -by)),
            _ => None,
        },
        _ => variable(e, variables).map(|at| (at, 0)),
    };
    match shifted {
        Some((at, shift)) => Some(Index::Variable(at, shift)),
        None => (is_plain(e) && !names.varies(e)).then(|| Index::Fixed(e.clone())),
    }
}

fn variable(e: &Expr, variables: &[Ident]) -> Option<usize> {
    match e {
        Expr::Path(path) => variables.iter().position(|name| path.path.is_ident(name)),
        Expr::Paren(inner) => variable(&inner.expr, variables),
        Expr::Group(inner) => variable(&inner.expr, variables),
        _ => None,
    }
}

/// A number, at most one that no sum of indices overflows with.
fn literal(e: &Expr) -> Option<i64> {
    match e {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(number) => number.base10_parse::<i32>().ok().map(i64::from),
            _ => None,
        },
        Expr::Unary(negation) if matches!(negation.op, UnOp::Neg(_)) => literal(&negation.expr).map(|n| -n),
        Expr::Paren(inner) => literal(&inner.expr),
        Expr::Group(inner) => literal(&inner.expr),
        _ => None,
    }
}

/// Reads only, so that one evaluation before the loop is as good as one in each iteration.
fn is_plain(e: &Expr) -> bool {
    match e {
        Expr::Path(_) | Expr::Lit(_) => true,
        Expr::Field(field) => is_plain(&field.base),
        Expr::Paren(inner) => is_plain(&inner.expr),
        Expr::Group(inner) => is_plain(&inner.expr),
        Expr::Cast(cast) => is_plain(&cast.expr),
        Expr::Unary(unary) => matches!(unary.op, UnOp::Neg(_)) && is_plain(&unary.expr),
        Expr::Binary(sum) => {
            matches!(sum.op, BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_))
                && is_plain(&sum.left)
                && is_plain(&sum.right)
        }
        _ => false,
    }
}
