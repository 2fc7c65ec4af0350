//! `himeno SIZE NI NJ [DEVICES] [--from FILE.npy] [--npy FILE] [--svg FILE]`
use hamr_programs::himeno;
use hamr_programs_host::{himeno as benchmark, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(benchmark::USAGE, |args| {
        benchmark::main(args, |world, size, nodes, loops| Ok(world.run(himeno::himeno::with(size, nodes, loops))?))
    })
}
