//! The modules of a crate, read from its tokens: what each defines, imports and names. It reads
//! tokens and not a syntax tree, because the arguments and bodies of macros count too, and because
//! a `cfg` must not hide a file.

use crate::Error;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// One module: a file, or a block inside one.
#[derive(Default)]
pub(super) struct Module {
    /// Its file.
    pub(super) file: PathBuf,
    /// The index of the module that declares it; the root is its own parent.
    pub(super) parent: usize,
    /// Modules declared here. A `cfg` may choose between several of one name.
    pub(super) children: BTreeMap<String, Vec<usize>>,
    /// Names defined here.
    pub(super) items: BTreeSet<String>,
    /// Its `use` declarations, one entry per leaf.
    pub(super) imports: Vec<Import>,
    /// Paths of at least two names in its code.
    pub(super) paths: Vec<Vec<String>>,
    /// Every word of its code but those of its declarations.
    pub(super) words: BTreeSet<String>,
}

/// One leaf of a `use` declaration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Import {
    /// The path; without the star, if it ends in one.
    pub(super) path: Vec<String>,
    /// The name in this module: `_` for none, `*` for everything in the path.
    pub(super) name: String,
    /// Whether other modules may import it from here.
    pub(super) is_public: bool,
}

/// Reads the crate whose first file is `root`, all of its modules but those of tests. The first
/// module is the root.
pub(super) fn modules(root: &Path) -> Result<Vec<Module>, Error> {
    let mut modules = Vec::new();
    let folder = root.parent().unwrap_or(root).to_path_buf();
    file(&mut modules, root.to_path_buf(), folder, 0)?;
    Ok(modules)
}

/// Reads a file as the next module; the files of the modules that it declares are in `folder`.
fn file(modules: &mut Vec<Module>, path: PathBuf, folder: PathBuf, parent: usize) -> Result<usize, Error> {
    let failed = |why: String| Error::Failed(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    let tokens: TokenStream = text.parse().map_err(|error| failed(format!("not Rust: {error}")))?;
    let here = modules.len();
    modules.push(Module { file: path, parent, ..Module::default() });
    block(modules, here, &folder, tokens)?;
    Ok(here)
}

/// The visibility and attributes before an item.
#[derive(Default)]
struct Head {
    is_test: bool,
    is_public: bool,
    /// The text of a `path` attribute.
    path: Option<String>,
}

impl Head {
    fn attribute(&mut self, tokens: TokenStream) {
        let text: String = tokens.to_string().chars().filter(|c| !c.is_whitespace()).collect();
        self.is_test |= text == "cfg(test)" || text.starts_with("cfg(all(test,") || text == "test";
        if let Some(path) = text.strip_prefix("path=\"") {
            self.path = Some(path.trim_end_matches('"').to_owned());
        }
    }
}

/// The items of one module.
fn block(modules: &mut Vec<Module>, here: usize, folder: &Path, tokens: TokenStream) -> Result<(), Error> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let (mut at, mut head) = (0, Head::default());
    while at < tokens.len() {
        let next = |n: usize| tokens.get(at + n).and_then(word);
        if is(&tokens[at], '#') {
            at += 1 + usize::from(tokens.get(at + 1).is_some_and(|token| is(token, '!')));
            if let Some(TokenTree::Group(group)) = tokens.get(at) {
                head.attribute(group.stream());
            }
            at += 1;
            continue;
        }
        if next(0).as_deref() == Some("pub") {
            head.is_public = true;
            at += 1 + usize::from(
                matches!(tokens.get(at + 1), Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Parenthesis),
            );
            continue;
        }
        let end = end_of_item(&tokens, at);
        let item = &tokens[at..end];
        match (next(0).as_deref(), next(1)) {
            _ if head.is_test => {}
            (Some("use"), _) => leaves(item, head.is_public, &mut modules[here].imports),
            (Some("mod"), Some(name)) => {
                let child = match item.last() {
                    Some(TokenTree::Group(group)) => {
                        let (child, inside) = (modules.len(), folder.join(&name));
                        let file = modules[here].file.clone();
                        modules.push(Module { file, parent: here, ..Module::default() });
                        block(modules, child, &inside, group.stream())?;
                        child
                    }
                    _ => declared(modules, here, folder, &name, head.path.as_deref())?,
                };
                modules[here].children.entry(name).or_default().push(child);
            }
            _ => {
                modules[here].items.extend(defined(item));
                scan(item, &mut modules[here]);
            }
        }
        (at, head) = (end, Head::default());
    }
    Ok(())
}

/// The module `mod name;`.
fn declared(
    modules: &mut Vec<Module>,
    here: usize,
    folder: &Path,
    name: &str,
    path: Option<&str>,
) -> Result<usize, Error> {
    if let Some(path) = path {
        let path = normal(&modules[here].file.parent().unwrap_or(folder).join(path));
        let inside = path.parent().unwrap_or(folder).to_path_buf();
        return file(modules, path, inside, here);
    }
    let (flat, nested) = (folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs"));
    let path = if nested.is_file() { nested } else { flat };
    file(modules, path, folder.join(name), here)
}

/// Without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

/// The index behind the next `;` or block in braces, which is where an item ends. An item may
/// continue behind a block, as by the `;` of a constant; that remainder defines nothing.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is(token, ';'),
    };
    // Braces inside of a `use` are part of its tree.
    let is_use = word(&tokens[at]).as_deref() == Some("use");
    let end = tokens[at..].iter().position(|token| if is_use { is(token, ';') } else { ends(token) });
    end.map_or(tokens.len(), |end| at + end + 1)
}

/// The name that an item defines, if any.
fn defined(item: &[TokenTree]) -> Option<String> {
    const KINDS: [&str; 9] = ["fn", "struct", "enum", "union", "trait", "type", "static", "const", "mut"];
    let first = item.first().and_then(word)?;
    if first == "macro_rules" {
        return item.get(2).and_then(word);
    }
    if first == "impl" {
        return None;
    }
    item.windows(2).find_map(|pair| {
        let (kind, name) = (word(&pair[0])?, word(&pair[1])?);
        let is_name = KINDS.contains(&kind.as_str()) && !KINDS.contains(&name.as_str());
        (is_name && !["unsafe", "extern", "async"].contains(&name.as_str())).then_some(name)
    })
}

/// Collects the paths and words of code, also inside of groups.
fn scan(tokens: &[TokenTree], into: &mut Module) {
    let mut at = 0;
    while at < tokens.len() {
        if let TokenTree::Group(group) = &tokens[at] {
            scan(&group.stream().into_iter().collect::<Vec<_>>(), into);
        }
        let Some(first) = word(&tokens[at]) else {
            at += 1;
            continue;
        };
        if first == "use" && tokens.get(at + 1).is_some_and(|token| !is(token, '<')) {
            let end = at + tokens[at..].iter().position(|token| is(token, ';')).unwrap_or(tokens.len() - at);
            let mut inner = Vec::new();
            leaves(&tokens[at..end], false, &mut inner);
            into.paths.extend(inner.into_iter().map(|import| import.path));
            at = end;
            continue;
        }
        let follows =
            at > 0 && (is(&tokens[at - 1], '.') || is(&tokens[at - 1], ':') && at > 1 && is(&tokens[at - 2], ':'));
        let mut path = vec![first];
        at += 1;
        while let Some(name) = step(tokens, at) {
            path.push(name);
            at += 3;
        }
        into.words.insert(path[0].clone());
        if path.len() > 1 && !follows {
            into.paths.push(path);
        }
    }
}

/// The name in `:: name` at this index.
fn step(tokens: &[TokenTree], at: usize) -> Option<String> {
    let is_colons = is(tokens.get(at)?, ':') && is(tokens.get(at + 1)?, ':');
    is_colons.then(|| tokens.get(at + 2).and_then(word))?
}

/// The leaves of `use …`, without what comes behind the tree.
fn leaves(tokens: &[TokenTree], is_public: bool, into: &mut Vec<Import>) {
    tree(tokens.get(1..).unwrap_or_default(), &[], is_public, into);
}

fn tree(tokens: &[TokenTree], before: &[String], is_public: bool, into: &mut Vec<Import>) {
    let (mut path, mut name) = (before.to_vec(), None);
    let mut tokens = tokens.iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "as" => name = tokens.next().and_then(word),
            TokenTree::Ident(ident) if ident == "self" && !path.is_empty() => {}
            TokenTree::Ident(ident) => path.push(ident.to_string()),
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                inner.split(|token| is(token, ',')).for_each(|part| tree(part, &path, is_public, into));
                return;
            }
            token if is(token, '*') => name = Some("*".to_owned()),
            _ => {}
        }
    }
    if let Some(last) = path.last() {
        let name = name.unwrap_or_else(|| last.clone());
        into.push(Import { path, name, is_public });
    }
}

fn word(token: &TokenTree) -> Option<String> {
    if let TokenTree::Ident(ident) = token { Some(ident.to_string()) } else { None }
}

fn is(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Module> {
        let mut modules = vec![Module::default()];
        block(&mut modules, 0, Path::new(""), text.parse().expect("tokens")).expect("no files");
        modules
    }

    #[test]
    fn definitions_imports_and_paths_are_distinguished() {
        let text = "pub(crate) use a::{B as C, self, d::*}; pub const fn f() -> u8 { use x::Y; crate::g::h() }
            macro_rules! m { () => { $crate::k::l() } } static mut S: [u8; 2] = [0; 2]; impl Z for W { fn not() {} }";
        let root = &read(text)[0];
        let import = |path: &[&str], name: &str| Import {
            path: path.iter().map(|&name| name.to_owned()).collect(),
            name: name.to_owned(),
            is_public: true,
        };
        assert_eq!(root.imports, [import(&["a", "B"], "C"), import(&["a"], "a"), import(&["a", "d"], "*")]);
        assert_eq!(root.items.iter().collect::<Vec<_>>(), ["S", "f", "m"]);
        assert_eq!(root.paths, [vec!["x", "Y"], vec!["crate", "g", "h"], vec!["crate", "k", "l"]]);
    }

    #[test]
    fn modules_for_tests_are_left_out() {
        let text = "#[cfg(test)] mod tests { use super::*; } #[cfg(all(test, unix))] use a::B; mod c { fn d() {} }";
        let read = read(text);
        assert_eq!(read.len(), 2);
        assert!(read[0].imports.is_empty() && read[0].children.contains_key("c"));
        assert!(read[1].items.contains("d"));
    }
}
