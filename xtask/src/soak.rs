//! `cargo xtask soak`: the tests that repeat something at random moments, as often as it takes to
//! meet rare ones. `cargo xtask test` repeats it less.

use crate::{Error, child, no_arguments};
use std::time::Duration;

/// A thousand worlds, on a busy machine.
const LIMIT: Duration = Duration::from_secs(3600);

/// Kills ranks and launchers of a thousand worlds.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    let mut command = child::cargo();
    command
        .args(["test", "--package", "hamr-tests", "--test", "world_kills", "--", "--nocapture"])
        .env("HAMR_SOAK", "1");
    child::run(&mut command, LIMIT)
}
