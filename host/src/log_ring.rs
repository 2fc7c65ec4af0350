//! The window's log ring, as the host reads it (abi §9). The host checks every value in it: at
//! worst lines are missing or garbled.

use hamr_comm::abi::rings::{LogLevel, RingHeader};
use hamr_comm::abi::section::Section;
use hamr_comm::abi::sync::{Ordering, fence};
use hamr_comm::abi::window::{Shared, Window};

/// Most bytes that one read takes out of the ring.
const MOST: u32 = 1 << 16;
/// Bytes that a writer may have begun to write beyond what it has published: a frame, and one whose
/// publication is on its way.
const BEGUN: u32 = 2 * RingHeader::MAX_FRAME;

/// What a ring contained since the last read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) bytes: Vec<u8>,
    /// Frames that the device made in this epoch, dropped ones included, mod 2^32: at most those
    /// that are before the cursor now. `None` when there is more to take.
    pub(crate) made: Option<u32>,
    /// The device overwrote bytes that were not read yet: these bytes do not follow the last ones.
    pub(crate) overtaken: bool,
    /// The device's word has an impossible value: reading starts again where the word points.
    pub(crate) impossible: bool,
}

/// A position in a ring. Each use passes the window again, because the window's owner keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    section: Section,
    /// Bytes of ring, a power of two.
    len: u32,
    position: u32,
    /// Does the device keep what this one has not read?
    is_waited_for: bool,
}

impl Cursor {
    /// At the oldest bytes of the ring. `None` when the section has no room for one.
    pub(crate) fn at_oldest(window: &Window<Shared>, section: Section) -> Option<Self> {
        let len = RingHeader::ring_len(section.len);
        let inside = section.end().is_some_and(|end| end <= window.len());
        if len == 0 || !inside {
            return None;
        }
        let cursor = Self { section, len, position: 0, is_waited_for: false };
        let written = cursor.word(window, RingHeader::WRITTEN);
        // A device without a reader writes over the oldest bytes meanwhile. It does not reach half
        // a ring.
        let safe = if written <= len / 8 * 7 { written } else { len / 2 };
        Some(Self { position: written.wrapping_sub(safe), ..cursor })
    }

    /// A reader's position, by the word that the reader published for the device.
    pub(crate) fn at_consumed(window: &Window<Shared>, section: Section) -> Option<Self> {
        let cursor = Self::at_oldest(window, section)?;
        Some(Self { position: cursor.word(window, RingHeader::CONSUMED), is_waited_for: true, ..cursor })
    }

    /// Is the first frame whole?
    pub(crate) fn is_at_start(&self) -> bool {
        self.position == 0
    }

    /// Where the next epoch's writer begins.
    pub(crate) fn rewind(&mut self) {
        self.position = 0;
    }

    fn word(&self, window: &Window<Shared>, off: u64) -> u32 {
        window.word(self.section.off + off).map_or(0, |word| word.observe())
    }

    fn set(&self, window: &Window<Shared>, off: u64, value: u32) {
        if let Ok(word) = window.word(self.section.off + off) {
            word.publish(value);
        }
    }

    /// From now on the device keeps what has not been read; or it does not.
    pub(crate) fn claim(&mut self, window: &Window<Shared>, reads: bool) {
        self.is_waited_for = reads;
        self.set(window, RingHeader::CONSUMED, self.position);
        self.set(window, RingHeader::READER, u32::from(reads));
    }

    /// Is there a reader?
    pub(crate) fn is_claimed(&self, window: &Window<Shared>) -> bool {
        self.word(window, RingHeader::READER) != 0
    }

    /// The level that the host has set.
    pub(crate) fn level(&self, window: &Window<Shared>) -> LogLevel {
        LogLevel(self.word(window, RingHeader::LEVEL))
    }

    /// Reads that cover all of a ring.
    pub(crate) fn looks(&self) -> u32 {
        self.len.div_ceil(MOST)
    }

    /// Copies what is new, and goes on behind it.
    pub(crate) fn take(&mut self, window: &Window<Shared>) -> Taken {
        let mut taken = Taken::default();
        // Before `written`, so that whatever is counted here lies before what is read there.
        let made = self.word(window, RingHeader::FRAMES).wrapping_add(self.word(window, RingHeader::DROPPED));
        let written = self.word(window, RingHeader::WRITTEN);
        let mut unread = written.wrapping_sub(self.position);
        if unread > self.len {
            self.position = written;
            (taken.impossible, taken.overtaken) = (self.is_waited_for, !self.is_waited_for);
            if taken.impossible {
                taken.made = Some(made);
                return taken;
            }
            // Half of a ring that is written over is out of the writer's reach for a while.
            unread = self.len / 2;
            self.position = written.wrapping_sub(unread);
        }
        let count = unread.min(MOST);
        taken.bytes = vec![0; count as usize];
        let at = self.position & (self.len - 1);
        let (front, back) = taken.bytes.split_at_mut(count.min(self.len - at) as usize);
        let ring = self.section.off + RingHeader::BYTES;
        // Both lie in the section, which lies in the window.
        let _ = window.read_bytes(ring + u64::from(at), front);
        let _ = window.read_bytes(ring, back);
        if !self.is_waited_for {
            // The copy comes before this load of the writer's progress.
            fence(Ordering::Acquire);
            let reach = self.word(window, RingHeader::WRITTEN).wrapping_sub(self.position).saturating_add(BEGUN);
            let gone = reach.saturating_sub(self.len).min(count);
            taken.bytes.drain(..gone as usize);
            taken.overtaken |= gone > 0;
        }
        self.position = self.position.wrapping_add(count);
        taken.made = (self.position == written).then_some(made);
        taken
    }

    /// Publishes the reader's position for the device.
    pub(crate) fn give_back(&self, window: &Window<Shared>) {
        self.set(window, RingHeader::CONSUMED, self.position);
    }
}

/// Sets the level of the wanted lines. It may be set before the first offer, so that it applies to
/// the device's first lines.
pub(crate) fn set_level(window: &Window<Shared>, section: Option<Section>, level: LogLevel) {
    if let Some(section) = section.filter(|section| section.len >= RingHeader::BYTES)
        && let Ok(word) = window.word(section.off + RingHeader::LEVEL)
    {
        word.store(level.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::abi::section::SectionKind;
    use proptest::prelude::*;

    const LEN: u32 = 8192;

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
        cursor.claim(&window, true);
        for written in [8000u32, 8500] {
            device_says(&window, RingHeader::WRITTEN, written);
            let taken = cursor.take(&window);
            assert_eq!((taken.bytes.len(), taken.impossible), (if written == 8000 { 8000 } else { 500 }, false));
            cursor.give_back(&window);
            assert_eq!(window.word(64 + RingHeader::CONSUMED).expect("there").load(), written);
        }
        assert_eq!(cursor.take(&window), Taken { made: Some(0), ..Taken::default() });
    }

    #[test]
    fn a_reader_that_is_not_waited_for_notices_that_it_was_overtaken() {
        let (window, section) = bench();
        let mut cursor = Cursor::at_oldest(&window, section).expect("room");
        device_says(&window, RingHeader::WRITTEN, LEN - BEGUN);
        let taken = cursor.take(&window);
        assert_eq!((taken.bytes.len() as u32, taken.overtaken), (LEN - BEGUN, false));
        // All of it is in the ring, and the oldest may be written over at any moment.
        device_says(&window, RingHeader::WRITTEN, 2 * LEN - BEGUN);
        let taken = cursor.take(&window);
        assert_eq!((taken.bytes.len() as u32, taken.overtaken), (LEN - BEGUN, true));
        device_says(&window, RingHeader::WRITTEN, 9 * LEN);
        let taken = cursor.take(&window);
        assert_eq!((taken.bytes.len() as u32, taken.overtaken, taken.impossible), (LEN / 2, true, false));
        assert_eq!(cursor.take(&window), Taken { made: Some(0), ..Taken::default() });
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
        fn a_poll_ends_whatever_the_device_writes(words in proptest::collection::vec((0u64..6, any::<u32>()), 0..50), claimed: bool) {
            let (window, section) = bench();
            let mut cursor = Cursor::at_oldest(&window, section).expect("room");
            cursor.claim(&window, claimed);
            for (word, value) in words {
                device_says(&window, word * 4, value);
                let taken = cursor.take(&window);
                prop_assert!(taken.bytes.len() as u32 <= LEN);
                cursor.give_back(&window);
                // An impossible value is reported once.
                let again = cursor.take(&window);
                prop_assert!(again.bytes.is_empty() && !again.impossible && !again.overtaken && again.made.is_some());
            }
        }
    }
}
