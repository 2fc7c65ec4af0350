//! The examples of `host/cli/examples`, as users run them.

use crate::common::image;
use crate::modules::module;
use crate::run::checks;
use std::path::Path;
use std::process::Command;

/// Runs an example with an image; what it prints.
fn example(name: &str, image: &str, arguments: &[&str]) -> String {
    let file = Path::new(env!("CARGO_BIN_EXE_hamr")).with_file_name("examples").join(name);
    assert!(file.is_file(), "expected {}: `cargo build --package hamr-cli --examples` builds it", file.display());
    let output = Command::new(file).args(arguments).env("HAMR_IMAGE", image).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn examples_print_what_they_show() {
    let demo = &image().display().to_string();
    let product = example("inner_product", demo, &[]);
    assert!(product.starts_with("shm: ") && product.ends_with(", the host's bits\n"), "{product}");
    let chain = example("chain", "", &[]);
    assert_eq!(chain, "channel 3: 30.07\nchannel 30: the chain ends at its call 3\n");
    assert_eq!(example("policy", "", &[]), "without quota: 0 of 3 done\nadmitted: [1, 4, 9]\n");
    assert_eq!(
        example("module", checks(), &[module()]),
        "load 1: 21 twice is 42, call 1\nload 2: 21 twice is 42, call 1\n"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let timeline = folder.path().join("overlap.svg").display().to_string();
    let overlap = example("overlap", demo, &[&timeline]);
    assert!(overlap.contains("one by one: ") && overlap.contains("overlapped: "), "{overlap}");
    let svg = std::fs::read_to_string(&timeline).expect("it was written");
    assert!(svg.starts_with("<svg") && svg.contains(">milliseconds since the first put began<"), "{svg}");
}

#[test]
fn each_example_answers_help() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let sources = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let names: Vec<String> = sources
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert!(names.len() >= 10, "{names:?}");
    let demo = &image().display().to_string();
    for name in names {
        let text = example(&name, demo, &["--help"]);
        assert!(text.starts_with("usage: ") && text.contains(&name) && text.lines().count() == 1, "{name}: {text}");
        assert!(!Path::new("--help").exists(), "{name}");
    }
}
