//! What a call in flight needs until its reply: buffers that it names, and heap memory of its own.

use super::put_data::PutData;
use crate::memory::{Block, DeviceMemory, Record};
use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::abi::slot::TWO_LINE_BYTES;
use hamr_comm::migrate::{Migratable, NamedBuffer, VisitBuffer};
use hamr_comm::{Call, Handler};

/// Buffers that a call names, in use until the call is answered. Four fit without allocating.
#[derive(Default)]
pub(super) struct Uses {
    /// The stream whose calls name them.
    stream: u32,
    few: [u32; 4],
    count: u8,
    more: Vec<u32>,
    /// Heap memory that belongs to the call itself: long arguments, long reply.
    pub(super) blocks: [Option<Block>; 2],
}

impl Uses {
    /// No uses yet, for calls of stream `stream`.
    pub(super) fn of(stream: u32) -> Self {
        Self { stream, ..Self::default() }
    }

    /// The stream whose calls name them.
    pub(super) fn stream(&self) -> u32 {
        self.stream
    }

    pub(super) fn push(&mut self, record: u32) {
        match self.few.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = record;
                self.count += 1;
            }
            None => self.more.push(record),
        }
    }

    /// Keeps a use that began on the fast path.
    #[cold]
    #[inline(never)]
    fn keep(&mut self, memory: &DeviceMemory, record: &Record) {
        self.push(memory.index_of(record));
    }

    /// Are there no uses?
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.blocks.iter().all(Option::is_none)
    }

    /// Where a long reply goes.
    pub(super) fn reply_block(&self) -> Option<Block> {
        self.blocks[1]
    }

    /// The call was answered, or never sent: ends every use.
    #[inline(always)]
    pub(super) fn release(&mut self, memory: &DeviceMemory) {
        if self.count != 0 || self.blocks[0].is_some() || self.blocks[1].is_some() {
            self.release_some(memory);
        }
    }

    #[cold]
    fn release_some(&mut self, memory: &DeviceMemory) {
        for record in self.few.iter().take(self.count.into()).chain(&self.more) {
            memory.end_use(*record, self.stream);
        }
        for block in self.blocks.iter().flatten() {
            memory.release(block.index);
        }
        *self = Self::default();
    }
}

/// Buffers that a call in two lines can name: in its arguments, and as the target of a put.
const MOST: usize = TWO_LINE_BYTES / size_of::<WireBuffer>();

/// The buffers of a call on the fast path. Their number and places are constants of nearly every
/// handler, since visits are inlined, so that the compiler keeps them in registers.
pub(super) struct InlineUses<'m> {
    /// The target of the data that is put with the call.
    put: Option<&'m Record>,
    /// In the order of the visit. A place is also empty where the buffer is that target.
    named: [Option<&'m Record>; MOST],
}

impl<'m> InlineUses<'m> {
    /// Checks them, and the target of data that is put with the call, and begins their use; `None`
    /// when one is not usable (the slow path finds the reason).
    #[inline(always)]
    pub(super) fn of<H: Handler>(
        memory: &'m DeviceMemory,
        stream: u32,
        call: &Call<H>,
        put: Option<PutData<'_>>,
    ) -> Option<Self> {
        let mut uses = Self { put: None, named: [None; MOST] };
        if let Some(put) = put {
            // Before the call's own uses, of which one may be of this buffer.
            uses.put = Some(memory.begin_put_at_once(put.to, put.room, put.len(), stream)?);
        }
        if !H::Args::HAS_BUFFERS {
            return Some(uses);
        }
        let mut begin = Begin { memory, stream, put, named: uses.named, count: 0, all: true };
        call.args.visit_buffers(&mut begin);
        uses.named = begin.named;
        if begin.all {
            return Some(uses);
        }
        uses.release(call, stream);
        None
    }

    /// The call was answered, or not sent.
    #[inline(always)]
    pub(super) fn release<H: Handler>(self, call: &Call<H>, stream: u32) {
        self.each(call, |record| record.end_use(stream));
    }

    /// For a call that leaves the fast path.
    #[inline(always)]
    pub(super) fn keep_in<H: Handler>(self, call: &Call<H>, memory: &DeviceMemory, uses: &mut Uses, stream: u32) {
        uses.stream = stream;
        self.each(call, |record| uses.keep(memory, record));
    }

    // A loop over the places would keep all of them in memory.
    #[inline(always)]
    fn each<H: Handler>(self, call: &Call<H>, mut f: impl FnMut(&Record)) {
        if let Some(put) = self.put {
            f(put);
        }
        if H::Args::HAS_BUFFERS {
            call.args.visit_buffers(&mut Each { named: self.named, count: 0, f });
        }
    }
}

/// Begins the use of each buffer that a call names.
struct Begin<'m, 'd> {
    memory: &'m DeviceMemory,
    stream: u32,
    put: Option<PutData<'d>>,
    named: [Option<&'m Record>; MOST],
    count: usize,
    all: bool,
}

impl VisitBuffer for Begin<'_, '_> {
    #[inline(always)]
    fn visit(&mut self, buffer: NamedBuffer) {
        if !self.put.is_some_and(|put| put.is_of(buffer)) {
            // More of them than its arguments have room for are refused.
            let Some(place) = self.named.get_mut(self.count) else {
                self.all = false;
                return;
            };
            *place = self.memory.begin_use_at_once(buffer.wire, buffer.bytes, self.stream);
            self.all &= place.is_some();
        }
        self.count += 1;
    }
}

/// Calls `f` for each buffer that a call names.
struct Each<'m, F> {
    named: [Option<&'m Record>; MOST],
    count: usize,
    f: F,
}

impl<F: FnMut(&Record)> VisitBuffer for Each<'_, F> {
    #[inline(always)]
    fn visit(&mut self, _: NamedBuffer) {
        if let Some(Some(record)) = self.named.get(self.count) {
            (self.f)(record);
        }
        self.count += 1;
    }
}
