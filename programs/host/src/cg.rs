//! The main function of both views of NPB's CG.

use crate::{Failure, number, say, words, world};
use hamr::World;
use hamr_programs::cg::{Class, Outcome};
use std::ffi::OsString;

/// What `--help` prints.
pub const USAGE: &str = "usage: cg S|W|A|B|C|D|E ROWS COLUMNS [DEVICES]

NPB's CG of a class, on ROWS x COLUMNS devices; verified.";

/// Runs a program on a world, and verifies what it came to.
///
/// # Errors
/// The arguments; the world; another eigenvalue.
pub fn main(
    args: Vec<OsString>,
    run: impl Fn(&World, Class, [u32; 2]) -> Result<Outcome, Failure>,
) -> Result<(), Failure> {
    let args = words(args)?;
    let [name, rows, columns, devices @ ..] = &args[..] else {
        return Err(USAGE.lines().next().unwrap_or_default().into());
    };
    let (class, expected) = Class::of(name).ok_or(format!("expected a class from S to E, got {name}"))?;
    let nodes = [number(rows)?, number(columns)?];
    let world = world(devices, nodes, class.bytes(), 0)?;
    let Class { na, nonzer, niter, .. } = class;
    say(format_args!("NPB CG, class {name}: size {na}, iterations {niter}, {} x {} devices", nodes[0], nodes[1]))?;
    let out = run(&world, class, nodes)?;
    let error = ((out.zeta - expected) / expected).abs();
    let nz = f64::from(nonzer * (nonzer + 1));
    let flop = 2.0 * f64::from(niter) * na as f64 * (3.0 + nz + 25.0 * (5.0 + nz) + 3.0);
    say(format_args!("zeta {:.13e}, error {error:e}, residual {:e}", out.zeta, out.rnorm))?;
    say(format_args!("time {:.3} s, {:.2} Mop/s", out.seconds, flop / out.seconds * 1e-6))?;
    if error > 1e-10 {
        return Err(format!("VERIFICATION FAILED: expected zeta {expected:.13e}").into());
    }
    say(format_args!("VERIFICATION SUCCESSFUL"))?;
    Ok(())
}
