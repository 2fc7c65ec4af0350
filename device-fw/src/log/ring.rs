//! The window's log ring, seen from the device (abi §9).

use core::marker::PhantomData;
use hamr_comm::abi::rings::{LogLevel, RingHeader};
use hamr_comm::abi::sync::Order;
use hamr_comm::abi::window::Window;

/// Writes whole frames into a LOG section. What does not fit is counted and dropped: a writer never
/// waits for its reader.
pub struct RingWriter<K, F> {
    section: Window<K>,
    /// Bytes of ring, a power of two.
    len: u32,
    /// Bytes written in this epoch, mod 2^32.
    written: u32,
    /// Frames written in this epoch, mod 2^32.
    frames: u32,
    /// Frames dropped in this epoch.
    dropped: u32,
    /// The last frame found no room. No shorter one is written after it: the log stays without gaps
    /// until the reader has made room.
    is_full: bool,
    _order: PhantomData<F>,
}

impl<K, F: Order> RingWriter<K, F> {
    /// A writer that begins where the host's layout left off: with nothing written. `None` when no
    /// frame fits.
    pub fn new(section: Window<K>) -> Option<Self> {
        let len = RingHeader::ring_len(section.len());
        (len != 0).then_some(Self {
            section,
            len,
            written: 0,
            frames: 0,
            dropped: 0,
            is_full: false,
            _order: PhantomData,
        })
    }

    fn word(&self, off: u64) -> u32 {
        // An Acquire load: bytes of the ring must not be written before the reader has published
        // that it has read them.
        self.section.word(off).map_or(0, |word| word.observe())
    }

    /// The least severe level that the host wants.
    pub fn level(&self) -> LogLevel {
        LogLevel(self.word(RingHeader::LEVEL))
    }

    /// Bytes that may be written now. A `consumed` that no honest reader could store leaves no
    /// room.
    fn room(&self) -> u32 {
        if self.word(RingHeader::READER) == 0 {
            return self.len;
        }
        let unread = self.written.wrapping_sub(self.word(RingHeader::CONSUMED));
        self.len.saturating_sub(unread)
    }

    /// Appends so many whole frames, published with one store; or drops and counts them.
    pub fn put(&mut self, frames: &[u8], count: u32) {
        let needed = if self.is_full { frames.len().max(RingHeader::MAX_FRAME as usize) } else { frames.len() };
        self.is_full = needed > self.room() as usize;
        if self.is_full {
            // It is published again: a reader that saw another value, written by a peer, would wait
            // for ever.
            self.set(RingHeader::WRITTEN, self.written);
            return self.count_dropped(count);
        }
        let at = self.written & (self.len - 1);
        let (front, back) = frames.split_at(frames.len().min((self.len - at) as usize));
        // Both are in the ring: `at` is below its length, and the parts together are no longer than
        // it.
        let _ = self.section.write_bytes(RingHeader::BYTES + u64::from(at), front);
        let _ = self.section.write_bytes(RingHeader::BYTES, back);
        self.written = self.written.wrapping_add(frames.len() as u32);
        self.frames = self.frames.wrapping_add(count);
        self.set(RingHeader::WRITTEN, self.written);
        // Behind the bytes: a reader that takes this count first finds at least so many frames.
        self.set(RingHeader::FRAMES, self.frames);
    }

    fn set(&self, off: u64, value: u32) {
        if let Ok(word) = self.section.word(off) {
            word.publish_ordered::<F>(value);
        }
    }

    /// Adds to the count of frames that no reader will get.
    pub fn count_dropped(&mut self, frames: u32) {
        self.dropped = self.dropped.wrapping_add(frames);
        if let Ok(word) = self.section.word(RingHeader::DROPPED) {
            word.store(self.dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::abi::sync::Coherent;
    use hamr_comm::abi::window::Private;
    use std::vec;
    use std::vec::Vec;

    const LEN: u64 = 2048;

    struct Bench {
        window: Window<Private>,
        writer: RingWriter<Private, Coherent>,
    }

    impl Bench {
        fn new() -> Self {
            let window = Window::private(RingHeader::BYTES + LEN);
            let writer = RingWriter::new(window.part(0, window.len()).expect("all of it")).expect("long enough");
            Self { window, writer }
        }

        fn set(&self, off: u64, value: u32) {
            self.window.word(off).expect("in the header").publish(value);
        }

        fn header(&self) -> RingHeader {
            self.window.read(0).expect("in the window")
        }

        /// The last `len` bytes written.
        fn tail(&self, len: u32) -> Vec<u8> {
            let end = self.header().written;
            let byte = |i: u32| {
                let at = u64::from(end.wrapping_sub(len).wrapping_add(i)) % LEN;
                let mut byte = [0];
                self.window.read_bytes(RingHeader::BYTES + at, &mut byte).expect("in the ring");
                byte[0]
            };
            (0..len).map(byte).collect()
        }
    }

    #[test]
    fn frames_wrap_and_the_oldest_give_way_when_nobody_reads() {
        let mut bench = Bench::new();
        for round in 0..50u8 {
            let frame = vec![round + 1; 100];
            bench.writer.put(&frame, 1);
            assert_eq!(bench.tail(100), frame);
        }
        let RingHeader { written, dropped, frames, .. } = bench.header();
        assert_eq!((written, dropped, frames), (5000, 0, 50));
    }

    #[test]
    fn a_reader_loses_nothing_that_is_not_counted() {
        let mut bench = Bench::new();
        bench.set(RingHeader::READER, 1);
        for _ in 0..30 {
            bench.writer.put(&[7; 100], 1);
        }
        assert_eq!((bench.header().written, bench.header().dropped), (2000, 10));
        bench.set(RingHeader::CONSUMED, 2000);
        bench.writer.put(&[8; 2000], 3);
        assert_eq!(bench.tail(2000), [8; 2000]);
        assert_eq!((bench.header().frames, bench.header().dropped), (23, 10));
        bench.writer.put(&[9; 100], 2);
        assert_eq!((bench.header().frames, bench.header().dropped), (23, 12), "there was no room for either");
    }

    #[test]
    fn a_shorter_frame_does_not_come_after_a_longer_one_was_lost() {
        let mut bench = Bench::new();
        bench.set(RingHeader::READER, 1);
        for len in [1000, 1000, 100, 10, 1] {
            bench.writer.put(&vec![7; len], 1);
        }
        assert_eq!((bench.header().written, bench.header().dropped), (2000, 3));
        bench.set(RingHeader::CONSUMED, 1000);
        bench.writer.put(&[8; 10], 1);
        assert_eq!((bench.header().written, bench.header().dropped), (2010, 3));
    }

    #[test]
    fn a_garbled_reader_only_loses_lines() {
        let mut bench = Bench::new();
        bench.set(RingHeader::READER, 1);
        for consumed in [1, LEN as u32, u32::MAX - LEN as u32, 1 << 31] {
            bench.set(RingHeader::CONSUMED, consumed);
            bench.writer.put(&[1; 10], 1);
        }
        assert_eq!((bench.header().written, bench.header().dropped), (0, 4));
        // The window was overwritten, and the host has consumed bytes that were never written.
        // `put` publishes the true count, and there is room again.
        bench.set(RingHeader::CONSUMED, 0);
        bench.writer.put(&[1; 100], 1);
        bench.set(RingHeader::WRITTEN, 12_345);
        bench.set(RingHeader::CONSUMED, 12_345);
        bench.writer.put(&[2; 10], 1);
        assert_eq!((bench.header().written, bench.header().dropped), (100, 5));
    }

    #[test]
    fn a_section_without_room_for_a_frame_is_no_ring() {
        for len in [0, 64, 128, RingHeader::BYTES + 1023] {
            let window = Window::private(2048);
            let part = window.part(0, len).expect("inside");
            assert_eq!(RingWriter::<_, Coherent>::new(part).is_some(), len >= RingHeader::BYTES + 1024);
        }
    }
}
