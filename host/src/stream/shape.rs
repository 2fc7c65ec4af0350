//! The lengths and kinds of a handler's messages, as far as the compiler knows them from its types.

use hamr_comm::abi::ids::HandlerKey;
use hamr_comm::abi::slot::{Ext, INLINE_BYTES, PUT_ARGS, ReqHdr, TWO_LINE_BYTES, TWO_LINE_WORDS};
use hamr_comm::abi::table::record_flag;
use hamr_comm::migrate::{MAX_MESSAGE, Migratable};
use hamr_comm::{Handler, ValueOf};

/// Is every call of `H` short, without buffers, and run in its stream? Decided by the compiler.
pub(super) const fn is_plain<H: Handler>() -> bool {
    is_short::<H>() && !H::Args::HAS_BUFFERS
}

/// Is a call of `H` a task on the device, so that it needs a ticket?
pub(super) const fn is_task<H: Handler>() -> bool {
    H::FLAGS & record_flag::TASK != 0
}

/// Is every call of `H` a task whose arguments are short and no buffers, and its results short?
pub(super) const fn is_short_task<H: Handler>() -> bool {
    let room = INLINE_BYTES - size_of::<Ext>();
    is_task::<H>() && are_short::<H>(room) && short_result::<H>().is_some() && !H::Args::HAS_BUFFERS
}

/// The flags of a call of `H`, a task.
pub(super) const fn task_flags<H: Handler>() -> u32 {
    let order = if H::FLAGS & record_flag::UNORDERED != 0 { ReqHdr::UNORDERED } else { 0 };
    ReqHdr::EXT | ReqHdr::TICKET | order
}

/// Is every call of `H` short and run in its stream, with or without buffers?
pub(super) const fn is_short<H: Handler>() -> bool {
    is_fixed::<H>(INLINE_BYTES)
}

/// Does every call of `H` fit into the hot slot, with its second line where it has one?
pub(super) const fn fits_hot<H: Handler>() -> bool {
    is_fixed::<H>(TWO_LINE_BYTES)
}

/// Does a call of `H`, which fits, need the second line?
pub(super) const fn needs_two_lines<H: Handler>() -> bool {
    plain_len::<H>() > INLINE_BYTES
}

/// Can data be put with a call of `H` in one message?
pub(super) const fn takes_put<H: Handler>() -> bool {
    is_fixed::<H>(PUT_ARGS) && short_result::<H>().is_some()
}

/// Have the arguments of `H` one length, up to `limit`?
const fn are_short<H: Handler>(limit: usize) -> bool {
    match H::Args::SIZE {
        Some(n) => n <= limit,
        None => false,
    }
}

/// The same of a handler that runs in its stream.
const fn is_fixed<H: Handler>(limit: usize) -> bool {
    // A result that is always longer than the slot may need a reply buffer; of one of variable size
    // [`fits_chunk`] tells.
    let short_result = match <ValueOf<H> as Migratable>::SIZE {
        Some(n) => n <= INLINE_BYTES,
        None => true,
    };
    are_short::<H>(limit) && short_result && is_inline::<H>()
}

/// Do calls of `H` run in their stream, in its order?
pub(super) const fn is_inline<H: Handler>() -> bool {
    H::FLAGS & (record_flag::TASK | record_flag::UNORDERED) == 0
}

/// Bytes of the longest result of `H`, which are reserved unless the call's options say otherwise.
pub(super) const fn longest_result<H: Handler>() -> usize {
    match <ValueOf<H> as Migratable>::LONGEST {
        Some(n) if n < MAX_MESSAGE => n,
        _ => MAX_MESSAGE,
    }
}

/// Does every result of `H` fit the slot, or its chunk of so many bytes?
#[inline(always)]
pub(super) fn fits_chunk<H: Handler>(reply_chunk: impl FnOnce() -> usize) -> bool {
    (const { longest_result::<H>() <= INLINE_BYTES }) || longest_result::<H>() <= reply_chunk()
}

/// Bytes of the arguments of a plain handler.
pub(super) const fn plain_len<H: Handler>() -> usize {
    match H::Args::SIZE {
        Some(n) => n,
        None => 0,
    }
}

/// The header of a call without flags.
#[inline(always)]
pub(super) fn plain_hdr<H: Handler>(key: HandlerKey) -> ReqHdr {
    if const { needs_two_lines::<H>() } {
        return ReqHdr::in_two_lines(key, const { plain_len::<H>() });
    }
    ReqHdr::inline(key, const { plain_len::<H>() })
}

/// Has a call of `H` a path of its own, in the hot slot or as a short task?
pub(super) const fn is_fixed_task_or_hot<H: Handler>() -> bool {
    fits_hot::<H>() || is_short_task::<H>()
}

/// The words of [`Short`](super::arguments::Short) that a call of `H` uses.
#[inline(always)]
pub(super) fn used_words<H: Handler>(words: &[u64; TWO_LINE_WORDS]) -> &[u64] {
    words.split_at(const { plain_len::<H>().div_ceil(8) }).0
}

/// Bytes of the results of `H`, when all of them have the same and fit into the slot.
pub(super) const fn short_result<H: Handler>() -> Option<usize> {
    match <ValueOf<H> as Migratable>::SIZE {
        Some(n) if n <= INLINE_BYTES => Some(n),
        _ => None,
    }
}
