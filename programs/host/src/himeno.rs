//! The main function of both views of Himeno's benchmark.

use crate::files::Files;
use crate::{Failure, number, say, words, world};
use hamr::World;
use hamr_programs::himeno::Run;
use std::ffi::OsString;

/// What `--help` prints.
pub const USAGE: &str = "usage: himeno XS|S|M|L|XL NI NJ [DEVICES] [--from FILE.npy] [--npy FILE] [--svg FILE]

Himeno's benchmark on NI x NJ devices. --from: the pressure that it begins with, a NumPy file of f32; --npy: the one that it ends
with; --svg: a picture of a plane of that.";
/// Iterations that are measured.
const LOOPS: u32 = 100;

/// Runs a program on a world, and prints what it came to. With files, that of the global view runs.
///
/// # Errors
/// The arguments; the world; a file.
pub fn main(
    mut args: Vec<OsString>,
    run: impl Fn(&World, [i64; 3], [u32; 2], u32) -> Result<[Run; 2], Failure>,
) -> Result<(), Failure> {
    let mut files = Files::of(&mut args)?;
    let args = words(args)?;
    let [size, ni, nj, devices @ ..] = &args[..] else {
        return Err(USAGE.lines().next().unwrap_or_default().into());
    };
    let scale = ["XS", "S", "M", "L", "XL"].iter().position(|name| name == size);
    let i = 32 << scale.ok_or(format!("expected a size from XS to XL, got {size}"))?;
    let (j, k, nodes) = (i, 2 * i, [number(ni)?, number(nj)?]);
    files.load([i, j, k])?;
    let world = world(devices, nodes, 14 * 4 * (i * j * k) as u64, files.bytes([i, j, k]))?;
    say(format_args!("imax = {i} jmax = {j} kmax = {k}, I-decomp = {ni} J-decomp = {nj}"))?;
    let runs = match files.is_any() {
        true => files.run(&world, [i, j, k], nodes, LOOPS),
        false => run(&world, [i, j, k], nodes, LOOPS),
    };
    let [rehearsal, run] = runs?;
    let flop = ((i - 2) * (j - 2) * (k - 2) * 34) as f64;
    let mflops = |run: Run, loops: u32| flop * f64::from(loops) / run.seconds * 1e-6;
    say(format_args!("rehearsal: MFLOPS: {:.2}, gosa: {:e}", mflops(rehearsal, 3), rehearsal.gosa))?;
    say(format_args!("cpu : {} sec., loop executed for {LOOPS} times", run.seconds))?;
    say(format_args!("Gosa : {:e}", run.gosa))?;
    say(format_args!("MFLOPS measured : {:.2}", mflops(run, LOOPS)))?;
    say(format_args!("Score based on Pentium III 600MHz : {:.2}", mflops(run, LOOPS) / 82.84))?;
    Ok(())
}
