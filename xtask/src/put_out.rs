//! `cargo xtask put-out`: puts into memory of another process that is in no segment, by three ways; every argument is
//! passed on.

use crate::{Error, child};
use std::time::Duration;

/// It takes seconds, but for the build.
const LIMIT: Duration = Duration::from_secs(1800);

/// Builds and runs.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let mut command = child::cargo();
    command.args(["run", "--quiet", "--release", "--package", "hamr-gas-process", "--"]).args(arguments);
    child::run(&mut command, LIMIT)
}
