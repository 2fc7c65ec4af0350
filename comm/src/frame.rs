//! The private copy of one message: arguments on the way in, result on the way out, in the same
//! storage.
//!
//! Handlers never see it. A request is copied here once, checked, and used from here (slot
//! protocol, rule 5).

use crate::fault::{Fault, Trace};
use crate::migrate::{Decoder, Encoder, Malformed, Migratable};
use hamr_shared_abi::slot::{INLINE_BYTES, INLINE_WORDS, RepHdr};
use hamr_shared_abi::status::Status;

/// What a thunk made of a request: the reply's header, and how many bytes of the scratch memory are
/// its payload (0: the payload is inline, with the length in the header).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Status and inline length.
    pub hdr: RepHdr,
    /// Bytes in scratch memory to be placed by the dispatcher.
    pub long: u32,
}

/// Where the arguments of a message lie: one word, so that the common case is one comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arguments(u32);

impl Arguments {
    const LONG: u32 = 1 << 31;

    /// In the slot, behind EXT and descriptors: bytes `start..end`, both below 64.
    #[inline(always)]
    pub(crate) const fn inline(start: usize, end: usize) -> Self {
        Self((start as u32) << 16 | end as u32)
    }

    /// The first `len` bytes of scratch memory; at most [`crate::migrate::MAX_MESSAGE`].
    pub(crate) const fn long(len: usize) -> Self {
        Self(Self::LONG | len as u32)
    }

    const fn is_long(self) -> bool {
        self.0 & Self::LONG != 0
    }

    const fn start(self) -> usize {
        (self.0 >> 16 & 0x3F) as usize
    }

    const fn end(self) -> usize {
        (self.0 & 0xFFFF) as usize
    }
}

/// Message storage of one poller.
pub struct Frame<'s> {
    /// Inline payload, request then reply.
    pub(crate) words: [u64; INLINE_WORDS],
    pub(crate) args: Arguments,
    pub(crate) scratch: &'s mut [u8],
}

impl<'s> Frame<'s> {
    /// Storage for messages up to `scratch.len()` bytes.
    pub fn new(scratch: &'s mut [u8]) -> Self {
        Self { words: [0; INLINE_WORDS], args: Arguments::inline(0, 0), scratch }
    }

    /// Decodes the arguments. `Malformed` when lengths or bytes do not fit the type.
    #[inline(always)]
    pub(crate) fn arguments<A: Migratable>(&mut self) -> Result<A, Malformed> {
        if let Some(n) = A::SIZE
            && n <= INLINE_BYTES
        {
            // The common call has everything inline from the front. The length is a constant, so
            // the checks in the decoder fold away.
            if self.args != Arguments::inline(0, n) {
                self.bring_to_front(n)?;
            }
            let bytes: &[u8; INLINE_BYTES] = bytemuck::must_cast_ref(&self.words);
            return A::decode(&mut Decoder::new(bytes.split_at(n).0));
        }
        let mut from = Decoder::new(self.argument_bytes()?);
        let args = A::decode(&mut from)?;
        if from.is_done() { Ok(args) } else { Err(Malformed) }
    }

    fn argument_bytes(&self) -> Result<&[u8], Malformed> {
        let inline: &[u8; INLINE_BYTES] = bytemuck::must_cast_ref(&self.words);
        let (start, end) = (self.args.start(), self.args.end());
        let bytes = if self.args.is_long() { self.scratch.get(..end) } else { inline.get(start..end) };
        bytes.ok_or(Malformed)
    }

    /// Moves arguments of `n` bytes, at most [`INLINE_BYTES`], to the front of the slot's payload.
    /// One function for all handlers: a second decoder in each of their thunks would be a tenth of
    /// an image.
    #[cold]
    #[inline(never)]
    fn bring_to_front(&mut self, n: usize) -> Result<(), Malformed> {
        let mut front = [0; INLINE_WORDS];
        let bytes: &mut [u8; INLINE_BYTES] = bytemuck::must_cast_mut(&mut front);
        let from = self.argument_bytes()?;
        let to = bytes.get_mut(..n).filter(|to| to.len() == from.len()).ok_or(Malformed)?;
        to.copy_from_slice(from);
        (self.words, self.args) = (front, Arguments::inline(0, n));
        Ok(())
    }

    /// A reply without payload.
    #[inline(always)]
    pub fn status(&mut self, status: Status) -> Reply {
        Reply { hdr: RepHdr::inline(status, 0), long: 0 }
    }

    /// A reply that carries a value.
    #[inline(always)]
    pub fn value<T: Migratable>(&mut self, status: Status, value: &T) -> Reply {
        match T::SIZE {
            Some(n) if n <= INLINE_BYTES => {
                let bytes: &mut [u8; INLINE_BYTES] = bytemuck::must_cast_mut(&mut self.words);
                value.encode(&mut Encoder::new(bytes.split_at_mut(n).0));
                Reply { hdr: RepHdr::inline(status, n), long: 0 }
            }
            _ => self.long_value(status, |out| value.encode(out)),
        }
    }

    /// A reply that carries a fault.
    pub fn fault(&mut self, fault: &Fault) -> Reply {
        let reply = self.long_value(fault.status, |out| fault.encode(out));
        Reply { hdr: reply.hdr.with(RepHdr::FAULT), long: reply.long }
    }

    /// A fault of an abandoned handler: where it was, and a text that may be longer than a
    /// [`Fault`] has room for.
    pub fn traced_fault(&mut self, status: Status, text: &str, trace: &Trace) -> Reply {
        let reply = self.long_value(status, |out| trace.encode(text, out));
        Reply { hdr: reply.hdr.with(RepHdr::FAULT), long: reply.long }
    }

    fn long_value(&mut self, status: Status, encode: impl Fn(&mut Encoder<'_>)) -> Reply {
        let mut out = Encoder::new(self.scratch);
        encode(&mut out);
        let (needed, fits) = (out.needed(), out.fits());
        if !fits {
            return self.value(Status::RESULT_TOO_LONG, &(needed as u64));
        }
        if needed <= INLINE_BYTES {
            let bytes: &mut [u8; INLINE_BYTES] = bytemuck::must_cast_mut(&mut self.words);
            if let (Some(to), Some(from)) = (bytes.get_mut(..needed), self.scratch.get(..needed)) {
                to.copy_from_slice(from);
            }
            return Reply { hdr: RepHdr::inline(status, needed), long: 0 };
        }
        Reply { hdr: RepHdr::inline(status, 0), long: needed as u32 }
    }
}
