//! `cargo xtask bless`: rewrites the golden files with the bytes that the code produces now. Only
//! for bytes that no released ABI version promises: if a golden test fails for those, the change
//! has to be taken back.

use crate::{Error, child, no_arguments};
use std::time::Duration;

/// Runs the golden tests in the mode in which they write instead of compare.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    let tests: [(&str, &str, &[&str]); 2] =
        [("hamr-tests", "protocol", &["golden::", "inspect::"]), ("hamr-cli", "qemu", &["scenarios::"])];
    for (package, test, modules) in tests {
        let mut command = child::cargo();
        command.args(["test", "--package", package, "--test", test, "--"]).args(modules).env("HAMR_BLESS", "1");
        child::run(&mut command, Duration::from_secs(900))?;
    }
    println!("golden files rewritten: read `git diff tests/golden host/cli/tests/golden` before you commit");
    Ok(())
}
