//! Standard input, output and error of a program that was started without some of them: by a daemon,
//! by `<&-`. Rust's own start opens /dev/null there; programs in other languages, and what loads this
//! library, give the numbers to what they open next, and then print into it, or pass it to a child as
//! its standard output.

use rustix::fd::{AsRawFd, IntoRawFd};
use rustix::fs::{Mode, OFlags, open};

/// The highest number.
const STDERR: i32 = 2;

/// Opens /dev/null for those of the descriptors 0 to 2 that are closed, for as long as the process
/// runs. Called before this library opens anything that it keeps.
pub fn reserve_stdio() {
    // The system gives the lowest number that is free.
    while let Ok(null) = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        if null.as_raw_fd() > STDERR {
            return;
        }
        // Children have it, too.
        let _ = rustix::io::fcntl_setfd(&null, rustix::io::FdFlags::empty());
        let _ = null.into_raw_fd();
    }
}
