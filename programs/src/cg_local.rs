//! NPB CG in local view: each device has its own part, and sums are collected with coarrays.
use crate::cg_matrix::{Class, Matrix, Outcome};
use core::ops::Range;
use hamr_xacc::prelude::*;

type Vector<'c> = Array<'c, f64, 1>;

/// This device's parts: vectors along the matrix's columns, and `v` along its rows, of which the devices of a row
/// have partial sums.
struct Parts<'c> {
    x: Vector<'c>,
    z: Vector<'c>,
    p: Vector<'c>,
    q: Vector<'c>,
    r: Vector<'c>,
    v: Coarray<'c, f64, 1>,
}

/// Where they are: the devices, those of this row, its columns, and the rows of each device.
struct Places {
    nodes: Nodes<2>,
    row: NodeSet,
    columns: Range<i64>,
    here: Share<1>,
    height: i64,
}

/// The length of the parts of `n` elements, and the one of this device.
fn part(n: i64, parts: i64, at: i64) -> (i64, Range<i64>) {
    let len = (n + parts - 1) / parts;
    let first = (len * at).min(n);
    (len, first..(first + len).min(n))
}

/// `to = v`, summed over the devices of each row in their order.
fn collect(v: &Coarray<f64, 1>, to: &mut Vector, at: &Places, w: &mut Spmd) -> Result<(), Fault> {
    let (mut theirs, mut next) = ([0.0; 256], at.columns.start);
    w.sync_all()?;
    while next < at.columns.end {
        let row = next / at.height;
        let (first, end) = (row * at.height, at.columns.end.min((row + 1) * at.height).min(next + theirs.len() as i64));
        let theirs = &mut theirs[..(end - next) as usize];
        for column in 0..at.nodes.shape()[1] {
            v.get_into(at.nodes.image([row, column]), s![next - first..end - first], theirs, w)?;
            let sums = to.local_mut()[(next - at.columns.start) as usize..].iter_mut().zip(&*theirs);
            sums.for_each(|(sum, part)| *sum = if column == 0 { *part } else { *sum + part });
        }
        next = end;
    }
    w.sync_all()
}

fn dot(a: &Vector, b: &Vector, at: &Places, w: &mut Spmd) -> Result<f64, Fault> {
    let here = each!([j] in at.here => sum { a[[j]] * b[[j]] });
    w.reduce_on(at.row, Sum, here)
}

/// 25 iterations towards `A z = x`; the norm of what is left.
fn conj_grad(a: &Matrix, s: &mut Parts, at: &Places, w: &mut Spmd) -> Result<f64, Fault> {
    let Parts { x, z, p, q, r, v } = s;
    each!([j] in at.here => {
        z[[j]] = 0.0;
        r[[j]] = x[[j]];
        p[[j]] = x[[j]];
    });
    let mut rho = dot(r, r, at, w)?;
    for _ in 0..25 {
        a.times(p.local(), v.view_mut(w).local_mut());
        collect(v, q, at, w)?;
        let alpha = rho / dot(p, q, at, w)?;
        each!([j] in at.here => {
            z[[j]] += alpha * p[[j]];
            r[[j]] -= alpha * q[[j]];
        });
        let rho0 = rho;
        rho = dot(r, r, at, w)?;
        let beta = rho / rho0;
        each!([j] in at.here => p[[j]] = r[[j]] + beta * p[[j]]);
    }
    a.times(z.local(), v.view_mut(w).local_mut());
    collect(v, r, at, w)?;
    let here = each!([j] in at.here => sum { (x[[j]] - r[[j]]) * (x[[j]] - r[[j]]) });
    Ok(sqrt(w.reduce_on(at.row, Sum, here)?))
}

/// The eigenvalue of a class's matrix, on `nodes[0] * nodes[1]` devices.
#[offload(unlisted)]
pub fn cg_local(w: &mut Spmd, class: Class, nodes: [u32; 2]) -> Result<Outcome, Fault> {
    let n = w.nodes(nodes)?;
    let ([of_rows, of_columns], [at_row, at_column]) = (n.shape(), n.here());
    let (height, rows) = part(class.na, of_rows, at_row);
    let (width, columns) = part(class.na, of_columns, at_column);
    // As long on all devices.
    let range = columns.start..columns.start + width;
    let own = w.own([range]);
    let [x, z, p, q, r] = own.fulls([1.0, 0.0, 0.0, 0.0, 0.0], w)?;
    let mut s = Parts { x, z, p, q, r, v: w.own([height]).coarray(w)? };
    let a = Matrix::make(w, &class, rows, columns.clone())?;
    let (row, here) = (n.set([Own, Sel::All]), own.on([columns.clone()]));
    let at = Places { nodes: n, row, columns, here, height };
    let (mut out, mut start) = (Outcome::default(), 0.0);
    let mut progress = Progress::new(w, class.niter);
    // Iteration 0 touches all memory and is not timed.
    for it in 0..=class.niter {
        progress.done(w, it);
        if it == 1 {
            s.x.fill(1.0);
            w.sync_all()?;
            start = w.seconds();
        }
        out.rnorm = conj_grad(&a, &mut s, &at, w)?;
        let Parts { x, z, .. } = &mut s;
        let norms = each!([j] in at.here => sum { (x[[j]] * z[[j]], z[[j]] * z[[j]]) });
        let (xz, zz) = w.reduce_on(at.row, Sum, norms)?;
        let scale = 1.0 / sqrt(zz);
        each!([j] in at.here => x[[j]] = scale * z[[j]]);
        out.zeta = class.shift + 1.0 / xz;
    }
    out.seconds = w.reduce(Max, w.seconds() - start)?;
    Ok(out)
}
