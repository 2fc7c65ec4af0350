//! A part of the conformance suite over an image that shares no memory with its host: a mirror is between its window and the
//! host's, and the heap is copied.

use hamr::{Node, Options, WaitMode};
use hamr_tests::devices;
use hamr_tests_kernels::waits::sleeps;
use std::time::{Duration, Instant};

fn open(options: Options) -> Node {
    devices::runtime().open_with("mirrored", devices::image("shm"), options).expect("a device behind a mirror")
}

hamr_tests::conformance!(smoke: open);

/// Behind a pause the link's thread watches. It hands over to who waits, and does not take that one's notification away: a host that
/// missed it would sleep for a tenth of a second.
#[test]
fn who_waits_is_woken_although_a_thread_has_watched() {
    const TIMES: u32 = 30;
    for wait in [WaitMode::Adaptive, WaitMode::Sleep] {
        let node = open(Options { wait, spin: Duration::from_micros(20), ..Options::default() });
        let begin = Instant::now();
        for _ in 0..TIMES {
            std::thread::sleep(Duration::from_millis(5));
            node.sync(sleeps::with(2000)).expect("its time is short");
        }
        let each = begin.elapsed() / TIMES;
        assert!(each < Duration::from_millis(60), "{each:?}");
    }
}
