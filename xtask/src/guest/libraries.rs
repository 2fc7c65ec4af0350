//! The libraries that programs are linked with: those that an ELF file names (`DT_NEEDED`), those that these name, and
//! the loader that starts a program. Nothing is run, so the programs may be of another system than this one.

use crate::Error;
use object::elf::{DT_NEEDED, FileHeader64};
use object::endian::Endianness;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Debian's folders of libraries, as its loader searches them.
const FOLDERS: [&str; 4] =
    ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64", "usr/lib/x86_64-linux-gnu/libibverbs"];

/// Names in one file.
#[derive(Debug, Default)]
struct Names {
    libraries: Vec<String>,
    /// The loader's absolute path; of programs only.
    loader: Option<String>,
}

/// The libraries of `files`, out of the folders below `root`: their paths in a guest, and the files here.
pub(super) fn of(files: &[PathBuf], root: &Path) -> Result<BTreeMap<String, PathBuf>, Error> {
    let mut found = BTreeMap::new();
    let mut unread: Vec<PathBuf> = files.to_vec();
    while let Some(file) = unread.pop() {
        let failed = |e: &dyn std::fmt::Display| Error::Failed(format!("{}: {e}", file.display()));
        let bytes = std::fs::read(&file).map_err(|e| failed(&e))?;
        let names = names(&bytes).map_err(|e| failed(&e))?;
        for library in names.libraries {
            let (inside, path) =
                find(&library, root).ok_or_else(|| failed(&format!("expected {library}, found none")))?;
            if found.insert(inside, path.clone()).is_none() {
                unread.push(path);
            }
        }
        if let Some(loader) = names.loader {
            let name = loader.rsplit('/').next().unwrap_or_default();
            let (_, path) = find(name, root).ok_or_else(|| failed(&format!("expected {loader}, found none")))?;
            found.insert(loader.trim_start_matches('/').to_owned(), path);
        }
    }
    Ok(found)
}

/// A library by its name. Links in a folder of packages may be absolute, so one that leads nowhere is tried elsewhere.
fn find(name: &str, root: &Path) -> Option<(String, PathBuf)> {
    let places = FOLDERS.iter().map(|folder| format!("{folder}/{name}"));
    places.map(|inside| (inside.clone(), root.join(inside))).find(|(_, path)| path.is_file())
}

fn names(bytes: &[u8]) -> object::Result<Names> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let mut names = Names::default();
    for segment in header.program_headers(endian, bytes)? {
        if let Some(path) = segment.interpreter(endian, bytes)? {
            names.loader = Some(String::from_utf8_lossy(path).into_owned());
        }
    }
    let sections = header.sections(endian, bytes)?;
    let Some((entries, link)) = sections.dynamic(endian, bytes)? else { return Ok(names) };
    let strings = sections.strings(endian, bytes, link)?;
    for entry in entries.iter().filter(|entry| entry.tag32(endian) == Some(DT_NEEDED)) {
        names.libraries.push(String::from_utf8_lossy(entry.string(endian, strings)?).into_owned());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_a_program_are_found_without_running_it() {
        let me = std::env::current_exe().expect("a path");
        let found = of(&[me], Path::new("/")).expect("linked with this system's libraries");
        let named = |name: &str| found.keys().filter(|path| path.ends_with(name)).count();
        assert_eq!((named("/libc.so.6"), named("/libgcc_s.so.1")), (1, 1), "{found:?}");
        assert!(found.contains_key("lib64/ld-linux-x86-64.so.2"), "{found:?}");
    }

    #[test]
    fn a_missing_library_and_a_file_that_is_no_program_are_named() {
        let me = std::env::current_exe().expect("a path");
        let why = of(&[me], Path::new("/nowhere")).expect_err("no folder").to_string();
        assert!(why.contains("expected lib") && why.ends_with("found none"), "{why}");
        let why = of(&[crate::root().join("Cargo.toml")], Path::new("/")).expect_err("a text").to_string();
        assert!(why.contains("Cargo.toml: "), "{why}");
    }
}
