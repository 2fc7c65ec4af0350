//! Modules on the command line.

use crate::common::hamr;
use crate::run::checks;
use crate::{json, refused};
use std::process::Command;
use std::sync::OnceLock;

/// The module of the tests, built once.
pub(crate) fn module() -> &'static str {
    static MODULE: OnceLock<String> = OnceLock::new();
    MODULE.get_or_init(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hamr"));
        let output = command.args(["image", "hamr-tests-module", "--module"]).output().expect("the binary runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    })
}

#[test]
fn load_lists_the_handlers_of_a_module() {
    let loaded = hamr(&["load", checks(), "--module", module()]);
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    assert!(loaded.stdout.starts_with("MODULE hamr_tests_module on shm, loaded in "), "{loaded:?}");
    assert!(loaded.stdout.contains("\n  hamr_tests_module::twice\n"), "{loaded:?}");
    loaded.left_nothing();
    let value = json(&hamr(&["load", "--image", checks(), "--module", module(), "--json"]));
    assert!(value["module"] == "hamr_tests_module" && value["load_ns"].as_u64().is_some_and(|ns| ns > 0), "{value}");
    assert!(
        value["handlers"].as_array().is_some_and(|names| names.contains(&"hamr_tests_module::sum".into())),
        "{value}"
    );
}

#[test]
fn load_loads_an_image_in_the_place_of_another() {
    let demo = hamr(&["image", "hamr-demo"]);
    let demo = demo.stdout.trim_end();
    let loaded = hamr(&["load", checks(), "--next", demo]);
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    assert!(loaded.stdout.contains("\n  load ") && loaded.stdout.contains("hamr-demo"), "{loaded:?}");
    loaded.left_nothing();
    let value = json(&hamr(&["load", checks(), "--next", demo, "--json"]));
    assert!(value["epoch"] == 2 && value["load_ns"].as_u64().is_some_and(|ns| ns > 0), "{value}");
    refused(&hamr(&["load", checks(), "--next", module()]), &["expected an image, got a module"]);
    refused(&hamr(&["load", checks(), "--next", "/bin/true"]), &["/bin/true"]);
    refused(&hamr(&["load", checks(), "--next", "/nonexistent/image"]), &["/nonexistent/image"]);
}

#[test]
fn call_calls_a_handler_of_a_module() {
    let of_module = |rest: &[&str]| hamr(&[&["call", "--image", checks(), "--module", module()], rest].concat());
    let called = of_module(&["twice", "21"]);
    assert_eq!((called.code, called.stdout.as_str(), called.stderr.as_str()), (Some(0), "42\n", ""));
    called.left_nothing();
    let called = of_module(&["scale", "0", "[1, 2]"]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "()\nx = [2.0, 4.0]\n"), "{called:?}");
    assert!(of_module(&[]).stdout.contains("twice(value: i64) -> i64"), "{:?}", of_module(&[]));
    refused(&of_module(&["axpy", "1", "[]", "[]"]), &["axpy", "call"]);
}

#[test]
fn what_is_no_module_is_one_clear_line() {
    let load = |module: &str| hamr(&["load", checks(), "--module", module]);
    refused(&load(checks()), &["expected a module, got an image"]);
    refused(&load("/bin/true"), &["/bin/true"]);
    refused(&load("/nonexistent/module"), &["/nonexistent/module"]);
    refused(&load("nothing-of-this-name"), &["no module `nothing-of-this-name`", "`cdylib`"]);
    refused(&hamr(&["load", "--module", module()]), &["hamr_tests_module", "takes no modules"]);
    refused(
        &hamr(&["load", "hamr-checks", "--device", "qemu:riscv64", "--module", module()]),
        &["bare-metal module", "hosted"],
    );
    refused(&hamr(&["load", module()]), &["expected an image, got a module"]);
}
