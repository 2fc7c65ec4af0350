//! `cargo xtask soak`: the tests that repeat something at random moments, as often as it takes to
//! meet rare ones. `cargo xtask test` repeats it less.

use crate::{Error, child, no_arguments};
use std::time::Duration;

/// A thousand worlds, or a million calls, on a busy machine.
const LIMIT: Duration = Duration::from_secs(3600);
/// Nested calls, if no other number is given.
const CALLS: &str = "1000000";
/// Active messages, likewise.
const MESSAGES: &str = "10000000";

/// Makes a million nested calls, or as many as the argument says; then kills ranks and launchers of a
/// thousand worlds. With `messages` it sends ten million active messages, or as many as the next argument says, in the
/// place of both.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    if let Some(("messages", rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        let (messages, rest) = match rest.split_first() {
            Some((messages, rest)) if messages.parse::<u64>().is_ok() => (messages.as_str(), rest),
            _ => (MESSAGES, rest),
        };
        no_arguments(rest)?;
        return soak("gas_soak_shm", ("HAMR_SOAK_MESSAGES", messages));
    }
    let (calls, rest) = match arguments.split_first() {
        Some((calls, rest)) if calls.parse::<u64>().is_ok() => (calls.as_str(), rest),
        _ => (CALLS, arguments),
    };
    no_arguments(rest)?;
    soak("world_nested", ("HAMR_SOAK_CALLS", calls))?;
    soak("world_kills", ("HAMR_SOAK", "1"))
}

fn soak(test: &str, (variable, value): (&str, &str)) -> Result<(), Error> {
    let mut command = child::cargo();
    command.args(["test", "--package", "hamr-tests", "--test", test, "--", "--nocapture"]).env(variable, value);
    child::run(&mut command, LIMIT)
}
