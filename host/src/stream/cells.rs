//! Cells: where results that nobody has read yet are kept, so that the ring's lines can go on (rule 12).

use crate::memory::{Block, Memory};
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr};
use std::task::Waker;

/// Buffers that a call names, held until it is answered. Four fit without allocating.
#[derive(Default)]
pub(super) struct Holds {
    few: [u32; 4],
    count: u8,
    more: Vec<u32>,
    /// Heap memory that belongs to the call itself: long arguments, long reply.
    pub(super) blocks: [Option<Block>; 2],
}

impl Holds {
    pub(super) fn push(&mut self, index: u32) {
        match self.few.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = index;
                self.count += 1;
            }
            None => self.more.push(index),
        }
    }

    /// Where a long reply was to go.
    pub(super) fn reply_block(&self) -> Option<Block> {
        self.blocks[1]
    }

    /// The call was answered, or never sent: lets go of everything.
    #[inline(always)]
    pub(super) fn release(&mut self, memory: &Memory) {
        if self.count != 0 || self.blocks[0].is_some() || self.blocks[1].is_some() {
            self.release_some(memory);
        }
    }

    #[cold]
    fn release_some(&mut self, memory: &Memory) {
        for index in self.few.iter().take(self.count.into()).chain(&self.more) {
            memory.unhold(*index);
        }
        for block in self.blocks.iter().flatten() {
            memory.release(block.index);
        }
        *self = Self::default();
    }
}

/// How a call ended without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    /// The device is gone.
    Lost,
    /// The device began a new epoch.
    Reset,
}

/// Where a cell's call is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In the free list; the next free cell.
    Free(u32),
    /// Its answer comes in the ring line of this position.
    Ring(u64),
    /// Its answer comes in this side line.
    Side(u32),
    /// Its answer is here.
    Here,
    /// It has none.
    Gone(Ended),
}

pub(super) struct Cell {
    pub(super) place: Place,
    pub(super) hdr: RepHdr,
    pub(super) words: [u64; INLINE_WORDS],
    /// A long result, copied out of its chunk.
    pub(super) long: Vec<u8>,
    pub(super) holds: Holds,
    /// Nobody will read it: freed when its answer comes.
    pub(super) abandoned: bool,
    pub(super) waker: Option<Waker>,
}

/// End of the free list.
const END: u32 = u32::MAX;

/// All cells of one stream. Grows up to a limit, never shrinks.
pub(super) struct Cells {
    cells: Vec<Cell>,
    free: u32,
    in_use: usize,
    limit: usize,
}

impl Cells {
    pub(super) fn new(limit: usize) -> Self {
        // A ring's worth without allocating later; unread results beyond that grow it.
        Self { cells: Vec::with_capacity(limit.min(1024)), free: END, in_use: 0, limit }
    }

    pub(super) fn in_use(&self) -> usize {
        self.in_use
    }

    /// A cell in state `place`, or `None` at the limit.
    #[inline(always)]
    pub(super) fn take(&mut self, place: Place) -> Option<u32> {
        if let Some(cell) = self.cells.get_mut(self.free as usize) {
            let index = self.free;
            if let Place::Free(next) = cell.place {
                self.free = next;
            }
            cell.place = place;
            self.in_use += 1;
            return Some(index);
        }
        self.grow(place)
    }

    #[cold]
    fn grow(&mut self, place: Place) -> Option<u32> {
        if self.cells.len() >= self.limit {
            return None;
        }
        self.cells.push(Cell {
            place,
            hdr: RepHdr(0),
            words: [0; INLINE_WORDS],
            long: Vec::new(),
            holds: Holds::default(),
            abandoned: false,
            waker: None,
        });
        self.in_use += 1;
        Some(self.cells.len() as u32 - 1)
    }

    #[inline(always)]
    pub(super) fn get(&mut self, index: u32) -> Option<&mut Cell> {
        self.cells.get_mut(index as usize)
    }

    /// Back to the free list. Its holds were released.
    #[inline(always)]
    pub(super) fn put_back(&mut self, index: u32) {
        let free = self.free;
        if let Some(cell) = self.cells.get_mut(index as usize) {
            cell.place = Place::Free(free);
            cell.abandoned = false;
            if !cell.long.is_empty() {
                cell.long = Vec::new();
            }
            if cell.waker.is_some() {
                cell.waker = None;
            }
            self.free = index;
            self.in_use -= 1;
        }
    }

    /// Every cell with its index.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Cell)> {
        self.cells.iter_mut().enumerate().map(|(i, c)| (i as u32, c))
    }
}
