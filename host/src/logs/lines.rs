//! Makes log lines of a ring's bytes, and counts the lines that are missing.

use super::string_table::StringTable;
use super::{LogEvent, LogLevel, LogLine};
use crate::log_ring::{Cursor, Taken};
use hamr_comm::abi::rings::RingHeader;
use hamr_comm::abi::section::Section;
use hamr_comm::abi::window::{Shared, Window};

/// Frames by which a device's count may lag behind the frames found: those that it wrote while the
/// host read.
const MOST_LAG: u32 = 1 << 20;

/// One epoch's lines. What the device counts and this has not found, is lost.
#[derive(Debug)]
pub(super) struct Decoder {
    string_table: StringTable,
    frames: Frames,
    /// Frames found, those that are no lines included, mod 2^32.
    found: u32,
    /// Frames reported as lost, mod 2^32.
    lost: u32,
}

impl Decoder {
    /// Of a ring that is read from its beginning, or from somewhere.
    pub(super) fn new(string_table: StringTable, is_at_start: bool) -> Self {
        Self { string_table, frames: Frames { rest: Vec::new(), is_whole: is_at_start }, found: 0, lost: 0 }
    }

    /// A new epoch begins.
    pub(super) fn restart(&mut self) {
        self.frames = Frames { rest: Vec::new(), is_whole: true };
        (self.found, self.lost) = (0, 0);
    }

    pub(super) fn decode(&mut self, taken: Taken, level: LogLevel, events: &mut Vec<LogEvent>) {
        if taken.impossible || taken.overtaken {
            // What follows is not the rest of the frame that was begun.
            self.frames = Frames { rest: Vec::new(), is_whole: false };
        }
        if taken.impossible {
            // Whatever lies there is not what was announced.
            events.push(LogEvent::Garbled(0));
        }
        let frames = self.frames.split(&taken.bytes);
        self.found = self.found.wrapping_add(frames.len() as u32);
        if let Some(made) = taken.made {
            let lost = made.wrapping_sub(self.found).wrapping_sub(self.lost);
            // Below zero, the count lags behind.
            if (1..MOST_LAG.wrapping_neg()).contains(&lost) {
                self.lost = self.lost.wrapping_add(lost);
                events.push(LogEvent::Lost(lost));
            }
        }
        for frame in frames {
            match line(&self.string_table, &frame) {
                // Lines from before the host was there come whatever their level.
                Some(line) if line.level.is_some_and(|l| l > level) => {}
                Some(line) => events.push(LogEvent::Line(line)),
                None => match events.last_mut() {
                    Some(LogEvent::Garbled(bytes)) => *bytes += frame.len(),
                    _ => events.push(LogEvent::Garbled(frame.len())),
                },
            }
        }
    }
}

pub(super) fn line(string_table: &StringTable, frame: &[u8]) -> Option<LogLine> {
    string_table.line(&decoded(frame)?).ok()
}

/// A frame's bytes, at most seven times as many as its code has. The crate has no limit of its own,
/// and a device may leave out the zeros between frames: the length is checked here.
fn decoded(frame: &[u8]) -> Option<Vec<u8>> {
    // The end mark, which is cut off here, counts.
    if frame.len() >= RingHeader::MAX_FRAME as usize {
        return None;
    }
    rzcobs::decode(frame).ok()
}

/// Cuts bytes at the zeros between frames.
#[derive(Debug)]
pub(super) struct Frames {
    /// The beginning of a frame whose end has not come.
    pub(super) rest: Vec<u8>,
    /// Is what comes next the beginning of a frame?
    pub(super) is_whole: bool,
}

impl Frames {
    pub(super) fn split(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for piece in bytes.split_inclusive(|b| *b == 0) {
            self.rest.extend_from_slice(piece.strip_suffix(&[0]).unwrap_or(piece));
            if piece.ends_with(&[0]) {
                let frame = std::mem::take(&mut self.rest);
                if std::mem::replace(&mut self.is_whole, true) && !frame.is_empty() {
                    frames.push(frame);
                }
            } else if self.rest.len() > RingHeader::MAX_FRAME as usize {
                // No writer makes frames this long: it is reported as what it is, at its end.
                self.rest.truncate(RingHeader::MAX_FRAME as usize + 1);
            }
        }
        frames
    }
}

/// The last lines in a window's ring, read or not: for tools that inspect it. Its state is not
/// changed.
pub(crate) fn last_lines(
    window: &Window<Shared>,
    section: Section,
    string_table: &StringTable,
    most: usize,
) -> Vec<LogLine> {
    let Some(mut cursor) = Cursor::at_oldest(window, section) else { return Vec::new() };
    let mut frames = Frames { rest: Vec::new(), is_whole: cursor.is_at_start() };
    let mut lines: Vec<LogLine> = Vec::new();
    // No longer than what was there at the beginning: a device may log faster than this reads.
    for _ in 0..cursor.looks() {
        let taken = cursor.take(window);
        if taken.overtaken {
            frames = Frames { rest: Vec::new(), is_whole: false };
        }
        lines.extend(frames.split(&taken.bytes).iter().filter_map(|frame| line(string_table, frame)));
        lines.drain(..lines.len().saturating_sub(most));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The longest frame's bytes, without its end mark.
    const MOST: usize = RingHeader::MAX_FRAME as usize - 1;

    /// The writer's half: the encoder of the image.
    fn encode(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = defmt::Encoder::new();
        let mut encoded = Vec::new();
        encoder.start_frame(|b| encoded.extend_from_slice(b));
        encoder.write(bytes, |b| encoded.extend_from_slice(b));
        encoder.end_frame(|b| encoded.extend_from_slice(b));
        assert_eq!((encoded.first(), encoded.last()), (Some(&0), Some(&0)));
        encoded[1..encoded.len() - 1].to_vec()
    }

    #[test]
    fn frame_longer_than_any_writers_is_refused() {
        // All zeros: nothing stands for more bytes.
        assert_eq!(decoded(&[0x7F; MOST]), Some(vec![0; 7 * MOST]));
        assert_eq!(decoded(&[0x7F; MOST + 1]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_the_image_encodes_comes_out(bytes in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..400)) {
            let encoded = encode(&bytes);
            prop_assert!(!encoded.contains(&0));
            let decoded = decoded(&encoded).expect("a frame");
            // Groups of seven are filled up with zeros.
            prop_assert_eq!(&decoded[..bytes.len()], &bytes[..]);
            prop_assert!(decoded.len() < bytes.len() + 7 && decoded[bytes.len()..].iter().all(|b| *b == 0));
        }

        #[test]
        fn anything_is_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            if let Some(decoded) = decoded(&bytes) {
                prop_assert!(bytes.len() <= MOST && decoded.len() <= 7 * bytes.len());
            }
        }
    }
}
