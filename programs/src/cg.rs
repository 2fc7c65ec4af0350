//! NPB CG: the smallest eigenvalue of a sparse matrix by inverse iteration, on every device of a world.
use crate::cg_matrix::Matrix;
pub use crate::cg_matrix::{Class, Outcome};
use hamr_xacc::prelude::*;

type Vector<'c> = Array<'c, f64, 1>;

/// Vectors along the matrix's columns, and `v` along its rows: `v` of the nodes of a process row are partial sums.
struct Vectors<'c> {
    x: Vector<'c>,
    z: Vector<'c>,
    p: Vector<'c>,
    q: Vector<'c>,
    r: Vector<'c>,
    v: Vector<'c>,
}

fn dot(a: &Vector, b: &Vector, row: NodeSet, w: &mut Spmd) -> Result<f64, Fault> {
    let here = each!([j] in a.here() => sum { a[[j]] * b[[j]] });
    w.reduce_on(row, Sum, here)
}

/// 25 iterations towards `A z = x`; the norm of what is left.
fn conj_grad(a: &Matrix, s: &mut Vectors, row: NodeSet, w: &mut Spmd) -> Result<f64, Fault> {
    let Vectors { x, z, p, q, r, v } = s;
    z.fill(0.0);
    each!([j] in x.here() => {
        r[[j]] = x[[j]];
        p[[j]] = x[[j]];
    });
    let mut rho = dot(r, r, row, w)?;
    for _ in 0..25 {
        a.times(p.local(), v.local_mut());
        q.gmove_sum(v, w)?;
        let alpha = rho / dot(p, q, row, w)?;
        each!([j] in z.here() => {
            z[[j]] += alpha * p[[j]];
            r[[j]] -= alpha * q[[j]];
        });
        let rho0 = rho;
        rho = dot(r, r, row, w)?;
        let beta = rho / rho0;
        each!([j] in p.here() => p[[j]] = r[[j]] + beta * p[[j]]);
    }
    a.times(z.local(), v.local_mut());
    r.gmove_sum(v, w)?;
    let here = each!([j] in x.here() => sum { (x[[j]] - r[[j]]) * (x[[j]] - r[[j]]) });
    Ok(sqrt(w.reduce_on(row, Sum, here)?))
}

/// The eigenvalue of a class's matrix, on `nodes[0] * nodes[1]` devices.
#[offload(unlisted)]
pub fn cg(w: &mut Spmd, class: Class, nodes: [u32; 2]) -> Result<Outcome, Fault> {
    let n = w.nodes(nodes)?;
    let row = n.set([Own, Sel::All]);
    let t = n.template([class.na; 2]).distribute([Block, Block])?;
    let (by_row, by_column) = (t.align([on(0)]), t.align([on(1)]));
    let [x, z, p, q, r] = by_column.fulls([1.0, 0.0, 0.0, 0.0, 0.0], w)?;
    let mut s = Vectors { x, z, p, q, r, v: by_row.zeros(w)? };
    let a = Matrix::make(w, &class, s.v.range()?, s.x.range()?)?;
    let (mut out, mut start) = (Outcome::default(), 0.0);
    let mut progress = Progress::new(w, class.niter);
    // Iteration 0 touches all memory and is not timed.
    for it in 0..=class.niter {
        progress.done(w, it);
        if it == 1 {
            s.x.fill(1.0);
            w.barrier()?;
            start = w.seconds();
        }
        out.rnorm = conj_grad(&a, &mut s, row, w)?;
        let Vectors { x, z, .. } = &mut s;
        let norms = each!([j] in x.here() => sum { (x[[j]] * z[[j]], z[[j]] * z[[j]]) });
        let (xz, zz) = w.reduce_on(row, Sum, norms)?;
        let scale = 1.0 / sqrt(zz);
        each!([j] in x.here() => x[[j]] = scale * z[[j]]);
        out.zeta = class.shift + 1.0 / xz;
    }
    out.seconds = w.reduce(Max, w.seconds() - start)?;
    Ok(out)
}
