//! The promise to users: the project in `templates/user-project`, three crates outside of this
//! workspace, tests, builds and runs as its README describes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The checkout.
fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests lies in the checkout").to_path_buf()
}

/// One target folder for all runs, so that only the three crates themselves are built again.
fn target() -> PathBuf {
    let exe = std::env::current_exe().expect("this test");
    // target/debug/deps/promise-…
    exe.ancestors().nth(3).expect("cargo built this test into its target folder").join("user-project")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("makes a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            // A target folder in the template is not copied.
            if entry.file_name() != "target" {
                copy(&path, &to);
            }
        } else {
            std::fs::copy(&path, &to).expect("copies a file");
        }
    }
}

/// A copy of the template whose dependencies are this checkout, with the versions that this
/// checkout was tested with.
fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    copy(&root().join("templates/user-project"), dir.path());
    let manifest = dir.path().join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).expect("the template's manifest");
    let there = root();
    let text = text.replace("path = \"../../", &format!("path = \"{}/", there.to_str().expect("UTF-8")));
    assert!(!text.contains("../"), "every path leads to the checkout: {text}");
    std::fs::write(&manifest, text).expect("writes");
    std::fs::copy(there.join("Cargo.lock"), dir.path().join("Cargo.lock")).expect("copies");
    dir
}

fn cargo(project: &Path, args: &[&str]) -> Output {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(project).args(args).env("CARGO_TARGET_DIR", target()).stdin(Stdio::null());
    // Variables of this test's run, which a user does not have.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || ["CARGO_MANIFEST_DIR", "HAMR_IMAGE", "RUSTFLAGS"].contains(&&*name) {
            command.env_remove(&*name);
        }
    }
    command.env("CARGO_NET_OFFLINE", "true").output().expect("runs cargo")
}

fn succeed(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    (out, err)
}

#[test]
fn the_user_project_works() {
    let project = project();
    let dir = project.path();
    let handlers = std::fs::read_to_string(dir.join("my-kernels/src/lib.rs")).expect("the handlers");
    assert!(handlers.contains("#![forbid(unsafe_code)]") && handlers.contains("#![no_std]"));
    let image = std::fs::read_to_string(dir.join("my-image/src/main.rs")).expect("the image");
    assert_eq!(image.lines().count(), 4, "an image is two attributes and two lines");

    let (out, err) = succeed(&cargo(dir, &["test"]));
    assert!(out.contains("tests::axpy_on_the_host ... ok"), "{out}\n{err}");
    assert!(!err.contains("warning"), "a new project begins without warnings: {err}");

    let (out, err) = succeed(&cargo(dir, &["run", "--quiet"]));
    let expected = "2x + 1 at 999: 1999\n\
        summary: Summary { least: 1.0, most: 1999.0, mean: 1000.0 }\n\
        channel 3: 1030\n\
        channel 2: 1020\n\
        channel 1: 1010\n\
        channel 0: 1000\n";
    assert!(out.starts_with(expected), "{out}\n{err}");
    let rest: Vec<&str> = out[expected.len()..].lines().collect();
    assert!(rest[0].starts_with("channel 4: `my_kernels::adc` on device shm"), "{rest:?}");
    assert!(rest[0].ends_with("the converter has four channels"), "{rest:?}");
    assert_eq!(rest[1..], ["summary of nothing: the handler returned an error: Empty"]);
    assert!(err.contains("hamr: building image my-image for "), "one line names what is built: {err}");

    // The same image file on bare metal, on every instruction set, with the same results.
    for device in ["qemu:x86_64", "qemu:aarch64", "qemu:riscv64"] {
        let (out, err) = succeed(&cargo(dir, &["run", "--quiet", "--", device]));
        assert!(out.starts_with(expected), "{device}: {out}\n{err}");
        assert!(err.contains("(bare-metal)"), "{device}: {err}");
    }

    // Other devices, and a wrong name.
    let output = cargo(dir, &["run", "--quiet", "--", "loopback"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("my_kernels::adc") && err.contains("feature `device`"), "{err}");
    let output = cargo(dir, &["run", "--quiet", "--", "toaster"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.starts_with("my-host: no device is named `toaster`"), "{err}");

    // After a change of a handler, the image is built again without a request.
    let changed = handlers.replace("1000 + 10", "2000 + 10");
    assert_ne!(handlers, changed);
    std::fs::write(dir.join("my-kernels/src/lib.rs"), changed).expect("writes");
    let (out, err) = succeed(&cargo(dir, &["run", "--quiet"]));
    assert!(out.contains("channel 3: 2030") && !err.contains("stale"), "{out}\n{err}");
}
