//! Inspects windows, live or copied, without changing them.
//!
//! A window is found through `/proc/PID/fd`, or is the memory of a function on the bus
//! ([`crate::pci::window_file`]). It is opened and mapped read-only, and never locked: reading
//! neither disturbs the two sides nor makes a second host of the reader. Every value in it is
//! checked. What does not decode becomes a line in [`Dump::problems`], so that a half-written or
//! garbled window still gives a report.

mod decode;
mod find;
mod report;
mod text;

#[cfg(all(feature = "cli", feature = "device-logs"))]
pub(crate) use find::device_name;
pub use find::{Found, windows, windows_of};
pub use report::{Crash, DeviceView, Dump, Host, Offer, Queue, Reply, Request, Ring, SectionEntry, Slot};

pub use crate::window::InspectError;

use crate::window;
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::Path;

/// A hash or a fingerprint: hexadecimal in text and, because a JSON number loses bits above 2^53,
/// in JSON too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex(pub u64);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Reads everything that a window shows, once.
///
/// # Errors
/// When `path` is no file of a window's size, or cannot be opened. A window full of garbage is no
/// error.
pub fn dump(path: &Path) -> Result<Dump, InspectError> {
    Ok(Dump::of(&window::open(path)?, &path.display().to_string()))
}

/// [`dump`] with the last `most` lines of the device's log, decoded with the texts in `image`. One
/// of another build is a problem that the dump names.
///
/// # Errors
/// As for [`dump`].
#[cfg(feature = "device-logs")]
pub fn dump_with_lines(path: &Path, image: &crate::ImageFile, most: usize) -> Result<Dump, InspectError> {
    let window = window::open(path)?;
    let mut dump = Dump::of(&window, &path.display().to_string());
    dump.read_lines(&window, image, most);
    Ok(dump)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod cases;
#[cfg(test)]
mod tests {
    use super::cases::{used, view};
    use super::*;
    use hamr_comm::abi::preamble::word;

    #[test]
    fn a_window_in_use_shows_its_slots_and_handlers() {
        let dump = Dump::of(&view(&used()), "a copy");
        assert_eq!(dump.problems, Vec::<String>::new());
        assert_eq!(dump.host.state, "ready");
        let states: Vec<_> = dump.queues[1].slots.iter().map(|s| (s.kind, s.index, s.state)).collect();
        assert_eq!(states, [("hot", 0, "requested"), ("ring", 0, "answered"), ("ring", 1, "stale epoch")]);
        let request = dump.queues[1].slots[0].request.as_ref().expect("it was requested");
        assert_eq!(request.handler.as_deref(), dump.handlers.first().map(|h| &*h.name));
        assert_eq!(dump.queues[1].slots[0].payload, "ab00000000000000");
        let text = dump.to_string();
        assert!(text.contains("requested") && text.contains("ready"), "{text}");
        serde_json::to_string(&dump).expect("plain data");
    }

    #[test]
    fn a_file_without_the_magic_word_says_so() {
        let dump = Dump::of(&view(&[0x5A; 4096]), "garbage");
        assert!(dump.problems.iter().any(|p| p.contains("magic")), "{:?}", dump.problems);
        assert!(dump.to_string().contains("magic"));
    }

    #[test]
    fn what_is_no_window_is_refused_by_name() {
        for (path, word) in [("/", "directory"), ("/dev/null", "got a device"), ("/nonexistent/window", "looking")] {
            let why = dump(Path::new(path)).expect_err("it is none").to_string();
            assert!(why.contains(word) && why.contains(path), "{why}");
        }
    }

    #[test]
    fn the_epoch_of_a_fresh_window_is_the_hosts_word() {
        let mut bytes = used();
        let at = word::EPOCH as usize;
        bytes[at..at + 4].copy_from_slice(&5u32.to_le_bytes());
        assert_eq!(Dump::of(&view(&bytes), "").host.epoch, 5);
    }
}
