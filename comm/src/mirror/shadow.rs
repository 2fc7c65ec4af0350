//! A copy of a window that is read and written, and not mapped: a shadow of it here, in which its side looks, and the operations that
//! bring the one up to date from the other.

use super::parts::reserve;
use super::queue::{Shape, chunk_of, ticket_of};
use super::{Half, Lost};
use alloc::vec::Vec;
use core::ops::Range;
use hamr_shared_abi::queue::QueueDescriptor;
use hamr_shared_abi::slot::{
    INLINE_BYTES, INLINE_WORDS, Place, REP_HDR, REQ_HDR, RepHdr, ReqHdr, SECOND_BYTES, SLOT_BYTES, pair_hdr, pair_seq,
};
use hamr_shared_abi::window::{Shared, Window};

/// What an access of [`DrivenMemory`] promises, beside: an aligned pair of 8 bytes is read as one, or its word before its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promises {
    /// The bytes of one write are there in their order.
    pub write_ascends: bool,
    /// What a read of a line finds of it was there at one time, or its later bytes before its earlier ones.
    pub line_is_whole: bool,
}

/// The peer's memory. Operations take place one behind the other.
pub trait DrivenMemory: Send {
    /// May an access take longer than a caller's own limit? Then a thread that has none makes it.
    const BLOCKS: bool = true;

    /// Of each access.
    fn promises(&self) -> Promises;

    /// Fills `to`.
    ///
    /// # Errors
    /// It is not reached any more, or has no such range.
    fn read(&mut self, off: u64, to: &mut [u8]) -> Result<(), Lost>;

    /// Stores `from`.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn write(&mut self, off: u64, from: &[u8]) -> Result<(), Lost>;
}

/// Which half of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Request,
    Reply,
}

impl Which {
    pub(super) const fn pair(self) -> usize {
        match self {
            Self::Request => REQ_HDR,
            Self::Reply => REP_HDR,
        }
    }
}

/// Who the copy's owner is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Device,
    Host,
}

/// The shadow of a copy, and what reaches it.
pub(super) struct Shadow<M> {
    pub(super) window: Window<Shared>,
    pub(super) memory: M,
    owner: Owner,
    pub(super) streams: Vec<QueueDescriptor>,
    pub(super) of_host: Vec<QueueDescriptor>,
    /// Bytes of the shadow that are not written yet, of slots one behind the other.
    unwritten: Range<u64>,
    bytes: Vec<u8>,
}

impl<M: DrivenMemory> Shadow<M> {
    /// Of `len` zero bytes.
    pub(super) fn new(memory: M, owner: Owner, len: u64) -> Self {
        let (streams, of_host, bytes) = Default::default();
        Self { window: Window::private(len).share(), memory, owner, streams, of_host, unwritten: 0..0, bytes }
    }

    fn resize(&mut self, len: u64) -> Result<(), Lost> {
        self.bytes.clear();
        reserve(&mut self.bytes, len as usize)?;
        self.bytes.resize(len as usize, 0);
        Ok(())
    }

    /// Writes what was put.
    pub(super) fn hand_over(&mut self) -> Result<(), Lost> {
        let range = core::mem::replace(&mut self.unwritten, 0..0);
        if range.is_empty() {
            return Ok(());
        }
        self.resize(range.end - range.start)?;
        self.window.read_bytes(range.start, &mut self.bytes)?;
        self.memory.write(range.start, &self.bytes)
    }

    /// Has `len` bytes of the shadow written, behind what was before.
    pub(super) fn push(&mut self, off: u64, len: u64) -> Result<(), Lost> {
        if self.unwritten.end != off || !self.memory.promises().write_ascends {
            self.hand_over()?;
            self.unwritten.start = off;
        }
        self.unwritten.end = off + len;
        Ok(())
    }

    pub(super) fn read(&mut self, off: u64, to: &mut [u8]) -> Result<(), Lost> {
        self.hand_over()?;
        self.memory.read(off, to)
    }

    /// Brings a range of the shadow up to date.
    pub(super) fn pull(&mut self, off: u64, len: u64) -> Result<(), Lost> {
        self.hand_over()?;
        self.resize(len)?;
        let mut bytes = core::mem::take(&mut self.bytes);
        let read = self.memory.read(off, &mut bytes);
        self.bytes = bytes;
        read?;
        Ok(self.window.write_bytes(off, &self.bytes)?)
    }

    fn descriptor(&self, half: &Half) -> Option<QueueDescriptor> {
        let all = if half.of_host { &self.of_host } else { &self.streams };
        all.get(usize::from(half.queue)).copied()
    }

    /// Has one half of a slot written that was put into the shadow.
    pub(super) fn push_half(&mut self, half: &Half) -> Result<(), Lost> {
        let Some(d) = self.descriptor(half) else { return Ok(()) };
        let Some(line) = d.slot(half.slot) else { return Ok(()) };
        let which = if half.of_host == (self.owner == Owner::Device) { Which::Reply } else { Which::Request };
        let pair = which.pair() as u64;
        if half.header_alone {
            return self.push(line + pair, 8);
        }
        let (len, chunk) = match which {
            Which::Request => {
                let hdr = ReqHdr(half.hdr);
                let has_second = half.slot == 0 && hdr.has_second_line();
                if has_second {
                    self.push(line + SLOT_BYTES as u64, SECOND_BYTES as u64)?;
                }
                if let Some((ticket, _)) = ticket_of(half, Shape::of(&d)) {
                    self.push(d.slot(ticket).unwrap_or(line) + pair, 4)?;
                }
                let chunk = chunk_of(half, Shape::of(&d)).map(|(number, len)| (d.chunk(number), len));
                (if has_second { INLINE_BYTES } else { hdr.len() }, chunk)
            }
            Which::Reply => {
                let chunk = reply_chunk(RepHdr(half.hdr), half.payload, &d);
                (RepHdr(half.hdr).len(), chunk.map(|len| (d.reply_chunk(half.slot), len)))
            }
        };
        if let Some((off, len)) = chunk {
            self.push(off, (len as u64).next_multiple_of(8))?;
        }
        let end = line + pair + 8;
        match () {
            // One write, and one for all that are side by side.
            () if self.memory.promises().write_ascends && (len != 0 || self.unwritten.end == line) => {
                self.push(line, end - line)
            }
            () => {
                if len != 0 {
                    self.push(line, len.next_multiple_of(8) as u64)?;
                    self.hand_over()?;
                }
                self.push(end - 8, 8)
            }
        }
    }

    /// Looks at one half of a slot, and brings it into the shadow when it is new.
    pub(super) fn pull_half(&mut self, d: &QueueDescriptor, number: u32, which: Which) -> Result<bool, Lost> {
        let Some(line) = d.slot(number) else { return Ok(false) };
        let at = which.pair();
        let mut bytes = [0; SLOT_BYTES];
        let is_whole = self.memory.promises().line_is_whole;
        let end = at + 8;
        let begin = if is_whole { 0 } else { at };
        self.read(line + begin as u64, &mut bytes[begin..end])?;
        let mut old = [0; 8];
        self.window.read_bytes(line + at as u64, &mut old)?;
        let pair: [u8; 8] = bytes[at..end].try_into().unwrap_or_default();
        if pair == old {
            return Ok(false);
        }
        let [new, old] = [pair, old].map(u64::from_le_bytes);
        if pair_seq(new) != pair_seq(old) {
            let (req, rep) = (ReqHdr(pair_hdr(new)), RepHdr(pair_hdr(new)));
            let has_second = which == Which::Request && number == 0 && req.has_second_line();
            let len = match which {
                Which::Reply => rep.len(),
                Which::Request if has_second => INLINE_BYTES,
                Which::Request => req.len(),
            };
            let len = len.next_multiple_of(8).min(INLINE_WORDS * 8);
            if !is_whole && len != 0 {
                self.read(line, &mut bytes[..len])?;
            }
            self.window.write_bytes(line, &bytes[..len])?;
            let mut payload = [0; INLINE_WORDS];
            for (word, bytes) in payload.iter_mut().zip(bytes[..len].chunks_exact(8)) {
                *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            }
            let chunk = match which {
                Which::Reply => reply_chunk(rep, payload, d).map(|len| (d.reply_chunk(number), len)),
                Which::Request => {
                    let (hdr, word) = (req.0, pair_seq(new));
                    let half = Half { queue: 0, of_host: true, header_alone: false, slot: number, hdr, word, payload };
                    if let Some(ticket) = ticket_of(&half, Shape::of(d)).and_then(|(number, _)| d.slot(number)) {
                        // As there: no CANCEL of an earlier call stands in it (rule 13).
                        self.window.word(ticket + REQ_HDR as u64)?.store(hdr);
                    }
                    chunk_of(&half, Shape::of(d)).map(|(number, len)| (d.chunk(number), len))
                }
            };
            // A layout may have no such line.
            if has_second && line + 2 * SLOT_BYTES as u64 <= self.window.len() {
                self.pull(line + SLOT_BYTES as u64, SECOND_BYTES as u64)?;
            }
            if let Some((off, len)) = chunk {
                self.pull(off, (len as u64).next_multiple_of(8))?;
            }
        }
        self.window.write_bytes(line + at as u64, &pair)?;
        Ok(true)
    }
}

/// Bytes in the chunk of a reply.
fn reply_chunk(hdr: RepHdr, payload: [u64; INLINE_WORDS], d: &QueueDescriptor) -> Option<usize> {
    let len = usize::try_from(payload[1]).ok()?;
    (hdr.place() == Place::Chunk && len <= d.rep_chunk as usize).then_some(len)
}
