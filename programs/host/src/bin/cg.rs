//! `cg CLASS ROWS COLUMNS [DEVICES]`
use hamr_programs::cg::cg;
use hamr_programs_host::{cg as benchmark, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(benchmark::USAGE, |args| benchmark::main(args, |world, class, nodes| Ok(world.run(cg::with(class, nodes))?)))
}
