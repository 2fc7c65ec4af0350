//! `stream RANKS [ELEMENTS] [DEVICES]`
use hamr_programs::stream::stream;
use hamr_programs_host::{Failure, bytes_of, number, run, say, words, world};
use std::ffi::OsString;
use std::process::ExitCode;

const USAGE: &str = "usage: stream RANKS [ELEMENTS] [DEVICES]

STREAM's copy, scale, add and triad of arrays of ELEMENTS, 20,000,000 without a number, over RANKS devices.";

fn main() -> ExitCode {
    run(USAGE, measure)
}

fn measure(args: Vec<OsString>) -> Result<(), Failure> {
    let args = words(args)?;
    let [ranks, rest @ ..] = &args[..] else {
        return Err(USAGE.lines().next().unwrap_or_default().into());
    };
    let n: i64 = rest.first().map_or(Ok(20_000_000), |n| number(n))?;
    let world = world(rest.get(1..).unwrap_or_default(), [number(ranks)?, 1], bytes_of(3, 8, &[n])?, 0)?;
    let times = world.run(stream::with(n, 10))?;
    for (name, arrays, seconds) in
        [("copy", 2, times.copy), ("scale", 2, times.scale), ("add", 3, times.add), ("triad", 3, times.triad)]
    {
        say(format_args!("{name:6} {:8.2} GB/s", f64::from(8 * arrays) * n as f64 / seconds * 1e-9))?;
    }
    if times.error > 0.0 {
        return Err(format!("the arrays differ by {:e} from what they should be", times.error).into());
    }
    Ok(())
}
