//! Laplace's equation in a square: each inner point becomes the mean of its four neighbours.
use hamr_xacc::prelude::*;

/// `n * n` points with 1 along the first row and 0 along the others, on `nodes[0] * nodes[1]` devices;
/// the sum of all changes in the last of `steps` iterations.
#[offload(unlisted)]
pub fn laplace(w: &mut Spmd, n: i64, nodes: [u32; 2], steps: u32) -> Result<f64, Fault> {
    Ok(solve(w, n, nodes, steps)?.0)
}

/// The same, and the field.
pub fn solve<'c>(w: &mut Spmd<'c>, n: i64, nodes: [u32; 2], steps: u32) -> Result<(f64, Array<'c, f64, 2>), Fault> {
    let grid = w.nodes(nodes)?.template([n, n]).distribute([Block, Block])?;
    let inner = grid.on([1..n - 1, 1..n - 1]);
    let mut old = grid.shadow([1, 1]).zeros::<f64>(w)?;
    let mut new = grid.shadow([1, 1]).zeros::<f64>(w)?;
    for field in [&mut old, &mut new] {
        each!([i, j] in grid.on([0..1, 0..n]) => field[[i, j]] = 1.0);
    }
    let (mut change, mut progress) = (0.0, Progress::new(w, steps));
    for step in 0..steps {
        progress.done(w, step);
        old.reflect_with(Halo::new([1, 1]).orthogonal(), w)?;
        change = each!([i, j] in inner => sum {
            new[[i, j]] = 0.25 * (old[[i - 1, j]] + old[[i + 1, j]] + old[[i, j - 1]] + old[[i, j + 1]]);
            (new[[i, j]] - old[[i, j]]).abs()
        });
        core::mem::swap(&mut old, &mut new);
    }
    Ok((w.reduce(Sum, change)?, old))
}
