//! The Himeno benchmark: Jacobi's method for Poisson's equation, on every device of a world.
pub use crate::run::Run;
use hamr_xacc::prelude::*;

const OMEGA: f32 = 0.8;

/// Three iterations to rehearse, then `loops` measured ones, on `nodes[0] * nodes[1]` devices.
#[offload(unlisted)]
pub fn himeno(w: &mut Spmd, size: [i64; 3], nodes: [u32; 2], loops: u32) -> Result<[Run; 2], Fault> {
    Ok(solve(w, size, nodes, loops, None)?.0)
}

/// The same from a field on, and the field.
pub fn solve<'c>(
    w: &mut Spmd<'c>,
    size: [i64; 3],
    nodes: [u32; 2],
    loops: u32,
    from: Option<HostArray<f32, 3>>,
) -> Result<([Run; 2], Array<'c, f32, 3>), Fault> {
    let [mx, my, mz] = size;
    let grid = w.nodes(nodes)?.template(size).distribute([Block, Block, Whole])?;
    let inner = grid.on([1..mx - 1, 1..my - 1, 1..mz - 1]);
    let mut p = grid.shadow([1, 1, 0]).zeros::<f32>(w)?;
    let mut wrk2 = grid.zeros::<f32>(w)?;
    let (wrk1, bnd) = (grid.zeros::<f32>(w)?, grid.full(1.0f32, w)?);
    let a = grid.fulls([1.0, 1.0, 1.0, 1.0 / 6.0f32], w)?;
    let b = grid.fulls([0.0f32; 3], w)?;
    let c = grid.fulls([1.0f32; 3], w)?;
    let scale = ((mx - 1) * (mx - 1)) as f32;
    each!([i, j, k] in grid.all() => p[[i, j, k]] = (i * i) as f32 / scale);
    if let Some(from) = from {
        p.load(&from, w)?;
    }
    p.reflect(w)?;
    let (mut runs, mut progress) = ([Run::default(); 2], Progress::new(w, loops));
    for (run, loops) in runs.iter_mut().zip([3, loops]) {
        w.barrier()?;
        let start = w.seconds();
        for step in 0..loops {
            progress.done(w, step);
            let gosa = each!([i, j, k] in inner => sum {
                let s0 = a[0][[i, j, k]] * p[[i + 1, j, k]]
                    + a[1][[i, j, k]] * p[[i, j + 1, k]]
                    + a[2][[i, j, k]] * p[[i, j, k + 1]]
                    + b[0][[i, j, k]]
                        * (p[[i + 1, j + 1, k]] - p[[i + 1, j - 1, k]] - p[[i - 1, j + 1, k]] + p[[i - 1, j - 1, k]])
                    + b[1][[i, j, k]]
                        * (p[[i, j + 1, k + 1]] - p[[i, j - 1, k + 1]] - p[[i, j + 1, k - 1]] + p[[i, j - 1, k - 1]])
                    + b[2][[i, j, k]]
                        * (p[[i + 1, j, k + 1]] - p[[i - 1, j, k + 1]] - p[[i + 1, j, k - 1]] + p[[i - 1, j, k - 1]])
                    + c[0][[i, j, k]] * p[[i - 1, j, k]]
                    + c[1][[i, j, k]] * p[[i, j - 1, k]]
                    + c[2][[i, j, k]] * p[[i, j, k - 1]]
                    + wrk1[[i, j, k]];
                let ss = (s0 * a[3][[i, j, k]] - p[[i, j, k]]) * bnd[[i, j, k]];
                wrk2[[i, j, k]] = p[[i, j, k]] + OMEGA * ss;
                f64::from(ss * ss)
            });
            each!([i, j, k] in inner => p[[i, j, k]] = wrk2[[i, j, k]]);
            p.reflect(w)?;
            run.gosa = w.reduce(Sum, gosa)?;
        }
        run.seconds = w.reduce(Max, w.seconds() - start)?;
    }
    Ok((runs, p))
}
