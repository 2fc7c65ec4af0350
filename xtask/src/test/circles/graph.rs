//! The imports between the modules of one crate, and the siblings that import each other in a
//! circle.

use super::read::Module;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// For each pair of files, the names that the first one imports from the second.
type Taken = BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>;

/// Definitions: the module that has each, and its name.
type Found = BTreeSet<(usize, String)>;

/// The longest chain of re-exports to one definition. The limit ends the search when declarations
/// form a circle.
const DEPTH: u32 = 16;

/// Sibling modules each of which reaches all others of its circle.
pub(super) struct Circle {
    /// The file of each sibling; its folder belongs to it.
    pub(super) siblings: BTreeSet<PathBuf>,
    /// The imports inside of the circle.
    pub(super) taken: Taken,
}

/// The circles of a crate. Imports between a module and those that it declares, or that declare it,
/// are inside of one unit and do not count.
pub(super) fn circles(modules: &[Module]) -> Vec<Circle> {
    let mut levels: BTreeMap<usize, BTreeMap<(usize, usize), Taken>> = BTreeMap::new();
    for ((from, to), names) in edges(modules) {
        let (from_line, to_line) = (line(modules, from), line(modules, to));
        let same = from_line.iter().zip(&to_line).take_while(|(a, b)| a == b).count();
        let (Some(&a), Some(&b), Some(&above)) = (from_line.get(same), to_line.get(same), from_line.get(same - 1))
        else {
            continue;
        };
        let taken = levels.entry(above).or_default().entry((a, b)).or_default();
        let files = (modules[from].file.clone(), modules[to].file.clone());
        taken.entry(files).or_default().extend(names);
    }
    levels.values().flat_map(|level| circles_of(modules, level)).collect()
}

/// The circles between the children of one module.
fn circles_of(modules: &[Module], level: &BTreeMap<(usize, usize), Taken>) -> Vec<Circle> {
    let reach = |from: usize| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            open.extend(level.keys().filter(|(from, to)| *from == module && reached.insert(*to)).map(|(_, to)| *to));
        }
        reached
    };
    let reached: BTreeMap<usize, BTreeSet<usize>> = level.keys().map(|&(from, _)| (from, reach(from))).collect();
    let circle = |module: &usize| -> BTreeSet<usize> {
        let back = |other: &&usize| reached.get(other).is_some_and(|reached| reached.contains(module));
        reached[module].iter().filter(back).copied().collect()
    };
    let circles: BTreeSet<BTreeSet<usize>> = reached.keys().map(circle).filter(|circle| circle.len() > 1).collect();
    let taken = |circle: &BTreeSet<usize>| {
        let inside = level.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
        inside.flat_map(|(_, taken)| taken.clone()).collect()
    };
    let siblings = |circle: &BTreeSet<usize>| circle.iter().map(|&module| modules[module].file.clone()).collect();
    circles.iter().map(|circle| Circle { siblings: siblings(circle), taken: taken(circle) }).collect()
}

/// The modules from the root down to this one.
fn line(modules: &[Module], mut module: usize) -> Vec<usize> {
    let mut line = vec![module];
    while module != 0 {
        module = modules[module].parent;
        line.push(module);
    }
    line.reverse();
    line
}

/// The imports of a crate between modules that are files; a block belongs to its file. A name
/// belongs to the module that defines it, also where another one re-exports it. A re-export alone
/// is no use.
fn edges(modules: &[Module]) -> BTreeMap<(usize, usize), BTreeSet<String>> {
    let names = Names(modules);
    let mut edges = BTreeMap::<(usize, usize), BTreeSet<String>>::new();
    for (at, module) in modules.iter().enumerate() {
        let mut found = Found::new();
        for path in &module.paths {
            found.extend(names.path(at, path, DEPTH));
        }
        for import in &module.imports {
            if import.name == "*" {
                for target in names.modules(at, &import.path, DEPTH) {
                    let taken = module.words.iter().filter(|word| !module.defines(word));
                    found.extend(taken.flat_map(|word| names.name(target, word, DEPTH)));
                }
            } else if !import.is_public || module.words.contains(&import.name) {
                found.extend(names.path(at, &import.path, DEPTH));
            }
        }
        let here = with_file(modules, at);
        for (to, name) in found {
            let to = with_file(modules, to);
            if to != here {
                edges.entry((here, to)).or_default().insert(name);
            }
        }
    }
    edges
}

/// The module of the file that contains this one.
fn with_file(modules: &[Module], mut module: usize) -> usize {
    while module != 0 && modules[module].file == modules[modules[module].parent].file {
        module = modules[module].parent;
    }
    module
}

impl Module {
    /// Whether the module defines the name, or imports it by name.
    fn defines(&self, name: &str) -> bool {
        self.items.contains(name)
            || self.children.contains_key(name)
            || self.imports.iter().any(|import| import.name == name)
    }
}

/// Resolves the names of a crate's modules.
struct Names<'a>(&'a [Module]);

impl Names<'_> {
    /// The definitions that a path in module `at` names; none for those of other crates. What a
    /// macro defines belongs to the module in which it is found.
    fn path(&self, at: usize, path: &[String], depth: u32) -> Found {
        let Some((starts, rest)) = self.start(at, path, depth) else { return Found::new() };
        let mut found = Found::new();
        for start in starts {
            let mut here = start;
            for (n, name) in rest.iter().enumerate() {
                let inner = self.modules_named(here, name, depth);
                if let Some(&inner) = inner.first().filter(|_| inner.len() == 1 && n + 1 < rest.len()) {
                    here = inner;
                    continue;
                }
                if inner.is_empty() {
                    let here_defined = || [(here, name.clone())].into();
                    let named = self.name(here, name, depth);
                    found.extend(if named.is_empty() && !self.is_foreign(here, name, depth) {
                        here_defined()
                    } else {
                        named
                    });
                } else {
                    found.extend(inner.iter().flat_map(|&inner| self.below(inner, &rest[n + 1..], depth)));
                }
                break;
            }
        }
        found
    }

    /// The definitions in a module that the remaining part of a path names.
    fn below(&self, module: usize, rest: &[String], depth: u32) -> Found {
        if rest.is_empty() || depth == 0 {
            return Found::new();
        }
        let path: Vec<String> = std::iter::once("self".to_owned()).chain(rest.iter().cloned()).collect();
        self.path(module, &path, depth - 1)
    }

    /// The modules in which a path begins, and what follows them; `None` for paths into other
    /// crates.
    fn start<'p>(&self, at: usize, path: &'p [String], depth: u32) -> Option<(Vec<usize>, &'p [String])> {
        let parent = |module: usize| self.0[module].parent;
        let mut here = match path.first()?.as_str() {
            "crate" => 0,
            "self" => at,
            "super" => parent(at),
            first => {
                let modules = self.modules_named(at, first, depth);
                return (!modules.is_empty()).then_some((modules, &path[1..]));
            }
        };
        let ups = path[1..].iter().take_while(|name| *name == "super").count();
        for _ in 0..ups {
            here = parent(here);
        }
        Some((vec![here], &path[1 + ups..]))
    }

    /// The modules that a whole path names.
    fn modules(&self, at: usize, path: &[String], depth: u32) -> Vec<usize> {
        let Some((mut here, rest)) = self.start(at, path, depth) else { return Vec::new() };
        for name in rest {
            here = here.into_iter().flat_map(|module| self.modules_named(module, name, depth)).collect();
        }
        here
    }

    /// The modules that module `at` knows by this name: its own, and imported ones.
    fn modules_named(&self, at: usize, name: &str, depth: u32) -> Vec<usize> {
        let module = &self.0[at];
        if let Some(children) = module.children.get(name) {
            return children.clone();
        }
        if depth == 0 {
            return Vec::new();
        }
        let same = module.imports.iter().filter(|import| import.name == name && import.path != [name]);
        same.flat_map(|import| self.modules(at, &import.path, depth - 1)).collect()
    }

    /// The definitions that module `at` knows by this name.
    fn name(&self, at: usize, name: &str, depth: u32) -> Found {
        let module = &self.0[at];
        if module.items.contains(name) {
            return [(at, name.to_owned())].into();
        }
        if depth == 0 {
            return Found::new();
        }
        let imports = module.imports.iter();
        let by_name: Found = imports
            .clone()
            .filter(|import| import.name == name && import.path != [name])
            .flat_map(|import| self.path(at, &import.path, depth - 1))
            .collect();
        if !by_name.is_empty() {
            return by_name;
        }
        let globs = imports.filter(|import| import.name == "*");
        let targets = globs.flat_map(|import| self.modules(at, &import.path, depth - 1));
        targets.flat_map(|target| self.name(target, name, depth - 1)).collect()
    }

    /// Whether module `at` imports the name from another crate.
    fn is_foreign(&self, at: usize, name: &str, depth: u32) -> bool {
        let mut imports = self.0[at].imports.iter().filter(|import| import.name == name);
        imports.any(|import| self.path(at, &import.path, depth.saturating_sub(1)).is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::circles::read;

    /// Imports and circles of a crate, which is given as files and their texts.
    fn look(files: &[(&str, &str)]) -> (Vec<String>, Vec<Vec<String>>) {
        let thread = std::thread::current().id();
        let folder = std::env::temp_dir().join(format!("hamr-circles-{}-{thread:?}", std::process::id()));
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            std::fs::write(path, text).expect("written");
        }
        let modules = read::modules(&folder.join("lib.rs")).expect("Rust");
        std::fs::remove_dir_all(&folder).expect("removed");
        let name = |path: &PathBuf| path.strip_prefix(&folder).expect("inside").display().to_string();
        let edges = edges(&modules).into_iter().map(|((from, to), names)| {
            let names: Vec<String> = names.into_iter().collect();
            format!("{} -> {}: {}", name(&modules[from].file), name(&modules[to].file), names.join(", "))
        });
        let circles = circles(&modules);
        (edges.collect(), circles.iter().map(|circle| circle.siblings.iter().map(name).collect()).collect())
    }

    #[test]
    fn a_name_belongs_to_the_file_that_defines_it() {
        let (edges, circles) = look(&[
            ("lib.rs", "mod a; mod b; pub use a::*;"),
            ("a/mod.rs", "mod x; pub(crate) use x::{X, make as y}; pub struct A;"),
            ("a/x.rs", "pub struct X; pub fn make() {}"),
            ("b.rs", "use crate::{a, a::X}; use super::a::*; fn f() { a::y(); let z = A; }"),
        ]);
        assert_eq!(edges, ["b.rs -> a/mod.rs: A", "b.rs -> a/x.rs: X, make"]);
        assert!(circles.is_empty(), "{circles:?}");
    }

    #[test]
    fn a_circle_is_found_through_other_files_and_macros() {
        let (_, circles) = look(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "pub struct A(crate::b::B);"),
            ("b.rs", "use crate::c::C; pub struct B;"),
            ("c.rs", "pub struct C; fn f() { println!(\"{}\", crate::a::A::NAME); }"),
            ("d.rs", "use crate::a::A;"),
        ]);
        assert_eq!(circles, [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn folders_are_siblings_whichever_of_their_files_import() {
        let (_, circles) = look(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod x; pub struct A;"),
            ("a/x.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
        ]);
        assert_eq!(circles, [["a/mod.rs", "b.rs"]]);
    }

    #[test]
    fn a_module_and_what_it_declares_are_one_thing() {
        let (_, circles) = look(&[
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod x; mod y; use x::X; pub struct A(X);"),
            ("a/x.rs", "use super::{A, y::Y}; pub struct X;"),
            ("a/y.rs", "use super::A; #[cfg(test)] mod tests { use crate::a::x::X; } pub struct Y;"),
        ]);
        assert!(circles.is_empty(), "{circles:?}");
    }
}
