//! The arguments of a call as its message carries them, and the buffers that they name.
//!
//! Invariant: code of the program (`Migratable::encode`, `visit_buffers`) runs here, before a stream
//! is entered, and `Migratable::decode` in [`super::reply`], behind the use of the stream. So it may
//! panic, wait, or use the same stream: nothing is lent, locked or counted meanwhile.

use super::shape::{is_fixed_task_or_hot, plain_len};
use crate::device::Device;
use hamr_comm::abi::slot::{TWO_LINE_BYTES, TWO_LINE_WORDS};
use hamr_comm::migrate::{Encoder, MAX_MESSAGE, Migratable, NamedBuffer, VisitBuffer};
use hamr_comm::{Call, Handler};
use std::cell::Cell;

/// Buffers that a call in two lines can name: in its arguments, and as the target of a put.
pub(super) const MOST: usize = TWO_LINE_BYTES / 16;

/// The arguments of a call that fits the slots; nothing, of other calls.
pub(super) struct Short {
    pub(super) words: [u64; TWO_LINE_WORDS],
    /// In the order of the visit. Their number and places are constants of nearly every handler,
    /// since visits are inlined, so that the compiler keeps them in registers.
    pub(super) named: [Option<NamedBuffer>; MOST],
    count: usize,
}

impl Short {
    #[inline(always)]
    pub(super) fn of<H: Handler>(call: &Call<H>) -> Self {
        let mut short = Self { words: [0; TWO_LINE_WORDS], named: [None; MOST], count: 0 };
        if const { !is_fixed_task_or_hot::<H>() } {
            return short;
        }
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut short.words);
        call.args.encode(&mut Encoder::new(bytes.split_at_mut(plain_len::<H>()).0));
        if H::Args::HAS_BUFFERS {
            call.args.visit_buffers(&mut short);
        }
        short
    }

    /// Do the arguments name more buffers than they have room for?
    #[inline(always)]
    pub(super) fn names_too_many(&self) -> bool {
        self.count > MOST
    }
}

impl VisitBuffer for Short {
    #[inline(always)]
    fn visit(&mut self, buffer: NamedBuffer) {
        if let Some(place) = self.named.get_mut(self.count) {
            *place = Some(buffer);
        }
        self.count += 1;
    }
}

/// The arguments of any call.
pub(crate) struct Encoded {
    memory: Memory,
    /// Bytes of the arguments; more than are here when they are longer than the device takes.
    len: usize,
}

/// What [`Encoded`] fills, kept by its thread for the next call.
#[derive(Default)]
struct Memory {
    bytes: Vec<u8>,
    named: Vec<NamedBuffer>,
}

thread_local! {
    static MEMORY: Cell<Memory> = const { Cell::new(Memory { bytes: Vec::new(), named: Vec::new() }) };
}

impl Encoded {
    pub(crate) fn of<H: Handler>(device: &Device, call: &Call<H>) -> Self {
        // An error means that the thread is ending. Code of the program that calls has another memory.
        let memory = MEMORY.try_with(Cell::take).unwrap_or_default();
        let mut encoded = Self { memory, len: 0 };
        let Memory { bytes, named } = &mut encoded.memory;
        named.clear();
        bytes.resize(MAX_MESSAGE, 0);
        let mut out = Encoder::new(bytes);
        call.args.encode(&mut out);
        encoded.len = out.needed();
        if !out.fits() && encoded.len <= device.longest_message(&device.epoch_info().record) {
            bytes.resize(encoded.len, 0);
            let mut out = Encoder::new(bytes);
            call.args.encode(&mut out);
            encoded.len = out.needed();
        }
        if H::Args::HAS_BUFFERS {
            call.args.visit_buffers(&mut |buffer: NamedBuffer| named.push(buffer));
        }
        encoded
    }

    /// The bytes; `None` when they are longer than the device takes.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.memory.bytes.get(..self.len)
    }

    /// How many bytes the arguments have.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The first bytes, which go to a chunk.
    pub(super) fn chunk(&self, len: usize) -> &[u8] {
        self.memory.bytes.get(..len).unwrap_or_default()
    }

    pub(super) fn named(&self) -> &[NamedBuffer] {
        &self.memory.named
    }
}

impl Drop for Encoded {
    fn drop(&mut self) {
        let mut memory = std::mem::take(&mut self.memory);
        memory.bytes.truncate(MAX_MESSAGE);
        memory.bytes.shrink_to(MAX_MESSAGE);
        // An error means that the thread is ending.
        let _ = MEMORY.try_with(|kept| kept.set(memory));
    }
}
