//! Step `licences`: everything that cargo may link into a user's program can be had under terms that ask for no more
//! than a notice. Evaluates the SPDX expressions in the `license` fields; a package without one fails by name.

use crate::Error;
use crate::metadata::Metadata;

const ALLOWED: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "CC0-1.0",
    "0BSD",
    "Unlicense",
    "BSL-1.0",
];

/// Checks every package that is not ours.
pub(crate) fn check(metadata: &Metadata) -> Result<String, Error> {
    let mut faults = Vec::new();
    let foreign = metadata.packages.iter().filter(|package| !package.is_ours);
    let mut count = 0;
    for package in foreign {
        count += 1;
        let reason = match package.license.as_deref() {
            None => "states no licence".to_owned(),
            Some(text) => match is_satisfied(text) {
                Some(true) => continue,
                Some(false) => {
                    format!("is under `{text}`, which the list in xtask/src/test/licences.rs does not allow")
                }
                None => format!("states `{text}`, which is not a licence expression"),
            },
        };
        faults.push(format!("{} {} {reason}", package.name, package.version));
    }
    for fault in &faults {
        println!("{fault}");
    }
    match faults.first() {
        None => Ok(format!("{count} packages")),
        Some(first) => Err(Error::Failed(first.clone())),
    }
}

/// Whether the allowed licences satisfy the expression; `None` when it cannot be read. A slash is `OR`, as in
/// manifests from before cargo asked for SPDX.
fn is_satisfied(expression: &str) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = Words { words: spaced.split_whitespace().collect(), at: 0 };
    let value = words.alternatives()?;
    words.peek().is_none().then_some(value)
}

/// Recursive descent: `OR` binds weaker than `AND`, which binds weaker than `WITH`.
struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.peek() == Some(word);
        self.at += usize::from(is_next);
        is_next
    }

    fn alternatives(&mut self) -> Option<bool> {
        let mut value = self.conjunction()?;
        while self.takes("OR") {
            value |= self.conjunction()?;
        }
        Some(value)
    }

    fn conjunction(&mut self) -> Option<bool> {
        let mut value = self.term()?;
        while self.takes("AND") {
            value &= self.term()?;
        }
        Some(value)
    }

    fn term(&mut self) -> Option<bool> {
        if self.takes("(") {
            let value = self.alternatives()?;
            return self.takes(")").then_some(value);
        }
        let name = self.licence()?;
        if self.takes("WITH") {
            let exception = self.licence()?;
            return Some(ALLOWED.contains(&format!("{name} WITH {exception}").as_str()));
        }
        Some(ALLOWED.contains(&name))
    }

    fn licence(&mut self) -> Option<&'a str> {
        self.next().filter(|word| !matches!(*word, "OR" | "AND" | "WITH" | "(" | ")"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_allowed_alternative_is_enough() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0-only",
            "GPL-2.0/MIT",
            "LGPL-2.1-or-later OR MIT OR Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
            "GPL-2.0-only AND ISC OR Zlib",
        ] {
            assert_eq!(is_satisfied(good), Some(true), "{good}");
        }
    }

    #[test]
    fn every_conjunct_must_be_allowed() {
        for bad in [
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR ISC) AND (LGPL-2.1-only OR MPL-2.0)",
            "GPL-2.0-only WITH Classpath-exception-2.0",
            "MIT WITH Unheard-of-exception",
            "MIT AND GPL-2.0-only OR MPL-2.0",
        ] {
            assert_eq!(is_satisfied(bad), Some(false), "{bad}");
        }
    }

    #[test]
    fn nonsense_is_no_permission() {
        for nonsense in ["", "MIT OR", "(MIT", "MIT)", "MIT MIT", "OR", "MIT WITH", "()"] {
            assert_eq!(is_satisfied(nonsense), None, "{nonsense}");
        }
    }
}
