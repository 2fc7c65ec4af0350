//! The folders that packages are unpacked into.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Files that cargo puts into its target folders; the second one also into a target folder that
/// existed before.
const MARKS: [&str; 2] = ["CACHEDIR.TAG", ".rustc_info.json"];

/// The checkout that this crate was built from, where it is still there.
pub(crate) fn checkout() -> Option<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().filter(|folder| folder.join("qemu/Cargo.toml").is_file())
}

/// The folders that may have unpacked packages, best first. A program inside a cargo target folder
/// uses a folder there, which `cargo clean` removes. Every program also uses the user's cache, the last.
pub fn folders() -> Vec<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    list(&program, std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"), |file| file.is_file())
}

fn list(
    program: &Path,
    cache: Option<OsString>,
    home: Option<OsString>,
    exists: impl Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    let targets = program.ancestors().skip(1).filter(|folder| MARKS.iter().any(|mark| exists(&folder.join(mark))));
    // The specification of XDG_CACHE_HOME: a relative path must be ignored.
    let cache = cache.map(PathBuf::from).filter(|cache| cache.is_absolute());
    let cache = cache.or(home.map(|home| Path::new(&home).join(".cache")).filter(|cache| cache.is_absolute()));
    targets.map(Path::to_owned).chain(cache).map(|folder| folder.join("hamr")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(program: &str, cache: Option<&str>, home: Option<&str>) -> Vec<PathBuf> {
        let exists =
            |file: &Path| [Path::new("/w/out/CACHEDIR.TAG"), Path::new("/w/out/x/.rustc_info.json")].contains(&file);
        list(Path::new(program), cache.map(Into::into), home.map(Into::into), exists)
    }

    #[test]
    fn the_target_folder_comes_before_the_cache() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(listed("/w/out/debug/deps/p", None, Some("/h")), paths(&["/w/out/hamr", "/h/.cache/hamr"]));
        let nested = paths(&["/w/out/x/hamr", "/w/out/hamr", "/c/hamr"]);
        assert_eq!(listed("/w/out/x/release/p", Some("/c"), Some("/h")), nested);
        assert_eq!(listed("/usr/bin/p", Some("/c"), Some("/h")), paths(&["/c/hamr"]));
    }

    #[test]
    fn folders_that_are_relative_or_unknown_do_not_count() {
        assert_eq!(listed("/usr/bin/p", Some("c"), Some("/h")), [PathBuf::from("/h/.cache/hamr")]);
        assert_eq!(listed("/usr/bin/p", Some(""), Some("")), Vec::<PathBuf>::new());
        assert_eq!(listed("/usr/bin/p", None, None), Vec::<PathBuf>::new());
    }
}
