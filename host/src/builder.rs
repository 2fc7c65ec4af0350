//! The one function that builds images. `Image::find`, `hamr image` and `cargo xtask image` all come here.

use crate::{Error, Target};
use hamr_comm::abi::image::ImageKind;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildRequest {
    /// Name of the binary, or of the package that has just one.
    pub name: String,
    /// For what.
    pub target: Target,
    /// A folder of the cargo workspace.
    pub dir: PathBuf,
}

/// Builds an image and returns its path. Always with `--target`, in the release profile, with compiler flags of its own: a
/// `RUSTFLAGS` in the environment would otherwise silently change what is built.
///
/// # Errors
/// When cargo is missing, when it fails (its own messages are on standard error), or when no binary has the name.
pub fn build(request: &BuildRequest) -> Result<PathBuf, Error> {
    let BuildRequest { name, target, dir } = request;
    let no = |why: String| Error::NoImage { name: name.clone(), why };
    let package = package_of(name, dir)?;
    eprintln!("hamr: building image {name} for {}", target.triple);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(&cargo);
    command
        .current_dir(dir)
        .args(["build", "--release", "--quiet", "--message-format=json-render-diagnostics"])
        .args(["--package", &package.package, "--bin", &package.bin, "--target", &target.triple])
        .env("CARGO_ENCODED_RUSTFLAGS", flags(target.kind).join("\u{1f}"))
        .env_remove("RUSTFLAGS")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if std::io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let output = command.stdout(Stdio::piped()).output().map_err(|e| {
        no(format!(
            "cannot run `{}`: {e}; install Rust, or set HAMR_IMAGE to a built image",
            Path::new(&cargo).display()
        ))
    })?;
    if !output.status.success() {
        return Err(no(format!(
            "`cargo build --release --package {} --target {}` in {} failed ({}); if the target is not installed: \
             `rustup target add {}`",
            package.package,
            target.triple,
            dir.display(),
            output.status,
            target.triple
        )));
    }
    // One JSON object a line; the binary's has "executable".
    let path = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|m| m["reason"] == "compiler-artifact" && m["target"]["name"] == package.bin.as_str())
        .find_map(|m| m["executable"].as_str().map(PathBuf::from));
    path.ok_or_else(|| no(format!("cargo built package {} but no binary `{}`", package.package, package.bin)))
}

fn flags(kind: ImageKind) -> Vec<&'static str> {
    match kind {
        // Bare metal has no unwinder; hosted images keep it, so that a panic ends one call and not the process.
        ImageKind::BARE => vec!["-Cpanic=abort", "--cfg=hamr_bare"],
        _ => vec![],
    }
}

struct Binary {
    package: String,
    bin: String,
}

/// The package that holds the binary `name`, by the binary's or the package's name.
fn package_of(name: &str, dir: &Path) -> Result<Binary, Error> {
    let no = |why: String| Error::NoImage { name: name.into(), why };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(dir)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| no(format!("cannot run cargo: {e}; install Rust, or set HAMR_IMAGE to a built image")))?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|_| {
        no(format!("cargo metadata failed in {}: {}", dir.display(), String::from_utf8_lossy(&output.stderr).trim()))
    })?;
    let mut known = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let Some(package_name) = package["name"].as_str() else { continue };
        let targets = package["targets"].as_array().into_iter().flatten();
        let bins = targets.filter(|t| t["kind"].as_array().is_some_and(|k| k.iter().any(|k| k == "bin")));
        let bins: Vec<&str> = bins.filter_map(|t| t["name"].as_str()).collect();
        if let Some(bin) = bins.iter().find(|b| **b == name || (package_name == name && bins.len() == 1)) {
            return Ok(Binary { package: package_name.into(), bin: (*bin).into() });
        }
        known.extend(bins.iter().map(|b| (*b).to_string()));
    }
    Err(no(format!("the workspace at {} has no binary of this name; it has {}", dir.display(), known.join(", "))))
}

/// The cargo workspace that this program belongs to and that has the binary `name`: where cargo started it, else above the
/// executable, else above the current folder. `None` when there is no workspace at all.
///
/// # Errors
/// When none of them has the binary: what the first one says.
pub(crate) fn workspace_with(name: &str, exe: &Path) -> Result<Option<PathBuf>, Error> {
    let from_cargo = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let above = |start: &Path| start.ancestors().find(|d| d.join("Cargo.toml").is_file()).map(Path::to_path_buf);
    let candidates = [
        from_cargo.filter(|d| d.join("Cargo.toml").is_file()),
        exe.parent().and_then(above),
        std::env::current_dir().ok().and_then(|d| above(&d)),
    ];
    let mut first_error = None;
    for dir in candidates.into_iter().flatten() {
        match package_of(name, &dir) {
            Ok(_) => return Ok(Some(dir)),
            Err(e) => {
                first_error.get_or_insert(e);
            }
        }
    }
    first_error.map_or(Ok(None), Err)
}
