//! Step `layering`: the packages that each package may use. `ARCHITECTURE.md` draws it; this table
//! enforces it. The left package may use those on the right, never the other way round. The
//! libraries never use `hamr-kernels`: a demonstration must not end up in users' programs. Tests
//! may use anything, so dev-dependencies are not checked.

use crate::Error;
use crate::metadata::{Metadata, Package};

const ALLOWED: &[(&str, &[&str])] = &[
    ("hamr-shared-abi", &[]),
    ("hamr-comm-macros", &[]),
    ("hamr-linker", &[]),
    ("hamr-comm", &["hamr-shared-abi", "hamr-comm-macros", "hamr-linker"]),
    ("hamr-kernels", &["hamr-comm"]),
    ("hamr-device-fw", &["hamr-comm", "hamr-linker"]),
    ("hamr-bench-image", &["hamr-device-fw", "hamr-kernels", "hamr-linker"]),
    ("hamr-device-fw-demo", &["hamr-device-fw", "hamr-kernels", "hamr-linker"]),
    ("hamr-gas", &["hamr-comm", "hamr-linker"]),
    ("hamr-tests-kernels", &["hamr-comm", "hamr-gas", "hamr-kernels"]),
    ("hamr-xacc-macros", &[]),
    ("hamr-xacc", &["hamr-comm", "hamr-xacc-macros"]),
    ("hamr-programs", &["hamr-comm", "hamr-xacc"]),
    ("hamr-programs-image", &["hamr-device-fw", "hamr-linker", "hamr-programs"]),
    ("hamr-tests-xacc", &["hamr-comm", "hamr-programs", "hamr-tests-kernels", "hamr-xacc"]),
    (
        "hamr-tests-image",
        &["hamr-comm", "hamr-device-fw", "hamr-kernels", "hamr-linker", "hamr-tests-kernels", "hamr-tests-xacc"],
    ),
    ("hamr-tests-model", &["hamr-shared-abi", "hamr-comm"]),
    ("hamr-tests-module", &["hamr-comm"]),
    ("hamr-tests-module-2", &["hamr-comm"]),
    ("hamr-tests-micro", &["hamr-comm", "hamr-device-fw", "hamr-kernels", "hamr-linker", "hamr-tests-kernels"]),
    ("hamr-tests-microvm", &["hamr-device-fw", "hamr-kernels", "hamr-linker", "hamr-tests-kernels"]),
    ("hamr-qemu", &["hamr-shared-abi", "hamr-linker"]),
    ("hamr-net", &["hamr-shared-abi"]),
    ("hamr", &["hamr-comm", "hamr-comm-macros", "hamr-device-fw", "hamr-linker", "hamr-net", "hamr-qemu"]),
    ("hamr-verbs", &["hamr", "hamr-comm", "hamr-linker"]),
    ("hamr-verbs-image", &["hamr-device-fw", "hamr-linker", "hamr-verbs"]),
    ("hamr-hca", &["hamr", "hamr-comm", "hamr-verbs"]),
    (
        "hamr-bench",
        &["hamr", "hamr-comm", "hamr-gas", "hamr-kernels", "hamr-net", "hamr-programs", "hamr-verbs", "hamr-xacc"],
    ),
    ("hamr-cli", &["hamr", "hamr-comm", "hamr-kernels"]),
    ("hamr-programs-host", &["hamr", "hamr-programs"]),
    ("hamr-gas-sim", &["hamr-gas"]),
    ("hamr-gas-process", &["hamr", "hamr-comm", "hamr-gas"]),
    ("hamr-gasnet", &["hamr", "hamr-comm", "hamr-gas"]),
    ("xtask", &["hamr-linker", "hamr-qemu"]),
];

/// The package with cross-crate tests, which may use everything.
const TESTS: &str = "hamr-tests";

/// Checks every edge between packages of the workspace.
pub(crate) fn check(metadata: &Metadata) -> Result<String, Error> {
    let ours: Vec<&Package> = metadata.ours().collect();
    let faults = faults(&ours);
    for fault in &faults {
        println!("{fault}");
    }
    match faults.first() {
        None => Ok(format!("{} packages", ours.len())),
        Some(first) => Err(Error::Failed(first.clone())),
    }
}

fn faults(ours: &[&Package]) -> Vec<String> {
    let mut faults = Vec::new();
    for package in ours.iter().filter(|package| package.name != TESTS) {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package.name) else {
            faults.push(format!("{}: a new package needs its row in xtask/src/test/layering.rs", package.name));
            continue;
        };
        let inside = package.needs.iter().filter(|needed| ours.iter().any(|ours| ours.name == **needed));
        for needed in inside.filter(|needed| !allowed.contains(&needed.as_str())) {
            faults.push(format!(
                "{} -> {needed}: not an edge of xtask/src/test/layering.rs, which lets {} use {}",
                package.name,
                package.name,
                if allowed.is_empty() { "no other package".to_owned() } else { format!("only {}", allowed.join(", ")) },
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, needs: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            is_ours: true,
            needs: needs.iter().map(|&name| name.to_owned()).collect(),
            ..Package::default()
        }
    }

    #[test]
    fn an_edge_outside_the_table_is_named() {
        let (kernels, comm) =
            (package("hamr-kernels", &["hamr-comm"]), package("hamr-comm", &["hamr-kernels", "spin"]));
        let faults = faults(&[&kernels, &comm]);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("hamr-comm -> hamr-kernels"), "{faults:?}");
    }

    #[test]
    fn tests_may_use_everything_and_unknown_packages_need_a_row() {
        let (tests, stranger) = (package("hamr-tests", &["xtask"]), package("hamr-new", &[]));
        let faults = faults(&[&tests, &stranger, &package("xtask", &[])]);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("hamr-new: "), "{faults:?}");
    }

    #[test]
    fn the_table_has_no_circle() {
        // Each row names only packages of rows above it.
        for (row, (name, allowed)) in ALLOWED.iter().enumerate() {
            let above = |wanted: &str| ALLOWED[..row].iter().any(|(name, _)| *name == wanted);
            assert!(allowed.iter().all(|wanted| above(wanted)), "{name}");
        }
    }
}
