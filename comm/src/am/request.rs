//! What a request carries besides its payload: where the arguments are, how it is answered (abi
//! §4.4).

#[cfg(feature = "tasks")]
use super::Found;
#[cfg(feature = "tasks")]
use crate::task::TaskThunk;
#[cfg(feature = "tasks")]
use hamr_shared_abi::ids::HandlerKey;
use hamr_shared_abi::slot::{Descriptor, Ext, INLINE_BYTES, INLINE_WORDS, Place, ReqHdr};
use hamr_shared_abi::status::Status;

/// Where the reply of a request goes.
#[derive(Clone, Copy)]
pub(super) struct ReplyMode {
    pub(super) one_way: bool,
    pub(super) reply_buffer: Option<Descriptor>,
}

impl ReplyMode {
    pub(super) const TWO_WAY: Self = Self { one_way: false, reply_buffer: None };
}

/// A task's call, as its request has it: with EXT, and without fault. Longer arguments are in its ticket
/// slot's request chunk.
#[cfg(feature = "tasks")]
pub(crate) struct Job {
    pub(crate) queue: u32,
    /// Its ticket slot, and the word that its reply carries there.
    pub(super) found: Found,
    /// Where its next reply goes: the request's slot until the device has replied TAKEN.
    pub(super) next_reply: Found,
    pub(crate) hdr: ReqHdr,
    /// What its first slice runs.
    pub(super) start: TaskThunk,
    pub(super) words: [u64; INLINE_WORDS],
}

#[cfg(feature = "tasks")]
impl Job {
    #[inline(always)]
    pub(super) fn ext(&self) -> Ext {
        let [first, second, ..] = self.words;
        zerocopy::transmute!([first, second])
    }

    /// The arguments, if nothing but EXT is beside them: the words, of which so many bytes count.
    #[inline(always)]
    pub(super) fn short_args(&self) -> Option<(&[u64], usize)> {
        let is_short = matches!(self.hdr.place(), Place::Inline) && !self.hdr.has(ReqHdr::REPLY_BUF);
        let len = self.hdr.len().checked_sub(size_of::<Ext>()).filter(|_| is_short)?;
        Some((self.words.split_at(size_of::<Ext>() / 8).1, len))
    }

    /// Where the reply goes.
    #[cfg_attr(hamr_bare, inline(never))]
    #[cfg_attr(not(hamr_bare), inline(always))]
    pub(super) fn reply_mode(&self) -> ReplyMode {
        if self.hdr.has(ReqHdr::REPLY_BUF) {
            return parts(self.hdr, &self.words).map_or(ReplyMode::TWO_WAY, |parts| parts.reply_mode);
        }
        ReplyMode { one_way: self.hdr.has(ReqHdr::ONE_WAY), reply_buffer: None }
    }
}

/// The bit of a handler's tasks in a set of them.
#[cfg(feature = "tasks")]
pub(super) fn waiter(key: HandlerKey) -> u64 {
    1 << (key.0 & 63)
}

/// Where a request's arguments are.
#[derive(Clone, Copy)]
pub(super) enum Args {
    Inline { start: u32, end: u32 },
    Chunk { len: usize },
    Buffer { at: Descriptor },
}

/// A request's parts in their order (abi §4.4).
pub(super) struct Parts {
    pub(super) ext: Ext,
    pub(super) reply_mode: ReplyMode,
    pub(super) args: Args,
}

/// Splits a private copy of the payload. Refuses what the header promises and the payload lacks.
/// Not for a header that names a second line.
#[inline(never)]
pub(super) fn parts(hdr: ReqHdr, words: &[u64; INLINE_WORDS]) -> Result<Parts, Status> {
    let bad = Status::BAD_REQUEST;
    if hdr.has(ReqHdr::RESERVED) || hdr.len() > INLINE_BYTES || (hdr.has(ReqHdr::TICKET) && !hdr.has(ReqHdr::EXT)) {
        return Err(bad);
    }
    let end = hdr.len();
    let mut at = 0;
    let mut pair = |wanted: bool| {
        if !wanted {
            return Ok([0; 2]);
        }
        let both = words.get(at / 8..at / 8 + 2).filter(|_| at + 16 <= end).ok_or(bad)?;
        at += 16;
        Ok([both[0], both[1]])
    };
    let ext: Ext = zerocopy::transmute!(pair(hdr.has(ReqHdr::EXT))?);
    let place = hdr.place();
    let [off, len] = pair(matches!(place, Place::Chunk | Place::Buffer))?;
    let reply = pair(hdr.has(ReqHdr::REPLY_BUF))?;
    let args = match place {
        Place::Inline => Args::Inline { start: at as u32, end: end as u32 },
        Place::Chunk => Args::Chunk { len: usize::try_from(len).map_err(|_| bad)? },
        Place::Buffer => Args::Buffer { at: Descriptor { off, len } },
        Place::TwoLines => return Err(bad),
    };
    let reply_buffer = hdr.has(ReqHdr::REPLY_BUF).then_some(Descriptor { off: reply[0], len: reply[1] });
    Ok(Parts { ext, reply_mode: ReplyMode { one_way: hdr.has(ReqHdr::ONE_WAY), reply_buffer }, args })
}
