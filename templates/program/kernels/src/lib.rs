//! Programs over arrays, written once: each device of a world runs them at the same time.
#![no_std]
#![forbid(unsafe_code)]

use hamr_xacc::prelude::*;

/// Heat in a plate of `n * n` points with 1 along one edge, after so many steps: the sum of all points, of the same bits on
/// any number of devices.
#[offload]
pub fn heat(w: &mut Spmd, n: i64, steps: u32) -> Result<f64, Fault> {
    // Rows in blocks, one for each device, and copies of the neighbours' next rows.
    let plate = w.nodes([w.size()])?.template([n, n]).distribute([Block, Whole])?.shadow([1, 0]);
    let (mut old, mut new) = (plate.zeros::<f64>(w)?, plate.zeros::<f64>(w)?);
    for field in [&mut old, &mut new] {
        each!([i, j] in plate.on([0..1, 0..n]) => field[[i, j]] = 1.0);
    }
    for _ in 0..steps {
        old.reflect(w)?;
        each!([i, j] in plate.on([1..n - 1, 1..n - 1]) =>
            new[[i, j]] = 0.25 * (old[[i - 1, j]] + old[[i + 1, j]] + old[[i, j - 1]] + old[[i, j + 1]]));
        core::mem::swap(&mut old, &mut new);
    }
    let here = each!([i, j] in plate.all() => exact_sum { old[[i, j]] });
    w.exact_sum(here)
}
