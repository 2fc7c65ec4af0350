//! `cargo xtask soak`: the tests that repeat something at random moments, as often as it takes to
//! meet rare ones. `cargo xtask test` repeats it less.

use crate::{Error, child, no_arguments};
use std::time::{Duration, Instant};

/// One of them, on a busy machine.
const LIMIT: Duration = Duration::from_secs(3 * 3600);

/// What is repeated: its name, tests as `BINARY::MODULE`, the variable by which they get their number, and the number of a soak.
const MODES: [(&str, &str, &str, u64); 5] = [
    ("calls", "worlds::nested", "HAMR_SOAK_CALLS", 1_000_000),
    ("kills", "worlds::alone::kills", "HAMR_SOAK_KILLS", 1000),
    ("cuts", "shm::network", "HAMR_SOAK_CUTS", 100),
    ("lies", "shm::between", "HAMR_SOAK_LIES", 1000),
    ("messages", "gas::soak", "HAMR_SOAK_MESSAGES", 10_000_000),
];

/// Makes nested calls, cuts a network, kills ranks and launchers of worlds, and sends active messages; or one of them, as often as it is told.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let Some((wanted, rest)) = arguments.split_first() else {
        return MODES.iter().try_for_each(|mode| soak(mode, mode.3));
    };
    let mode = MODES.iter().find(|(name, ..)| name == wanted);
    let mode = mode
        .ok_or_else(|| Error::unknown(wanted, "calls [N], cuts [N], kills [N], lies [N], messages [N] or nothing"))?;
    let (count, rest) = match rest.split_first() {
        Some((count, rest)) => (count.parse().map_err(|_| Error::unknown(count, "a number"))?, rest),
        None => (mode.3, rest),
    };
    no_arguments(rest)?;
    soak(mode, count)
}

fn soak((name, tests, variable, _): &(&str, &str, &str, u64), count: u64) -> Result<(), Error> {
    let begin = Instant::now();
    let mut command = child::cargo();
    let (binary, module) = tests.split_once("::").expect("both are in the table");
    command.args(["test", "--package", "hamr-tests", "--test", binary, &format!("{module}::"), "--", "--nocapture"]);
    child::run(command.env(variable, count.to_string()), LIMIT)?;
    println!("soak of {count} {name}: ok, {:.0} s", begin.elapsed().as_secs_f64());
    Ok(())
}
