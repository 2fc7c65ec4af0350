//! Step `circles`: sibling modules of a crate, files or folders, must not import each other in a
//! circle. Such modules can only be read together, and none of them can be tested or moved alone.
//! Product crates only; test modules are not read.

mod graph;
mod read;

use crate::metadata::{Metadata, Package};
use crate::{Error, root};
use graph::Circle;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The circles that exist, each by the files of its modules in order. The step fails on any other
/// circle, and on a listed one that no longer exists.
const KNOWN: &[&[&str]] = &[];

/// Packages of tests and of automation are none: no other package uses their files.
fn is_product(package: &Package) -> bool {
    package.name != "xtask" && !package.name.starts_with("hamr-tests")
}

/// Compares the circles of all product crates with the known ones.
pub(crate) fn check(metadata: &Metadata) -> Result<String, Error> {
    let (mut found, mut files) = (Vec::new(), 0);
    for package in metadata.ours().filter(|package| is_product(package)) {
        for first in ["src/lib.rs", "src/main.rs"].map(|first| package.folder.join(first)) {
            if !first.is_file() {
                continue;
            }
            let modules = read::modules(&first)?;
            files += modules.iter().map(|module| &module.file).collect::<BTreeSet<_>>().len();
            found.extend(graph::circles(&modules).iter().map(|circle| {
                let siblings = circle.siblings.iter().map(|file| shown(file)).collect();
                (siblings, lines(circle))
            }));
        }
    }
    judge(&found, KNOWN)?;
    Ok(format!("{files} files, {} known circles", KNOWN.len()))
}

/// Fails on a circle that is not known, and on a known one that is not found.
fn judge(found: &[(Vec<String>, Vec<String>)], known: &[&[&str]]) -> Result<(), Error> {
    let new: Vec<_> = found.iter().filter(|(files, _)| !known.iter().any(|known| files == known)).collect();
    let gone: Vec<_> = known.iter().filter(|known| !found.iter().any(|(files, _)| files == *known)).collect();
    for (files, lines) in &new {
        println!("a circle of {} modules: {}", files.len(), files.join(", "));
        lines.iter().for_each(|line| println!("  {line}"));
    }
    for files in &gone {
        println!("not a circle any more, to be taken out of KNOWN in xtask/src/test/circles.rs: {}", files.join(", "));
    }
    match (new.first(), gone.first()) {
        (Some((files, _)), _) => {
            let rest = if new.len() > 1 { format!(", and {} more", new.len() - 1) } else { String::new() };
            Err(Error::Failed(format!("modules import each other in a circle: {}{rest}", files.join(", "))))
        }
        (None, Some(files)) => Err(Error::Failed(format!("the list of known circles is stale: {}", files.join(", ")))),
        (None, None) => Ok(()),
    }
}

/// Each import inside of a circle: `file -> file: names`.
fn lines(circle: &Circle) -> Vec<String> {
    let line = |((from, to), names): (&(PathBuf, PathBuf), &BTreeSet<String>)| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        format!("{} -> {}: {}", shown(from), shown(to), names.join(", "))
    };
    circle.taken.iter().map(line).collect()
}

/// A path below the workspace's folder.
fn shown(file: &Path) -> String {
    file.strip_prefix(root()).unwrap_or(file).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[&str]) -> Vec<(Vec<String>, Vec<String>)> {
        vec![(files.iter().map(|&file| file.to_owned()).collect(), Vec::new())]
    }

    #[test]
    fn a_new_circle_and_a_stale_row_fail() {
        assert!(judge(&found(&["a", "b"]), &[&["a", "b"]]).is_ok());
        let new = judge(&found(&["a", "b", "c"]), &[&["a", "b"]]).expect_err("it grew").to_string();
        assert_eq!(new, "modules import each other in a circle: a, b, c");
        let stale = judge(&[], &[&["a", "b"]]).expect_err("it is gone").to_string();
        assert_eq!(stale, "the list of known circles is stale: a, b");
    }
}
