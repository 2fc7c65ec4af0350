//! Streams beside other threads, other hosts, and peers that break the rules: over a device in a
//! thread of this program (`hamr_tests::threaded`).

mod beyond;
mod bodies;
mod ends;
mod released;
mod replies;
mod user_code;
mod waits;
mod wakers;

use hamr::Options;
use std::time::Duration;

fn small() -> Options {
    Options {
        heap: 1 << 20,
        streams: Some(2),
        ring: 8,
        tickets: 2,
        deadline: Some(Duration::from_secs(8)),
        ..Options::default()
    }
}
