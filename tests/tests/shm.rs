//! The conformance suite over shared memory: the demo image as a process of its own.

use hamr::{Image, Node, Options, Runtime};
use std::sync::OnceLock;

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"))
}

fn open(options: Options) -> Node {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    let image = IMAGE.get_or_init(|| {
        // Found once: each search asks cargo whether it is fresh.
        let image = Image::find("hamr-demo").expect("a name");
        let file = image.resolve(&hamr::Target::hosted()).expect("the demo image builds");
        Image::file(file.path).expect("an image")
    });
    runtime().open_with("shm", image.clone(), options).expect("a device")
}

hamr_tests::conformance!(open);

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
    assert_eq!(node.sync(hamr_kernels::checks::echo::with(7u64)).expect("the others work"), 7);
}
