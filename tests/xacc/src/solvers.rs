//! Programs beside the same computation by one node.

use crate::check;
use hamr_programs::laplace::solve;
use hamr_xacc::prelude::*;

/// Laplace's field on all nodes has the bits that plain loops give it.
#[offload]
pub fn laplace_is_plain(w: &mut Spmd, n: i64, nodes: [u32; 2], steps: u32) -> Result<(), Fault> {
    let (change, field) = solve(w, n, nodes, steps)?;
    let len = (n * n) as usize;
    let (mut old, mut new) = (w.local::<f64>(len)?, w.local::<f64>(len)?);
    old[..n as usize].fill(1.0);
    new[..n as usize].fill(1.0);
    let mut plain = 0.0;
    for _ in 0..steps {
        plain = 0.0;
        for (i, j) in (1..n - 1).flat_map(|i| (1..n - 1).map(move |j| (i, j))) {
            let at = |i, j| (i * n + j) as usize;
            new[at(i, j)] = 0.25 * (old[at(i - 1, j)] + old[at(i + 1, j)] + old[at(i, j - 1)] + old[at(i, j + 1)]);
            plain += (new[at(i, j)] - old[at(i, j)]).abs();
        }
        core::mem::swap(&mut old, &mut new);
    }
    for run in field.here().runs() {
        for index in (0..run.len as i64).map(|k| [run.first[0], run.first[1] + k]) {
            check(field[index].to_bits() == old[(index[0] * n + index[1]) as usize].to_bits(), "an element differs")?;
        }
    }
    // The order of additions differs.
    check((change - plain).abs() <= 1e-12 * plain, "the change differs")
}
