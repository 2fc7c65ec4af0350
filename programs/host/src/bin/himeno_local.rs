//! `himeno_local SIZE NI NJ [DEVICES]`
use hamr_programs::himeno_local::himeno_local;
use hamr_programs_host::{himeno, run, words};
use std::process::ExitCode;

const USAGE: &str = "usage: himeno_local XS|S|M|L|XL NI NJ [DEVICES]

Himeno's benchmark by coarrays, on NI x NJ devices.";

fn main() -> ExitCode {
    run(USAGE, |args| {
        // The files are those of the global view.
        let args = words(args)?.into_iter().map(Into::into).collect();
        himeno::main(args, |world, size, nodes, loops| Ok(world.run(himeno_local::with(size, nodes, loops))?))
    })
}
