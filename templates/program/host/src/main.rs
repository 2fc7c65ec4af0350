//! Runs a program on all devices of a world: `cargo run --release -- [RANKS [DEVICE]]`.

use hamr::{Image, Options, Runtime, WorldOptions};
use kernels::heat;
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{{project-name}}-host: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let ranks = args.next().map_or(Ok(2), |ranks| ranks.parse()).map_err(|_| "expected a number of ranks")?;
    let device = args.next().unwrap_or_else(|| "shm".into());

    // On each device: 1 MiB for buffers of this program, 64 MiB for arrays of programs. A run may take any time.
    let options = WorldOptions::default();
    let rank = Options { heap: 1 << 20, segment: 64 << 20, deadline: None, ..options.rank };
    let image = Image::find("{{project-name}}-image")?;
    let world = Runtime::new()?.world_with(&vec![&*device; ranks], image, WorldOptions { rank, ..options })?;

    println!("heat after 1000 steps: {}", world.run(heat::with(256, 1000))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_is_the_same_on_any_number_of_devices() {
        let heat = |ranks| {
            let world = Runtime::new().expect("a runtime").world_of_threads(ranks).expect("a world");
            world.run(heat::with(20, 100)).expect("it runs")
        };
        let alone = heat(1);
        assert!(alone > 20.0 && alone < 200.0, "{alone}");
        assert_eq!([heat(2), heat(3)], [alone; 2]);
    }
}
