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
    assert!(std::fs::read_to_string(&timeline).is_ok_and(|svg| svg.starts_with("<svg")), "{timeline}");
}
