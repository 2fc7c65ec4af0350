//! From the bytes of a ring to lines, and to how many of them are missing.

use super::book::LogBook;
use super::cobs;
use super::ring::{Cursor, Taken};
use super::{LogEvent, LogLevel, LogLine};
use hamr_comm::abi::rings::RingHeader;
use hamr_comm::abi::section::Section;
use hamr_comm::abi::window::{Shared, Window};

/// Frames by which a device's count may lag behind what was found: those that it wrote while somebody looked.
const MOST_LAG: u32 = 1 << 20;

/// One epoch's lines. What the device counts and this has not found, is lost.
#[derive(Debug)]
pub(super) struct Decoder {
    book: LogBook,
    frames: Frames,
    /// Frames found, those that are no lines included, mod 2^32.
    found: u32,
    /// Frames reported as lost, mod 2^32.
    lost: u32,
}

impl Decoder {
    /// Of a ring that is read from its beginning, or from somewhere.
    pub(super) fn new(book: LogBook, is_at_start: bool) -> Self {
        Self { book, frames: Frames { rest: Vec::new(), is_whole: is_at_start }, found: 0, lost: 0 }
    }

    /// A new epoch begins.
    pub(super) fn restart(&mut self) {
        self.frames = Frames { rest: Vec::new(), is_whole: true };
        (self.found, self.lost) = (0, 0);
    }

    pub(super) fn decode(&mut self, taken: Taken, level: LogLevel, events: &mut Vec<LogEvent>) {
        if taken.impossible || taken.overtaken {
            // What follows is not the rest of what was begun.
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
            match line(&self.book, &frame) {
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

pub(super) fn line(book: &LogBook, frame: &[u8]) -> Option<LogLine> {
    book.line(&cobs::decode(frame)?).ok()
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

/// The last lines that a window's ring holds, read or not: for whoever inspects it. Its state is not changed.
pub(crate) fn last_lines(window: &Window<Shared>, section: Section, book: &LogBook, most: usize) -> Vec<LogLine> {
    let Some(mut cursor) = Cursor::at_oldest(window, section) else { return Vec::new() };
    let mut frames = Frames { rest: Vec::new(), is_whole: cursor.is_at_start() };
    let mut lines: Vec<LogLine> = Vec::new();
    // No longer than what was there at the beginning: a device may log faster than this reads.
    for _ in 0..cursor.looks() {
        let taken = cursor.take(window);
        if taken.overtaken {
            frames = Frames { rest: Vec::new(), is_whole: false };
        }
        lines.extend(frames.split(&taken.bytes).iter().filter_map(|frame| line(book, frame)));
        lines.drain(..lines.len().saturating_sub(most));
    }
    lines
}
