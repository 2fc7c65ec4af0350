//! `cargo xtask test --changed [BASE]`: the steps and tests that the changes since a commit can
//! affect. Changed files belong to packages, a package affects those that use it, and a step runs
//! when something that it reads is affected.

use crate::metadata::{Metadata, Package};
use crate::{Error, child, root};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The time for git, on a large checkout.
const LIMIT: Duration = Duration::from_secs(60);

/// The commits to compare with by default: the first one that exists.
const BASES: [&str; 3] = ["origin/HEAD", "origin/main", "main"];

/// Packages whose tests load images, or link libraries, which cargo does not see as dependencies.
const LOADS: [(&str, &[&str]); 4] = [
    (
        "hamr-tests",
        &["hamr-device-fw-demo", "hamr-tests-image", "hamr-tests-micro", "hamr-tests-microvm", "hamr-tests-module"],
    ),
    (
        "hamr-bench",
        &[
            "hamr-bench-image",
            // Runs of its binary are in the tests of that one.
            "hamr-cli",
            "hamr-device-fw-demo",
            "hamr-hca",
            "hamr-tests-image",
            "hamr-tests-module",
            "hamr-verbs-image",
        ],
    ),
    ("hamr-cli", &["hamr-device-fw-demo", "hamr-tests-image", "hamr-tests-module"]),
    (RUNNER, &["hamr-gasnet"]),
];

/// Files outside of packages that a package's tests read; the first prefix that fits counts.
const READ_BY: [(&str, &str); 8] = [
    ("templates/", "hamr-tests"),
    ("docs/testing.md", "xtask"),
    ("docs/papers", "hamr-tests"),
    ("docs/offload.md", "hamr-tests"),
    ("docs/tasks.md", "hamr-tests"),
    ("docs/ham-veo.md", "hamr-tests"),
    ("docs/worlds.md", "hamr-tests"),
    ("README.md", "hamr-tests"),
];

/// The package that runs the steps: a change of it affects all of them.
const RUNNER: &str = "xtask";

/// What a step reads.
#[derive(Clone, Copy)]
pub(crate) enum Looks {
    /// Every file.
    Everywhere,
    /// Files whose path ends in one of these.
    Files(&'static [&'static str]),
    /// Every package with its dependencies, and files whose path ends in one of these.
    Packages(&'static [&'static str]),
    /// The sources of these packages with their dependencies, and their tests.
    Of(&'static [&'static str]),
}

/// The extent of a run.
pub(crate) enum Scope {
    /// Everything.
    Whole,
    /// What changes can affect.
    Changed(Reached),
}

/// The files and packages that changes can affect.
#[derive(Debug)]
pub(crate) struct Reached {
    /// The changed files, below the workspace's folder.
    files: Vec<String>,
    /// Packages that are built from a changed file.
    built: BTreeSet<String>,
    /// Packages whose tests may have another outcome.
    tested: BTreeSet<String>,
    /// A changed file that any step may depend on.
    general: Option<String>,
}

impl Scope {
    /// The changes since `base`, also uncommitted ones; without a base, since the main branch.
    pub(crate) fn since(base: Option<&str>, metadata: &Metadata) -> Result<Self, Error> {
        let commit =
            |name: &str| git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")]);
        let base = match base {
            Some(base) => match commit(base) {
                Ok(_) => base,
                Err(_) => return Err(Error::Usage(format!("`--changed` expects a commit or a branch, got `{base}`"))),
            },
            None => BASES.into_iter().find(|base| commit(base).is_ok()).ok_or_else(|| {
                Error::Usage(format!(
                    "`--changed` expects a commit or a branch here: there is none of {}",
                    BASES.join(", ")
                ))
            })?,
        };
        let start = git(&["merge-base", "HEAD", base])?;
        let start = start.trim();
        let mut files = git(&["diff", "--name-only", "--no-renames", "-z", start])?;
        files.push_str(&git(&["ls-files", "--others", "--exclude-standard", "-z"])?);
        let files: BTreeSet<String> = files.split('\0').filter(|file| !file.is_empty()).map(str::to_owned).collect();
        let reached = Reached::by(files.into_iter().collect(), &metadata.ours().collect::<Vec<_>>(), &root());
        let tested = if reached.general.is_some() { "every package".to_owned() } else { list(&reached.tested) };
        println!(
            "{} files differ from {base} at {}; reached: {tested}",
            reached.files.len(),
            &start[..start.len().min(12)]
        );
        Ok(Self::Changed(reached))
    }

    /// Why a step that reads this is left out; `None` when it runs.
    pub(crate) fn leaves_out(&self, looks: Looks) -> Option<String> {
        let Self::Changed(reached) = self else { return None };
        if reached.files.is_empty() {
            return Some("nothing changed".into());
        }
        if reached.general.is_some() {
            return None;
        }
        let no_file = |ends: &[&str]| !reached.files.iter().any(|file| ends.iter().any(|end| file.ends_with(end)));
        match looks {
            Looks::Everywhere => None,
            Looks::Files(ends) => no_file(ends).then(|| format!("no change of {}", ends.join(", "))),
            Looks::Packages(ends) => {
                (reached.tested.is_empty() && no_file(ends)).then(|| "no change of a package".into())
            }
            Looks::Of(packages) => {
                let is_reached = packages.iter().any(|name| reached.tested.contains(*name));
                (!is_reached).then(|| format!("no change reaches {}", packages.join(", ")))
            }
        }
    }

    /// Whether the package is built from a changed file.
    pub(crate) fn builds(&self, package: &str) -> bool {
        match self {
            Self::Whole => true,
            Self::Changed(reached) => reached.general.is_some() || reached.built.contains(package),
        }
    }

    /// The packages whose tests run; `None` for all of them.
    pub(crate) fn tested(&self) -> Option<&BTreeSet<String>> {
        match self {
            Self::Changed(reached) if reached.general.is_none() => Some(&reached.tested),
            _ => None,
        }
    }
}

impl Reached {
    fn by(files: Vec<String>, ours: &[&Package], root: &Path) -> Self {
        let mut built = BTreeSet::new();
        let mut general = None;
        for file in &files {
            match owner(file, ours, root) {
                Owner::Package(RUNNER) | Owner::Workspace => general = general.or_else(|| Some(file.clone())),
                Owner::Package(name) => drop(built.insert(name.to_owned())),
                Owner::Text => {}
            }
        }
        let read = files.iter().filter_map(|file| read_by(file)).map(str::to_owned);
        // A package's tests use packages that it does not itself use, and no package uses tests.
        let uses = |names: &[String], built: &BTreeSet<String>| names.iter().any(|name| built.contains(name));
        loop {
            let before = built.len();
            built.extend(
                ours.iter()
                    .filter(|package| uses(&package.needs, &built))
                    .map(|package| package.name.clone())
                    .collect::<Vec<_>>(),
            );
            if built.len() == before {
                break;
            }
        }
        let mut tested: BTreeSet<String> = built.iter().cloned().chain(read).collect();
        tested.extend(
            ours.iter().filter(|package| uses(&package.tests_need, &built)).map(|package| package.name.clone()),
        );
        let loads = LOADS.iter().filter(|(_, images)| images.iter().any(|image| built.contains(*image)));
        tested.extend(loads.map(|(name, _)| (*name).to_owned()));
        Self { files, built, tested, general }
    }
}

enum Owner<'a> {
    Package(&'a str),
    /// Prose, which is no input of any build.
    Text,
    /// Anything else outside of packages, such as the workspace's manifest.
    Workspace,
}

fn owner<'a>(file: &str, ours: &[&'a Package], root: &Path) -> Owner<'a> {
    if read_by(file).is_some() || file.ends_with(".md") || file.starts_with("LICENSE") {
        return Owner::Text;
    }
    let path = root.join(file);
    let holds = ours.iter().filter(|package| path.starts_with(&package.folder));
    match holds.max_by_key(|package| package.folder.components().count()) {
        Some(package) => Owner::Package(&package.name),
        None => Owner::Workspace,
    }
}

fn read_by(file: &str) -> Option<&'static str> {
    READ_BY.iter().find(|(start, _)| file.starts_with(start)).map(|(_, package)| *package)
}

fn list(names: &BTreeSet<String>) -> String {
    if names.is_empty() { "no package".to_owned() } else { names.iter().cloned().collect::<Vec<_>>().join(", ") }
}

fn git(arguments: &[&str]) -> Result<String, Error> {
    let mut command = Command::new("git");
    child::capture(command.args(arguments).current_dir(root()), LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str, needs: &[&str], tests_need: &[&str]) -> Package {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Package {
            name: name.to_owned(),
            is_ours: true,
            needs: names(needs),
            tests_need: names(tests_need),
            folder: Path::new("/w").join(folder),
            ..Package::default()
        }
    }

    fn reached(files: &[&str]) -> Reached {
        let ours = [
            package("hamr-comm", "comm", &["hamr-comm-macros"], &[]),
            package("hamr-comm-macros", "comm/macros", &[], &["hamr-comm"]),
            package("hamr-device-fw", "device-fw", &["hamr-comm"], &[]),
            package("hamr-device-fw-demo", "device-fw/demo", &["hamr-device-fw"], &[]),
            package("hamr", "host", &["hamr-comm"], &[]),
            package("hamr-bench", "bench", &["hamr"], &[]),
            package("hamr-cli", "host/cli", &["hamr"], &[]),
            package("hamr-tests", "tests", &["hamr"], &[]),
            package("hamr-tests-model", "tests/model", &["hamr-comm"], &[]),
            package("hamr-linker", "linker", &[], &[]),
            package(RUNNER, "xtask", &["hamr-linker"], &[]),
        ];
        Reached::by(
            files.iter().map(|&file| file.to_owned()).collect(),
            &ours.iter().collect::<Vec<_>>(),
            Path::new("/w"),
        )
    }

    fn names(set: &BTreeSet<String>) -> Vec<&str> {
        set.iter().map(String::as_str).collect()
    }

    #[test]
    fn a_change_affects_the_users_of_its_package() {
        let reached = reached(&["host/src/node/mod.rs"]);
        assert_eq!(names(&reached.built), ["hamr", "hamr-bench", "hamr-cli", "hamr-tests"]);
        assert_eq!(reached.built, reached.tested);
        let scope = Scope::Changed(reached);
        assert_eq!(
            scope.leaves_out(Looks::Of(&["hamr-tests-model"])).as_deref(),
            Some("no change reaches hamr-tests-model")
        );
        assert!(scope.leaves_out(Looks::Packages(&[])).is_none() && scope.leaves_out(Looks::Files(&[".rs"])).is_none());
        assert!(scope.builds("hamr-cli") && !scope.builds("hamr-comm"));
    }

    #[test]
    fn a_dependency_of_tests_affects_only_the_tests() {
        let comm = reached(&["comm/src/lib.rs"]);
        assert!(!comm.built.contains("hamr-comm-macros") && comm.tested.contains("hamr-comm-macros"));
        let image = reached(&["device-fw/demo/src/main.rs"]);
        assert_eq!(names(&image.built), ["hamr-device-fw-demo"]);
        assert_eq!(names(&image.tested), ["hamr-bench", "hamr-cli", "hamr-device-fw-demo", "hamr-tests"]);
    }

    #[test]
    fn a_file_belongs_to_the_innermost_package() {
        assert_eq!(names(&reached(&["tests/model/src/lib.rs"]).built), ["hamr-tests-model"]);
        assert_eq!(names(&reached(&["templates/user-project/Cargo.toml"]).tested), ["hamr-tests"]);
    }

    #[test]
    fn prose_affects_no_package() {
        let scope = Scope::Changed(reached(&["docs/abi.md", "comm/README.md", "LICENSE-MIT"]));
        assert_eq!(scope.leaves_out(Looks::Packages(&[])).as_deref(), Some("no change of a package"));
        assert_eq!(scope.leaves_out(Looks::Files(&[".rs"])).as_deref(), Some("no change of .rs"));
        assert!(scope.leaves_out(Looks::Everywhere).is_none() && scope.leaves_out(Looks::Packages(&[".md"])).is_none());
    }

    #[test]
    fn a_file_outside_of_packages_affects_every_step() {
        for file in ["Cargo.lock", ".config/nextest.toml", "rustfmt.toml", "xtask/src/main.rs", "linker/scripts/body.x"]
        {
            let scope = Scope::Changed(reached(&["docs/abi.md", file]));
            assert_eq!(
                scope.leaves_out(Looks::Of(&["hamr-tests-model"])).is_none(),
                file != "linker/scripts/body.x",
                "{file}"
            );
        }
    }

    #[test]
    fn without_a_change_nothing_runs() {
        let scope = Scope::Changed(reached(&[]));
        assert_eq!(scope.leaves_out(Looks::Everywhere).as_deref(), Some("nothing changed"));
        assert!(Scope::Whole.leaves_out(Looks::Everywhere).is_none() && Scope::Whole.tested().is_none());
    }

    #[test]
    fn an_unknown_base_is_a_usage_error() {
        let metadata = Metadata { packages: Vec::new(), target: "target".into() };
        for wrong in ["no-such-branch", "", "-x"] {
            assert!(matches!(Scope::since(Some(wrong), &metadata), Err(Error::Usage(_))), "{wrong:?}");
        }
    }
}
