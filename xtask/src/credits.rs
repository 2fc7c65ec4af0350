//! `cargo xtask credits`: credits in a simulated network, beside the paper's algorithm; every argument is passed on to
//! the simulator.

use crate::{Error, child};
use std::time::Duration;

/// Long enough for 100,000 ranks that all send.
const LIMIT: Duration = Duration::from_secs(3600);

/// Builds and runs.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let mut command = child::cargo();
    command.args(["run", "--quiet", "--release", "--package", "hamr-gas-sim", "--"]).args(arguments);
    child::run(&mut command, LIMIT)
}
