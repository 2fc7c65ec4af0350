//! Data that is put with a call in one message.

use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::abi::slot::{INLINE_WORDS, PUT_ARGS, SECOND_BYTES, TWO_LINE_WORDS};
use hamr_comm::migrate::NamedBuffer;
use hamr_comm::{BufferPtr, Element};

/// Data for the second line of a call (abi §4.7), and its target.
#[derive(Clone, Copy)]
pub(super) struct PutData<'d> {
    bytes: &'d [u8],
    /// The target, and the bytes that its pointer names.
    pub(super) to: WireBuffer,
    pub(super) room: u64,
}

impl<'d> PutData<'d> {
    /// `None`: it does not fit the second line.
    #[inline(always)]
    pub(super) fn new<T: Element>(data: &'d [T], to: BufferPtr<T>) -> Option<Self> {
        let fits = size_of_val(data) <= SECOND_BYTES;
        fits.then(|| Self { bytes: bytemuck::cast_slice(data), to: to.wire(), room: to.bytes() })
    }

    /// Is this the target, as it was checked and begun to be used?
    #[inline(always)]
    pub(super) fn is_of(self, named: NamedBuffer) -> bool {
        self.to == named.wire && self.room == named.bytes
    }

    #[inline(always)]
    pub(super) fn len(self) -> u64 {
        self.bytes.len() as u64
    }

    /// The words of the slot: those of a call, of which it has few, and the target.
    #[inline(always)]
    pub(super) fn first(self, words: &[u64; TWO_LINE_WORDS]) -> [u64; INLINE_WORDS] {
        let [a, b, c, d, ..] = *words;
        const { assert!(PUT_ARGS == 4 * 8 && INLINE_WORDS == 6) };
        [a, b, c, d, self.to.unpack().off, self.len()]
    }

    /// The bytes of the second line.
    #[inline(always)]
    pub(super) fn second(self) -> &'d [u8] {
        self.bytes
    }
}
