//! Windows as small as their use.

use hamr::{Error, Options};
use hamr_tests::few::{self, WINDOW, a_small_window_does_everything};

#[test]
fn eight_handlers_and_one_stream_take_16_kib() {
    a_small_window_does_everything("shm");
}

/// The sizes of each window that a device may have: none is longer than the window, and each starts a device.
#[test]
fn options_follow_from_the_window() {
    for bytes in [WINDOW, WINDOW + 4095, 64 << 10, 256 << 10, 1 << 20, 64 << 20] {
        let options = Options::for_window(bytes).expect("enough");
        let node = few::open("shm", Options { print_warnings: false, ..options }).expect("a device");
        let info = node.info();
        assert!(info.window <= bytes && info.window + 4096 > bytes && info.heap >= bytes / 4, "{bytes}: {info:?}");
    }
    let error = Options::for_window(4096).expect_err("too short");
    assert!(matches!(error, Error::InvalidConfig { option: "Options::for_window", .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("got 4096, without room for")
            && text.contains("of chunks (streams, ring, tickets, chunk), 1536 of table (table)"),
        "{text}"
    );
}
