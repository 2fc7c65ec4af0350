//! Streams beside other threads, other hosts, and peers that break the rules: over a device in a
//! thread of this program (`hamr_tests::threaded`).

#[path = "streams/beyond.rs"]
mod beyond;
#[path = "streams/bodies.rs"]
mod bodies;
#[path = "streams/ends.rs"]
mod ends;
#[path = "streams/released.rs"]
mod released;
#[path = "streams/replies.rs"]
mod replies;
#[path = "streams/user_code.rs"]
mod user_code;
#[path = "streams/waits.rs"]
mod waits;
#[path = "streams/wakers.rs"]
mod wakers;

use hamr::Options;
use std::time::Duration;

fn small() -> Options {
    Options {
        heap: 1 << 20,
        streams: 2,
        ring: 8,
        tickets: 2,
        deadline: Some(Duration::from_secs(8)),
        ..Options::default()
    }
}
