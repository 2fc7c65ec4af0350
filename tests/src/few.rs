//! A device in a window of 16 KiB: eight handlers, one stream, no logs.

use hamr::{CallError, Error, Node, Options};

#[path = "../micro/src/handlers.rs"]
mod handlers;
use handlers::{add, count, echo, fails, mixed, most, nothing, sum};

/// Its image.
pub const IMAGE: &str = "hamr-few";

/// Bytes of its window.
pub const WINDOW: u64 = 16 << 10;

/// Opens it as a device of this kind.
///
/// # Errors
/// As [`hamr::Runtime::open`].
pub fn open(spec: &str, options: Options) -> Result<Node, Error> {
    crate::devices::runtime().open_with(spec, crate::devices::image_of(IMAGE, spec), options)
}

/// Options for that window, of tests.
pub fn options() -> Options {
    let options = Options::for_window(WINDOW).expect("enough");
    Options { start_deadline: crate::devices::START_TIMEOUT, print_warnings: false, ..options }
}

/// Every handler, by each way to call, more often than the ring has slots; faults; more than the heap or the table has room for.
pub fn a_small_window_does_everything(spec: &str) {
    let open = |options| open(spec, options);
    let node = open(options()).expect("a device");
    let warnings: Vec<String> = node.warnings().iter().map(ToString::to_string).collect();
    assert!(!warnings.iter().any(|warning| warning.contains("few::")), "{warnings:?}");
    let info = node.info();
    assert_eq!((info.window, info.heap >= 4096), (WINDOW, true), "{info:?}");
    let stream = node.stream().expect("one");
    assert!(node.stream().is_err(), "there is one");
    for n in 0..100 {
        assert_eq!(stream.sync(add::with(n, u64::MAX)).expect("runs"), n.wrapping_sub(1));
        assert_eq!(stream.sync(echo::with([n; 7])).expect("runs"), [n; 7]);
    }
    assert_eq!(stream.sync(mixed::with(200, -3, 0.5, true)).expect("runs"), (true, 0.5, -3, 200));
    let pending: Vec<_> = (0..100).map(|n| stream.offload(add::with(n, n)).expect("sent")).collect();
    for (n, call) in (0..).zip(pending) {
        assert_eq!(call.wait().expect("runs"), 2 * n);
    }
    let numbers = node.buffer(&[0u32; 500]).expect("room");
    stream.sync(count::with(10, numbers.ptr())).expect("runs");
    assert_eq!(node.read(numbers.ptr()).expect("there"), (10..510).collect::<Vec<_>>());
    assert_eq!(stream.sync(sum::with(numbers.ptr())).expect("runs"), (10..510).sum::<u64>());
    assert_eq!(stream.sync(most::with(numbers.ptr())).expect("runs"), Some(509));
    stream.sync(nothing::with()).expect("runs");
    assert_eq!(stream.sync(fails::with(1)).expect("runs"), 1);
    let CallError::Fault(report) = stream.sync(fails::with(7)).expect_err("panics") else { panic!("a fault") };
    assert!(report.to_string().contains("asked to panic"), "{report}");
    assert_eq!(stream.sync(add::with(2, 3)).expect("goes on"), 5);
    assert!(matches!(node.buffer(&[0u8; 16 << 10]), Err(Error::OutOfMemory { .. })));
    drop((numbers, stream));
    drop(node);
    // The table is longer than its section.
    let error = open(Options { table: 256, ..options() }).expect_err("refused").to_string();
    assert!(error.contains("of table, the window has 256 (Options::table)"), "{error}");
}
