//! Fields of programs, as one number.

use hamr_programs::himeno::{Run, solve};
use hamr_xacc::prelude::*;

/// Himeno, and a hash of the bits of the field in row-major order. The hash goes from owner to owner.
#[offload]
pub fn himeno_field(w: &mut Spmd, size: [i64; 3], nodes: [u32; 2], loops: u32) -> Result<([Run; 2], u64), Fault> {
    let (runs, p) = solve(w, size, nodes, loops)?;
    let grid = w.nodes(nodes)?;
    let mut hash = 1_469_598_103_934_665_603u64;
    let mut owner = None;
    for (i, j) in (0..size[0]).flat_map(|i| (0..size[1]).map(move |j| (i, j))) {
        let next = p.desc().owner([i, j, 0]).and_then(|rank| w.set().number(rank));
        if let Some(owner) = owner.filter(|_| owner != next) {
            w.bcast(owner, &mut hash)?;
        }
        owner = next;
        if next == Some(grid.image(grid.here())) {
            let bits = (0..size[2]).map(|k| p[[i, j, k]].to_bits());
            hash = bits.fold(hash, |hash, bits| (hash ^ u64::from(bits)).wrapping_mul(1_099_511_628_211));
        }
    }
    w.bcast(owner.unwrap_or(0), &mut hash)?;
    Ok((runs, hash))
}
