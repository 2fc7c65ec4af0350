//! The parts of `cargo metadata` that the checks use.

use crate::{Error, child};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Everything below the workspace's manifest.
pub(crate) struct Metadata {
    /// All packages, those of the workspace and those it uses on any platform with any feature.
    pub(crate) packages: Vec<Package>,
    /// The target folder.
    pub(crate) target: PathBuf,
}

/// One package.
#[derive(Default)]
pub(crate) struct Package {
    /// Its name in the manifest.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// Whether the package is in this repository.
    pub(crate) is_ours: bool,
    /// Its `license` field.
    pub(crate) license: Option<String>,
    /// Its features, sorted by name.
    pub(crate) features: Vec<String>,
    /// Names of the packages that it or its build script needs; not those that only its tests need.
    pub(crate) needs: Vec<String>,
    /// Names of the packages that only its tests need.
    pub(crate) tests_need: Vec<String>,
    /// The folder of its manifest.
    pub(crate) folder: PathBuf,
}

impl Metadata {
    /// Runs `cargo metadata`.
    pub(crate) fn read() -> Result<Self, Error> {
        let mut command = child::cargo();
        command.args(["metadata", "--quiet", "--format-version", "1", "--all-features"]);
        Self::parse(&child::capture(&mut command, Duration::from_secs(300))?)
            .ok_or_else(|| Error::Failed("cargo metadata: not the format that version 1 promises".into()))
    }

    /// The workspace's own packages.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.is_ours)
    }

    fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let members = value["workspace_members"].as_array()?;
        let packages = value["packages"].as_array()?.iter().map(|package| Package::parse(package, members));
        Some(Self { packages: packages.collect::<Option<_>>()?, target: value["target_directory"].as_str()?.into() })
    }
}

impl Package {
    fn parse(value: &Value, members: &[Value]) -> Option<Self> {
        let dependencies = value["dependencies"].as_array()?;
        let named = |of_tests: bool| -> Option<Vec<String>> {
            let chosen = dependencies.iter().filter(|dependency| (dependency["kind"] == "dev") == of_tests);
            chosen.map(|needed| Some(needed["name"].as_str()?.to_owned())).collect()
        };
        let manifest = PathBuf::from(value["manifest_path"].as_str()?);
        let mut features: Vec<String> = value["features"].as_object()?.keys().cloned().collect();
        features.sort_unstable();
        Some(Self {
            name: value["name"].as_str()?.to_owned(),
            version: value["version"].as_str()?.to_owned(),
            is_ours: members.contains(&value["id"]),
            license: value["license"].as_str().map(str::to_owned),
            features,
            needs: named(false)?,
            tests_need: named(true)?,
            folder: manifest.parent()?.to_path_buf(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dev_dependencies_are_left_out() {
        let text = r#"{"packages":[{"id":"a 1","name":"a","version":"1","license":null,"manifest_path":"/w/a/Cargo.toml","features":{"y":[],"x":[]},
            "dependencies":[{"name":"n","kind":null},{"name":"b","kind":"build"},{"name":"d","kind":"dev"}]}],
            "workspace_members":["a 1"],"target_directory":"/t"}"#;
        let metadata = Metadata::parse(text).expect("it is well formed");
        let package = metadata.ours().next().expect("a is a member");
        assert_eq!(package.needs, ["n", "b"]);
        assert_eq!(package.tests_need, ["d"]);
        assert_eq!(package.folder, PathBuf::from("/w/a"));
        assert_eq!(package.features, ["x", "y"]);
        assert_eq!(package.license, None);
    }

    #[test]
    fn another_format_is_refused() {
        assert!(Metadata::parse("{}").is_none());
    }
}
