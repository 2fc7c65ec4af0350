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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Link, Loopback};
    use crate::mapping::map_window;
    use crate::window::copied;
    use hamr_comm::abi::layout::{Layout, Plan};
    use hamr_comm::abi::preamble::word;
    use hamr_comm::abi::slot::{ReqHdr, seq};
    use hamr_comm::abi::window::{Shared, Window};
    use hamr_comm::am::{SlotAccess, Slots};
    use hamr_comm::handshake::{HostHandshake, Offer};
    use hamr_comm::registry::Table;
    use proptest::prelude::*;

    fn view(bytes: &[u8]) -> Window<Shared> {
        let copy = copied(bytes, bytes.len() as u64).expect("a memfd");
        map_window(&copy, bytes.len() as u64, false).expect("it maps")
    }

    fn image_of(window: &Window<Shared>) -> Vec<u8> {
        let mut bytes = vec![0; window.len() as usize];
        window.read_bytes(0, &mut bytes).expect("all of it");
        bytes
    }

    /// A window in use: offered, accepted, ready, one request in the hot slot of queue 1 and one
    /// answered in its ring.
    fn used() -> Vec<u8> {
        let plan =
            Plan { streams: 2, ring: 4, tickets: 2, chunk: 64, heap: 4096, log: 128, trace: 128, ..Plan::default() };
        let layout = Layout::plan(&plan).expect("a sound plan");
        let link = Loopback::new(layout.heap(), Table::of_this_image());
        let window = link.window();
        let offer = Offer {
            features: 3,
            required: 1,
            fingerprint: 7,
            pid: 42,
            ..Offer::new(plan, hamr_comm::abi::ids::NodeId(1))
        };
        let (handshake, layout) =
            HostHandshake::offer(window, &offer, hamr_comm::abi::ids::Epoch::FIRST).expect("it fits");
        for _ in 0..8 {
            link.wait(0);
        }
        handshake.ready(window);
        let descriptor = layout.queue(window, 1).expect("its own descriptor");
        let queue = window.queue(&descriptor).expect("it lies in the window");
        let hdr = ReqHdr::inline(hamr_comm::abi::ids::HandlerKey(0), 8).0;
        queue.hot().write_request(&[0xAB, 0, 0, 0, 0, 0]);
        queue.hot().publish_request(hdr, seq(1, 1, 24));
        queue.ring(0).publish_request(hdr, seq(1, 1, 24));
        queue.ring(0).publish_reply(0, seq(1, 1, 24));
        queue.ring(1).publish_request(hdr, seq(9, 1, 24));
        // Behind the link's window is the heap.
        let mut bytes = image_of(window);
        bytes.resize(layout.window_len() as usize, 0);
        bytes
    }

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

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn random_bytes_give_a_report(bytes in proptest::collection::vec(any::<u8>(), 4096)) {
            let mut bytes = bytes;
            let dump = Dump::of(&view(&bytes), "").to_string();
            prop_assert!(!dump.is_empty());
            bytes[..4].copy_from_slice(b"HAMR");
            prop_assert!(!Dump::of(&view(&bytes), "").to_string().is_empty());
        }

        #[test]
        fn a_garbled_window_gives_a_report(flips in proptest::collection::vec((0usize..0x3000, any::<u8>()), 1..64)) {
            let mut bytes = used();
            for (at, value) in flips {
                // The magic word stays: without it the report is a short one.
                if let Some(byte) = bytes.get_mut(at + 4) {
                    *byte = value;
                }
            }
            let dump = Dump::of(&view(&bytes), "");
            prop_assert!(!dump.to_string().is_empty());
            prop_assert!(serde_json::to_string(&dump).is_ok());
        }
    }
}
