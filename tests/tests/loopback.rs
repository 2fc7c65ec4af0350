//! The conformance suite over the loopback device.

use hamr::{Image, Node, Options, Runtime};
use std::sync::OnceLock;

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"))
}

fn open(options: Options) -> Node {
    let image = Image::find("hamr-demo").expect("a name");
    runtime().open_with("loopback", image, options).expect("a loopback device")
}

hamr_tests::conformance!(open);
