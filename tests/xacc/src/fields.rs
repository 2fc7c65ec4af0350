//! Fields of programs, as one number.

use hamr_programs::himeno::{Run, solve};
use hamr_programs::himeno_local::{part, solve_local};
use hamr_xacc::prelude::*;

const HASH: u64 = 1_469_598_103_934_665_603;

fn add(hash: u64, value: f32) -> u64 {
    (hash ^ u64::from(value.to_bits())).wrapping_mul(1_099_511_628_211)
}

/// Himeno, and a hash of the bits of the field in row-major order. The hash goes from owner to owner.
#[offload]
pub fn himeno_field(w: &mut Spmd, size: [i64; 3], nodes: [u32; 2], loops: u32) -> Result<([Run; 2], u64), Fault> {
    let (runs, p) = solve(w, size, nodes, loops, None)?;
    let grid = w.nodes(nodes)?;
    let mut hash = HASH;
    let mut owner = None;
    for (i, j) in (0..size[0]).flat_map(|i| (0..size[1]).map(move |j| (i, j))) {
        let next = p.desc().owner([i, j, 0]).and_then(|rank| w.set().number(rank)).map(i64::from);
        if let Some(owner) = owner.filter(|_| owner != next) {
            w.bcast(owner, &mut hash)?;
        }
        owner = next;
        if next == Some(grid.image(grid.here())) {
            hash = (0..size[2]).map(|k| p[[i, j, k]]).fold(hash, add);
        }
    }
    w.bcast(owner.unwrap_or(0), &mut hash)?;
    Ok((runs, hash))
}

/// Himeno in local view, likewise: the first image reads the field of all.
#[offload]
pub fn himeno_local_field(w: &mut Spmd, size: [i64; 3], nodes: [u32; 2], loops: u32) -> Result<([Run; 2], u64), Fault> {
    let (runs, p) = solve_local(w, size, nodes, loops)?;
    let (grid, mut hash) = (w.nodes(nodes)?, HASH);
    let row = w.local::<f32>(size[2])?;
    let all = if w.me() == 0 { size[0] } else { 0 };
    for (i, j) in (0..all).flat_map(|i| (0..size[1]).map(move |j| (i, j))) {
        let [of_i, of_j] = grid.shape();
        let at = [(i, size[0], of_i), (j, size[1], of_j)].map(|(i, n, parts)| {
            let owner = i / part(n, parts, 0).1;
            (owner, i - part(n, parts, owner).0 + 1)
        });
        p.get_into(grid.image([at[0].0, at[1].0]), s![at[0].1, at[1].1, ..], row, w)?;
        hash = row.iter().copied().fold(hash, add);
    }
    w.bcast(0, &mut hash)?;
    Ok((runs, hash))
}

/// The sum of the squares of some numbers that differ in size, without rounding.
#[offload]
pub fn exact(w: &mut Spmd, n: i64, nodes: [u32; 2]) -> Result<f64, Fault> {
    let grid = w.nodes(nodes)?.template([n, n]).distribute([Block, CyclicOf(2)])?;
    let mut a = grid.zeros::<f64>(w)?;
    each!([i, j] in grid.all() => a[[i, j]] = ((i * 7919 + j * 104_729) % 1009 - 500) as f64 / (1 + j * j * j) as f64);
    let here = each!([i, j] in grid.all() => exact_sum { a[[i, j]] * 1e9 });
    w.exact_sum(here)
}

/// Three times what one array has, in the other.
#[offload]
pub fn host_arrays(w: &mut Spmd, from: HostArray<i32, 2>, to: HostArray<i32, 2>) -> Result<(), Fault> {
    let nodes = w.nodes([w.size()])?;
    for by in [[Block, Whole], [Whole, CyclicOf(3)], [Cyclic, Whole]] {
        w.scope(|w| {
            let grid = nodes.template([13, 10]).distribute(by)?;
            let mut a = grid.zeros::<i32>(w)?;
            a.load(&from, w)?;
            each!([i, j] in grid.all() => a[[i, j]] *= 3);
            a.store(&to, w)
        })?;
    }
    Ok(())
}
