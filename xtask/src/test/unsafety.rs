//! Step `unsafe`: the keyword appears only in the files that `docs/unsafe.md` names, and every
//! block and impl has its proof. Clippy checks the proof too, but only in code that is compiled
//! here: never in another ISA's files, in the body of a macro without a use, or behind a `cfg` that
//! is off.

use super::source::{Source, is_word};
use crate::{Error, root};
use proc_macro2::LexError;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const TABLE: &str = "docs/unsafe.md";
/// A statement that runs over more lines than this above its unsafe block hides the proof from the
/// reader.
const REACH: usize = 8;

/// Checks every source file of the workspace.
pub(crate) fn check() -> Result<String, Error> {
    let root = root();
    let table = fs::read_to_string(root.join(TABLE)).unwrap_or_default();
    let mut files = Vec::new();
    collect(&root, &mut files).map_err(|error| Error::Failed(format!("{}: {error}", root.display())))?;
    let mut sources = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|error| Error::Failed(format!("{}: {error}", file.display())))?;
        let name = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned();
        sources.push((name, text));
    }
    let (uses, faults) = audit(&sources, &table);
    for fault in &faults {
        println!("{fault}");
    }
    match faults.len() {
        0 => Ok(format!("{uses} uses in {} files", named_files(&table).len())),
        count => Err(Error::Failed(format!("{count} findings, the first: {}", faults[0]))),
    }
}

/// Rust files below `folder`, without build output and hidden folders.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            let is_built = name == "target" || name.starts_with("target-");
            if !is_built && !name.starts_with('.') {
                collect(&path, files)?;
            }
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The number of uses found, and the faults in them.
fn audit(sources: &[(String, String)], table: &str) -> (usize, Vec<String>) {
    let named = named_files(table);
    let mut unused = named.clone();
    let mut faults = Vec::new();
    let mut total = 0;
    for (file, text) in sources {
        let uses = match uses(text) {
            Ok(uses) => uses,
            Err(error) => {
                let at = error.span().start().line;
                faults.push(format!("{file}:{at}: cannot be cut into tokens: {error}"));
                continue;
            }
        };
        total += uses.len();
        if !uses.is_empty() {
            unused.remove(file);
        }
        for Use { line, lacks_proof } in uses {
            if !named.contains(file) {
                faults.push(format!("{file}:{line}: `unsafe` in a file that the table in {TABLE} does not name"));
            }
            if lacks_proof {
                faults.push(format!("{file}:{line}: no `// SAFETY:` comment just above"));
            }
        }
    }
    faults.extend(unused.iter().map(|file| format!("{TABLE}: names {file}, which contains no `unsafe`")));
    (total, faults)
}

/// The files that the table names: the back-ticked paths in the first column of each row that has
/// one, `a/{b,c}.rs` for two. Later columns are prose and may name other files.
fn named_files(table: &str) -> BTreeSet<String> {
    let rows = table.lines().filter(|line| line.trim_start().starts_with('|'));
    let files = |cell: &str| -> Vec<String> {
        let quoted = cell.split('`').skip(1).step_by(2);
        quoted.filter(|text| text.ends_with(".rs")).flat_map(expanded).collect()
    };
    rows.filter_map(|row| row.split('|').map(files).find(|files| !files.is_empty())).flatten().collect()
}

/// The paths of `a/{b,c}.rs`; of a path without braces itself.
fn expanded(path: &str) -> Vec<String> {
    match path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (names, after))) => names.split(',').map(|name| format!("{before}{name}{after}")).collect(),
        None => vec![path.to_owned()],
    }
}

struct Use {
    /// Counted from 1.
    line: usize,
    /// A block or an impl without a proof.
    lacks_proof: bool,
}

fn uses(text: &str) -> Result<Vec<Use>, LexError> {
    let Source { code, comments } = Source::new(text)?;
    let lines: Vec<(&str, &str)> = code.lines().zip(comments.lines()).collect();
    let is_use = |&(at, _): &(usize, &str)| {
        let before = code[..at].chars().next_back();
        let after = code[at + "unsafe".len()..].chars().next();
        // `r#unsafe` is a name.
        !before.is_some_and(|c| is_word(c) || c == '#') && !after.is_some_and(is_word)
    };
    // Assembly outside of functions needs no keyword, and has no block to attach a proof to.
    let assembly = code.match_indices("global_asm!").map(|(at, _)| at);
    let assembly = assembly.map(|at| Use { line: code[..at].matches('\n').count() + 1, lacks_proof: false });
    let uses = code
        .match_indices("unsafe")
        .filter(is_use)
        .map(|(at, word)| {
            let index = code[..at].matches('\n').count();
            let next = code[at + word.len()..].trim_start();
            let needs_proof = next.starts_with('{') || next.starts_with("impl");
            Use { line: index + 1, lacks_proof: needs_proof && !has_proof(&lines, index) }
        })
        .chain(assembly)
        .collect();
    Ok(uses)
}

/// Whether a `SAFETY:` comment is in the line or above it, with only more comment lines, attributes
/// and earlier lines of the same statement between. Each line comes as its code and its comments.
fn has_proof(lines: &[(&str, &str)], index: usize) -> bool {
    let is_proof = |(_, comments): &(&str, &str)| comments.contains("SAFETY:");
    if lines.get(index).is_some_and(is_proof) {
        return true;
    }
    let mut statement = 0;
    for line in lines[..index].iter().rev() {
        if is_proof(line) {
            return true;
        }
        let (code, comments) = (line.0.trim(), line.1.trim());
        let is_comment = code.is_empty() && !comments.is_empty();
        if is_comment || code.starts_with("#[") {
            continue;
        }
        statement += 1;
        // A literal is blank too. A literal that fills a line is rare, so a nearer comment may be
        // required there.
        if code.is_empty() || code.ends_with([';', '{', '}']) || statement > REACH {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE_TEXT: &str =
        "`c.rs` in prose\n| file | why |\n|---|---|\n| `a.rs` | see `z.rs` |\n| 2 | `b/{b,c}.rs`, `d.rs` |\n";

    fn faults(text: &str) -> Vec<String> {
        audit(&[("a.rs".to_owned(), text.to_owned())], "| `a.rs` |").1
    }

    #[test]
    fn the_first_cell_with_a_path_counts() {
        let names: Vec<String> = named_files(TABLE_TEXT).into_iter().collect();
        assert_eq!(names, ["a.rs", "b/b.rs", "b/c.rs", "d.rs"]);
    }

    #[test]
    fn a_file_outside_the_table_is_named_with_its_line() {
        let source = ("d.rs".to_owned(), "\n// unsafe\nunsafe fn f() {}\n".to_owned());
        let (uses, faults) = audit(&[source], "");
        assert_eq!(uses, 1);
        assert!(faults[0].starts_with("d.rs:3: "), "{faults:?}");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_a_fault() {
        assert_eq!(faults("unsafe fn f() {}\n}").first().map(|fault| &fault[..7]), Some("a.rs:2:"));
    }

    #[test]
    fn assembly_outside_of_functions_counts() {
        let source = ("d.rs".to_owned(), "use core::arch::global_asm;\nglobal_asm!(\"nop\");\n".to_owned());
        let (uses, faults) = audit(&[source], "");
        assert_eq!(uses, 1);
        assert!(faults[0].starts_with("d.rs:2: "), "{faults:?}");
    }

    #[test]
    fn a_stale_row_is_a_fault() {
        assert!(audit(&[], "| `a.rs` |").1[0].contains("names a.rs"));
        assert_eq!(faults("#![expect(unsafe_code)] let r#unsafe = \"unsafe\";").len(), 1);
    }

    #[test]
    fn proofs_are_found() {
        for proven in [
            "// SAFETY: x\nunsafe { f() }",
            "// SAFETY: x\n// and y\n#[inline]\nunsafe impl Send for T {}",
            "// SAFETY: x\nlet a = g(\n    b,\n    unsafe { f() },\n);",
            "let a = /* SAFETY: x */ unsafe { f() };",
            "/* SAFETY: x\n   y */\nunsafe { f() }",
            "#[unsafe(no_mangle)]\npub unsafe fn f() {}\nunsafe extern \"C\" {}",
            "match a {\n    // SAFETY: x\n    B => unsafe { f() },\n}",
        ] {
            assert_eq!(faults(proven), Vec::<String>::new(), "{proven}");
        }
    }

    #[test]
    fn a_proof_of_something_else_does_not_count() {
        for bare in [
            "fn g() { unsafe { f() } }",
            "// SAFETY: x\nunsafe { f() };\nunsafe { g() }",
            "// SAFETY: x\n\nunsafe { f() }",
            "// SAFETY: x\nunsafe impl Send for T {}\nunsafe impl Sync for T {}",
            "let s = g(\n\"SAFETY: x\", unsafe { f() });",
            "// safe\nunsafe\n{\n}",
        ] {
            assert_eq!(faults(bare).len(), 1, "{bare}: {:?}", faults(bare));
        }
    }
}
