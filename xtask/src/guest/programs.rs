//! The programs that run in the guest, `hamr` and the tests of `tests/tests/guest.rs`, and the libraries that
//! they are linked with: those of this machine. They are what the step `tests` has built.

use crate::{Error, child};
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
    let mut cargo = child::cargo();
    cargo.args(["build", "--quiet", "--message-format=json-render-diagnostics", "--workspace"]);
    cargo.args(["--bin", "hamr", "--test", "guest"]);
    let messages = child::capture(&mut cargo, LIMIT)?;
    let find = |name: &str| {
        let lines = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut paths = lines.filter(|m| m["reason"] == "compiler-artifact" && m["target"]["name"] == name);
        let path = paths.find_map(|m| m["executable"].as_str().map(PathBuf::from));
        path.ok_or_else(|| Error::Failed(format!("cargo built no program `{name}` for the guest")))
    };
    let (hamr, tests) = (find("hamr")?, find("guest")?);
    let mut files = Vec::new();
    for (name, program) in [("hamr", &hamr), ("guest", &tests)] {
        let stripped = folder.join(name);
        child::capture(Command::new("strip").arg("-o").arg(&stripped).arg(program), SHORT)?;
        let listed = child::capture(Command::new("ldd").arg(program), SHORT)?;
        files.extend(libraries(&listed).into_iter().map(|path| (path.trim_start_matches('/').to_owned(), path.into())));
        files.push((format!("bin/{name}"), stripped));
    }
    files.sort();
    files.dedup();
    Ok(Programs { hamr, files })
}

/// The paths in what `ldd` prints: `libc.so.6 => /lib/libc.so.6 (0x…)`, or `/lib64/ld.so (0x…)`.
fn libraries(listed: &str) -> Vec<&str> {
    listed.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/'))).collect()
}

#[cfg(test)]
mod tests {
    use super::libraries;

    #[test]
    fn libraries_are_those_with_a_path() {
        let listed = "\tlinux-vdso.so.1 (0x00007f)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x7f)\n\t/lib64/ld.so.2 (0x7f)\n";
        assert_eq!(libraries(listed), ["/lib/x/libc.so.6", "/lib64/ld.so.2"]);
        assert!(libraries("\tstatically linked\n").is_empty());
    }
}
