//! Step `licences`: the licence of everything that cargo may link into a user's program must
//! require no more than a notice. Evaluates the SPDX expressions in the `license` fields; a package
//! without one fails by name.

use crate::Error;
use crate::metadata::Metadata;
use spdx::{Expression, Licensee, ParseMode};

/// The file in which a person adds a licence.
const LIST: &str = "xtask/src/test/licences.rs";
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
    let allowed = allowed()?;
    let mut faults = Vec::new();
    let foreign = metadata.packages.iter().filter(|package| !package.is_ours);
    let mut count = 0;
    for package in foreign {
        count += 1;
        let reason = match package.license.as_deref() {
            None => "states no licence".to_owned(),
            Some(text) => match is_satisfied(text, &allowed) {
                Ok(true) => continue,
                Ok(false) => format!("is under `{text}`, which the list in {LIST} does not allow"),
                Err(error) => format!("states `{text}`, which is not a licence expression: {}", error.reason),
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

/// Whether the allowed licences satisfy the expression; an error explains why it cannot be read. A
/// slash is `OR`, as in manifests from before cargo required SPDX.
fn is_satisfied(expression: &str, allowed: &[Licensee]) -> Result<bool, spdx::ParseError> {
    let mode = ParseMode { allow_slash_as_or_operator: true, allow_deprecated: true, ..ParseMode::STRICT };
    let expression = Expression::parse_mode(expression, mode)?;
    Ok(expression.evaluate(|required| allowed.iter().any(|licence| licence.satisfies(required))))
}

fn allowed() -> Result<Vec<Licensee>, Error> {
    let parse = |name: &&str| {
        Licensee::parse(name).map_err(|e| Error::Failed(format!("{LIST}: `{name}` is no SPDX licence: {}", e.reason)))
    };
    ALLOWED.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_satisfied(expression: &str) -> Option<bool> {
        super::is_satisfied(expression, &allowed().expect("each name is in the SPDX list")).ok()
    }

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
            "MIT WITH LLVM-exception",
            "LicenseRef-MIT",
            "MIT AND GPL-2.0-only OR MPL-2.0",
        ] {
            assert_eq!(is_satisfied(bad), Some(false), "{bad}");
        }
    }

    #[test]
    fn an_unreadable_expression_is_refused() {
        for nonsense in
            ["", "MIT OR", "(MIT", "MIT)", "MIT MIT", "OR", "MIT WITH", "()", "MIT WITH Unheard-of-exception", "Free"]
        {
            assert_eq!(is_satisfied(nonsense), None, "{nonsense}");
        }
    }
}
