//! The conformance suite over shared memory: the image as a process of its own.

use hamr::{Node, Options};

fn open(options: Options) -> Node {
    hamr_tests::devices::open("shm", options)
}

hamr_tests::conformance!(open);
hamr_tests::crashes!("shm");

/// Stands in this test only: no image holds it.
#[hamr_comm::offload]
fn only_here(_cx: &mut hamr_comm::Context, value: u64) -> u64 {
    value
}

#[test]
fn handlers_that_the_image_lacks_are_named_and_the_others_work() {
    let node = open(hamr_tests::conformance::options());
    let name = <only_here as hamr_comm::Handler>::NAME;
    let warnings = node.warnings();
    assert!(warnings.iter().any(|w| w.contains(name) && w.contains("has no handler")), "{warnings:?}");
    assert!(!warnings.iter().any(|w| w.contains("hamr_kernels::")), "the image is not stale: {warnings:?}");
    let error = hamr_tests::conformance::refusal(node.sync(only_here::with(1)).expect_err("not in the image"));
    assert!(matches!(error, hamr::SubmitError::MissingHandler { .. }) && error.to_string().contains(name), "{error}");
    assert_eq!(node.sync(hamr_tests_kernels::echo::with(7u64)).expect("the others work"), 7);
}
