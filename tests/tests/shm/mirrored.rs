//! A part of the conformance suite over an image that shares no memory with its host: a mirror is between its window and the
//! host's, and the heap is copied.

use hamr::{Node, Options};
use hamr_tests::devices;

fn open(options: Options) -> Node {
    devices::runtime().open_with("mirrored", devices::image("shm"), options).expect("a device behind a mirror")
}

hamr_tests::conformance!(smoke: open);
