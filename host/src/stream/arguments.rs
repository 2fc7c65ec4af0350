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
            // Each by itself, so that the compiler joins in registers what the arguments have of a word. It would store
            // pointers that are not at multiples of 8 whole, and load words across them: see `BufferPtr`.
            let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = short.words;
            short.words = [a, b, c, d, e, f, g, h, i, j, k, l, m, n];
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

/// The arguments of any call. The longest part of most is copied only where the message has it.
pub(crate) struct Encoded<'c> {
    /// There until the drop.
    memory: Option<Box<Memory>>,
    /// Bytes of `memory` that are used; more than are here when they are longer than the device takes.
    head: usize,
    /// Those behind them, in the call.
    tail: &'c [u8],
}

/// What [`Encoded`] fills, kept by its thread for the next call.
#[derive(Default)]
struct Memory {
    bytes: Vec<u8>,
    named: Vec<NamedBuffer>,
}

thread_local! {
    static MEMORY: Cell<Option<Box<Memory>>> = const { Cell::new(None) };
}

impl<'c> Encoded<'c> {
    pub(crate) fn of<H: Handler>(device: &Device, call: &'c Call<H>) -> Self {
        // An error means that the thread is ending. Code of the program that calls has another memory.
        let mut memory = MEMORY.try_with(Cell::take).ok().flatten().unwrap_or_default();
        let Memory { bytes, named } = &mut *memory;
        named.clear();
        if bytes.len() != MAX_MESSAGE {
            bytes.resize(MAX_MESSAGE, 0);
        }
        let mut out = Encoder::new(bytes);
        let mut tail = call.args.encode_head(&mut out);
        let (mut head, fits) = (out.needed(), out.fits());
        if !fits && head <= device.longest_message(&device.epoch_info().record) {
            bytes.resize(head, 0);
            let mut out = Encoder::new(bytes);
            tail = call.args.encode_head(&mut out);
            head = out.needed();
        }
        if H::Args::HAS_BUFFERS {
            call.args.visit_buffers(&mut |buffer: NamedBuffer| named.push(buffer));
        }
        Self { memory: Some(memory), head, tail }
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |memory| &memory.bytes)
    }

    /// The same without the call: nothing of it is borrowed.
    pub(crate) fn into_owned(mut self) -> Encoded<'static> {
        let mut memory = self.memory.take();
        // They are not there when they are longer than the device takes.
        if let Some(Memory { bytes, .. }) = memory.as_deref_mut()
            && bytes.len() >= self.head
        {
            bytes.truncate(self.head);
            bytes.extend_from_slice(self.tail);
        }
        Encoded { memory, head: self.len(), tail: &[] }
    }

    /// The bytes, one piece after the other; `None` when they are longer than the device takes.
    #[inline(always)]
    pub(super) fn pieces(&self) -> Option<[&[u8]; 2]> {
        Some([self.bytes().get(..self.head)?, self.tail])
    }

    /// How many bytes the arguments have.
    pub(super) fn len(&self) -> usize {
        self.head + self.tail.len()
    }

    /// Copies the bytes, which are no longer.
    pub(super) fn copy_to(&self, to: &mut [u8]) {
        if let Some([head, tail]) = self.pieces()
            && let Some((to_head, to_tail)) = to.split_at_mut_checked(head.len())
            && let Some(to_tail) = to_tail.get_mut(..tail.len())
        {
            to_head.copy_from_slice(head);
            to_tail.copy_from_slice(tail);
        }
    }

    #[inline(always)]
    pub(super) fn named(&self) -> &[NamedBuffer] {
        self.memory.as_ref().map_or(&[], |memory| &memory.named)
    }
}

impl Drop for Encoded<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(memory) = &mut self.memory
            && memory.bytes.len() > MAX_MESSAGE
        {
            memory.bytes.truncate(MAX_MESSAGE);
            memory.bytes.shrink_to(MAX_MESSAGE);
        }
        // An error means that the thread is ending.
        let _ = MEMORY.try_with(|kept| kept.set(self.memory.take()));
    }
}
