//! Faults: what a handler, or the runtime around it, reports when a call cannot produce its value.
//!
//! A fault travels as a status code, three numbers and a short text. The numbers carry expected and
//! got. The host makes a sentence of them, so that an image needs no formatting code.

use crate::migrate::{Decoder, Encoder, Malformed, Migratable};
use crate::why::{NODE, Why};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::window::ClaimError;

/// Bytes of text in a handler's own fault; longer text is [`cut`]. Small, because every `Result` of
/// a handler is at least this large. A panic's message does not pass through here and may be
/// longer.
pub const FAULT_TEXT: usize = 80;

/// Most return addresses in a [`Trace`]; as many as in a crash record.
pub const FRAMES: usize = 12;
/// Bytes of text that travel with a [`Trace`]: longer text is cut, so that the trace behind it
/// always arrives.
pub const TRACED_TEXT: usize = 512;

/// What a text that was cut ends in.
pub const CUT: &str = "…";

/// The part of a text that fits into `most` bytes, and the mark of a missing rest: empty, or
/// [`CUT`]. Together they are no longer than `most`.
pub fn cut(text: &str, most: usize) -> (&str, &'static str) {
    if text.len() <= most {
        return (text, "");
    }
    (front(text, most.saturating_sub(CUT.len())), CUT)
}

/// The part of a text that fits into `most` bytes.
// An image has it once: the search for the end of a character is long.
#[inline(never)]
pub fn front(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

/// Drops the payload of a handler's panic. Its `Drop` is the handler's, too, and may panic again:
/// the payload of that panic is leaked.
#[cfg(not(hamr_bare))]
pub fn discard(payload: alloc::boxed::Box<dyn core::any::Any + Send>) {
    if let Err(again) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload))) {
        core::mem::forget(again);
    }
}

/// Where a call was when it was abandoned. Addresses are those of the image's file, whatever it was
/// loaded at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    /// Number of the trap (of the signal in a hosted image); 0 for a panic.
    pub cause: u64,
    /// Address of the instruction; 0 for a panic.
    pub pc: u64,
    /// The address that the instruction used, where the cause has one.
    pub address: u64,
    /// Stack pointer.
    pub stack: u64,
    /// Return addresses, innermost first; 0 ends them.
    pub frames: [u64; FRAMES],
}

impl Trace {
    /// Nothing is known.
    pub const NONE: Self = Self { cause: 0, pc: 0, address: 0, stack: 0, frames: [0; FRAMES] };

    /// The return addresses.
    pub fn frames(&self) -> impl Iterator<Item = u64> {
        self.frames.into_iter().take_while(|frame| *frame != 0)
    }

    /// Appends the wire form of a fault with a trace (abi §6): numbers, length of the text, text,
    /// stack pointer, frames.
    pub fn encode(&self, text: &str, out: &mut Encoder<'_>) {
        let (text, mark) = cut(text, TRACED_TEXT);
        out.append([self.cause, self.pc, self.address].map(u64::to_le_bytes).as_flattened());
        out.append(&((text.len() + mark.len()) as u32).to_le_bytes());
        out.append(text.as_bytes());
        out.append(mark.as_bytes());
        out.append(&self.stack.to_le_bytes());
        // As one piece: a loop over an array is unrolled.
        let frames = self.frames.map(u64::to_le_bytes);
        let count = self.frames.partition_point(|frame| *frame != 0);
        out.append(frames.as_flattened().get(..count * 8).unwrap_or_default());
    }

    /// Reads the wire form as far as it goes: parts that were cut off become zeros or missing text.
    /// Accepts any bytes.
    pub fn decode(bytes: &[u8]) -> (Self, &[u8]) {
        let mut from = Decoder::new(bytes);
        let head = <(u64, u64, u64, u32)>::decode(&mut from);
        let Ok((cause, pc, address, text_len)) = head else { return (Self::NONE, &[]) };
        let mut trace = Self { cause, pc, address, ..Self::NONE };
        let rest = from.rest();
        let (text, behind) = rest.split_at_checked(text_len as usize).unwrap_or((rest, &[]));
        let mut words = Decoder::new(behind);
        let mut next = || -> Result<u64, Malformed> { Migratable::decode(&mut words) };
        trace.stack = next().unwrap_or(0);
        trace.frames.iter_mut().for_each(|frame| *frame = next().unwrap_or(0));
        (trace, text)
    }
}

/// A call ended without a value. Handlers return it as their error, or make one with
/// [`Fault::msg`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What kind.
    pub status: Status,
    /// Numbers that belong to the kind; [`explain`] puts them into words.
    pub numbers: [u64; 3],
    /// A few words, or empty.
    pub text: heapless::String<FAULT_TEXT>,
}

impl Fault {
    /// A fault of some kind without text.
    #[inline(always)]
    pub const fn new(status: Status, numbers: [u64; 3]) -> Self {
        Self { status, numbers, text: heapless::String::new() }
    }

    /// A handler's own fault: "failed", with a reason. Text beyond 80 bytes is cut, and ends in `…`
    /// then.
    #[cold]
    #[inline(never)]
    pub fn msg(text: &str) -> Self {
        Self::with_text(Status::FAILED, text)
    }

    /// A fault of some kind with text, cut like that of [`Self::msg`].
    pub fn with_text(status: Status, text: &str) -> Self {
        let mut fault = Self::new(status, [0; 3]);
        fault.append(text);
        fault
    }

    /// Appends to its text, cut in the same way. Where no room is left for the mark either, the text
    /// ends without it.
    #[cold]
    #[inline(never)]
    pub(crate) fn append(&mut self, text: &str) {
        let (text, mark) = cut(text, FAULT_TEXT - self.text.len());
        let _ = self.text.push_str(text).and_then(|()| self.text.push_str(mark));
    }

    /// Appends the wire form: three numbers, then the text.
    pub fn encode(&self, out: &mut Encoder<'_>) {
        out.append(self.numbers.map(u64::to_le_bytes).as_flattened());
        out.append(self.text.as_bytes());
    }
}

/// The values of `numbers[0]` in a BAD_BUFFER fault.
mod bad_buffer {
    pub(super) const OUTSIDE: u64 = 1;
    pub(super) const OVERLAP: u64 = 2;
    pub(super) const MISALIGNED: u64 = 3;
    pub(super) const FOREIGN: u64 = 4;
    pub(super) const READ_ONLY: u64 = 5;
}

impl From<ClaimError> for Fault {
    // Inlined for the reason that `LentHeap::claim` states.
    #[inline(always)]
    fn from(e: ClaimError) -> Self {
        #[cfg(feature = "world")]
        if let ClaimError::Outside { end, heap } = e {
            return Self::beyond_heap(end, heap);
        }
        let numbers = match e {
            ClaimError::Outside { end, heap } => [bad_buffer::OUTSIDE, end, heap],
            ClaimError::Overlap { first, second } => [bad_buffer::OVERLAP, first as u64, second as u64],
            ClaimError::Misaligned { off, align } => [bad_buffer::MISALIGNED, off, align],
            ClaimError::ReadOnly { off } => [bad_buffer::READ_ONLY, off, 0],
        };
        Self::new(Status::BAD_BUFFER, numbers)
    }
}

impl Fault {
    /// A buffer argument that names another node's memory.
    #[inline(always)]
    pub(crate) fn foreign_buffer(named: u16, here: u16) -> Self {
        Self::new(Status::BAD_BUFFER, [bad_buffer::FOREIGN, named.into(), here.into()])
    }

    /// A buffer argument that reaches past the heap.
    #[inline(always)]
    pub(crate) fn outside_heap(end: u64, heap: u64) -> Self {
        Self::new(Status::BAD_BUFFER, [bad_buffer::OUTSIDE, end, heap])
    }
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        explain(self.status, self.numbers, f)?;
        if !self.text.is_empty() {
            write!(f, ": {}", self.text)?;
        }
        Ok(())
    }
}

/// Writes what a fault's status and numbers mean, with expected and got.
pub fn explain(status: Status, numbers: [u64; 3], f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
    let [kind, a, b] = numbers;
    match (status, kind) {
        (Status::BAD_BUFFER, bad_buffer::OUTSIDE) => {
            write!(f, "buffer ends at byte {a:#x}, the memory it may use at {b:#x}")
        }
        (Status::BAD_BUFFER, bad_buffer::OVERLAP) => {
            write!(f, "buffers {a} and {b} of one view overlap and one is written")
        }
        (Status::BAD_BUFFER, bad_buffer::MISALIGNED) => {
            write!(f, "buffer at byte {a:#x} of the heap is not a whole number of elements aligned to {b}")
        }
        (Status::BAD_BUFFER, bad_buffer::FOREIGN) => write!(f, "buffer of node {a} used on node {b}"),
        (Status::BAD_BUFFER, bad_buffer::READ_ONLY) => {
            write!(f, "buffer at byte {a:#x} of the heap was asked for to be read, and is written")
        }
        (Status::BUFFER_BUSY, 0) => write!(f, "expected at most {a} claimed ranges, got one more"),
        (Status::BUFFER_BUSY, owner) => {
            let (task, line) = ((owner & 0xFFFF_FFFF).saturating_sub(1), owner >> 32);
            write!(f, "task {task} has claimed bytes {a:#x} to {b:#x} of the heap in its line {line}")
        }
        (Status::VERBS, 1..=12) => {
            let why = match kind {
                1 => "the adapter is gone",
                2 => "the object is of another device or epoch",
                3 => "the ring is full",
                4 => "more scatter entries than there can be",
                5 => "more bytes than a request has room for",
                6 => "a range leaves its region, or a message is too long",
                7 => "the queue pair is not in a state for it",
                8 => "the completion queue has overrun",
                9 => "the adapter or the host wrote what it may not",
                10 => "there is no such request",
                11 => "a request that was posted may still write there",
                _ => "the region is not one for views",
            };
            write!(f, "a verb failed: {why} ({a})")
        }
        #[cfg(feature = "claims")]
        (Status::RESOURCE_BUSY, owner) if owner != 0 => {
            let (task, line) = ((owner & 0xFFFF_FFFF).saturating_sub(1), owner >> 32);
            write!(f, "task {task} has claimed the resource in its line {line}")
        }
        (status, _) => match Why::of(status, numbers) {
            Some(why) if status == Status::REMOTE => match kind {
                0 => write!(f, "a call to the host failed: {why}"),
                whom => match whom.checked_sub(NODE.into()) {
                    Some(node) => write!(f, "a call to node {node} failed: {why}"),
                    None => write!(f, "a call to rank {} failed: {why}", whom.saturating_sub(1)),
                },
            },
            _ => f.write_str(status.text()),
        },
    }
}

impl core::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn encoded(trace: &Trace, text: &str) -> std::vec::Vec<u8> {
        let mut bytes = [0; 1024];
        let mut out = Encoder::new(&mut bytes);
        trace.encode(text, &mut out);
        let len = out.needed();
        bytes[..len].to_vec()
    }

    #[test]
    fn a_failed_call_names_whom_it_called() {
        let said = |whom, detail| Fault::new(Status::REMOTE, [whom, Status::NO_HANDLER.0.into(), detail]).to_string();
        assert_eq!(said(0, 2), "a call to the host failed: the host serves no calls");
        assert_eq!(said(3, 0), "a call to rank 2 failed: no such handler there");
        assert_eq!(said(1 << 31 | 7, 5), "a call to node 7 failed: the device was lost");
    }

    #[test]
    fn a_text_that_is_cut_says_so() {
        assert_eq!(cut("exactly", 7), ("exactly", ""));
        assert_eq!(cut("exactly so", 9), ("exactl", CUT));
        // Never inside of a character, and never longer than it may be.
        for most in 0..12 {
            let (text, mark) = cut("ääääää…", most);
            assert!("ääääää…".starts_with(text) && (text.len() + mark.len()) <= most.max(CUT.len()), "{most}");
        }
        let fault = Fault::msg(&"ä".repeat(41));
        assert_eq!(fault.text.as_str(), std::format!("{}{CUT}", "ä".repeat(38)));
        let bytes = encoded(&Trace::NONE, &"x".repeat(TRACED_TEXT + 1));
        let (_, text) = Trace::decode(&bytes);
        assert!(text.len() == TRACED_TEXT && text.ends_with(CUT.as_bytes()));
    }

    #[test]
    fn a_trace_travels_and_a_cut_one_keeps_what_came() {
        let mut trace = Trace { cause: 13, pc: 0x8000_0010, address: 8, stack: 0x8004_0000, frames: [0; FRAMES] };
        (trace.frames[0], trace.frames[1]) = (0x8000_0100, 0x8000_0200);
        let bytes = encoded(&trace, "load page fault");
        assert_eq!(bytes.len(), 28 + 15 + 8 + 16);
        assert_eq!(Trace::decode(&bytes), (trace, &b"load page fault"[..]));
        for len in 0..bytes.len() {
            let (cut, text) = Trace::decode(&bytes[..len]);
            assert!(b"load page fault".starts_with(text));
            assert_eq!(cut.pc, if len < 28 { 0 } else { trace.pc });
            assert_eq!(cut.frames().count(), len.saturating_sub(28 + 15 + 8) / 8);
        }
        trace.frames = [7; FRAMES];
        let (whole, text) = {
            let bytes = encoded(&trace, &"\u{e9}".repeat(400));
            let (whole, text) = Trace::decode(&bytes);
            (whole, text.to_vec())
        };
        // Of the mark's three bytes and letters of two, one byte is left over.
        assert_eq!((whole, text.len()), (trace, TRACED_TEXT - 1));
    }
}
