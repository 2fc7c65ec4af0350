//! `each!`, loops over the part of a global array that a device owns, and `s!`, sections of arrays.
//! `hamr-xacc` exports both.

#![forbid(unsafe_code)]

mod access;
mod body;
mod expand;
mod loops;
mod names;
mod section;

use proc_macro::TokenStream;

/// A loop over the part of global indices that this node has: `each!([i, j] in SHARE => BODY)`.
///
/// The body is an expression without a value, and runs exactly once for each index, in row-major
/// order. In it, `a[[i + 1, j]]` is an element by its global index. `each!([i, j] in SHARE => KIND {
/// BODY })` has the values of a body combined: `sum`, `prod`, `max`, `min`, `and`, `or`, `xor`, `any`,
/// `all`; `exact_sum`, whose value is an `Exact`; for `firstmax`, `firstmin`, `lastmax` and `lastmin`,
/// the body's value is a pair, an extreme and what belongs to it, and the loop's an `Option`, `None` without
/// iterations. Sums may be of tuples. Only this node's part is combined.
///
/// An exact sum costs time: an exact dot product takes about ten times as long as a plain one.
///
/// ```
/// use hamr_xacc::dist::{Dist, NodeSet, Nodes};
/// use hamr_xacc::each;
///
/// let line = Nodes::new(NodeSet::of_world(3), 1, [3])?.template([100]).distribute([Dist::Block])?;
/// let here = each!([i] in line.on([1..99]) => sum { (1, i) });
/// assert_eq!(here, (34, (34..68).sum()));
/// # Ok::<(), hamr_xacc::dist::DistError>(())
/// ```
///
/// # Rows
/// An access is fast whose last index is the innermost variable, plus or minus a number, and whose
/// others are variables, plus or minus a number, or the same in all iterations. Its bounds are checked
/// once, before the loop, as if each element were accessed that the loop's indices lead to. A loop of
/// such accesses becomes vector code. Any other access is indexing, checked each time.
///
/// # Order of sums
/// The value of an iteration is added in lane `n % 8`, `n` being its position in a run of consecutive
/// innermost indices: first those of the whole chunks of a run, to a total of their own, then the
/// others. So a sum has the same bits in each execution, on every processor.
///
/// # Errors
/// The compiler refuses an array that is written and also accessed at another index, a write that
/// does not name each variable of the loop once and unshifted, an assignment to a variable from
/// outside of the loop, and `break`, `continue`, `return` and `?` out of the body.
///
/// # Panics
/// An index is not on this node; the message names the dimension, the index and what is here.
#[proc_macro]
pub fn each(tokens: TokenStream) -> TokenStream {
    let each = syn::parse_macro_input!(tokens as loops::Each);
    expand::each(each).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// A section of an array: for each dimension an index, a range, or one with a step.
///
/// ```
/// use hamr_xacc::s;
/// use hamr_xacc::section::{Region, Sel};
///
/// let section = s![2..10, .., 5, (..).step(-2)];
/// assert_eq!(section[2], Sel::Index(5));
/// assert_eq!(Region::new(section, [0..12, 0..3, 0..6, 0..7])?.len(), 8 * 3 * 4);
/// # Ok::<(), hamr_xacc::dist::DistError>(())
/// ```
#[proc_macro]
pub fn s(tokens: TokenStream) -> TokenStream {
    let section = syn::parse_macro_input!(tokens as section::Section);
    section::expand(&section).into()
}
