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
