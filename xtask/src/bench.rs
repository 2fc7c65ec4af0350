//! `cargo xtask bench`: builds and runs `hamr bench` in release; every argument is passed on to it.

use crate::{Error, child};
use std::time::Duration;

/// Long enough for every benchmark at its full repetition count.
const LIMIT: Duration = Duration::from_secs(3600);

/// Builds and runs.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let mut command = child::cargo();
    command.args(["run", "--quiet", "--release", "--package", "hamr-cli", "--", "bench"]).args(arguments);
    child::run(&mut command, LIMIT)
}
