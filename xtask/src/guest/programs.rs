//! The programs that run in the guest, `hamr` and the tests of `tests/tests/guest.rs`, and the libraries that
//! they are linked with: those of this machine. They are what the step `tests` has built.

use super::libraries;
use crate::{Error, child, image};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The time for a build from an empty folder, with every dependency of the tests.
const LIMIT: Duration = Duration::from_secs(900);
/// The time for a command about a program.
const SHORT: Duration = Duration::from_secs(60);

/// Paths of the programs.
#[derive(Default)]
pub(super) struct Programs {
    /// With its symbols, for this machine.
    pub(super) hamr: PathBuf,
    /// What the guest gets: its path there, and the file.
    pub(super) files: Vec<(String, PathBuf)>,
}

/// Builds both, with the features of a whole workspace, and removes the symbols of what goes into `folder`.
pub(super) fn build(folder: &Path) -> Result<Programs, Error> {
    let [hamr, tests] = cargo(&["--bin", "hamr", "--test", "guest"], ["hamr", "guest"])?;
    let mut files = Vec::new();
    for (name, program) in [("hamr", &hamr), ("guest", &tests)] {
        let stripped = folder.join(name);
        child::capture(Command::new("strip").arg("-o").arg(&stripped).arg(program), SHORT)?;
        files.push((format!("bin/{name}"), stripped));
    }
    files.extend(libraries::of(&[hamr.clone(), tests], Path::new("/"))?);
    Ok(Programs { hamr, files })
}

/// Builds a device with its adapter for the tools of a guest, which runs here; its image is built when it starts.
pub(super) fn peer() -> Result<PathBuf, Error> {
    let [peer, _] = cargo(&["--example", "stock_peer", "--bin", "hamr-hca"], ["stock_peer", "hamr-hca"])?;
    Ok(peer)
}

/// Builds an adapter with its tools and the image that these start, optimised, without symbols in `folder`: what a guest gets,
/// and the files.
pub(super) fn own_pair(folder: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let mut cargo = child::cargo();
    cargo.args(["build", "--quiet", "--release", "--package", "hamr-hca", "--message-format=json-render-diagnostics"]);
    let messages = child::capture(&mut cargo, LIMIT)?;
    let tool = executable(&messages, "hamr-hca")?;
    let image = image::build("hamr-verbs-image", "shm")?;
    let strip = |(name, program): (&str, PathBuf)| {
        let stripped = folder.join(name);
        child::capture(Command::new("strip").arg("-o").arg(&stripped).arg(&program), SHORT)?;
        Ok((format!("bin/{name}"), stripped))
    };
    [("hamr-hca", tool), ("hamr-verbs-image", image)].into_iter().map(strip).collect()
}

/// Has cargo build two programs, and returns their paths.
fn cargo(targets: &[&str], names: [&str; 2]) -> Result<[PathBuf; 2], Error> {
    let mut cargo = child::cargo();
    cargo.args(["build", "--quiet", "--message-format=json-render-diagnostics", "--workspace"]).args(targets);
    let messages = child::capture(&mut cargo, LIMIT)?;
    let [first, second] = names;
    Ok([executable(&messages, first)?, executable(&messages, second)?])
}

/// The path of a program that cargo has built, from what it said.
fn executable(messages: &str, name: &str) -> Result<PathBuf, Error> {
    let lines = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut paths = lines.filter(|m| m["reason"] == "compiler-artifact" && m["target"]["name"] == name);
    let path = paths.find_map(|m| m["executable"].as_str().map(PathBuf::from));
    path.ok_or_else(|| Error::Failed(format!("cargo built no program `{name}` for the guest")))
}
