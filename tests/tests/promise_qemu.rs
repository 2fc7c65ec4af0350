//! The promise to users: a project that `cargo xtask new` makes of `templates/user-project`, three
//! crates outside of this workspace, tests, builds and runs as its README describes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The checkout.
fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests lies in the checkout").to_path_buf()
}

/// Does the project begin with an empty target folder of its own, as a user's does? Else it has the checkout's, where
/// dependencies are, with the same profile and flags.
fn from_nothing() -> bool {
    std::env::var_os("HAMR_FROM_NOTHING").is_some()
}

/// The checkout's target folder.
fn target_of_checkout() -> PathBuf {
    let exe = std::env::current_exe().expect("this test");
    // target/debug/deps/promise_qemu-…
    exe.ancestors().nth(3).expect("cargo built this test into its target folder").to_owned()
}

fn target(project: &Path) -> PathBuf {
    if from_nothing() { project.join("target") } else { target_of_checkout() }
}

/// A project of this name, made by the task that users make theirs with.
fn project(name: &str, kind: &str) -> tempfile::TempDir {
    // An empty target folder is below the other one, where QEMU is.
    let dir = if from_nothing() { tempfile::tempdir_in(target_of_checkout()) } else { tempfile::tempdir() };
    let dir = dir.expect("a folder");
    let folder = dir.path().to_str().expect("UTF-8");
    let output = run("cargo", &root(), &["xtask", "new", name, folder, "--kind", kind], None);
    let (out, _) = succeed(&output);
    assert!(out.contains(&format!("made {folder}")), "{out}");
    dir
}

/// Runs a program in a folder, as a user does.
fn run(program: &str, folder: &Path, args: &[&str], target: Option<&Path>) -> Output {
    let mut command = Command::new(program);
    command.current_dir(folder).args(args).stdin(Stdio::null());
    // Variables of this test's run, which a user does not have.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || ["CARGO_MANIFEST_DIR", "HAMR_IMAGE", "RUSTFLAGS"].contains(&&*name) {
            command.env_remove(&*name);
        }
    }
    if let Some(target) = target {
        command.env("CARGO_TARGET_DIR", target);
    }
    // Less to write and to link; no debugger is used.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    command.env("CARGO_NET_OFFLINE", "true").output().expect("it starts")
}

fn cargo(project: &Path, args: &[&str]) -> Output {
    run("cargo", project, args, Some(&target(project)))
}

fn succeed(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    (out, err)
}

#[test]
fn the_user_project_works() {
    let project = project("radar", "handlers");
    let dir = project.path();
    let handlers = std::fs::read_to_string(dir.join("kernels/src/lib.rs")).expect("the handlers");
    assert!(handlers.contains("#![forbid(unsafe_code)]") && handlers.contains("#![no_std]"));
    let image = std::fs::read_to_string(dir.join("image/src/main.rs")).expect("the image");
    assert_eq!(image.lines().count(), 4, "an image is two attributes and two lines");

    let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).expect("the manifest");
    assert!(!manifest.contains("{{") && !manifest.contains("../"), "every path leads to the checkout: {manifest}");
    let workflow = std::fs::read_to_string(dir.join(".github/workflows/ci.yml")).expect("the workflow");
    assert!(workflow.contains("bash project/ci.sh") && workflow.contains("${{ vars.HAMR_REPOSITORY }}"), "{workflow}");

    // What the project's CI runs: its tests, a process, one machine.
    let (out, err) = succeed(&run("bash", dir, &["ci.sh"], Some(&target(dir))));
    assert!(out.contains("tests::axpy_on_the_host ... ok"), "{out}\n{err}");
    assert!(!err.contains("warning"), "a new project begins without warnings: {err}");
    let expected = "2x + 1 at 999: 1999\n\
        summary: Summary { least: 1.0, most: 1999.0, mean: 1000.0 }\n\
        channel 3: 1030\n\
        channel 2: 1020\n\
        channel 1: 1010\n\
        channel 0: 1000\n";
    let runs: Vec<&str> = out.split(expected).skip(1).collect();
    assert_eq!(runs.len(), 2, "{out}\n{err}");
    for (rest, device) in runs.iter().zip(["shm", "qemu:x86_64"]) {
        let rest: Vec<&str> = rest.lines().collect();
        assert!(rest[0].starts_with(&format!("channel 4: `radar_kernels::adc` on device {device}")), "{rest:?}");
        assert!(rest[0].ends_with("the converter has four channels"), "{rest:?}");
        assert_eq!(rest[1..], ["summary of nothing: the handler returned an error: Empty"]);
    }
    assert!(err.contains("hamr: building image radar-image for "), "one line names what is built: {err}");
    assert!(err.contains("(bare-metal)"), "{err}");

    // The same image on the other machines, with the same results.
    for device in ["qemu:aarch64", "qemu:riscv64"] {
        let (out, err) = succeed(&cargo(dir, &["run", "--quiet", "--", device]));
        assert!(out.starts_with(expected), "{device}: {out}\n{err}");
        assert!(err.contains("(bare-metal)"), "{device}: {err}");
    }

    // Other devices, and a wrong name.
    let output = cargo(dir, &["run", "--quiet", "--", "loopback"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && err.contains("radar_kernels::adc") && err.contains("feature `device`"),
        "{err}"
    );
    let output = cargo(dir, &["run", "--quiet", "--", "toaster"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.starts_with("radar-host: no device is named `toaster`"), "{err}");

    // After a change of a handler, the image is built again without a request.
    let changed = handlers.replace("1000 + 10", "2000 + 10");
    assert_ne!(handlers, changed);
    std::fs::write(dir.join("kernels/src/lib.rs"), changed).expect("writes");
    let (out, err) = succeed(&cargo(dir, &["run", "--quiet"]));
    assert!(out.contains("channel 3: 2030") && !err.contains("stale"), "{out}\n{err}");
}

#[test]
fn a_project_with_a_program_over_arrays_works() {
    let project = project("plate", "program");
    let dir = project.path();
    let (out, err) = succeed(&cargo(dir, &["test"]));
    assert!(out.contains("tests::heat_is_the_same_on_any_number_of_devices ... ok"), "{out}\n{err}");
    assert!(!err.contains("warning"), "a new project begins without warnings: {err}");
    let (two, err) = succeed(&cargo(dir, &["run", "--quiet"]));
    assert!(two.starts_with("heat after 1000 steps: "), "{two}\n{err}");
    let (three, _) = succeed(&cargo(dir, &["run", "--quiet", "--", "3", "shm"]));
    assert_eq!(two, three, "on any number of devices");
}
