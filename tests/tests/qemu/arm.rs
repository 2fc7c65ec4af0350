//! The conformance suite on a microcontroller: a Cortex-M4 under QEMU, without a bus, whose window is in
//! the image's own memory. It has no 64-bit atomics: pairs are two words (abi §4).

use hamr::{Error, Image, Node, Options, Target};
use hamr_comm::abi::ids::Isa;
use hamr_tests::devices::{START_TIMEOUT, image_of, runtime};
use std::sync::LazyLock;

const IMAGE: &str = "hamr-micro";
const DEVICE: &str = "qemu:arm";

fn target() -> Target {
    runtime().target(DEVICE).expect("a known device").expect("it takes an image")
}

static FILE: LazyLock<Image> = LazyLock::new(|| image_of(IMAGE, DEVICE));

fn open(options: Options) -> Node {
    try_open(options).expect("a device")
}

fn try_open(options: Options) -> Result<Node, Error> {
    let options = Options { start_deadline: START_TIMEOUT, print_warnings: false, ..options };
    runtime().open_with(DEVICE, FILE.clone(), options)
}

hamr_tests::conformance!(without_claims: open);

#[test]
fn the_device_says_what_it_is() {
    let info = open(hamr_tests::conformance::options()).info();
    assert_eq!((info.board.as_str(), info.isa, info.link.as_str()), ("mps2-an386", Isa::ARM32, "qemu"));
}

/// The window is all that the image reserves, and no more.
#[test]
fn sizes_are_those_of_the_window_where_none_are_given() {
    let window = FILE.resolve(&target()).expect("an image").reserved_window().expect("readable");
    assert_eq!(window, 0x2100_0000..0x2200_0000);
    let node = open(Options::default());
    assert_eq!(node.sync(hamr_tests_kernels::echo::with(7u64)).expect("works"), 7);
    let error = try_open(Options { heap: 16 << 20, ..Options::default() }).expect_err("too long").to_string();
    assert!(error.contains("of heap (heap, segment)") && error.contains("got 16777216"), "{error}");
}

#[test]
fn the_handler_table_is_in_the_image_file() {
    let file = FILE.resolve(&target()).expect("an image");
    let names = |handlers: Vec<hamr::HandlerInfo>| handlers.into_iter().map(|h| (h.name, h.id)).collect::<Vec<_>>();
    let node = open(hamr_tests::conformance::options());
    let there = names(file.handlers().expect("the table is in the file"));
    assert!(there.len() > 100 && there == names(node.handlers().to_vec()), "{} handlers", there.len());
    assert!(file.handlers_are_read_only().expect("an image"));
}

#[test]
fn interrupts_that_a_handler_has_masked_come_back() {
    hamr_tests::crashes::interrupts_come_back(&open(hamr_tests::conformance::options()));
}

#[test]
fn eight_handlers_and_one_stream_take_16_kib() {
    hamr_tests::few::a_small_window_does_everything(DEVICE);
}
