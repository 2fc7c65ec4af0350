//! The programs that run in the guest: `hamr` and the tests of `tests/tests/guest.rs`, linked
//! statically, because the guest has no libraries.

use crate::toolchain::X86_64;
use crate::{Error, child};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time for a build from an empty folder, with every dependency of the tests.
const LIMIT: Duration = Duration::from_secs(900);

/// Paths of the programs.
pub(super) struct Programs {
    pub(super) hamr: PathBuf,
    pub(super) tests: PathBuf,
}

/// Builds both. Quickly: nothing is measured in a guest, and most of its time is waits.
pub(super) fn build(cache: &Path) -> Result<Programs, Error> {
    let mut cargo = child::cargo();
    cargo.args(["build", "--release", "--quiet", "--message-format=json-render-diagnostics", "--target", X86_64]);
    cargo.args(["--package", "hamr-cli", "--bin", "hamr", "--package", "hamr-tests", "--test", "guest"]);
    cargo.arg("--target-dir").arg(cache.join("build"));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static").env_remove("RUSTFLAGS");
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1").env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    cargo.args(["--config", "profile.release.package.'*'.opt-level=0"]);
    let messages = child::capture(&mut cargo, LIMIT)?;
    let find = |name: &str| {
        let lines = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut paths = lines.filter(|m| m["reason"] == "compiler-artifact" && m["target"]["name"] == name);
        paths.find_map(|m| m["executable"].as_str().map(PathBuf::from))
    };
    let missing = |name| Error::Failed(format!("cargo built no program `{name}` for the guest"));
    Ok(Programs { hamr: find("hamr").ok_or(missing("hamr"))?, tests: find("guest").ok_or(missing("guest"))? })
}
