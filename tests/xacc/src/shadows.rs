//! Programs of arrays with shadows.

use crate::check;
use hamr_xacc::Int;
use hamr_xacc::prelude::*;

type Pairs<'c> = Array<'c, i64, 2>;

const WIDTHS: [(u32, u32); 2] = [(1, 2), (2, 1)];

fn code([i, j]: [i64; 2]) -> i64 {
    i * 1000 + j
}

/// Calls `body` for every index of a share.
fn each(share: Share<2>, mut body: impl FnMut([i64; 2]) -> Result<(), Fault>) -> Result<(), Fault> {
    for run in share.runs() {
        for k in 0..run.len as i64 {
            body([run.first[0], run.first[1] + k * run.step])?;
        }
    }
    Ok(())
}

fn make<'c>(w: &mut Spmd<'c>, nodes: [impl Int; 2], size: [i64; 2]) -> Result<Pairs<'c>, Fault> {
    let shape = w.nodes(nodes)?.template(size).distribute([Block, Block])?.shadow(WIDTHS);
    let mut a = shape.full(-1, w)?;
    each(a.here(), |index| {
        a[index] = code(index);
        Ok(())
    })?;
    Ok(a)
}

/// Changes a node's own elements for a moment, which no shadow shows.
fn change(a: &mut Pairs<'_>) -> Result<(), Fault> {
    for by in [7, -7] {
        each(a.here(), |index| {
            a[index] += by;
            Ok(())
        })?;
    }
    Ok(())
}

/// Checks every element of a node's block: its own, and those of the halo.
fn check_halo(a: &Pairs<'_>, size: [i64; 2], periodic: bool, orthogonal: bool) -> Result<(), Fault> {
    let own = [0, 1].map(|dim| a.desc().owned_range(dim).unwrap_or(0..0));
    if own.iter().any(|own| own.is_empty()) {
        return Ok(());
    }
    let block = [0, 1].map(|dim| own[dim].start - i64::from(WIDTHS[dim].0)..own[dim].end + i64::from(WIDTHS[dim].1));
    for (i, j) in block[0].clone().flat_map(|i| block[1].clone().map(move |j| (i, j))) {
        let index = [i, j];
        let outside = |dim: usize| !own[dim].contains(&index[dim]);
        let exists = (0..2).all(|dim| (0..size[dim]).contains(&index[dim]));
        let is_skipped = orthogonal && outside(0) && outside(1);
        let wanted = match (exists, periodic) {
            _ if is_skipped => -1,
            (true, _) => code(index),
            (false, true) => code([i.rem_euclid(size[0]), j.rem_euclid(size[1])]),
            (false, false) => -1,
        };
        check(a[index] == wanted, "another element in the halo")?;
    }
    Ok(())
}

/// Reflects of every kind, and sums of shadows.
#[offload]
pub fn shadows(w: &mut Spmd, nodes: [u32; 2], size: [i64; 2]) -> Result<(), Fault> {
    for (periodic, orthogonal, is_split) in
        [(false, false, false), (true, false, false), (false, true, false), (true, true, true), (false, false, true)]
    {
        w.scope(|w| {
            let mut a = make(w, nodes, size)?;
            let halo = Halo::new(WIDTHS).periodic([periodic; 2]);
            let halo = if orthogonal { halo.orthogonal() } else { halo };
            for _ in 0..3 {
                if is_split {
                    a.reflect_start(halo, w)?;
                    // Others put into the shadow meanwhile.
                    let here = a.here();
                    each(here, |index| check(a[index] == code(index), "another element of its own"))?;
                    change(&mut a)?;
                    w.reduce(Sum, 1u32)?;
                    a.reflect_finish(w)?;
                } else {
                    a.reflect_with(halo, w)?;
                    change(&mut a)?;
                }
                check_halo(&a, size, periodic, orthogonal)?;
            }
            Ok(())
        })?;
    }
    sums(w, nodes, size)
}

/// All elements of all blocks are 1 before: so many as there are come to the owners.
fn sums(w: &mut Spmd, nodes: [u32; 2], size: [i64; 2]) -> Result<(), Fault> {
    let shape = w.nodes(nodes)?.template(size).distribute([Block, Block])?.shadow(WIDTHS);
    let mut a = shape.full(1i64, w)?;
    let own = [0, 1].map(|dim| a.desc().owned(dim).len());
    let block = if own.contains(&0) { 0 } else { (own[0] + 3) * (own[1] + 3) };
    a.reduce_shadow_with(Halo::new(WIDTHS).periodic([true; 2]), w)?;
    let (mut sum, mut least) = (0, i64::MAX);
    each(a.here(), |index| {
        (sum, least) = (sum + a[index], least.min(a[index]));
        Ok(())
    })?;
    check(w.reduce(Sum, sum)? == w.reduce(Sum, block)?, "another sum of shadows")?;
    check(w.reduce(Min, least)? >= 1, "an element is lost")
}

/// Uses that are refused.
#[offload]
pub fn refused(w: &mut Spmd, how: u32) -> Result<(), Fault> {
    let n = w.size();
    let mut a = make(w, [n, 1], [8 * n, 8])?;
    let mut b = make(w, [n, 1], [8 * n, 8])?;
    let first = w.me() * 8;
    match how {
        // The shadow of a pending reflect.
        0 => {
            a.reflect_start(Halo::ALL, w)?;
            a[[first, 0]] = a[[first - 1, 0]];
        }
        1 => {
            a.reflect_start(Halo::ALL, w)?;
            w.barrier()?;
        }
        2 => a.reflect_start(Halo::ALL, w)?,
        3 => {
            a.reflect_start(Halo::ALL, w)?;
            a.reflect(w)?;
        }
        4 => a.reflect_finish(w)?,
        5 => a[[first, 0]] = a[[first + 11, 0]],
        6 => a.reflect_with(Halo::new([2, 0]), w)?,
        7 => {
            let other = if w.me() == 0 { &mut a } else { &mut b };
            let failed = other.reflect(w);
            // Nothing was put.
            for array in [&a, &b] {
                check(array[[first - 1, 0]] == -1 && array[[first + 8, 0]] == -1, "an element has come")?;
            }
            failed?;
        }
        8 => drop(a.local()),
        9 if w.me() == 0 => a.reflect(w)?,
        9 => a.reflect_start(Halo::ALL, w)?,
        _ => w.scope(|w| make(w, [n, 1], [n, 8])?.reflect_start(Halo::ALL, w))?,
    }
    Ok(())
}

/// What faults of [`refused()`] say.
pub const REASONS: [&str; 11] = [
    "the shadow is not there before reflect_finish",
    "not finished: reflect_start of the array",
    "not finished: reflect_start of the array",
    "an exchange of this array is not finished",
    "no reflect of this array has begun",
    "dimension 0: index",
    "dimension 0: halo of 2, shadow of 1",
    "in reflect of 0x",
    "is not contiguous in memory",
    "node 1 in reflect_start of the",
    "not finished: reflect_start of the array",
];

/// Arrays of every distribution, by index: what is here, and what is written where.
#[offload]
pub fn arrays(w: &mut Spmd, size: i64) -> Result<(), Fault> {
    let n = w.size();
    let mut total = 0;
    for by in [Block, BlockOf(5 + size / n), Cyclic, CyclicOf(3)] {
        let shape = w.nodes([n])?.template([size]).distribute([by])?;
        let [mut a, b] = shape.fulls([1i64, 2], w)?;
        check(a.desc().offset([size]).is_none() && a.local().iter().all(|x| *x == 1), "not full")?;
        for (i, x) in shape.all().runs().flat_map(|run| (0..run.len as i64).map(move |k| run.first[0] + k)).zip(0..) {
            a[[i]] += i + b[[i]];
            total += i;
            check(a.local()[x] == i + 3, "another place")?;
        }
        a.fill(7);
        check(a.local().iter().all(|x| *x == 7), "not filled")?;
    }
    check(w.reduce(Sum, total)? == 4 * size * (size - 1) / 2, "not every index once")
}
