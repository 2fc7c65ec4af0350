//! The second line of a hot slot, as the responder takes it in (abi §4.7).

use super::{SlotAccess, Slots};
use hamr_shared_abi::slot::{INLINE_WORDS, PUT_ARGS, ReqHdr, TWO_LINE_BYTES, TWO_LINE_WORDS};
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::{LentHeap, Queue};

/// Takes what a message of [`ReqHdr::is_two_line_form`] in the hot slot has in its second line:
/// arguments to the front of scratch memory, behind those of the first line; data into the heap.
/// False: the data leaves its line or the heap, and nothing was copied.
// Not inlined: an image has it once, and the code that serves one line has only the call.
#[inline(never)]
pub(super) fn take_second<K, F: Order>(
    heap: &LentHeap<'_>,
    scratch: &mut [u8],
    slots: &Queue<K, F>,
    hdr: ReqHdr,
) -> bool {
    let mut words = [0; TWO_LINE_WORDS];
    let (first, second) = words.split_at_mut(INLINE_WORDS);
    slots.hot().read_request(first);
    slots.read_second(second);
    if hdr.has(ReqHdr::PUT) {
        // From the private copy (rule 5).
        let (off, len) = (first[PUT_ARGS / 8], first[PUT_ARGS / 8 + 1]);
        let data = usize::try_from(len).ok().and_then(|len| bytemuck::cast_slice(second).get(..len));
        return data.is_some_and(|data| heap.write_bytes(off, data).is_ok());
    }
    let bytes: &[u8; TWO_LINE_BYTES] = bytemuck::must_cast_ref(&words);
    let to = scratch.first_chunk_mut();
    to.map(|to| *to = *bytes).is_some()
}
