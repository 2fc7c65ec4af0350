//! The one function that builds images. `Image::find`, `hamr image` and `cargo xtask image` all use
//! it.

use crate::{Error, Target};
use hamr_comm::abi::image::ImageKind;
use hamr_linker::child;
use hamr_linker::compiler::{Compiler, Said, output, rustc};
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The arguments of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildRequest {
    /// Name of the binary, or of the package that has just one.
    pub name: String,
    /// The target of the image.
    pub target: Target,
    /// A folder of the cargo workspace.
    pub dir: PathBuf,
}

/// Variables that would change the build unnoticed, beside `CARGO_TARGET_<TRIPLE>_RUSTFLAGS`. Cargo
/// ignores them, because `CARGO_ENCODED_RUSTFLAGS` is always set, even when empty; they are removed
/// so that they do not reach build scripts either.
const FOREIGN_FLAGS: [&str; 2] = ["RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"];

/// Builds an image and returns its path. Always with `--target`, in the release profile, with
/// compiler flags of its own.
///
/// Bare-metal images are built below `bare` in the workspace's target folder. Those of x86_64 have
/// the triple of Linux, because Rust's own target without a system has no hardware floats, and
/// would otherwise overwrite the hosted image.
///
/// # Errors
/// When the target is installed nowhere or cargo is missing, when cargo fails (its own messages are
/// on standard error), or when no binary has the name.
pub fn build(request: &BuildRequest) -> Result<PathBuf, Error> {
    let BuildRequest { name, target, dir } = request;
    let what = noun(target.kind);
    let no = |why: String| Error::NoImage { what, name: name.clone(), why };
    let package = package_of(name, dir, target.kind)?;
    let (cpu, level) =
        (setting(&package.settings, "target-cpu", target), setting(&package.settings, "opt-level", target));
    if target.kind.is_bare() && cpu.as_deref() == Some("native") {
        return Err(no(
            "target-cpu `native` is this host's processor, a bare-metal image needs the name of its own".into()
        ));
    }
    let compiler = compiler_for(name, target, dir)?;
    let is_module = target.kind.is_module();
    let mut command = compiler.cargo(if is_module { "rustc" } else { "build" }, &target.triple);
    command
        .current_dir(dir)
        .args(["--release", "--quiet", "--message-format=json-render-diagnostics"])
        .args(["--package", &package.package])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    match target.kind {
        // A system's loader links it when it is loaded, a device's host does.
        ImageKind::HOSTED_MODULE => command.args(["--lib", "--crate-type=cdylib"]),
        ImageKind::BARE_MODULE => command.args(["--lib", "--crate-type=staticlib,rlib"]),
        _ => command.args(["--bin", &package.bin]),
    };
    if target.kind.is_bare() {
        command.arg("--target-dir").arg(package.target_dir.join("bare"));
        // A device's memory is small. Level 2, because level 3 makes code a tenth larger; size
        // optimisation for code of the runtime that no call uses: of `hamr-shared-abi` the checks of a
        // window, since what a call uses of it is generic or inlined.
        command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "2");
        for package in ["hamr-device-fw", "hamr-shared-abi"] {
            command.arg("--config").arg(format!("profile.release.package.{package}.opt-level=\"s\""));
        }
    }
    if let Some(level) = level {
        command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", level);
    }
    if !target.kind.is_bare() {
        // Whatever the workspace's profile says: a panic of a handler ends its call, not the device.
        command.env("CARGO_PROFILE_RELEASE_PANIC", "unwind");
    }
    let per_target = format!("CARGO_TARGET_{}_RUSTFLAGS", target.triple.to_uppercase().replace(['-', '.'], "_"));
    for variable in FOREIGN_FLAGS.iter().copied().chain([per_target.as_str()]) {
        command.env_remove(variable);
    }
    // Log statements of every level are built in; the host chooses at run time which are sent.
    // Their file and line are in the debug information of statics, which only the full level has;
    // none of it is loaded.
    command.env("DEFMT_LOG", "trace").env("CARGO_PROFILE_RELEASE_DEBUG", "full");
    let cpu = cpu.map(|cpu| format!("-Ctarget-cpu={cpu}"));
    let flags: Vec<&str> = flags(target).into_iter().chain(cpu.as_deref()).collect();
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    command.env(hamr_linker::OWN_MEMORY, if package.has_memory { "yes" } else { "no" });
    if std::io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let shown = format!("{what} {name} for {} ({})", target.triple, target.kind.text());
    let (built, artifacts) = run(&mut command, &shown)
        .map_err(|e| no(format!("cannot run `{}`: {e}; {INSTALL_RUST}", Path::new(command.get_program()).display())))?;
    if let Err(why) = built {
        return Err(no(format!(
            "`cargo build --release --package {} --target {}` in {} failed ({why}); its messages are above",
            package.package,
            target.triple,
            dir.display(),
        )));
    }
    let path = artifacts.iter().filter(|m| m["target"]["name"] == package.bin.as_str()).find_map(|m| match is_module {
        true => files(m).next(),
        false => m["executable"].as_str().map(PathBuf::from),
    });
    let path =
        path.ok_or_else(|| no(format!("cargo built package {} but no binary `{}`", package.package, package.bin)))?;
    if target.kind != ImageKind::BARE_MODULE {
        return Ok(path);
    }
    let of_target = |file: &PathBuf| {
        file.extension().is_some_and(|e| e == "rlib")
            && file.components().any(|c| c.as_os_str() == target.triple.as_str())
    };
    let libraries: Vec<PathBuf> = artifacts.iter().flat_map(files).filter(of_target).collect();
    link_module(name, &path, &libraries, compiler, dir)
}

/// Runs cargo, and says so while it builds something: `what` once, then how far it is. Where all is fresh,
/// nothing is said. Returns whether it has built, or how it ended, and what it has built.
fn run(command: &mut Command, what: &str) -> std::io::Result<(Result<(), String>, Vec<serde_json::Value>)> {
    /// Asking cargo whether all is fresh takes no longer, nearly always.
    const QUIET: Duration = Duration::from_secs(2);
    const SIGN: Duration = Duration::from_secs(10);
    let mut cargo = child::start(command.stdout(Stdio::piped()))?;
    let (tell, told) = channel();
    // One JSON object per line; a binary's has "executable".
    let lines = cargo.stdout.take().map(BufReader::new);
    let reader = std::thread::Builder::new().name("hamr-build".into()).spawn(move || {
        let lines = lines.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
        let messages = lines.filter_map(|line| serde_json::from_str::<serde_json::Value>(&line).ok());
        let is_told = |message: &serde_json::Value| {
            ["compiler-artifact", "build-finished"].iter().any(|reason| message["reason"] == *reason)
        };
        // An error means that no one listens any more.
        messages.filter(is_told).map_while(|message| tell.send(message).ok()).for_each(drop);
    });
    if let Err(e) = reader {
        let _ = cargo.kill();
        let _ = cargo.wait();
        return Err(e);
    }
    let (begin, mut artifacts, mut built, mut said) = (Instant::now(), Vec::new(), 0, None);
    let mut is_finished = false;
    loop {
        let limit = said.map_or(QUIET, |said: Instant| SIGN.saturating_sub(said.elapsed()));
        let builds = match told.recv_timeout(limit) {
            Ok(message) if message["reason"] == "build-finished" => {
                is_finished = message["success"] == true;
                false
            }
            Ok(artifact) => {
                let is_built = artifact["fresh"] == false;
                built += u32::from(is_built);
                artifacts.push(artifact);
                is_built
            }
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if said.is_none() && builds {
            crate::io::note(format_args!("hamr: building {what}"));
            said = Some(Instant::now());
        } else if said.is_some_and(|said| said.elapsed() >= SIGN) {
            crate::io::note(format_args!(
                "hamr: building for {} s, {built} crates and build scripts so far",
                begin.elapsed().as_secs()
            ));
            said = Some(Instant::now());
        }
    }
    let outcome = match child::ended(&mut cargo)? {
        Some(status) if !status.success() => Err(status.to_string()),
        // Another part of this program has the exit status: what cargo said last counts.
        None if !is_finished => Err("it did not say that it has finished".into()),
        _ => Ok(()),
    };
    Ok((outcome, artifacts))
}

/// What messages call a file of this kind.
pub(crate) const fn noun(kind: ImageKind) -> &'static str {
    if kind.is_module() { "module" } else { "image" }
}

/// The files of an artifact.
fn files(message: &serde_json::Value) -> impl Iterator<Item = PathBuf> {
    message["filenames"].as_array().into_iter().flatten().filter_map(|file| file.as_str().map(PathBuf::from))
}

/// Links a module for bare metal, so that a host can give it any address: all of its `libraries`, which
/// may have handlers, and of `all`, which also has those of the compiler, what they need.
fn link_module(
    name: &str,
    all: &Path,
    libraries: &[PathBuf],
    compiler: Compiler,
    dir: &Path,
) -> Result<PathBuf, Error> {
    let no = |why: String| Error::NoImage { what: "module", name: name.into(), why };
    // Other threads and processes may link the same module: each in files of its own.
    static LINKED: AtomicU32 = AtomicU32::new(0);
    let number = LINKED.fetch_add(1, Ordering::Relaxed);
    let own = |extension: &str| all.with_extension(format!("{}-{number}.{extension}", std::process::id()));
    let (script, linked, module) = (own("x"), own("module"), all.with_extension("module"));
    std::fs::write(&script, hamr_linker::MODULE).map_err(|e| no(format!("cannot write {}: {e}", script.display())))?;
    let linker =
        compiler.linker(dir).map_err(|e| no(format!("cannot run `{}`: {e}", Path::new(&rustc()).display())))?;
    let mut command = Command::new(&linker);
    command.args([
        "-flavor",
        "gnu",
        "-pie",
        "-znotext",
        "-zmax-page-size=4096",
        "--no-dynamic-linker",
        "--gc-sections",
    ]);
    command.args(["--build-id=sha1", "--apply-dynamic-relocs", "-T"]).arg(&script);
    command.arg("--whole-archive").args(libraries).arg("--no-whole-archive").arg(all).arg("-o").arg(&linked);
    let said = output(&mut command);
    let _ = std::fs::remove_file(&script);
    // Without its exit status: a linker writes its file at its end.
    let has_linked = |said: &Said| said.status.map_or_else(|| linked.is_file(), |status| status.success());
    match said {
        Ok(said) if has_linked(&said) => std::fs::rename(&linked, &module)
            .map(|()| module)
            .map_err(|e| no(format!("cannot rename {}: {e}", linked.display()))),
        Ok(said) => Err(no(format!(
            "linking it failed ({}): {}",
            said.status.map_or_else(|| "without an exit status".into(), |status| status.to_string()),
            String::from_utf8_lossy(&said.err).trim().lines().take(4).collect::<Vec<_>>().join("; ")
        ))),
        Err(e) => Err(no(format!("cannot run its linker {}: {e}; {INSTALL_RUST}", linker.display()))),
    }
}

/// The compiler's flags for images of `target`. The linker's arguments come from the image's build
/// script (`hamr-linker`).
fn flags(target: &Target) -> Vec<&'static str> {
    // Hosted images keep the unwinder, so that a panic ends one call and not the process. Only this
    // build links them with a section for the format strings of their logs: another hosted build of
    // the same package does not log.
    match target.kind {
        ImageKind::HOSTED_MODULE => return Vec::new(),
        kind if !kind.is_bare() => return vec!["--cfg=hamr_image"],
        _ => {}
    }
    // Bare metal has no unwinder and no loader that would relocate an image, so an image is linked
    // to its final address. Code models are the targets' own: each reaches the addresses of its
    // linker script. Faults need frame pointers to find return addresses.
    // A module is relocated by its host, when the address is known.
    let model = if target.kind.is_module() { "-Crelocation-model=pic" } else { "-Crelocation-model=static" };
    let mut flags = vec!["-Cpanic=abort", "--cfg=hamr_bare", model, "-Cforce-frame-pointers=yes"];
    if target.triple.starts_with("aarch64") {
        // This target has no unaligned loads, so it would build a vector of numbers from words
        // through the stack.
        flags.extend(["-Cno-vectorize-loops", "-Cno-vectorize-slp"]);
    }
    flags
}

/// The compiler that has the standard library of this target, or its source.
fn compiler_for(name: &str, target: &Target, dir: &Path) -> Result<Compiler, Error> {
    let triple = &*target.triple;
    // Every compiler has the host's own target, and asking takes time at each start of a device.
    if triple == Target::hosted().triple {
        return Ok(Compiler::Usual);
    }
    let no = |why: String| Err(Error::NoImage { what: noun(target.kind), name: name.into(), why });
    match Compiler::of(triple, dir) {
        Ok(Some(compiler)) => Ok(compiler),
        Ok(None) => no(format!(
            "expected Rust's target {triple}, it is not installed; `rustup target add {triple}` or `cargo xtask setup` installs it"
        )),
        Err(e) => no(format!("cannot run `{}`: {e}; {INSTALL_RUST}", Path::new(&rustc()).display())),
    }
}

const INSTALL_RUST: &str = "install Rust, or set HAMR_IMAGE to a built image";

struct Binary {
    package: String,
    bin: String,
    target_dir: PathBuf,
    has_memory: bool,
    /// `package.metadata.hamr.image` of its manifest.
    settings: serde_json::Value,
}

/// What a manifest says of images for `target`: a value, or one for each of `hosted` and the
/// processors of bare-metal images.
fn setting(settings: &serde_json::Value, key: &str, target: &Target) -> Option<String> {
    let of = match target.kind {
        kind if kind.is_bare() => target.triple.split('-').next().unwrap_or_default(),
        _ => "hosted",
    };
    let value = &settings[key];
    match if value.is_object() { &value[of] } else { value } {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The package that contains the binary `name`, by the binary's or the package's name. Of a module: the
/// library.
fn package_of(name: &str, dir: &Path, kind: ImageKind) -> Result<Binary, Error> {
    let cargos_kind = if kind.is_module() { "cdylib" } else { "bin" };
    let no = |why: String| Error::NoImage { what: noun(kind), name: name.into(), why };
    let mut command = Command::new(Compiler::Usual.program());
    command.current_dir(dir).args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let said = output(&mut command).map_err(|e| no(format!("cannot run cargo: {e}; {INSTALL_RUST}")))?;
    let metadata: serde_json::Value = serde_json::from_slice(&said.out).map_err(|_| {
        no(format!("cargo metadata failed in {}: {}", dir.display(), String::from_utf8_lossy(&said.err).trim()))
    })?;
    let target_dir = PathBuf::from(metadata["target_directory"].as_str().unwrap_or("target"));
    let mut known = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let Some(package_name) = package["name"].as_str() else { continue };
        let targets = package["targets"].as_array().into_iter().flatten();
        let bins = targets.filter(|t| t["kind"].as_array().is_some_and(|k| k.iter().any(|k| k == cargos_kind)));
        let bins: Vec<&str> = bins.filter_map(|t| t["name"].as_str()).collect();
        if let Some(bin) = bins.iter().find(|b| **b == name || (package_name == name && bins.len() == 1)) {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
            let has_memory = manifest.with_file_name("memory.x").exists();
            let settings = package["metadata"]["hamr"]["image"].clone();
            return Ok(Binary { package: package_name.into(), bin: (*bin).into(), target_dir, has_memory, settings });
        }
        known.extend(bins.iter().map(|b| (*b).to_string()));
    }
    Err(no(format!(
        "the workspace at {} has no {} of this name; it has {}",
        dir.display(),
        if kind.is_module() { "`cdylib`" } else { "binary" },
        known.join(", ")
    )))
}

/// The cargo workspace that this program belongs to and that has the binary `name`: the one in
/// which cargo started it, else one above the executable, else one above the current folder. `None`
/// when there is no workspace at all.
///
/// # Errors
/// When none of them has the binary: the error of the first one.
pub(crate) fn workspace_with(name: &str, exe: &Path, kind: ImageKind) -> Result<Option<PathBuf>, Error> {
    let from_cargo = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let above = |start: &Path| start.ancestors().find(|d| d.join("Cargo.toml").is_file()).map(Path::to_path_buf);
    let candidates = [
        from_cargo.filter(|d| d.join("Cargo.toml").is_file()),
        exe.parent().and_then(above),
        std::env::current_dir().ok().and_then(|d| above(&d)),
    ];
    let mut first_error = None;
    for dir in candidates.into_iter().flatten() {
        match package_of(name, &dir, kind) {
            Ok(_) => return Ok(Some(dir)),
            Err(e) => {
                first_error.get_or_insert(e);
            }
        }
    }
    first_error.map_or(Ok(None), Err)
}

#[cfg(test)]
mod tests {
    use super::{BuildRequest, build, setting};
    use crate::Target;
    use hamr_comm::abi::ids::Isa;
    use hamr_comm::abi::image::ImageKind;
    use std::fs::{create_dir_all, write};

    fn bare() -> Target {
        Target { triple: "riscv64gc-unknown-none-elf".into(), kind: ImageKind::BARE, isa: Isa::RISCV64 }
    }

    #[test]
    fn settings_are_for_all_targets_or_for_each() {
        let (hosted, bare) = (Target::hosted(), bare());
        let settings = serde_json::json!({
            "target-cpu": { "hosted": "native", "aarch64": "cortex-a72" },
            "opt-level": 3,
        });
        assert_eq!(setting(&settings, "target-cpu", &hosted).as_deref(), Some("native"));
        assert_eq!(setting(&settings, "target-cpu", &bare), None);
        assert_eq!(setting(&settings, "opt-level", &hosted).as_deref(), Some("3"));
        assert_eq!(setting(&settings, "opt-level", &bare).as_deref(), Some("3"));
        assert_eq!(setting(&serde_json::Value::Null, "opt-level", &bare), None);
    }

    /// A crate without dependencies, as an image.
    #[test]
    fn images_of_processes_unwind_whatever_the_profile_says() {
        let dir = tempfile::tempdir().expect("a folder");
        create_dir_all(dir.path().join("src")).expect("a folder");
        let main = "#[cfg(panic = \"abort\")]\ncompile_error!(\"a panic would end the device\");\nfn main() {}\n";
        write(dir.path().join("src/main.rs"), main).expect("a file");
        let manifest =
            "[package]\nname = \"aborts\"\nedition = \"2024\"\n[workspace]\n[profile.release]\npanic = \"abort\"\n";
        write(dir.path().join("Cargo.toml"), manifest).expect("a file");
        let request = BuildRequest { name: "aborts".into(), target: Target::hosted(), dir: dir.path().into() };
        build(&request).expect("it is built with the unwinder");
    }

    #[test]
    fn bare_metal_is_not_built_for_the_hosts_processor() {
        let dir = tempfile::tempdir().expect("a folder");
        create_dir_all(dir.path().join("src")).expect("a folder");
        write(dir.path().join("src/main.rs"), "fn main() {}").expect("a file");
        let manifest =
            "[package]\nname = \"fast\"\n[package.metadata.hamr.image]\ntarget-cpu = \"native\"\n[workspace]\n";
        write(dir.path().join("Cargo.toml"), manifest).expect("a file");
        let request = BuildRequest { name: "fast".into(), target: bare(), dir: dir.path().into() };
        let error = build(&request).expect_err("refused");
        assert!(error.to_string().contains("target-cpu `native` is this host's processor"), "{error}");
    }
}
