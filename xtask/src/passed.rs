//! Tasks that are a program of this workspace: it is built in release and run, and gets every argument.

use crate::{Error, child};
use std::time::Duration;

/// A program, and what it gets before the task's own arguments.
pub(crate) struct Program {
    pub(crate) package: &'static str,
    pub(crate) binary: &'static str,
    pub(crate) arguments: &'static [&'static str],
}

/// All rows of `hamr-bench`, or a simulation of 100,000 ranks that all send.
const LIMIT: Duration = Duration::from_secs(3600);

impl Program {
    /// Builds and runs it.
    pub(crate) fn run(&self, arguments: &[String]) -> Result<(), Error> {
        let Self { package, binary, arguments: first } = self;
        let mut command = child::cargo();
        command.args(["run", "--quiet", "--release", "--package", package, "--bin", binary, "--"]);
        child::run_ours(command.args(*first).args(arguments), LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Run, TASKS, child};
    use serde_json::Value;
    use std::time::Duration;

    /// A package may get a second binary, and the first another name.
    #[test]
    fn every_program_is_there() {
        let mut command = child::cargo();
        command.args(["metadata", "--quiet", "--no-deps", "--format-version", "1"]);
        let metadata = child::capture(&mut command, Duration::from_secs(60)).expect("cargo is installed");
        let metadata: Value = serde_json::from_str(&metadata).expect("JSON");
        let list = |value: &Value| value.as_array().cloned().expect("a list");
        let programs: Vec<_> = TASKS
            .iter()
            .filter_map(|task| if let Run::Program(program) = &task.run { Some(program) } else { None })
            .collect();
        assert_eq!(programs.len(), 3);
        for program in programs {
            let mut packages = list(&metadata["packages"]).into_iter();
            let package = packages.find(|package| package["name"] == program.package).expect(program.package);
            let is_it = |target: &Value| target["kind"][0] == "bin" && target["name"] == program.binary;
            assert!(list(&package["targets"]).iter().any(is_it), "{}", program.binary);
        }
    }
}
