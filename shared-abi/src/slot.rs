//! The 64-byte slot: one request and its reply in one cache line (abi §4).
//!
//! ```text
//!   0                                     48       52       56       60      64
//!   | payload, 6 x u64                    | rep_hdr| rep_seq| req_hdr| req_seq|
//!   | requester, then responder, then ... | responder's     | requester's     |
//! ```
//! Header words are plain `u32` with the accessors below: each is loaded once into a private copy,
//! checked, and used.

use crate::ids::HandlerKey;
use crate::status::Status;
use core::fmt;
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of one slot; slots are aligned to it.
pub const SLOT_BYTES: usize = 64;
/// Bytes of payload in the slot, each way.
pub const INLINE_BYTES: usize = 48;
/// The payload as words: the unit of every relaxed access.
pub const INLINE_WORDS: usize = INLINE_BYTES / 8;
/// Bytes of payload in the second line of a hot slot, which is the 64 bytes behind it (abi §4.7).
pub const SECOND_BYTES: usize = SLOT_BYTES;
/// The same as words.
pub const SECOND_WORDS: usize = SECOND_BYTES / 8;
/// The longest arguments of a request in two lines.
pub const TWO_LINE_BYTES: usize = INLINE_BYTES + SECOND_BYTES;
/// The same as words.
pub const TWO_LINE_WORDS: usize = TWO_LINE_BYTES / 8;
/// With [`ReqHdr::PUT`]: arguments are this long at most; the target's [`Descriptor`] is behind
/// them.
pub const PUT_ARGS: usize = INLINE_BYTES - size_of::<Descriptor>();
/// Offset of the reply's header.
pub const REP_HDR: usize = 48;
/// Offset of the reply's published word.
pub const REP_SEQ: usize = 52;
/// Offset of the request's header.
pub const REQ_HDR: usize = 56;
/// Offset of the request's published word.
pub const REQ_SEQ: usize = 60;
/// Bits of the count in a published word; the epoch tag has the other bits.
pub const COUNT_BITS: u32 = 24;

const _: () = assert!(REQ_SEQ + 4 == SLOT_BYTES && REP_HDR == INLINE_BYTES);
// A header and the published word behind it are one aligned pair.
const _: () = assert!(REP_HDR.is_multiple_of(8) && REP_SEQ == REP_HDR + 4);
const _: () = assert!(REQ_HDR.is_multiple_of(8) && REQ_SEQ == REQ_HDR + 4);

/// Where the arguments or the result are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the slot.
    Inline,
    /// In the slot's staging chunk.
    Chunk,
    /// In a buffer of the heap.
    Buffer,
    /// In both lines of a hot slot; no place of a reply.
    TwoLines,
}

impl Place {
    const fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Inline,
            1 => Self::Chunk,
            2 => Self::Buffer,
            _ => Self::TwoLines,
        }
    }
}

const LEN_SHIFT: u32 = 16;
const PLACE_SHIFT: u32 = 22;

/// A header word: 16 bits that name something, the length and the place of the payload, and flags.
macro_rules! header {
    ($(#[$doc:meta])* $type:ident, $(#[$fdoc:meta])* $field:ident: $named:ident, shown by $show:expr, {
        $($(#[$vdoc:meta])* $flag:ident = $bits:expr => $text:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $type(pub u32);

        impl $type {
            $($(#[$vdoc])* pub const $flag: u32 = $bits;)*

            /// A header with `len` payload bytes (at most 48) in the slot and no flags.
            #[inline(always)]
            pub const fn inline($field: $named, len: usize) -> Self {
                Self($field.0 as u32 | (len as u32) << LEN_SHIFT)
            }

            /// The same with the descriptor naming a chunk.
            pub const fn in_chunk(self) -> Self {
                Self(self.0 | 1 << PLACE_SHIFT)
            }

            /// The same with the descriptor naming a buffer of the heap.
            pub const fn in_buffer(self) -> Self {
                Self(self.0 | 2 << PLACE_SHIFT)
            }

            /// The same with flag bits set.
            #[inline(always)]
            pub const fn with(self, flags: u32) -> Self {
                Self(self.0 | flags)
            }

            $(#[$fdoc])*
            #[inline(always)]
            pub const fn $field(self) -> $named {
                $named(self.0 as u16)
            }

            /// Payload bytes in the slot; a peer may write up to 63.
            #[inline(always)]
            pub const fn len(self) -> usize {
                (self.0 >> LEN_SHIFT & 0x3F) as usize
            }

            /// No payload in the slot.
            #[inline(always)]
            pub const fn is_empty(self) -> bool {
                self.len() == 0
            }

            /// Where the arguments or the result are.
            pub const fn place(self) -> Place {
                Place::from_bits(self.0 >> PLACE_SHIFT)
            }

            /// Is any of `flags` set?
            #[inline(always)]
            pub const fn has(self, flags: u32) -> bool {
                self.0 & flags != 0
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                ($show)(f, self.$field())?;
                write!(f, " len {} {:?}", self.len(), self.place())?;
                $(if self.has($bits) {
                    f.write_str(concat!(" ", $text))?;
                })*
                Ok(())
            }
        }
    };
}

header! {
    /// A request's header word (abi §4.2).
    ReqHdr,
    /// Which handler.
    key: HandlerKey, shown by |f: &mut fmt::Formatter<'_>, key: HandlerKey| {
        write!(f, "key {}.{}", key.module(), key.index())
    }, {
        /// An [`Ext`] precedes everything else in the payload.
        EXT = 1 << 24 => "EXT",
        /// No result is wanted; the device still publishes a reply.
        ONE_WAY = 1 << 25 => "ONE_WAY",
        /// The result goes to the ticket slot that the EXT names.
        TICKET = 1 << 26 => "TICKET",
        /// May overtake and be overtaken.
        UNORDERED = 1 << 27 => "UNORDERED",
        /// A reply buffer descriptor follows the argument descriptor.
        REPLY_BUF = 1 << 28 => "REPLY_BUF",
        /// The second line is data that the device copies into the heap before it runs the call.
        PUT = 1 << 29 => "PUT",
        /// Must be zero.
        RESERVED = 1 << 30 => "RESERVED!",
        /// Set later by the requester: stop if you can.
        CANCEL = 1 << 31 => "CANCEL",
    }
}

impl ReqHdr {
    /// True when it is a short ordered two-way call: everything but key and length is zero.
    #[inline(always)]
    pub const fn is_plain(self) -> bool {
        self.0 >> PLACE_SHIFT == 0
    }

    /// True when it is such a call but for its arguments, which are in a chunk.
    #[inline(always)]
    pub const fn is_in_chunk_alone(self) -> bool {
        self.0 >> PLACE_SHIFT == 1
    }

    /// A call of a task with inline arguments, and nothing beside EXT.
    #[inline(always)]
    pub const fn is_short_task(self) -> bool {
        self.0 & !(0xFFFF | 0x3F << LEN_SHIFT | Self::UNORDERED) == Self::EXT | Self::TICKET
            && self.len() >= 16
            && self.len() <= INLINE_BYTES
    }

    /// The header of a call whose arguments are in two lines: `len` bytes, 49 to 112.
    #[inline(always)]
    pub const fn in_two_lines(key: HandlerKey, len: usize) -> Self {
        Self(key.0 as u32 | ((len - INLINE_BYTES - 1) as u32) << LEN_SHIFT | 3 << PLACE_SHIFT)
    }

    /// Does the message use the second line of its slot? It has no other flag then but CANCEL, or
    /// is malformed.
    #[inline(always)]
    pub const fn has_second_line(self) -> bool {
        self.has(Self::PUT) || matches!(self.place(), Place::TwoLines)
    }

    /// Bytes of the arguments of a message without flags but PUT, as the header says.
    #[inline(always)]
    pub const fn args_len(self) -> usize {
        match self.place() {
            Place::TwoLines => self.len() + INLINE_BYTES + 1,
            _ => self.len(),
        }
    }

    /// Is this a message in two lines that breaks no rule of its header (abi §4.7)?
    pub const fn is_two_line_form(self) -> bool {
        let flags = self.0 >> (PLACE_SHIFT + 2);
        match self.place() {
            Place::TwoLines => flags == 0,
            Place::Inline => flags == Self::PUT >> (PLACE_SHIFT + 2) && self.len() <= PUT_ARGS,
            _ => false,
        }
    }
}

header! {
    /// A reply's header word (abi §4.3).
    RepHdr,
    /// The outcome of the request.
    status: Status, shown by |f: &mut fmt::Formatter<'_>, status: Status| f.write_str(status.name()), {
        /// The code is a fault; the payload is a fault report.
        FAULT = 1 << 24 => "FAULT",
        /// The code is an active-message reply handler.
        AM_REPLY = 1 << 25 => "AM_REPLY",
        /// The request moved to its ticket slot.
        TAKEN = 1 << 26 => "TAKEN",
        /// Must be zero.
        RESERVED = 0x1F << 27 => "RESERVED!",
    }
}

impl RepHdr {
    /// The payload of a reply with [`Self::TAKEN`] whose task has no place yet; of others it is the
    /// number of that place, 32 bits.
    pub const NO_PLACE: u32 = u32::MAX;

    /// The reply to a TICKET request, with `len` bytes: 4, or none of devices before ABI 0.3.
    pub const fn taken(len: usize) -> Self {
        Self::inline(Status::TAKEN, len).with(Self::TAKEN)
    }
}

/// The published word: epoch tag and count together, so that neither tears from the other (abi
/// §4.1).
///
/// `count_bits` is 24 on the wire; a model explores the wrap with 2.
#[inline(always)]
pub const fn seq(tag: u8, count: u32, count_bits: u32) -> u32 {
    (tag as u32) << 24 | count & ((1 << count_bits) - 1)
}

/// The word behind `word` in the same epoch: the count alone wraps.
#[inline(always)]
pub const fn next_seq(word: u32, count_bits: u32) -> u32 {
    word & 0xFF00_0000 | word.wrapping_add(1) & ((1 << count_bits) - 1)
}

/// The published words of one slot in turn. The count is kept above the tag, so that a step is an
/// addition that wraps the count alone. `count_bits` as for [`seq`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeqCounter(u32);

impl SeqCounter {
    /// Begins with count 1.
    pub const fn first(tag: u8, count_bits: u32) -> Self {
        Self(tag as u32).next(count_bits)
    }

    /// The word as it is published.
    #[inline(always)]
    pub const fn word(self, count_bits: u32) -> u32 {
        // In 64 bits, where a shift by all 32 is one.
        self.0 << 24 | (self.0 as u64 >> (32 - count_bits)) as u32
    }

    /// The counter of the next word.
    #[inline(always)]
    pub const fn next(self, count_bits: u32) -> Self {
        Self(self.0.wrapping_add((1u64 << (32 - count_bits)) as u32))
    }
}

/// A header and its published word as one value (abi §4): the word above, as it lies in memory.
#[inline(always)]
pub const fn pair(hdr: u32, seq: u32) -> u64 {
    (seq as u64) << 32 | hdr as u64
}

/// The header of a pair.
#[inline(always)]
pub const fn pair_hdr(pair: u64) -> u32 {
    pair as u32
}

/// The published word of a pair.
#[inline(always)]
pub const fn pair_seq(pair: u64) -> u32 {
    (pair >> 32) as u32
}

/// The epoch tag of a published word.
pub const fn seq_tag(word: u32) -> u8 {
    (word >> 24) as u8
}

/// The count of a published word.
pub const fn seq_count(word: u32) -> u32 {
    word & 0x00FF_FFFF
}

/// Optional first 16 payload bytes of a request (abi §4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Ext {
    /// Microseconds the device may spend from the moment it starts the request, 0 without limit;
    /// with [`Ext::ENFORCED`].
    pub deadline_us: u32,
    /// The published word that the reply in the ticket slot will carry.
    pub ticket_seq: u32,
    /// The ticket slot of a TICKET request.
    pub ticket: u16,
    /// [`Ext::CHAINED`], or zero.
    pub chain: u16,
    /// Correlation id for traces; 0 is none.
    pub trace: u32,
}
const _: () = assert!(size_of::<Ext>() == 16 && offset_of!(Ext, trace) == 12);

impl Ext {
    /// Bit of `deadline_us`: the device ends a handler that takes longer. Without it only the
    /// handler can check its time.
    pub const ENFORCED: u32 = 1 << 31;
    /// Bit of `chain`: a task, or a body on the host for one, waits for the call. It never waits for
    /// a place: what cannot begin now is QUEUE_FULL.
    pub const CHAINED: u16 = 1 << 0;

    /// The microseconds alone.
    pub const fn micros(self) -> u32 {
        self.deadline_us & !Self::ENFORCED
    }

    /// `deadline_us` of a time that the requester watches itself: zero, so none, where it does not fit.
    pub const fn deadline(micros: u64) -> u32 {
        if micros < Self::ENFORCED as u64 { micros as u32 } else { 0 }
    }

    /// `deadline_us` of a time that the device enforces, at least one microsecond; `None` where it does not
    /// fit, since no one else keeps it.
    pub const fn enforced(micros: u64) -> Option<u32> {
        match Self::deadline(micros) {
            0 if micros != 0 => None,
            0 => Some(1 | Self::ENFORCED),
            fits => Some(fits | Self::ENFORCED),
        }
    }
}

/// Where bytes are: argument descriptor and result descriptor (abi §4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Descriptor {
    /// Byte offset in the heap section; 0 for a chunk.
    pub off: u64,
    /// Bytes (of a reply buffer: its capacity).
    pub len: u64,
}
const _: () = assert!(size_of::<Descriptor>() == 16 && offset_of!(Descriptor, len) == 8);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::HandlerKey;
    use crate::status::Status;

    #[test]
    fn times_that_do_not_fit_are_none_or_refused() {
        const END: u64 = 1 << 31;
        let forced = |micros: u32| Some(micros | Ext::ENFORCED);
        let cases = [
            (0, 0, forced(1)),
            (1, 1, forced(1)),
            (END - 1, (END - 1) as u32, forced((END - 1) as u32)),
            (END, 0, None),
            (END + 1, 0, None),
            (1 << 32, 0, None),
            ((1 << 32) + 1, 0, None),
            (1 << 63, 0, None),
            (u64::MAX, 0, None),
        ];
        for (micros, deadline, enforced) in cases {
            assert_eq!((Ext::deadline(micros), Ext::enforced(micros)), (deadline, enforced), "{micros}");
        }
    }

    #[test]
    fn headers_keep_their_fields_apart() {
        let h = ReqHdr::inline(HandlerKey(0x2ABC), 48);
        assert!(h.is_plain());
        assert_eq!((h.key().module(), h.key().index(), h.len(), h.place()), (2, 0xABC, 48, Place::Inline));
        let h = h.in_chunk().with(ReqHdr::TICKET | ReqHdr::EXT);
        assert_eq!((h.place(), h.has(ReqHdr::TICKET), h.has(ReqHdr::CANCEL)), (Place::Chunk, true, false));
        assert!(!h.is_plain());
        let r = RepHdr::inline(Status::PANIC, 16).in_chunk().with(RepHdr::FAULT);
        assert_eq!((r.status(), r.len(), r.place()), (Status::PANIC, 16, Place::Chunk));
    }

    #[test]
    fn headers_of_two_lines_have_every_length() {
        for len in INLINE_BYTES + 1..=TWO_LINE_BYTES {
            let h = ReqHdr::in_two_lines(HandlerKey(0xFABC), len);
            assert_eq!((h.key().0, h.place(), h.args_len()), (0xFABC, Place::TwoLines, len));
            assert!(h.is_two_line_form() && h.has_second_line() && !h.is_plain());
            for bit in 24..32 {
                assert!(!h.with(1 << bit).is_two_line_form(), "bit {bit}");
            }
        }
        for len in 0..64 {
            let h = ReqHdr::inline(HandlerKey(7), len).with(ReqHdr::PUT);
            assert_eq!((h.is_two_line_form(), h.has_second_line(), h.args_len()), (len <= 32, true, len));
            assert!(!h.in_chunk().is_two_line_form() && !h.in_buffer().is_two_line_form());
            assert!(!h.with(ReqHdr::EXT).is_two_line_form());
            assert!(!ReqHdr::inline(HandlerKey(7), len).has_second_line());
        }
    }

    #[test]
    fn a_seq_wraps_inside_its_count() {
        assert_eq!(seq(3, 0x0100_0001, COUNT_BITS), 3 << 24 | 1);
        assert_eq!(seq(3, 5, 2), 3 << 24 | 1);
        assert_eq!((seq_tag(0x0300_0001), seq_count(0x0300_0001)), (3, 1));
    }

    #[test]
    fn a_seq_counter_steps_as_next_seq_does() {
        for (tag, bits) in [(1, 0), (0x80, 2), (255, 2), (7, COUNT_BITS)] {
            let mut counter = SeqCounter::first(tag, bits);
            let mut word = seq(tag, 1, bits);
            for step in 0..20 {
                assert_eq!(counter.word(bits), word, "{bits} bits, tag {tag}, step {step}");
                (counter, word) = (counter.next(bits), next_seq(word, bits));
            }
        }
        let last = SeqCounter(0xFFFF_FF07);
        assert_eq!(last.word(COUNT_BITS), seq(7, 0x00FF_FFFF, COUNT_BITS));
        assert_eq!(last.next(COUNT_BITS).word(COUNT_BITS), seq(7, 0, COUNT_BITS));
    }

    #[test]
    fn a_pair_is_its_two_words_in_memory() {
        let at = pair(0x1122_3344, 0x5566_7788);
        assert_eq!(at.to_le_bytes(), [0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55]);
        assert_eq!((pair_hdr(at), pair_seq(at)), (0x1122_3344, 0x5566_7788));
    }
}
