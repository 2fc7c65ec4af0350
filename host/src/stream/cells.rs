//! Cells: where results that nobody has read yet are kept, so that the ring's lines can go on (rule 12).

use crate::memory::{Block, Memory};
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr};

/// Buffers that a call names, held until it is answered. Four fit without allocating.
#[derive(Default)]
pub(super) struct Holds {
    /// The stream whose calls name them.
    stream: u32,
    few: [u32; 4],
    count: u8,
    more: Vec<u32>,
    /// Heap memory that belongs to the call itself: long arguments, long reply.
    pub(super) blocks: [Option<Block>; 2],
}

impl Holds {
    /// Nothing yet, for calls of stream `stream`.
    pub(super) fn of(stream: u32) -> Self {
        Self { stream, ..Self::default() }
    }

    /// The stream whose calls name them.
    pub(super) fn stream(&self) -> u32 {
        self.stream
    }

    pub(super) fn push(&mut self, hold: u32) {
        match self.few.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = hold;
                self.count += 1;
            }
            None => self.more.push(hold),
        }
    }

    /// Nothing?
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.blocks.iter().all(Option::is_none)
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
        for hold in self.few.iter().take(self.count.into()).chain(&self.more) {
            memory.unhold(*hold, self.stream);
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

/// One cell: a cache line, because a hundred thousand of them are memory traffic and nothing else.
#[repr(C, align(64))]
pub(super) struct Cell {
    /// [`Place`] in one word: kind above, value below.
    place: u64,
    pub(super) hdr: RepHdr,
    /// Index of its [`Extra`], or [`NONE`].
    extra: u32,
    pub(super) words: [u64; INLINE_WORDS],
}
const _: () = assert!(size_of::<Cell>() == 64);

/// What few calls have: kept beside the cells.
#[derive(Default)]
pub(super) struct Extra {
    pub(super) holds: Holds,
    /// A long result, copied out of its chunk.
    pub(super) long: Vec<u8>,
    /// The side slot of a queued call.
    pub(super) ticket: Option<u32>,
    /// Nobody will read the result: the cell is freed when its answer comes.
    pub(super) abandoned: bool,
    /// It was sent one-way, and has a cell only for what it holds: its failure is counted.
    pub(super) one_way: bool,
}

const KIND: u32 = 60;
const NONE: u32 = u32::MAX;

impl Cell {
    #[inline(always)]
    pub(super) fn place(&self) -> Place {
        let value = self.place & ((1 << KIND) - 1);
        match self.place >> KIND {
            0 => Place::Free(value as u32),
            1 => Place::Ring(value),
            2 => Place::Side(value as u32),
            3 => Place::Here,
            4 => Place::Gone(Ended::Lost),
            _ => Place::Gone(Ended::Reset),
        }
    }

    #[inline(always)]
    pub(super) fn set_place(&mut self, place: Place) {
        let (kind, value) = match place {
            Place::Free(next) => (0, u64::from(next)),
            Place::Ring(x) => (1, x),
            Place::Side(t) => (2, u64::from(t)),
            Place::Here => (3, 0),
            Place::Gone(Ended::Lost) => (4, 0),
            Place::Gone(Ended::Reset) => (5, 0),
        };
        self.place = kind << KIND | value;
    }
}

/// All cells of one stream. Grows up to a limit, never shrinks.
pub(super) struct Cells {
    cells: Vec<Cell>,
    free: u32,
    in_use: usize,
    limit: usize,
    extras: Vec<Extra>,
    free_extras: Vec<u32>,
}

impl Cells {
    pub(super) fn new(limit: usize) -> Self {
        // A ring's worth without allocating later; unread results beyond that grow it.
        Self {
            cells: Vec::with_capacity(limit.min(1024)),
            free: NONE,
            in_use: 0,
            limit,
            extras: Vec::with_capacity(64),
            free_extras: Vec::with_capacity(64),
        }
    }

    pub(super) fn in_use(&self) -> usize {
        self.in_use
    }

    /// A cell in state `place`, or `None` at the limit.
    #[inline(always)]
    pub(super) fn take(&mut self, place: Place) -> Option<u32> {
        if let Some(cell) = self.cells.get_mut(self.free as usize) {
            let index = self.free;
            if let Place::Free(next) = cell.place() {
                self.free = next;
            }
            cell.set_place(place);
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
        let mut cell = Cell { place: 0, hdr: RepHdr(0), extra: NONE, words: [0; INLINE_WORDS] };
        cell.set_place(place);
        self.cells.push(cell);
        self.in_use += 1;
        Some(self.cells.len() as u32 - 1)
    }

    #[inline(always)]
    pub(super) fn get(&mut self, index: u32) -> Option<&mut Cell> {
        self.cells.get_mut(index as usize)
    }

    #[inline(always)]
    pub(super) fn place(&self, index: u32) -> Option<Place> {
        self.cells.get(index as usize).map(Cell::place)
    }

    /// The cell's extra part, when it has one.
    #[inline(always)]
    pub(super) fn extra(&mut self, index: u32) -> Option<&mut Extra> {
        let extra = self.cells.get(index as usize)?.extra;
        self.extras.get_mut(extra as usize)
    }

    /// The cell's extra part, made when it has none.
    pub(super) fn extra_or_new(&mut self, index: u32) -> Option<&mut Extra> {
        let cell = self.cells.get_mut(index as usize)?;
        if cell.extra == NONE {
            cell.extra = self.free_extras.pop().unwrap_or_else(|| {
                self.extras.push(Extra::default());
                self.extras.len() as u32 - 1
            });
        }
        self.extras.get_mut(cell.extra as usize)
    }

    /// What the cell's call holds; the cell holds nothing afterwards.
    pub(super) fn take_holds(&mut self, index: u32) -> Holds {
        self.extra(index).map(|extra| std::mem::take(&mut extra.holds)).unwrap_or_default()
    }

    /// Undoes [`Self::take_holds`].
    pub(super) fn give_holds(&mut self, index: u32, holds: Holds) {
        // A cell without an extra part had nothing to take.
        if let Some(extra) = self.extra(index) {
            extra.holds = holds;
        }
    }

    pub(super) fn is_abandoned(&mut self, index: u32) -> bool {
        self.extra(index).is_some_and(|extra| extra.abandoned)
    }

    /// Back to the free list. Its holds were released.
    #[inline(always)]
    pub(super) fn put_back(&mut self, index: u32) {
        let free = self.free;
        if let Some(cell) = self.cells.get_mut(index as usize) {
            debug_assert!(!matches!(cell.place(), Place::Free(_)), "a cell is given back once");
            cell.set_place(Place::Free(free));
            self.free = index;
            self.in_use -= 1;
            if cell.extra != NONE {
                let extra = std::mem::replace(&mut cell.extra, NONE);
                self.drop_extra(extra);
            }
        }
    }

    #[cold]
    fn drop_extra(&mut self, extra: u32) {
        if let Some(kept) = self.extras.get_mut(extra as usize) {
            *kept = Extra::default();
            self.free_extras.push(extra);
        }
    }

    /// Every cell's index and place.
    pub(super) fn places(&self) -> impl Iterator<Item = (u32, Place)> {
        self.cells.iter().enumerate().map(|(i, c)| (i as u32, c.place()))
    }
}
