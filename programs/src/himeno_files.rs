//! Himeno with its field in the host's program.
use crate::himeno::{Run, solve};
use hamr_xacc::prelude::*;

/// [`himeno`](crate::himeno) with the field in the host's program; it begins with what is there if `goes_on`.
#[offload(unlisted)]
pub fn himeno_of(
    w: &mut Spmd,
    size: [i64; 3],
    nodes: [u32; 2],
    loops: u32,
    field: HostArray<f32, 3>,
    goes_on: bool,
) -> Result<[Run; 2], Fault> {
    let (runs, p) = solve(w, size, nodes, loops, Some(field).filter(|_| goes_on))?;
    p.store(&field, w)?;
    Ok(runs)
}
