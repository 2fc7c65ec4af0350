//! `stream RANKS [ELEMENTS] [DEVICES]`
use hamr_programs::stream::stream;
use hamr_programs_host::{Failure, bytes_of, number, run, world};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(measure)
}

fn measure(args: Vec<String>) -> Result<(), Failure> {
    let [ranks, rest @ ..] = &args[..] else {
        return Err("usage: stream RANKS [ELEMENTS] [DEVICES]".into());
    };
    let n: i64 = rest.first().map_or(Ok(20_000_000), |n| number(n))?;
    let world = world(rest.get(1..).unwrap_or_default(), [number(ranks)?, 1], bytes_of(3, 8, &[n])?, 0)?;
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
