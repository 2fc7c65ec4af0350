//! `cargo xtask image`: builds a device image and prints its path. There is one function that builds images, behind
//! `hamr image`; this task calls the program, so that no second recipe can drift from the first.

use crate::{Error, child};
use std::process::Command;
use std::time::Duration;

/// Checks the arguments and builds.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let mut named = false;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--device" if rest.next().is_some() => {}
            "--device" => {
                return Err(Error::Usage("`--device` expects a device, such as shm".into()));
            }
            flag if flag.starts_with('-') && !flag.starts_with("--device=") => {
                return Err(Error::unknown(flag, "[NAME] [--device DEVICE]"));
            }
            flag if flag.starts_with('-') => {}
            name if named => return Err(Error::unknown(name, "one image name")),
            _ => named = true,
        }
    }
    child::run(&mut command(arguments), Duration::from_secs(900))
}

/// `hamr image` with these arguments. Its standard output is the path, one line.
pub(crate) fn command(arguments: &[String]) -> Command {
    let mut command = child::cargo();
    command.args(["run", "--quiet", "--release", "--package", "hamr-cli", "--", "image"]).args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_are_refused_before_anything_is_built() {
        for wrong in [&["--board"][..], &["one", "two"], &["--device"]] {
            let arguments: Vec<String> = wrong.iter().map(|&word| word.to_owned()).collect();
            assert!(matches!(task(&arguments), Err(Error::Usage(_))), "{wrong:?}");
        }
    }
}
