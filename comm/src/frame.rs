//! One message on its way through a handler: where its arguments are, and what became of it.
//!
//! Handlers never see it. The arguments are copied out of the slot once, checked, and used (slot
//! protocol, rule 5). Short ones and short results stay in registers; storage is for the others.

use crate::fault::{Fault, Trace};
use crate::migrate::{Decoder, Encoder, Malformed, Migratable};
use hamr_shared_abi::slot::{INLINE_BYTES, INLINE_WORDS, RepHdr, TWO_LINE_BYTES, TWO_LINE_WORDS};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::window::{Payload, Unread};

/// What a thunk made of a request: two words, which it returns in registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The reply's header in the lower half. The upper half is zero when [`Self::word`] is the
    /// whole payload.
    meta: u64,
    /// The payload, if it is no longer than this.
    word: u64,
}

impl Reply {
    /// The payload is in the frame's words.
    const IN_FRAME: u64 = 1 << 63;

    /// `word` is the whole payload.
    #[inline(always)]
    pub(crate) const fn short(hdr: RepHdr, word: u64) -> Self {
        Self { meta: hdr.0 as u64, word }
    }

    #[inline(always)]
    const fn in_frame(hdr: RepHdr) -> Self {
        Self { meta: hdr.0 as u64 | Self::IN_FRAME, word: 0 }
    }

    /// `len` bytes of payload, at most [`crate::migrate::MAX_LONG`], are in scratch memory.
    const fn in_scratch(hdr: RepHdr, len: usize) -> Self {
        Self { meta: hdr.0 as u64 | (len as u64) << 32, word: 0 }
    }

    /// Status and inline length.
    #[inline(always)]
    pub const fn hdr(self) -> RepHdr {
        RepHdr(self.meta as u32)
    }

    /// Is [`Self::word`] the whole payload?
    #[inline(always)]
    pub(crate) const fn is_short(self) -> bool {
        self.meta >> 32 == 0
    }

    /// The payload of a short reply; bytes behind the header's length mean nothing.
    #[inline(always)]
    pub(crate) const fn word(self) -> u64 {
        self.word
    }

    /// Its bytes.
    pub(crate) const fn bytes(&self) -> &[u8; 8] {
        bytemuck::must_cast_ref(&self.word)
    }

    /// Bytes of payload in scratch memory, to be placed by the dispatcher; 0: it is elsewhere.
    pub(crate) const fn long(self) -> usize {
        (self.meta >> 32 & 0x7FFF_FFFF) as usize
    }

    const fn with(self, flags: u32) -> Self {
        Self { meta: self.meta | flags as u64, ..self }
    }
}

/// The arguments of a message: two words, for the same reason.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    /// Up to [`INLINE_BYTES`] are here, with a second line [`TWO_LINE_BYTES`]; more are in scratch
    /// memory.
    payload: Payload<'a>,
}

impl<'a> Arguments<'a> {
    /// As many bytes as `payload` says: at its front, or at that of scratch memory if it is not long
    /// enough.
    #[inline(always)]
    pub(crate) const fn new(payload: Payload<'a>) -> Self {
        Self { payload }
    }
}

/// Message storage of one poller. Programs make none, so that they have nothing to exchange a device's with:
///
/// ```compile_fail,E0624
/// hamr_comm::frame::Frame::new(&mut [0; 64]);
/// ```
pub struct Frame<'s> {
    /// Inline payload that is not in registers.
    pub(crate) words: [u64; INLINE_WORDS],
    /// Arguments out of a slot whose length is no constant.
    args: [u64; TWO_LINE_WORDS],
    pub(crate) scratch: &'s mut [u8],
}

impl<'s> Frame<'s> {
    /// Storage for messages up to `scratch.len()` bytes.
    pub(crate) fn new(scratch: &'s mut [u8]) -> Self {
        Self { words: [0; INLINE_WORDS], args: [0; TWO_LINE_WORDS], scratch }
    }

    /// Decodes the arguments. `Malformed` when lengths or bytes do not fit the type.
    #[inline(always)]
    pub(crate) fn arguments<A: Migratable>(&mut self, args: Arguments<'_>) -> Result<A, Malformed> {
        if let Some(n) = A::SIZE
            && n <= INLINE_BYTES
        {
            if !args.payload.is_one_line_of(n) {
                return Err(Malformed);
            }
            // The length is a constant, so that the words are copied into registers and the checks
            // in the decoder fold away.
            let mut words = [0; INLINE_WORDS];
            args.payload.read(words.split_at_mut(n.div_ceil(8)).0);
            let bytes: &[u8; INLINE_BYTES] = bytemuck::must_cast_ref(&words);
            return A::decode(&mut Decoder::new(bytes.split_at(n).0));
        }
        if let Some(n) = A::SIZE
            && n <= TWO_LINE_BYTES
            && args.payload.is_two_lines_of(n)
        {
            // As above.
            let mut words = [0; TWO_LINE_WORDS];
            let (first, second) = words.split_at_mut(INLINE_WORDS);
            args.payload.read(first);
            args.payload.read_second(second.split_at_mut((n - INLINE_BYTES).div_ceil(8)).0);
            let bytes: &[u8; TWO_LINE_BYTES] = bytemuck::must_cast_ref(&words);
            return A::decode(&mut Decoder::new(bytes.split_at(n).0));
        }
        let mut from = self.decoder(args)?;
        let args = A::decode(&mut from);
        if from.is_done() { args } else { Err(Malformed) }
    }

    /// Arguments that are read from where they are, or from a copy where they are words of a slot.
    #[inline(never)]
    fn decoder<'f>(&'f mut self, args: Arguments<'f>) -> Result<Decoder<'f>, Malformed> {
        let len = args.payload.len();
        let (bytes, room) = if let Some(chunk) = args.payload.in_chunk() {
            (Some(chunk), self.scratch.get_mut(..len).ok_or(Malformed)?)
        } else if len > INLINE_BYTES && !args.payload.has_second_line() {
            (self.scratch.get(..len).map(Unread::private), &mut [][..])
        } else {
            let (first, second) = self.args.split_at_mut(INLINE_WORDS);
            args.payload.read(first);
            args.payload.read_second(second);
            (bytemuck::cast_slice(&self.args).get(..len).map(Unread::private), &mut [][..])
        };
        Ok(Decoder::of_message(bytes.ok_or(Malformed)?, room))
    }

    /// Arguments of whole words, which the caller may overwrite, with as many words behind them as a line
    /// has; and scratch memory that they are not in. `None`: the last word is not whole, or there is no room.
    #[inline(always)]
    pub(crate) fn argument_words(&mut self, args: Arguments<'_>) -> Option<(&mut [u64], &mut [u8])> {
        let len = args.payload.len();
        let skip = self.scratch.as_ptr().align_offset(align_of::<u64>());
        let end = skip.checked_add(len + INLINE_BYTES).filter(|end| *end <= self.scratch.len())?;
        let chunk = args.payload.in_chunk();
        let is_in_line = chunk.is_none() && (len <= INLINE_BYTES || args.payload.has_second_line());
        if chunk.is_none() && !is_in_line && skip != 0 {
            self.scratch.copy_within(..len, skip);
        }
        let (front, room) = self.scratch.split_at_mut_checked(end)?;
        let front = front.get_mut(skip..)?;
        if let Some(chunk) = chunk {
            chunk.copy_to(front);
        }
        let words = bytemuck::try_cast_slice_mut(front).ok()?;
        if is_in_line {
            args.payload.read(words);
            args.payload.read_second(words.get_mut(INLINE_WORDS..)?);
        }
        Some((words, room))
    }

    /// A reply without payload.
    #[inline(always)]
    pub fn status(&mut self, status: Status) -> Reply {
        Reply::short(RepHdr::inline(status, 0), 0)
    }

    /// A reply that carries a value.
    #[inline(always)]
    pub fn value<T: Migratable>(&mut self, status: Status, value: &T) -> Reply {
        match T::SIZE {
            Some(n) if n <= 8 => {
                let mut bytes = [0; 8];
                value.encode(&mut Encoder::new(bytes.split_at_mut(n).0));
                Reply::short(RepHdr::inline(status, n), u64::from_ne_bytes(bytes))
            }
            Some(n) if n <= INLINE_BYTES => {
                let bytes: &mut [u8; INLINE_BYTES] = bytemuck::must_cast_mut(&mut self.words);
                value.encode(&mut Encoder::new(bytes.split_at_mut(n).0));
                Reply::in_frame(RepHdr::inline(status, n))
            }
            _ => self.long_value(status, |out| value.encode(out)),
        }
    }

    /// A reply that carries a fault.
    pub fn fault(&mut self, fault: &Fault) -> Reply {
        self.long_value(fault.status, |out| fault.encode(out)).with(RepHdr::FAULT)
    }

    /// A fault of an abandoned handler: where it was, and a text that may be longer than a
    /// [`Fault`] has room for.
    pub fn traced_fault(&mut self, status: Status, text: &str, trace: &Trace) -> Reply {
        self.long_value(status, |out| trace.encode(text, out)).with(RepHdr::FAULT)
    }

    pub(crate) fn long_value(&mut self, status: Status, encode: impl Fn(&mut Encoder<'_>)) -> Reply {
        let mut out = Encoder::new(self.scratch);
        encode(&mut out);
        let (needed, fits) = (out.needed(), out.fits());
        self.encoded(status, needed, fits)
    }

    /// A reply of so many bytes that are at the front of scratch memory, if it has room for them.
    #[inline(never)]
    fn encoded(&mut self, status: Status, needed: usize, fits: bool) -> Reply {
        if !fits {
            return self.value(Status::RESULT_TOO_LONG, &(needed as u64));
        }
        if needed <= INLINE_BYTES {
            let bytes: &mut [u8; INLINE_BYTES] = bytemuck::must_cast_mut(&mut self.words);
            if let (Some(to), Some(from)) = (bytes.get_mut(..needed), self.scratch.get(..needed)) {
                to.copy_from_slice(from);
            }
            return Reply::in_frame(RepHdr::inline(status, needed));
        }
        Reply::in_scratch(RepHdr::inline(status, 0), needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::Entry;
    use crate::registry::ping;
    use crate::testing::Heap;

    #[test]
    fn a_thunk_decodes_runs_and_replies() {
        static PING: Entry = Entry::of::<ping>();
        let (mut heap, mut scratch) = (Heap::new(64), [0; 1024]);
        let mut run = |words: &mut [u64; INLINE_WORDS], len| {
            let args = Arguments::new(Payload::private(words, len));
            (PING.run)(&mut heap.context(), &mut Frame::new(&mut scratch), args)
        };
        let answer = run(&mut [7; INLINE_WORDS], 8);
        assert_eq!((answer.hdr().status(), answer.word()), (Status::OK, 7));
        assert_eq!(run(&mut [0; INLINE_WORDS], 0).hdr().status(), Status::BAD_ARGUMENTS, "no arguments in the frame");
    }
}
