//! `cargo xtask new NAME [DIR] [--kind program]`: a project of three crates outside of this workspace, from
//! `templates/user-project`, or of `templates/program`, with a program over arrays. The placeholders are those of
//! `cargo generate`, which makes the same of those folders.

use crate::{Error, child, root};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What only `cargo generate` reads.
const RECIPE: &str = "cargo-generate.toml";
/// Folders and files of a build, where someone built the template.
const BUILT: &[&str] = &["target", "Cargo.lock"];
const LONGEST: usize = 40;
/// A command of git.
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let (template, arguments) = match arguments {
        [rest @ .., option, kind] if option == "--kind" => match &**kind {
            "handlers" => ("user-project", rest),
            "program" => ("program", rest),
            _ => return Err(Error::Usage(format!("expected --kind handlers or --kind program, got `{kind}`"))),
        },
        rest => ("user-project", rest),
    };
    let (name, folder) = match arguments {
        [name] => (name, PathBuf::from(name)),
        [name, folder] => (name, PathBuf::from(folder)),
        _ => {
            let got = arguments.len();
            return Err(Error::Usage(format!("expected `new NAME [DIR] [--kind program]`, got {got} arguments")));
        }
    };
    check(name)?;
    let folder = std::path::absolute(&folder).map_err(|e| failed(&folder, &e))?;
    check_empty(&folder)?;
    if let Some(parent) = folder.parent()
        && !parent.is_dir()
    {
        return Err(Error::Failed(format!("expected a folder that is there to make it in, got {}", parent.display())));
    }
    let root = root().canonicalize().map_err(|e| failed(&root(), &e))?;
    let hamr = root.to_str().filter(|path| !path.contains(['"', '\\']));
    let hamr = hamr.ok_or_else(|| {
        Error::Failed(format!("expected a checkout whose path a manifest can hold, got {}", root.display()))
    })?;
    let values = [("{{project-name}}", name.as_str()), ("{{hamr}}", hamr)];
    copy(&root.join("templates").join(template), &folder, &values)?;
    // The versions that this checkout was tested with.
    let lock = folder.join("Cargo.lock");
    std::fs::copy(root.join("Cargo.lock"), &lock).map_err(|e| failed(&lock, &e))?;
    let next = match template {
        "program" => "`cargo test` there runs a program on threads, `cargo run --release` on two devices",
        _ => "`cargo run` there calls a device, `bash ci.sh` is what its CI runs",
    };
    init(&folder);
    println!("made {}: {next}", folder.display());
    Ok(())
}

/// Makes a repository of it, unless it is in one, as cargo does; without git there is none.
fn init(folder: &Path) {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(folder).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        child::status(&mut command, LIMIT).is_ok_and(|status| status.success())
    };
    if !git(&["rev-parse", "--is-inside-work-tree"]) {
        git(&["init", "--quiet"]);
    }
}

/// The name becomes part of packages' names.
fn check(name: &str) -> Result<(), Error> {
    let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
    let taken = name == "hamr" || name.starts_with("hamr-") || name.starts_with("hamr_");
    if starts && name.chars().all(is_good) && name.len() <= LONGEST && !taken {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "expected a name of a-z, 0-9, - and _ that begins with a letter, has at most {LONGEST} of them, is not \
         `hamr` and does not begin with `hamr-` or `hamr_`, got `{name}`"
    )))
}

/// Nothing is overwritten.
fn check_empty(folder: &Path) -> Result<(), Error> {
    match std::fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::Failed(format!("expected a new or empty folder, got {}", folder.display()))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(failed(folder, &e)),
    }
}

/// Copies a folder. Texts get the values; the workflow's own expressions are none of ours.
fn copy(from: &Path, to: &Path, values: &[(&str, &str)]) -> Result<(), Error> {
    std::fs::create_dir_all(to).map_err(|e| failed(to, &e))?;
    for entry in std::fs::read_dir(from).map_err(|e| failed(from, &e))? {
        let entry = entry.map_err(|e| failed(from, &e))?;
        let (path, name) = (entry.path(), entry.file_name());
        if name == RECIPE || BUILT.iter().any(|built| name == *built) {
            continue;
        }
        let to = to.join(&name);
        if path.is_dir() {
            copy(&path, &to, values)?;
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|e| failed(&path, &e))?;
        let text = values.iter().fold(text, |text, (placeholder, value)| text.replace(placeholder, value));
        std::fs::write(&to, text).map_err(|e| failed(&to, &e))?;
        let mode = entry.metadata().map_err(|e| failed(&path, &e))?.permissions();
        std::fs::set_permissions(&to, mode).map_err(|e| failed(&to, &e))?;
    }
    Ok(())
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::Failed(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.into()).collect();
        task(&arguments).expect_err("it is refused").to_string()
    }

    #[test]
    fn bad_names_and_full_folders_are_refused() {
        for name in ["", "My", "9lives", "a b", "../up", "hamr", "hamr-comm", "hamr_x", "ä", &"a".repeat(41)] {
            assert!(refused(&[name]).contains(&format!("got `{name}`")), "{name}");
        }
        for name in ["a", "radar-2", "my_project", "hamrx"] {
            check(name).expect("a good name");
        }
        assert!(refused(&[]).contains("NAME [DIR]"));
        assert!(refused(&["a", "--kind", "array"]).contains("got `array`"));
        let xtask = root().join("xtask");
        assert!(refused(&["radar", &xtask.to_string_lossy()]).contains("empty folder"));
        let below = root().join("none/radar");
        assert!(refused(&["radar", &below.to_string_lossy()]).ends_with("/none") && !root().join("none").exists());
        let file = xtask.join("Cargo.toml");
        assert!(refused(&["radar", &file.to_string_lossy()]).contains("Cargo.toml"));
    }
}
