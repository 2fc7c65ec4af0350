//! `cg_local CLASS ROWS COLUMNS [DEVICES]`
use hamr_programs::cg_local::cg_local;
use hamr_programs_host::{cg as benchmark, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(benchmark::USAGE, |args| {
        benchmark::main(args, |world, class, nodes| Ok(world.run(cg_local::with(class, nodes))?))
    })
}
