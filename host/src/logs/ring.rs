//! The window's log ring, seen from the host (abi §9). Nothing in it is trusted: at worst lines are missing or garbled.

use hamr_comm::abi::rings::{LogLevel, RingHeader};
use hamr_comm::abi::section::Section;
use hamr_comm::abi::window::{Shared, Window};

/// Bytes that one look takes out of the ring.
const MOST: u32 = 1 << 16;

/// What a ring held since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) bytes: Vec<u8>,
    /// Frames that the device had no room for.
    pub(super) dropped: u32,
    /// The device's word cannot be: reading starts again where it says that it is.
    pub(super) impossible: bool,
}

/// A place in a ring. The ring itself is named anew at each use, since its owner keeps the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    section: Section,
    /// Bytes of ring, a power of two.
    len: u32,
    position: u32,
    dropped: u32,
}

impl Cursor {
    /// At the oldest bytes of the ring. `None` when the section has no room for one.
    pub(super) fn at_oldest(window: &Window<Shared>, section: Section) -> Option<Self> {
        let len = RingHeader::ring_len(section.len);
        let inside = section.end().is_some_and(|end| end <= window.len());
        if len == 0 || !inside {
            return None;
        }
        let cursor = Self { section, len, position: 0, dropped: 0 };
        let written = cursor.word(window, RingHeader::WRITTEN);
        // A device that nobody reads from goes on over the oldest while we look. Half a ring is out of its reach.
        let safe = if written <= len / 8 * 7 { written } else { len / 2 };
        Some(Self { position: written.wrapping_sub(safe), ..cursor })
    }

    /// Where a reader stands, by the word that it told the device.
    pub(super) fn at_consumed(window: &Window<Shared>, section: Section) -> Option<Self> {
        let cursor = Self::at_oldest(window, section)?;
        Some(Self { position: cursor.word(window, RingHeader::CONSUMED), ..cursor })
    }

    /// Is the first frame whole?
    pub(super) fn is_at_start(&self) -> bool {
        self.position == 0
    }

    /// Where the next epoch's writer begins.
    pub(super) fn rewind(&mut self) {
        (self.position, self.dropped) = (0, 0);
    }

    fn word(&self, window: &Window<Shared>, off: u64) -> u32 {
        window.word(self.section.off + off).map_or(0, |word| word.observe())
    }

    fn say(&self, window: &Window<Shared>, off: u64, value: u32) {
        if let Ok(word) = window.word(self.section.off + off) {
            word.publish(value);
        }
    }

    /// From now on the device keeps what has not been read; or it does not.
    pub(super) fn claim(&self, window: &Window<Shared>, reads: bool) {
        self.say(window, RingHeader::CONSUMED, self.position);
        self.say(window, RingHeader::READER, u32::from(reads));
    }

    /// Does somebody read?
    pub(super) fn is_claimed(&self, window: &Window<Shared>) -> bool {
        self.word(window, RingHeader::READER) != 0
    }

    /// The level that the host wants.
    pub(super) fn level(&self, window: &Window<Shared>) -> LogLevel {
        LogLevel(self.word(window, RingHeader::LEVEL))
    }

    /// Copies what is new, and goes on behind it.
    pub(super) fn take(&mut self, window: &Window<Shared>) -> Taken {
        let dropped = self.word(window, RingHeader::DROPPED);
        let mut taken = Taken { dropped: dropped.wrapping_sub(self.dropped), ..Taken::default() };
        self.dropped = dropped;
        let written = self.word(window, RingHeader::WRITTEN);
        let unread = written.wrapping_sub(self.position);
        if unread > self.len {
            self.position = written;
            taken.impossible = true;
            return taken;
        }
        let count = unread.min(MOST);
        taken.bytes = vec![0; count as usize];
        let at = self.position & (self.len - 1);
        let (front, back) = taken.bytes.split_at_mut(count.min(self.len - at) as usize);
        let ring = self.section.off + RingHeader::BYTES;
        // Both lie in the section, which lies in the window.
        let _ = window.read_bytes(ring + u64::from(at), front);
        let _ = window.read_bytes(ring, back);
        self.position = self.position.wrapping_add(count);
        taken
    }

    /// Tells the device how far we are.
    pub(super) fn give_back(&self, window: &Window<Shared>) {
        self.say(window, RingHeader::CONSUMED, self.position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::abi::section::SectionKind;
    use proptest::prelude::*;

    const LEN: u32 = 1024;

    fn bench() -> (Window<Shared>, Section) {
        let window = Window::private(64 + RingHeader::BYTES + u64::from(LEN)).share();
        let section = Section { kind: SectionKind::LOG, off: 64, len: window.len() - 64, ..Section::EMPTY };
        (window, section)
    }

    fn device_says(window: &Window<Shared>, off: u64, value: u32) {
        window.word(64 + off).expect("in the header").publish(value);
    }

    #[test]
    fn bytes_come_once_and_round_the_end() {
        let (window, section) = bench();
        let mut cursor = Cursor::at_oldest(&window, section).expect("room");
        for written in [1000u32, 1500] {
            device_says(&window, RingHeader::WRITTEN, written);
            let taken = cursor.take(&window);
            assert_eq!((taken.bytes.len(), taken.impossible), (if written == 1000 { 1000 } else { 500 }, false));
            cursor.give_back(&window);
            assert_eq!(window.word(64 + RingHeader::CONSUMED).expect("there").load(), written);
        }
        assert_eq!(cursor.take(&window), Taken::default());
    }

    #[test]
    fn a_full_ring_without_a_reader_gives_its_younger_half() {
        let (window, section) = bench();
        device_says(&window, RingHeader::WRITTEN, 70_000);
        let mut cursor = Cursor::at_oldest(&window, section).expect("room");
        assert!(!cursor.is_at_start());
        assert_eq!(cursor.take(&window).bytes.len() as u32, LEN / 2);
    }

    #[test]
    fn a_section_outside_of_the_window_is_no_ring() {
        let (window, section) = bench();
        assert!(Cursor::at_oldest(&window, Section { len: section.len + 64, ..section }).is_none());
        assert!(Cursor::at_oldest(&window, Section { off: u64::MAX - 63, ..section }).is_none());
        assert!(Cursor::at_oldest(&window, Section { len: 512, ..section }).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_the_device_says_a_look_ends(words in proptest::collection::vec((0u64..5, any::<u32>()), 0..50)) {
            let (window, section) = bench();
            let mut cursor = Cursor::at_oldest(&window, section).expect("room");
            for (word, value) in words {
                device_says(&window, word * 4, value);
                let taken = cursor.take(&window);
                prop_assert!(taken.bytes.len() as u32 <= LEN);
                cursor.give_back(&window);
                // What was impossible was said once.
                prop_assert_eq!(cursor.take(&window), Taken::default());
            }
        }
    }
}
