//! `stream RANKS [ELEMENTS] [DEVICES]`
use hamr_programs::stream::stream;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, ranks, rest @ ..] = &args[..] else {
        return Err("usage: stream RANKS [ELEMENTS] [DEVICES]".into());
    };
    let n: i64 = rest.first().map_or(Ok(20_000_000), |n| n.parse())?;
    let devices = rest.get(1).map_or("shm", |devices| devices);
    let world = hamr_programs_host::world(devices, ranks.parse()?, 3 * 8 * n as u64)?;
    let times = world.run(stream::with(n, 10))?;
    for (name, arrays, seconds) in
        [("copy", 2, times.copy), ("scale", 2, times.scale), ("add", 3, times.add), ("triad", 3, times.triad)]
    {
        println!("{name:6} {:8.2} GB/s", f64::from(8 * arrays) * n as f64 / seconds * 1e-9);
    }
    if times.error > 0.0 {
        return Err(format!("the arrays differ by {:e} from what they should be", times.error).into());
    }
    Ok(())
}
