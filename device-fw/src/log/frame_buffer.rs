//! Collects the pieces that defmt writes into whole frames, and puts them into the ring, or into a
//! small buffer of this image while there is no ring.

use super::RingWriter;
use defmt::Encoder;
use hamr_comm::abi::rings::{LogLevel, RingHeader};
use hamr_comm::abi::sync::Order;

/// Bytes of a frame, encoded. Longer ones are dropped.
const FRAME: usize = RingHeader::MAX_FRAME as usize;
/// Bytes of frames kept for the first host: the image's start, and what went wrong before a host
/// was accepted.
const EARLY: usize = 1024;

/// The state of the frame being written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// There is none.
    Closed,
    /// Its id comes next, from which its severity follows.
    Begun,
    /// It is being encoded.
    Open,
    /// The host does not want it.
    Muted,
}

/// One writer's frames, each collected here and then published whole.
pub struct FrameBuffer<K, F> {
    encoder: Encoder,
    phase: Phase,
    /// May exceed [`FRAME`] by what did not fit.
    used: usize,
    early_used: usize,
    /// Frames kept until there is a ring.
    early_frames: u32,
    /// Frames lost while there was no ring.
    lost: u32,
    ring: Option<RingWriter<K, F>>,
    frame: [u8; FRAME],
    early: [u8; EARLY],
}

impl<K, F: Order> Default for FrameBuffer<K, F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, F: Order> FrameBuffer<K, F> {
    /// With nothing in it.
    pub const fn new() -> Self {
        Self {
            encoder: Encoder::new(),
            phase: Phase::Closed,
            used: 0,
            early_used: 0,
            early_frames: 0,
            lost: 0,
            ring: None,
            frame: [0; FRAME],
            early: [0; EARLY],
        }
    }

    /// A frame begins. One that was begun and never ended, because its call was abandoned, is lost.
    pub fn begin(&mut self) {
        if self.phase == Phase::Open {
            self.encoder.end_frame(|_| ());
            self.lose();
        }
        (self.phase, self.used) = (Phase::Begun, 0);
    }

    /// A piece of the frame; the first is its id. `first_id` returns the smallest id of a level:
    /// ids are in order of severity.
    pub fn write(&mut self, bytes: &[u8], first_id: impl FnOnce(LogLevel) -> u16) {
        if self.phase == Phase::Begun {
            let wanted = match (&self.ring, bytes) {
                (Some(ring), &[low, high]) => u16::from_le_bytes([low, high]) >= first_id(ring.level()),
                // The first host may want any level; its reader leaves out what it did not ask for.
                _ => true,
            };
            self.phase = if wanted { Phase::Open } else { Phase::Muted };
            if wanted {
                let (frame, used) = (&mut self.frame, &mut self.used);
                self.encoder.start_frame(|encoded| push(frame, used, encoded));
            }
        }
        if self.phase == Phase::Open {
            let (frame, used) = (&mut self.frame, &mut self.used);
            self.encoder.write(bytes, |encoded| push(frame, used, encoded));
        }
    }

    /// The frame is whole.
    pub fn end(&mut self) {
        let phase = core::mem::replace(&mut self.phase, Phase::Closed);
        if phase != Phase::Open {
            return;
        }
        let (frame, used) = (&mut self.frame, &mut self.used);
        self.encoder.end_frame(|encoded| push(frame, used, encoded));
        let Some(frame) = self.frame.get(..self.used) else { return self.lose() };
        if let Some(ring) = &mut self.ring {
            return ring.put(frame, 1);
        }
        match self.early.get_mut(self.early_used..self.early_used + self.used) {
            Some(room) => {
                room.copy_from_slice(frame);
                self.early_used += self.used;
                self.early_frames += 1;
            }
            None => self.lose(),
        }
    }

    #[cold]
    fn lose(&mut self) {
        match &mut self.ring {
            Some(ring) => ring.count_dropped(1),
            None => self.lost = self.lost.saturating_add(1),
        }
    }

    /// The writer was abandoned, perhaps in the middle of a function of this frame buffer: its
    /// frame is lost, and the ring, which it may have left in any state, is not used again. Frames
    /// are kept here until the next ring is attached.
    pub fn begin_epoch(&mut self) {
        (self.phase, self.encoder, self.ring) = (Phase::Closed, Encoder::new(), None);
        self.lose();
    }

    /// Where frames go from now on, beginning with those that were kept; `None` keeps them here
    /// again.
    pub fn attach(&mut self, ring: Option<RingWriter<K, F>>) {
        self.ring = ring;
        if let Some(ring) = &mut self.ring {
            if let Some(early) = self.early.get(..self.early_used) {
                ring.put(early, self.early_frames);
            }
            ring.count_dropped(self.lost);
            (self.early_used, self.early_frames, self.lost) = (0, 0, 0);
        }
    }
}

/// Outlined: the encoder calls it in a dozen places, a byte at a time.
#[inline(never)]
fn push(frame: &mut [u8; FRAME], used: &mut usize, bytes: &[u8]) {
    for &byte in bytes {
        if let Some(at) = frame.get_mut(*used) {
            *at = byte;
        }
        // It counts beyond the end, too: so `end` detects that something is missing.
        *used = used.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::abi::sync::Coherent;
    use hamr_comm::abi::window::{Private, Window};
    use std::vec::Vec;

    type Bench = FrameBuffer<Private, Coherent>;

    const LEN: u64 = 4096;
    /// Ids of the test: 10 of each level, the least severe first.
    fn first_id(level: LogLevel) -> u16 {
        [50, 40, 30, 20, 10].get(level.0 as usize).copied().unwrap_or(10)
    }

    fn line(frame_buffer: &mut Bench, id: u16, text: &[u8]) {
        frame_buffer.begin();
        frame_buffer.write(&id.to_le_bytes(), first_id);
        frame_buffer.write(text, first_id);
        frame_buffer.end();
    }

    fn ring() -> (Window<Private>, RingWriter<Private, Coherent>) {
        let window = Window::private(RingHeader::BYTES + LEN);
        let writer = RingWriter::new(window.part(0, window.len()).expect("all of it")).expect("long enough");
        (window, writer)
    }

    /// Frames in the ring, encoded, without their end marks.
    fn frames(window: &Window<Private>) -> Vec<Vec<u8>> {
        let header: RingHeader = window.read(0).expect("a header");
        let mut bytes = [0; LEN as usize];
        window.read_bytes(RingHeader::BYTES, &mut bytes).expect("a ring");
        let all = bytes[..header.written as usize].split(|b| *b == 0);
        all.filter(|f| !f.is_empty()).map(<[u8]>::to_vec).collect()
    }

    fn dropped(window: &Window<Private>) -> u32 {
        window.read::<RingHeader>(0).expect("a header").dropped
    }

    #[test]
    fn lines_logged_before_there_was_a_ring_come_first() {
        let mut frame_buffer = Bench::new();
        line(&mut frame_buffer, 11, b"early");
        let (window, writer) = ring();
        frame_buffer.attach(Some(writer));
        line(&mut frame_buffer, 55, b"later");
        let frames = frames(&window);
        assert_eq!(frames.len(), 2);
        assert!(frames[0].ends_with(b"early\x7f") || frames[0].windows(5).any(|w| w == b"early"), "{frames:?}");
        assert!(frames[1].windows(5).any(|w| w == b"later"), "{frames:?}");
    }

    #[test]
    fn the_hosts_level_decides_line_by_line() {
        let mut frame_buffer = Bench::new();
        let (window, writer) = ring();
        frame_buffer.attach(Some(writer));
        for (level, count) in [(0, 1), (1, 2), (2, 3), (4, 5), (77, 5)] {
            let before = frames(&window).len();
            window.word(RingHeader::LEVEL).expect("in the header").store(level);
            for id in [12, 22, 32, 42, 52] {
                line(&mut frame_buffer, id, b"text");
            }
            assert_eq!(frames(&window).len() - before, count, "level {level}");
        }
        assert_eq!(dropped(&window), 0, "a muted frame is not lost");
    }

    #[test]
    fn early_lines_that_do_not_fit_are_counted() {
        let mut frame_buffer = Bench::new();
        for _ in 0..100 {
            line(&mut frame_buffer, 30, &[b'x'; 93]);
        }
        let (window, writer) = ring();
        frame_buffer.attach(Some(writer));
        let kept = frames(&window).len() as u32;
        assert!(kept > 5 && kept + dropped(&window) == 100, "{kept} and {}", dropped(&window));
    }

    #[test]
    fn a_frame_too_long_is_dropped_and_the_next_one_is_whole() {
        let mut frame_buffer = Bench::new();
        let (window, writer) = ring();
        frame_buffer.attach(Some(writer));
        line(&mut frame_buffer, 52, &[b'y'; FRAME]);
        line(&mut frame_buffer, 52, b"short");
        assert_eq!((frames(&window).len(), dropped(&window)), (1, 1));
    }

    #[test]
    fn a_reset_frame_buffer_uses_nothing_of_the_old_ring() {
        let mut frame_buffer = Bench::new();
        let (old, writer) = ring();
        frame_buffer.attach(Some(writer));
        frame_buffer.begin();
        frame_buffer.write(&52u16.to_le_bytes(), first_id);
        // Seven bytes make the encoder remember one that is not written yet.
        frame_buffer.write(b"half of", first_id);
        frame_buffer.begin_epoch();
        line(&mut frame_buffer, 52, b"early");
        assert_eq!((frames(&old).len(), dropped(&old)), (0, 0));
        let (window, writer) = ring();
        frame_buffer.attach(Some(writer));
        line(&mut frame_buffer, 52, b"whole");
        let frames = frames(&window);
        assert_eq!((frames.len(), dropped(&window)), (2, 1));
        assert!(frames[0].windows(5).any(|w| w == b"early"), "{frames:?}");
        assert!(frames[1].windows(5).any(|w| w == b"whole"), "{frames:?}");
    }

    #[test]
    fn an_abandoned_frame_is_lost_and_the_next_one_is_whole() {
        let mut frame_buffer = Bench::new();
        let (window, writer) = ring();
        frame_buffer.attach(Some(writer));
        frame_buffer.begin();
        frame_buffer.write(&52u16.to_le_bytes(), first_id);
        frame_buffer.write(b"half", first_id);
        line(&mut frame_buffer, 52, b"whole");
        // A frame inside of another: the outer one's end comes late, and ends nothing.
        frame_buffer.end();
        let frames = frames(&window);
        assert_eq!((frames.len(), dropped(&window)), (1, 1));
        assert!(frames[0].windows(5).any(|w| w == b"whole"), "{frames:?}");
    }
}
