//! `himeno_local SIZE NI NJ [DEVICES]`
use hamr_programs::himeno_local::himeno_local;
use hamr_programs_host::{himeno, no_files, run};
use std::process::ExitCode;

const USAGE: &str = "usage: himeno_local XS|S|M|L|XL NI NJ [DEVICES]\n\nHimeno's benchmark by coarrays.";

fn main() -> ExitCode {
    // The files are those of the global view.
    run(USAGE, |args| {
        himeno::main(no_files(args)?, |w, size, on, loops| Ok(w.run(himeno_local::with(size, on, loops))?))
    })
}
