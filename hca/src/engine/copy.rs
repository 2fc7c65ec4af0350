//! Copies of messages, in slices, so that a long one does not keep the others.

use super::Engine;
use hamr_comm::abi::window::OutOfWindow;
use hamr_verbs::wire::{MAX_INLINE, MAX_RECEIVE_SGE, MAX_SEND_SGE};

/// Bytes that are copied at once.
pub const SLICE: u64 = 256 << 10;

/// Memory of the section, checked.
#[derive(Clone, Copy, Default)]
pub(super) struct Part {
    pub(super) off: u64,
    pub(super) len: u64,
}

/// Where a message comes from.
pub(super) enum Source {
    Parts([Part; MAX_SEND_SGE]),
    Inline([u8; MAX_INLINE]),
}

/// A message on its way. Both ends are private copies.
pub(super) struct Transfer {
    pub(super) send_id: u64,
    pub(super) receive_id: u64,
    pub(super) from: Source,
    pub(super) to: [Part; MAX_RECEIVE_SGE],
    pub(super) length: u64,
    /// Bytes that are copied.
    pub(super) at: u64,
}

/// The rest of the part in which byte `at` of a message is.
fn rest(parts: &[Part], mut at: u64) -> Part {
    for part in parts {
        if at < part.len {
            return Part { off: part.off + at, len: part.len - at };
        }
        at -= part.len;
    }
    Part::default()
}

impl<K> Engine<K> {
    /// Appends bytes of a message to a packet.
    pub(super) fn gather(&self, from: &Source, at: u64, len: u64, to: &mut Vec<u8>) -> Result<(), OutOfWindow> {
        let (mut at, end) = (at, at.saturating_add(len));
        while at < end {
            let begin = to.len();
            match from {
                Source::Inline(bytes) => {
                    let rest = bytes.get(at as usize..).unwrap_or_default();
                    to.extend_from_slice(rest.get(..(end - at) as usize).unwrap_or(rest));
                }
                Source::Parts(parts) => {
                    let part = rest(parts, at);
                    to.resize(begin + part.len.min(end - at) as usize, 0);
                    self.window.read_bytes(part.off, to.get_mut(begin..).unwrap_or_default())?;
                }
            }
            let copied = (to.len() - begin) as u64;
            if copied == 0 {
                return Err(OutOfWindow { off: at, want: end - at, len: 0 });
            }
            at += copied;
        }
        Ok(())
    }

    /// Copies bytes of a packet to where they belong in a message.
    pub(super) fn scatter(&self, to: &[Part], at: u64, mut from: &[u8]) -> Result<(), OutOfWindow> {
        let mut at = at;
        while !from.is_empty() {
            let part = rest(to, at);
            let (now, later) = from.split_at(from.len().min(usize::try_from(part.len).unwrap_or(usize::MAX)));
            if now.is_empty() {
                return Err(OutOfWindow { off: at, want: from.len() as u64, len: 0 });
            }
            self.window.write_bytes(part.off, now)?;
            at += now.len() as u64;
            from = later;
        }
        Ok(())
    }

    /// Copies the next slice. True: the message is there.
    pub(super) fn copy(&self, transfer: &mut Transfer) -> Result<bool, OutOfWindow> {
        let end = transfer.length.min(transfer.at.saturating_add(SLICE));
        while transfer.at < end {
            let to = rest(&transfer.to, transfer.at);
            let len = to.len.min(end - transfer.at);
            let copied = match &transfer.from {
                Source::Inline(bytes) => {
                    let bytes = bytes.get(transfer.at as usize..).unwrap_or_default();
                    let bytes = bytes.get(..len as usize).unwrap_or(bytes);
                    self.window.write_bytes(to.off, bytes)?;
                    bytes.len() as u64
                }
                Source::Parts(parts) => {
                    let from = rest(parts, transfer.at);
                    let len = len.min(from.len);
                    self.window.copy_within(from.off, to.off, len)?;
                    len
                }
            };
            // Both ends were checked to have that many.
            if copied == 0 {
                return Err(OutOfWindow { off: to.off, want: end - transfer.at, len: 0 });
            }
            transfer.at += copied;
        }
        Ok(transfer.at == transfer.length)
    }
}
