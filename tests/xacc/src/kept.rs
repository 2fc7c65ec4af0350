//! Arrays that stay on the nodes between programs.

use crate::check;
use hamr_xacc::prelude::*;

/// Sizes of a general block distribution: all in the last block but one row.
fn sizes(w: &Spmd) -> [i64; 8] {
    let mut sizes = [0; 8];
    sizes[0] = 1;
    sizes[w.size() as usize - 1] += 12;
    sizes
}

fn of_field<'g>(w: &Spmd, sizes: &'g [i64]) -> Result<Shape<'g, 2>, Fault> {
    Ok(w.nodes([w.size()])?.template([13, 9]).distribute([GBlock(sizes), Whole])?.shadow([1, 0]))
}

fn of_line(w: &Spmd) -> Result<Shape<'static, 1>, Fault> {
    Ok(w.nodes([w.size()])?.template([20]).distribute([CyclicOf(3)])?)
}

/// Elements of each image of a coarray.
const LEN: i64 = 6;

/// Makes and keeps a coarray, in which each image has put its number into another one's first element.
#[offload]
pub fn keep_coarray(w: &mut Spmd) -> Result<Kept<i64, 1>, Fault> {
    let (me, n, mut made) = (w.me(), w.size(), w.own([LEN]).coarray(w)?);
    made.put((me + 1) % n, s![0], me, w)?;
    made.keep(w)
}

/// Each image puts the number of the step and what it was told last into its neighbour: what they keep goes around.
#[offload]
pub fn step_coarray(w: &mut Spmd, kept: Kept<i64, 1>, nth: i64) -> Result<(), Fault> {
    let (me, n) = (w.me(), w.size());
    let shape = w.own([LEN]);
    let mut ring = kept.open_coarray(&shape, w)?;
    let other = w.own([LEN]).full(i64::MAX, w)?;
    let view = ring.view(w);
    let (told, steps) = (view[[0]], view[[LEN - 1]]);
    check(told == (me + n * (nth + 1) - nth - 1) % n && steps == nth, "an element is of another step")?;
    w.sync_all()?;
    ring.put((me + 1) % n, s![0], told, w)?;
    ring.put((me + 1) % n, s![LEN - 1], nth + 1, w)?;
    check(each!([i] in other.here() => all { other[[i]] == i64::MAX }), "another array was written")
}

/// Wrong uses of a kept coarray, on two nodes or more, and their reasons.
pub const COARRAY_REASONS: [&str; 3] = [
    "the kept array has another shape",
    "a coarray's shape is that of `w.own`",
    "node 0 is in open of the kept coarray",
];

/// Uses it wrongly.
#[offload]
pub fn misused_coarray(w: &mut Spmd, kept: Kept<i64, 1>, how: u32) -> Result<(), Fault> {
    let (own, first) = (w.own([LEN]), w.me() == 0);
    match how {
        0 => kept.open_coarray(&w.own([LEN + 1]), w).map(drop),
        1 => kept.open_coarray(&w.nodes([w.size()])?.template([LEN]).distribute([Block])?, w).map(drop),
        _ if first => kept.open_coarray(&own, w).map(drop),
        // Others would write what this node has references to.
        _ => kept.open(&own, w).map(drop),
    }
}

/// Makes and keeps a field of zeros and a line of numbers.
#[offload]
pub fn keep(w: &mut Spmd) -> Result<(Kept<f64, 2>, Kept<i64, 1>), Fault> {
    let sizes = sizes(w);
    let field = of_field(w, &sizes[..w.size() as usize])?.zeros(w)?;
    let line = of_line(w)?;
    let (all, mut numbers) = (line.all(), line.zeros(w)?);
    each!([i] in all => numbers[[i]] = i);
    Ok((field.keep(w)?, numbers.keep(w)?))
}

/// Adds to the field what its row and the line have, and makes other arrays meanwhile; the number of the step.
#[offload]
pub fn step(w: &mut Spmd, field: Kept<f64, 2>, line: Kept<i64, 1>, nth: u32) -> Result<u32, Fault> {
    let sizes = sizes(w);
    let shape = of_field(w, &sizes[..w.size() as usize])?;
    // Not in the order in which they were made.
    let (numbers, mut field) = (line.open(&of_line(w)?, w)?, field.open(&shape, w)?);
    let other = shape.full(f64::NAN, w)?;
    w.scope(|w| shape.full(f64::NAN, w).map(drop))?;
    let mut all = [0; 20];
    numbers.gather(&mut all, w)?;
    check(all.iter().zip(0..).all(|(number, i)| *number == i), "the line has changed")?;
    each!([i, j] in shape.all() => field[[i, j]] += (i * 9 + j) as f64);
    // What a neighbour has in its shadow is of this step, too.
    field.reflect(w)?;
    check(each!([i, j] in shape.all() => all { other[[i, j]].is_nan() }), "another array was written")?;
    Ok(nth)
}

/// The field is so many steps old, in the shadow, too.
#[offload]
pub fn kept_is(w: &mut Spmd, field: Kept<f64, 2>, steps: u32, to: HostArray<f64, 2>) -> Result<(), Fault> {
    let sizes = sizes(w);
    let field = field.open(&of_field(w, &sizes[..w.size() as usize])?, w)?;
    let shape = *field.desc().shape();
    for (i, j) in (0..13).flat_map(|i| (0..9).map(move |j| (i, j))) {
        let near = (i - 1..=i + 1).filter(|i| (0..13).contains(i)).any(|i| shape.owns(shape.me(), [i, j]));
        check(!near || field[[i, j]] == f64::from(steps) * (i * 9 + j) as f64, "an element is of another step")?;
    }
    field.store(&to, w)
}

/// Uses that are refused, and their reasons.
pub const REASONS: [&str; 5] = [
    "the kept array has another shape",
    "or is open already",
    "kept arrays are opened outside of scopes",
    "an array of a scope ends with it",
    "or is open already",
];

/// The last one frees what is kept, for the next run of it.
#[offload]
pub fn misused(w: &mut Spmd, line: Kept<i64, 1>, how: u32) -> Result<(), Fault> {
    let shape = of_line(w)?;
    match how {
        0 => line.open(&w.nodes([w.size()])?.template([21]).distribute([CyclicOf(3)])?, w).map(drop),
        1 => line.open(&shape, w).and_then(|_| line.open(&shape, w)).map(drop),
        2 => w.scope(|w| line.open(&shape, w).map(drop)),
        3 => w.scope(|w| shape.zeros::<i64>(w)?.keep(w).map(drop)),
        _ => {
            line.open(&shape, w)?;
            w.free_kept()
        }
    }
}

/// Fails on a node in a step, while others are in a barrier.
#[offload]
pub fn fails_at(w: &mut Spmd, at: i64) -> Result<i64, Fault> {
    check(w.me() != at, "this step fails")?;
    w.barrier()?;
    Ok(w.me())
}
