//! The Himeno benchmark in local view: each device has its own part, and the exchange is written out with coarrays.
use crate::run::Run;
use hamr_xacc::prelude::*;

const OMEGA: f32 = 0.8;

/// First index and extent of part `at` of `n` elements; all parts but the last ones are as long.
pub fn part(n: i64, parts: i64, at: i64) -> (i64, i64) {
    let each = (n + parts - 1) / parts;
    let first = (each * at).min(n);
    (first, each.min(n - first))
}

/// The outermost planes of `p` go to the halos of the neighbours in `i`, then of those in `j`.
fn exchange(p: &mut Coarray<f32, 3>, n: &Nodes<2>, size: [i64; 3], w: &mut Spmd) -> Result<(), Fault> {
    for (dim, extent) in size.into_iter().enumerate().take(2) {
        let plane = |at: i64| if dim == 0 { s![at, .., ..] } else { s![.., at, ..] };
        let last = |at: i64| part(extent, n.shape()[dim], at).1;
        let (me, low, high) = (n.here()[dim], n.neighbour(dim, -1), n.neighbour(dim, 1));
        w.sync_images([low, high])?;
        if let Some(image) = low {
            p.put(image, plane(last(me - 1) + 1), plane(1), w)?;
        }
        if let Some(image) = high {
            p.put(image, plane(0), plane(last(me)), w)?;
        }
        w.sync_images([low, high])?;
    }
    Ok(())
}

/// Three iterations to rehearse, then `loops` measured ones, on `nodes[0] * nodes[1]` devices.
#[offload(unlisted)]
pub fn himeno_local(w: &mut Spmd, size: [i64; 3], nodes: [u32; 2], loops: u32) -> Result<[Run; 2], Fault> {
    Ok(solve_local(w, size, nodes, loops)?.0)
}

/// The same, and this device's part of the field, with its halo.
pub fn solve_local<'c>(
    w: &mut Spmd<'c>,
    size: [i64; 3],
    nodes: [u32; 2],
    loops: u32,
) -> Result<([Run; 2], Coarray<'c, f32, 3>), Fault> {
    let [mx, my, mz] = size;
    let n = w.nodes(nodes)?;
    let ([of_i, of_j], [at_i, at_j]) = (n.shape(), n.here());
    let ((i0, ei), (j0, ej)) = (part(mx, of_i, at_i), part(my, of_j, at_j));
    let own = w.own([part(mx, of_i, 0).1 + 2, part(my, of_j, 0).1 + 2, mz]);
    let mut p = own.coarray::<f32>(w)?;
    let mut wrk2 = own.zeros::<f32>(w)?;
    let (wrk1, bnd) = (own.zeros::<f32>(w)?, own.full(1.0f32, w)?);
    let a = own.fulls([1.0, 1.0, 1.0, 1.0 / 6.0f32], w)?;
    let b = own.fulls([0.0f32; 3], w)?;
    let c = own.fulls([1.0f32; 3], w)?;
    // Own points without those on the boundary of the whole.
    let inside = |first: i64, extent: i64, all: i64| {
        1 + i64::from(first == 0)..(1 + extent - i64::from(first + extent == all)).max(1 + i64::from(first == 0))
    };
    let inner = own.on([inside(i0, ei, mx), inside(j0, ej, my), 1..mz - 1]);
    let scale = ((mx - 1) * (mx - 1)) as f32;
    let mut q = p.view_mut(w);
    each!([i, j, k] in own.on([1..ei + 1, 1..ej + 1, 0..mz]) => {
        q[[i, j, k]] = ((i + i0 - 1) * (i + i0 - 1)) as f32 / scale;
    });
    exchange(&mut p, &n, size, w)?;
    let (mut runs, mut progress) = ([Run::default(); 2], Progress::new(w, loops));
    for (run, loops) in runs.iter_mut().zip([3, loops]) {
        w.sync_all()?;
        let start = w.seconds();
        for step in 0..loops {
            progress.done(w, step);
            let mut q = p.view_mut(w);
            let gosa = each!([i, j, k] in inner => sum {
                let s0 = a[0][[i, j, k]] * q[[i + 1, j, k]]
                    + a[1][[i, j, k]] * q[[i, j + 1, k]]
                    + a[2][[i, j, k]] * q[[i, j, k + 1]]
                    + b[0][[i, j, k]]
                        * (q[[i + 1, j + 1, k]] - q[[i + 1, j - 1, k]] - q[[i - 1, j + 1, k]] + q[[i - 1, j - 1, k]])
                    + b[1][[i, j, k]]
                        * (q[[i, j + 1, k + 1]] - q[[i, j - 1, k + 1]] - q[[i, j + 1, k - 1]] + q[[i, j - 1, k - 1]])
                    + b[2][[i, j, k]]
                        * (q[[i + 1, j, k + 1]] - q[[i - 1, j, k + 1]] - q[[i + 1, j, k - 1]] + q[[i - 1, j, k - 1]])
                    + c[0][[i, j, k]] * q[[i - 1, j, k]]
                    + c[1][[i, j, k]] * q[[i, j - 1, k]]
                    + c[2][[i, j, k]] * q[[i, j, k - 1]]
                    + wrk1[[i, j, k]];
                let ss = (s0 * a[3][[i, j, k]] - q[[i, j, k]]) * bnd[[i, j, k]];
                wrk2[[i, j, k]] = q[[i, j, k]] + OMEGA * ss;
                f64::from(ss * ss)
            });
            each!([i, j, k] in inner => q[[i, j, k]] = wrk2[[i, j, k]]);
            exchange(&mut p, &n, size, w)?;
            run.gosa = w.reduce(Sum, gosa)?;
        }
        run.seconds = w.reduce(Max, w.seconds() - start)?;
    }
    Ok((runs, p))
}
