//! The loop nest of `each!`. Its form is what compilers vectorise in safe code: rows are slices of
//! one length, of which arrays of eight elements are taken, and results go to arrays of their own,
//! so that no bound is checked and no write is feared to change what is read.

use crate::access::Index;
use crate::body::{self, Body, Group};
use crate::loops::Each;
use crate::names::Names;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote_spanned};
use syn::{Ident, Result};

/// Tokens of the expansion: their names are none of the body's.
macro_rules! ours {
    ($($tokens:tt)*) => { quote_spanned!(Span::mixed_site() => $($tokens)*) };
}

pub(crate) fn each(each: Each) -> Result<TokenStream> {
    let Each { variables, share, kind, body: mut element } = each;
    let names = Names::of(&element, &variables);
    let body = Body::rewrite(&mut element, &variables, &names);
    let errors = names.errors.iter().chain(&body.errors).cloned();
    if let Some(error) = errors.reduce(|mut all, error| {
        all.combine(error);
        all
    }) {
        return Err(error);
    }
    // The values of a chunk are converted together, behind the loop over its lanes.
    let convert = kind.as_ref().and_then(|_| body::split_conversion(&mut element));
    let groups = &body.groups;
    let each = |of: &dyn Fn(usize, &Group) -> TokenStream| -> TokenStream {
        groups.iter().enumerate().map(|(at, group)| of(at, group)).collect()
    };
    let (check, cut, rest, rows) = (each(&check), each(&cut), each(&rest), each(&rows_of_run));
    let places = (0..groups.len()).map(|at| name("place", at, 0));
    let Value { start, begin, of_element, values_wide, values, add_wide, add, add_half, add_rest, join, finish } =
        Value::new(kind.as_ref(), convert);
    let (outer, inner) = variables.split_at(variables.len() - 1);
    let (n, lane) = (variables.len(), body::lane());
    // So many elements, from what the names of rows mean here.
    let elements = |lanes: TokenStream| {
        ours! {
            for #lane in 0..#lanes {
                #[allow(unused_variables)]
                let #(#inner)* = innermost + (done + #lane) as i64;
                #[allow(unused_braces)]
                let value = #element;
                #of_element
            }
        }
    };
    let loads = |width: TokenStream| each(&|at, group| load(at, group, &width));
    let stores = |width: TokenStream| each(&|at, group| store(at, group, &width));
    let [(load_wide, store_wide), (load, store), (load_half, store_half)] =
        [ours!(wide), ours!(chunk), ours!(half)].map(|width| (loads(width.clone()), stores(width)));
    let [wide, chunk, half, rest_of_run] = [ours!(WIDE), ours!(LANES), ours!(HALF), ours!(len - done)].map(elements);
    let is_narrow = groups.iter().enumerate().map(|(at, _)| {
        let slice = name("slice", at, 0);
        ours!(&& ::hamr_xacc::each::is_narrow(#slice))
    });
    let has_rows = !groups.is_empty();
    Ok(ours! {
        {
            #[allow(unused_imports)]
            use ::hamr_xacc::each::Rows as _;
            const LANES: usize = ::hamr_xacc::each::LANES;
            const WIDE: usize = ::hamr_xacc::each::WIDE;
            const HALF: usize = LANES / 2;
            let share = &(#share);
            let own = !::hamr_xacc::each::Indices::is_expanded(share);
            let (bounds, runs): ([::core::ops::Range<i64>; #n], _) = ::hamr_xacc::each::Indices::iterate(share);
            #check
            let by_row = false #(|| #places.is_by_row())*;
            #start
            let mut runs = runs;
            // Once for all runs, or for each.
            while let Some(head) = runs.next() {
                let mut from: [i64; #n] = ::core::array::from_fn(|dim| bounds[dim].start);
                let distance: [i64; #n] = ::core::array::from_fn(|dim| head.first[dim] - from[dim]);
                #cut
                if by_row {
                    from = head.first;
                }
                let mut next = Some(head);
                while let Some(run) = next {
                    let len = run.len;
                    #[allow(unused_variables)]
                    let [#(#outer,)* innermost] = run.first;
                    let distance: [i64; #n] = ::core::array::from_fn(|dim| run.first[dim] - from[dim]);
                    #rows
                    #begin
                    let mut first = 0;
                    // Known to the compiler, which leaves out one of the loops.
                    if #has_rows #(#is_narrow)* {
                        for at in 0..len / WIDE {
                            let done = at * WIDE;
                            #load_wide
                            #values_wide
                            #wide
                            #add_wide
                            #store_wide
                        }
                        first = len / WIDE * (WIDE / LANES);
                    }
                    for at in first..len / LANES {
                        let done = at * LANES;
                        #load
                        #values
                        #chunk
                        #add
                        #store
                    }
                    #join
                    if len % LANES >= HALF {
                        let done = len / LANES * LANES;
                        let at = done;
                        #load_half
                        #values
                        #half
                        #add_half
                        #store_half
                    }
                    if len % HALF != 0 {
                        let done = len / HALF * HALF;
                        #rest
                        #values
                        #rest_of_run
                        #add_rest
                    }
                    next = if by_row { None } else { runs.next() };
                }
            }
            #finish
        }
    })
}

/// What becomes of the body's value. Without a reduction, it has none.
#[derive(Default)]
struct Value {
    /// Before the loop.
    start: TokenStream,
    /// Before a run.
    begin: TokenStream,
    of_element: TokenStream,
    /// Before the elements of a wide chunk, and behind them.
    values_wide: TokenStream,
    add_wide: TokenStream,
    /// Before the elements of a chunk, behind those of a whole one, of half a one, and of what is left.
    values: TokenStream,
    add: TokenStream,
    add_half: TokenStream,
    add_rest: TokenStream,
    /// Behind a run.
    join: TokenStream,
    /// Behind the loop.
    finish: TokenStream,
}

impl Value {
    fn new(kind: Option<&Ident>, convert: Option<TokenStream>) -> Self {
        let Some(kind) = kind else {
            return Self { of_element: ours!(let () = value;), ..Self::default() };
        };
        let convert = convert.map(|to| ours!(.map(#to)));
        Self {
            start: ours!(let reduction = ::hamr_xacc::each::Of::<::hamr_xacc::each::#kind, _>::new(); let mut total = reduction.start();),
            begin: ours!(let mut of_run = reduction.start();),
            of_element: {
                let lane = body::lane();
                ours!(values[#lane] = value;)
            },
            values_wide: ours!(let mut values = [::core::default::Default::default(); WIDE];),
            // In the lanes of their positions.
            add_wide: ours!(for part in values.as_chunks().0 { of_run = reduction.add(of_run, (*part) #convert); }),
            values: ours!(let mut values = [::core::default::Default::default(); LANES];),
            add: ours!(of_run = reduction.add(of_run, values #convert);),
            add_half: ours!(reduction.add_some(&mut total, values #convert, 0, HALF);),
            add_rest: ours!(reduction.add_some(&mut total, values #convert, done % LANES, len - done);),
            join: ours!(reduction.join(&mut total, of_run);),
            finish: ours!(reduction.finish(total)),
        }
    }
}

/// The name of something of a group, or of one of its rows or dimensions.
fn name(what: &str, group: usize, of: usize) -> Ident {
    format_ident!("{what}_{group}_{of}", span = Span::mixed_site())
}

/// Bounds are checked.
fn check(at: usize, group: &Group) -> TokenStream {
    let (place, array) = (name("place", at, 0), &group.array);
    let own = if group.written { ours!(own) } else { ours!(false) };
    let (mut fixed, mut ranges) = (Vec::new(), Vec::new());
    for (dim, index) in group.indices.iter().enumerate() {
        match index {
            Index::Fixed(e) => {
                let name = name("fixed", at, dim);
                fixed.push(ours!(let #name: i64 = #e;));
                ranges.push(ours!(#name..#name + 1));
            }
            Index::Variable(of, _) => ranges.push(ours!(bounds[#of].clone())),
        }
    }
    let shifts = group.rows.iter().map(|row| ours!([#(#row),*]));
    ours!(#(#fixed)* let #place = #array.row_place([#(#ranges),*], &[#(#shifts),*], #own);)
}

/// The parts of the block that the rows with a shift are in, from the run `head` on.
fn cut(at: usize, group: &Group) -> TokenStream {
    let (place, array, indices) = (name("place", at, 0), &group.array, distances(group));
    let firsts = group.indices.iter().enumerate().map(|(dim, index)| match index {
        Index::Fixed(_) => {
            let fixed = name("fixed", at, dim);
            ours!(#fixed)
        }
        Index::Variable(of, _) => ours!(head.first[#of]),
    });
    let firsts: Vec<_> = firsts.collect();
    let parts = group.rows.iter().enumerate().map(|(row, shift)| {
        let part = name("part", at, row);
        let get = if group.written { ours!(row_part_mut) } else { ours!(row_part) };
        ours!(let #part = #array.#get(#place.position(offset, [#(#shift),*]), span, [#(i64::wrapping_add(#firsts, #shift)),*]);)
    });
    ours! {
        let (offset, span) = match by_row {
            true => (#place.at_gaps(#indices, head.len), head.len),
            false => (0, #place.span()),
        };
        #(#parts)*
    }
}

/// The rows of a run.
fn rows_of_run(at: usize, group: &Group) -> TokenStream {
    let (place, offset, indices) = (name("place", at, 0), name("offset", at, 0), distances(group));
    let get = if group.written { ours!(row_mut) } else { ours!(row) };
    let rows = (0..group.rows.len()).map(|row| {
        let (row, part) = (name("slice", at, row), name("part", at, row));
        ours!(let #row = ::hamr_xacc::each::#get(#part, #offset, len);)
    });
    ours!(let #offset = #place.at(#indices); #(#rows)*)
}

/// How far the indices of a group are from those that the rows count from.
fn distances(group: &Group) -> TokenStream {
    let indices = group.indices.iter().map(|index| match index {
        Index::Fixed(_) => ours!(0),
        Index::Variable(of, _) => ours!(distance[#of]),
    });
    ours!([#(#indices),*])
}

/// Some elements of the rows. Outputs begin as what is there: a body may write some only.
fn load(at: usize, group: &Group, width: &TokenStream) -> TokenStream {
    let rows = (0..group.rows.len()).map(|row| {
        let (elements, slice) = (body::row_name(at, row), name("slice", at, row));
        match group.written {
            true => ours!(let mut #elements = *::hamr_xacc::each::#width(#slice, at);),
            false => ours!(let #elements = ::hamr_xacc::each::#width(#slice, at);),
        }
    });
    ours!(#(#rows)*)
}

fn store(at: usize, group: &Group, width: &TokenStream) -> TokenStream {
    let (elements, slice, to) =
        (body::row_name(at, 0), name("slice", at, 0), format_ident!("{}_mut", width.to_string()));
    if group.written { ours!(*::hamr_xacc::each::#to(#slice, at) = #elements;) } else { ours!() }
}

/// What is left of the rows.
fn rest(at: usize, group: &Group) -> TokenStream {
    let rows = (0..group.rows.len()).map(|row| {
        let (elements, slice) = (body::row_name(at, row), name("slice", at, row));
        if group.written {
            ours!(let #elements = &mut #slice[done..];)
        } else {
            ours!(let #elements = &#slice[done..];)
        }
    });
    ours!(#(#rows)*)
}
