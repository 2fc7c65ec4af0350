//! `himeno SIZE NI NJ [DEVICES]`
use hamr_programs::himeno::{Run, himeno};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, size, ni, nj, devices @ ..] = &args[..] else {
        return Err("usage: himeno XS|S|M|L|XL NI NJ [DEVICES]".into());
    };
    let scale = match size.as_str() {
        "XS" => 32,
        "S" => 64,
        "M" => 128,
        "L" => 256,
        "XL" => 512,
        other => return Err(format!("expected a size from XS to XL, got {other}").into()),
    };
    let (size, nodes) = ([scale, scale, 2 * scale], [ni.parse()?, nj.parse()?]);
    let [i, j, k] = size;
    let devices = devices.first().map_or("shm", |devices| devices);
    let world = hamr_programs_host::world(devices, nodes[0] * nodes[1], 14 * 4 * (i * j * k) as u64)?;
    println!("imax = {i} jmax = {j} kmax = {k}, I-decomp = {} J-decomp = {}", nodes[0], nodes[1]);
    let [rehearsal, run] = world.run(himeno::with(size, nodes, 100))?;
    let flop = size.map(|n| (n - 2) as f64).iter().product::<f64>() * 34.0;
    let mflops = |run: Run, loops: f64| flop * loops / run.seconds * 1e-6;
    println!("rehearsal: MFLOPS: {:.2}, gosa: {:e}", mflops(rehearsal, 3.0), rehearsal.gosa);
    println!("cpu : {} sec., loop executed for 100 times", run.seconds);
    println!("Gosa : {:e}", run.gosa);
    println!("MFLOPS measured : {:.2}", mflops(run, 100.0));
    println!("Score based on Pentium III 600MHz : {:.2}", mflops(run, 100.0) / 82.84);
    Ok(())
}
