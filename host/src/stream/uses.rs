//! What a call in flight needs until its reply: buffers that it names, and heap memory of its own.

use super::arguments::{MOST, Short};
use super::put_data::PutData;
use crate::memory::{Block, DeviceMemory, Record};
use hamr_comm::Handler;
use hamr_comm::migrate::{Migratable, NamedBuffer};

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

/// The buffers of a call on the fast path.
pub(super) struct InlineUses<'m> {
    /// The target of the data that is put with the call.
    put: Option<&'m Record>,
    /// In the order of the visit. A place is also empty where the buffer is that target.
    named: [Option<&'m Record>; MOST],
}

impl<'m> InlineUses<'m> {
    /// Of a call without buffers.
    pub(super) const NONE: Self = Self { put: None, named: [None; MOST] };

    /// Checks them, and the target of data that is put with the call, and begins their use; `None`
    /// when one is not usable (the slow path finds the reason).
    #[inline(always)]
    pub(super) fn of<H: Handler>(
        memory: &'m DeviceMemory,
        stream: u32,
        call: &Short,
        put: Option<PutData<'_>>,
    ) -> Option<Self> {
        let mut uses = Self::NONE;
        if let Some(put) = put {
            // Before the call's own uses, of which one may be of this buffer.
            uses.put = Some(memory.begin_put_at_once(put.to, put.room, put.len(), stream)?);
        }
        if !H::Args::HAS_BUFFERS {
            return Some(uses);
        }
        let mut begin = Begin { memory, stream, put, all: !call.names_too_many() };
        let [a, b, c, d, e, f, g] = call.named;
        // A loop over the places would keep all of them in memory.
        uses.named = [begin.one(a), begin.one(b), begin.one(c), begin.one(d), begin.one(e), begin.one(f), begin.one(g)];
        if begin.all {
            return Some(uses);
        }
        uses.release::<H>(stream);
        None
    }

    /// The call was answered, or not sent.
    #[inline(always)]
    pub(super) fn release<H: Handler>(self, stream: u32) {
        self.each::<H>(|record| record.end_use(stream));
    }

    /// For a call that leaves the fast path.
    #[inline(always)]
    pub(super) fn keep_in<H: Handler>(self, memory: &DeviceMemory, uses: &mut Uses, stream: u32) {
        uses.stream = stream;
        self.each::<H>(|record| uses.keep(memory, record));
    }

    #[inline(always)]
    fn each<H: Handler>(self, mut end: impl FnMut(&Record)) {
        if let Some(put) = self.put {
            end(put);
        }
        if H::Args::HAS_BUFFERS {
            let [a, b, c, d, e, f, g] = self.named;
            // As above.
            one(a, &mut end);
            one(b, &mut end);
            one(c, &mut end);
            one(d, &mut end);
            one(e, &mut end);
            one(f, &mut end);
            one(g, &mut end);
        }
    }
}

#[inline(always)]
fn one(record: Option<&Record>, end: &mut impl FnMut(&Record)) {
    if let Some(record) = record {
        end(record);
    }
}

/// Begins the use of each buffer that a call names.
struct Begin<'m, 'd> {
    memory: &'m DeviceMemory,
    stream: u32,
    put: Option<PutData<'d>>,
    all: bool,
}

impl<'m> Begin<'m, '_> {
    #[inline(always)]
    fn one(&mut self, named: Option<NamedBuffer>) -> Option<&'m Record> {
        let named = named.filter(|named| !self.put.is_some_and(|put| put.is_of(*named)))?;
        let record = self.memory.begin_use_at_once(named.wire, named.bytes, self.stream);
        self.all &= record.is_some();
        record
    }
}
