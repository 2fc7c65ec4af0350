//! Data that is put with a call in one message.

use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::abi::slot::{INLINE_WORDS, PUT_ARGS, SECOND_BYTES, TWO_LINE_WORDS};
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

    pub(super) fn len(self) -> u64 {
        self.bytes.len() as u64
    }

    /// Adds the data and its place to the words of a call, and returns how many are used.
    #[inline(always)]
    pub(super) fn add_to(self, words: &mut [u64; TWO_LINE_WORDS]) -> usize {
        (words[PUT_ARGS / 8], words[PUT_ARGS / 8 + 1]) = (self.to.unpack().off, self.len());
        let second: &mut [u8] = bytemuck::cast_slice_mut(words.split_at_mut(INLINE_WORDS).1);
        if let Some(second) = second.get_mut(..self.bytes.len()) {
            second.copy_from_slice(self.bytes);
        }
        INLINE_WORDS + self.bytes.len().div_ceil(8)
    }
}
