//! What a call in flight needs until its reply: buffers that it names, and heap memory of its own.

use super::put_data::PutData;
use crate::memory::{Block, DeviceMemory};
use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::abi::slot::TWO_LINE_BYTES;
use hamr_comm::migrate::Migratable;
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

/// Buffers that the arguments of a call in two lines can name.
const MOST: usize = TWO_LINE_BYTES / size_of::<WireBuffer>();

/// The buffers of a call on the fast path.
#[derive(Clone, Copy)]
pub(super) struct InlineUses {
    records: [u32; MOST],
    count: u32,
}

impl InlineUses {
    /// No buffers.
    pub(super) const NONE: Self = Self { records: [0; MOST], count: 0 };

    /// Checks them, and the target of data that is put with the call, and begins their use; `None`
    /// when one is not usable (the slow path finds the reason).
    #[inline(always)]
    pub(super) fn of<H: Handler>(
        memory: &DeviceMemory,
        stream: u32,
        call: &Call<H>,
        put: Option<PutData<'_>>,
    ) -> Option<Self> {
        let mut uses = Self::NONE;
        if let Some(put) = put {
            // Before the call's own uses, of which one may be of this buffer.
            uses.records[0] = memory.begin_put(put.to, put.room, put.len(), stream).ok()?;
            uses.count = 1;
        }
        if !H::Args::HAS_BUFFERS {
            return Some(uses);
        }
        let mut all = true;
        call.args.visit_buffers(&mut |named| match (
            uses.records.get_mut(uses.count as usize),
            memory.begin_use(named.wire, named.bytes, stream),
        ) {
            (Some(place), Ok(record)) => {
                *place = record;
                uses.count += 1;
            }
            (None, Ok(record)) => {
                memory.end_use(record, stream);
                all = false;
            }
            (_, Err(_)) => all = false,
        });
        if all {
            return Some(uses);
        }
        uses.release::<H>(memory, stream, put.is_some());
        None
    }

    /// The call was answered, or never sent. `with_put`: data was put with it.
    #[inline(always)]
    pub(super) fn release<H: Handler>(self, memory: &DeviceMemory, stream: u32, with_put: bool) {
        if !H::Args::HAS_BUFFERS && !with_put {
            return;
        }
        for record in self.records.iter().take(self.count as usize) {
            memory.end_use(*record, stream);
        }
    }

    /// For a call that leaves the fast path.
    pub(super) fn into_uses(self, stream: u32) -> Uses {
        let mut uses = Uses::of(stream);
        self.records.iter().take(self.count as usize).for_each(|record| uses.push(*record));
        uses
    }
}
