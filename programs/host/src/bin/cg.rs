//! `cg CLASS ROWS COLUMNS [DEVICES]`
use hamr_programs::cg::{Class, cg};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, name, rows, columns, devices @ ..] = &args[..] else {
        return Err("usage: cg S|W|A|B|C|D|E ROWS COLUMNS [DEVICES]".into());
    };
    let (class, expected) = Class::of(name).ok_or(format!("expected a class from S to E, got {name}"))?;
    let nodes: [u32; 2] = [rows.parse()?, columns.parse()?];
    let devices = devices.first().map_or("shm", |devices| devices);
    let world = hamr_programs_host::world(devices, nodes[0] * nodes[1], class.bytes())?;
    let Class { na, nonzer, niter, .. } = class;
    println!("NPB CG, class {name}: size {na}, iterations {niter}, {} x {} devices", nodes[0], nodes[1]);
    let out = world.run(cg::with(class, nodes))?;
    let error = ((out.zeta - expected) / expected).abs();
    let nz = f64::from(nonzer * (nonzer + 1));
    let flop = 2.0 * f64::from(niter) * na as f64 * (3.0 + nz + 25.0 * (5.0 + nz) + 3.0);
    println!("zeta {:.13e}, error {error:e}, residual {:e}", out.zeta, out.rnorm);
    println!("time {:.3} s, {:.2} Mop/s", out.seconds, flop / out.seconds * 1e-6);
    if error > 1e-10 {
        return Err(format!("VERIFICATION FAILED: expected zeta {expected:.13e}").into());
    }
    println!("VERIFICATION SUCCESSFUL");
    Ok(())
}
