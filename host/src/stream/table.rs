//! Entries: where results that nobody has read yet are kept, so that the ring's slots can go on (rule 12).

use super::epoch::EpochEnd;
use crate::memory::{Block, DeviceMemory};
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr};

/// Buffers that a call names, held until it is answered. Four fit without allocating.
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
    /// Nothing yet, for calls of stream `stream`.
    pub(super) fn of(stream: u32) -> Self {
        Self { stream, ..Self::default() }
    }

    /// The stream whose calls name them.
    pub(super) fn stream(&self) -> u32 {
        self.stream
    }

    pub(super) fn push(&mut self, begin_use: u32) {
        match self.few.get_mut(usize::from(self.count)) {
            Some(state) => {
                *state = begin_use;
                self.count += 1;
            }
            None => self.more.push(begin_use),
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
    pub(super) fn release(&mut self, memory: &DeviceMemory) {
        if self.count != 0 || self.blocks[0].is_some() || self.blocks[1].is_some() {
            self.release_some(memory);
        }
    }

    #[cold]
    fn release_some(&mut self, memory: &DeviceMemory) {
        for begin_use in self.few.iter().take(self.count.into()).chain(&self.more) {
            memory.end_use(*begin_use, self.stream);
        }
        for block in self.blocks.iter().flatten() {
            memory.release(block.index);
        }
        *self = Self::default();
    }
}

/// Where an entry's call is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EntryState {
    /// In the free list; the next free entry.
    Free(u32),
    /// Its reply comes in the ring slot of this position.
    Ring(u64),
    /// Its reply comes in this ticket slot.
    Ticket(u32),
    /// Its reply is here.
    Completed,
    /// It has none.
    EpochEnded(EpochEnd),
}

/// One entry: a cache line, because a hundred thousand of them are memory traffic and nothing else.
#[repr(C, align(64))]
pub(super) struct Entry {
    /// [`EntryState`] in one word: kind above, value below.
    state: u64,
    pub(super) hdr: RepHdr,
    /// Index of its [`ColdPart`], or [`NONE`].
    cold: u32,
    pub(super) words: [u64; INLINE_WORDS],
}
const _: () = assert!(size_of::<Entry>() == 64);

/// What few calls have: kept beside the entries.
#[derive(Default)]
pub(super) struct ColdPart {
    pub(super) uses: Uses,
    /// A long result, copied out of its chunk.
    pub(super) long: Vec<u8>,
    /// The ticket slot of a queued call.
    pub(super) ticket: Option<u32>,
    /// Nobody will read the result: the entry is freed when its reply comes.
    pub(super) abandoned: bool,
    /// It was sent one-way, and has an entry only for what it holds: its failure is counted.
    pub(super) one_way: bool,
}

const KIND: u32 = 60;
const NONE: u32 = u32::MAX;

impl Entry {
    #[inline(always)]
    pub(super) fn state(&self) -> EntryState {
        let value = self.state & ((1 << KIND) - 1);
        match self.state >> KIND {
            0 => EntryState::Free(value as u32),
            1 => EntryState::Ring(value),
            2 => EntryState::Ticket(value as u32),
            3 => EntryState::Completed,
            4 => EntryState::EpochEnded(EpochEnd::Lost),
            _ => EntryState::EpochEnded(EpochEnd::Reset),
        }
    }

    #[inline(always)]
    pub(super) fn set_state(&mut self, state: EntryState) {
        let (kind, value) = match state {
            EntryState::Free(next) => (0, u64::from(next)),
            EntryState::Ring(x) => (1, x),
            EntryState::Ticket(t) => (2, u64::from(t)),
            EntryState::Completed => (3, 0),
            EntryState::EpochEnded(EpochEnd::Lost) => (4, 0),
            EntryState::EpochEnded(EpochEnd::Reset) => (5, 0),
        };
        self.state = kind << KIND | value;
    }
}

/// All entries of one stream. Grows up to a limit, never shrinks.
pub(super) struct PendingTable {
    table: Vec<Entry>,
    free: u32,
    in_use: usize,
    limit: usize,
    cold_parts: Vec<ColdPart>,
    free_cold: Vec<u32>,
}

impl PendingTable {
    pub(super) fn new(limit: usize) -> Self {
        // A ring's worth without allocating later; unread results beyond that grow it.
        Self {
            table: Vec::with_capacity(limit.min(1024)),
            free: NONE,
            in_use: 0,
            limit,
            cold_parts: Vec::with_capacity(64),
            free_cold: Vec::with_capacity(64),
        }
    }

    pub(super) fn in_use(&self) -> usize {
        self.in_use
    }

    /// An entry in state `state`, or `None` at the limit.
    #[inline(always)]
    pub(super) fn take(&mut self, state: EntryState) -> Option<u32> {
        if let Some(entry) = self.table.get_mut(self.free as usize) {
            let index = self.free;
            if let EntryState::Free(next) = entry.state() {
                self.free = next;
            }
            entry.set_state(state);
            self.in_use += 1;
            return Some(index);
        }
        self.grow(state)
    }

    #[cold]
    fn grow(&mut self, state: EntryState) -> Option<u32> {
        if self.table.len() >= self.limit {
            return None;
        }
        let mut entry = Entry { state: 0, hdr: RepHdr(0), cold: NONE, words: [0; INLINE_WORDS] };
        entry.set_state(state);
        self.table.push(entry);
        self.in_use += 1;
        Some(self.table.len() as u32 - 1)
    }

    #[inline(always)]
    pub(super) fn get(&mut self, index: u32) -> Option<&mut Entry> {
        self.table.get_mut(index as usize)
    }

    #[inline(always)]
    pub(super) fn state(&self, index: u32) -> Option<EntryState> {
        self.table.get(index as usize).map(Entry::state)
    }

    /// The entry's extra part, when it has one.
    #[inline(always)]
    pub(super) fn cold(&mut self, index: u32) -> Option<&mut ColdPart> {
        let cold = self.table.get(index as usize)?.cold;
        self.cold_parts.get_mut(cold as usize)
    }

    /// The entry's extra part, made when it has none.
    pub(super) fn cold_or_new(&mut self, index: u32) -> Option<&mut ColdPart> {
        let entry = self.table.get_mut(index as usize)?;
        if entry.cold == NONE {
            entry.cold = self.free_cold.pop().unwrap_or_else(|| {
                self.cold_parts.push(ColdPart::default());
                self.cold_parts.len() as u32 - 1
            });
        }
        self.cold_parts.get_mut(entry.cold as usize)
    }

    /// What the entry's call holds; the entry holds nothing afterwards.
    pub(super) fn take_uses(&mut self, index: u32) -> Uses {
        self.cold(index).map(|cold| std::mem::take(&mut cold.uses)).unwrap_or_default()
    }

    /// Undoes [`Self::take_uses`].
    pub(super) fn restore_uses(&mut self, index: u32, uses: Uses) {
        // An entry without an extra part had nothing to take.
        if let Some(cold) = self.cold(index) {
            cold.uses = uses;
        }
    }

    pub(super) fn is_abandoned(&mut self, index: u32) -> bool {
        self.cold(index).is_some_and(|cold| cold.abandoned)
    }

    /// Back to the free list. Its holds were released.
    #[inline(always)]
    pub(super) fn put_back(&mut self, index: u32) {
        let free = self.free;
        if let Some(entry) = self.table.get_mut(index as usize) {
            debug_assert!(!matches!(entry.state(), EntryState::Free(_)), "a cell is given back once");
            entry.set_state(EntryState::Free(free));
            self.free = index;
            self.in_use -= 1;
            if entry.cold != NONE {
                let cold = std::mem::replace(&mut entry.cold, NONE);
                self.drop_cold(cold);
            }
        }
    }

    #[cold]
    fn drop_cold(&mut self, cold: u32) {
        if let Some(kept) = self.cold_parts.get_mut(cold as usize) {
            *kept = ColdPart::default();
            self.free_cold.push(cold);
        }
    }

    /// Every entry's index and place.
    pub(super) fn states(&self) -> impl Iterator<Item = (u32, EntryState)> {
        self.table.iter().enumerate().map(|(i, c)| (i as u32, c.state()))
    }
}
