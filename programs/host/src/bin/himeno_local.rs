//! `himeno_local SIZE NI NJ [DEVICES]`
use hamr_programs::himeno_local::himeno_local;
use hamr_programs_host::{himeno, no_files, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(|args| {
        himeno::main(
            no_files(args)?,
            |world, size, nodes, loops| Ok(world.run(himeno_local::with(size, nodes, loops))?),
        )
    })
}
