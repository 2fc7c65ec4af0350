//! The pending table: calls whose result is not read, so that the ring's slots can go on (rule 12).
//!
//! Each call has an entry from its submission until its result is read, or until its reply comes
//! when it was abandoned. The table has no access to a device or a window: its user reads the slots
//! and ends the uses that the table returns.

use super::epoch::EpochEnd;
use super::uses::Uses;
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr};
use std::time::Instant;

/// Where an entry's call is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EntryState {
    /// In the free list; the index of the next free entry.
    Free(u32),
    /// Its reply comes in the ring slot of this position.
    Ring(u64),
    /// Its reply comes in this ticket slot.
    Ticket(u32),
    /// Its reply is in the entry.
    Completed,
    /// It ended without a reply.
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

/// The part that few calls need, kept beside the entries.
#[derive(Default)]
pub(super) struct ColdPart {
    pub(super) uses: Uses,
    /// A long result, copied out of its chunk.
    pub(super) long: Vec<u8>,
    /// The ticket slot of a queued call.
    pub(super) ticket: Option<u32>,
    /// Where the device keeps its task: the device's word.
    pub(super) place: Option<u32>,
    /// When its caller stops waiting.
    pub(super) until: Option<Instant>,
    /// The caller gave up the result: the entry is freed when its reply comes.
    abandoned: bool,
    /// It was sent one-way, and has an entry only for its uses: its failure is counted.
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
    entries: Vec<Entry>,
    free: u32,
    in_use: usize,
    limit: usize,
    /// Free entries beyond the limit, in no list.
    parked: usize,
    cold_parts: Vec<ColdPart>,
    free_cold: Vec<u32>,
}

impl PendingTable {
    pub(super) fn new(limit: usize) -> Self {
        // Room for a ring's calls without a later allocation; unread results beyond that grow it.
        Self {
            entries: Vec::with_capacity(limit.min(1024)),
            free: NONE,
            in_use: 0,
            limit,
            parked: 0,
            cold_parts: Vec::with_capacity(64),
            free_cold: Vec::with_capacity(64),
        }
    }

    /// From now on so many entries are used at most. Those that are in use stay.
    pub(super) fn set_limit(&mut self, limit: usize) {
        if limit == self.limit {
            return;
        }
        (self.limit, self.free, self.parked) = (limit, NONE, 0);
        let mut room = limit.saturating_sub(self.in_use);
        for (index, entry) in self.entries.iter_mut().enumerate() {
            match entry.state() {
                EntryState::Free(_) if room > 0 => {
                    entry.set_state(EntryState::Free(self.free));
                    self.free = index as u32;
                    room -= 1;
                }
                EntryState::Free(_) => self.parked += 1,
                _ => {}
            }
        }
    }

    /// See [`Self::set_limit`].
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Calls in flight or unread.
    pub(super) fn in_use(&self) -> usize {
        self.in_use
    }

    /// An entry in state `state`, or `None` at the limit.
    pub(super) fn take(&mut self, state: EntryState) -> Option<u32> {
        self.take_again(state).or_else(|| self.grow(state))
    }

    /// An entry that was in use before, in state `state`; `None` when none is free.
    #[inline(always)]
    pub(super) fn take_again(&mut self, state: EntryState) -> Option<u32> {
        let index = self.free;
        let entry = self.entries.get_mut(index as usize)?;
        if let EntryState::Free(next) = entry.state() {
            self.free = next;
        }
        entry.set_state(state);
        self.in_use += 1;
        Some(index)
    }

    #[cold]
    fn grow(&mut self, state: EntryState) -> Option<u32> {
        if self.entries.len() - self.parked >= self.limit {
            return None;
        }
        let mut entry = Entry { state: 0, hdr: RepHdr(0), cold: NONE, words: [0; INLINE_WORDS] };
        entry.set_state(state);
        self.entries.push(entry);
        self.in_use += 1;
        Some(self.entries.len() as u32 - 1)
    }

    #[inline(always)]
    pub(super) fn get(&mut self, index: u32) -> Option<&mut Entry> {
        self.entries.get_mut(index as usize)
    }

    #[inline(always)]
    pub(super) fn state(&self, index: u32) -> Option<EntryState> {
        self.entries.get(index as usize).map(Entry::state)
    }

    /// The entry's cold part, when it has one.
    #[inline(always)]
    pub(super) fn cold(&mut self, index: u32) -> Option<&mut ColdPart> {
        let cold = self.entries.get(index as usize)?.cold;
        self.cold_parts.get_mut(cold as usize)
    }

    /// The entry's cold part, made when it has none.
    pub(super) fn cold_or_new(&mut self, index: u32) -> Option<&mut ColdPart> {
        let entry = self.entries.get_mut(index as usize)?;
        if entry.cold == NONE {
            entry.cold = self.free_cold.pop().unwrap_or_else(|| {
                self.cold_parts.push(ColdPart::default());
                self.cold_parts.len() as u32 - 1
            });
        }
        self.cold_parts.get_mut(entry.cold as usize)
    }

    /// The uses of the entry's call; the entry has none afterwards.
    pub(super) fn take_uses(&mut self, index: u32) -> Uses {
        self.cold(index).map(|cold| std::mem::take(&mut cold.uses)).unwrap_or_default()
    }

    /// Undoes [`Self::take_uses`].
    pub(super) fn restore_uses(&mut self, index: u32, uses: Uses) {
        // An entry without a cold part had nothing to take.
        if let Some(cold) = self.cold(index) {
            cold.uses = uses;
        }
    }

    /// The device has taken the call: its reply comes in this ticket slot.
    pub(super) fn go_on_in_ticket_slot(&mut self, index: u32, ticket: u32) {
        if let Some(entry) = self.get(index) {
            entry.set_state(EntryState::Ticket(ticket));
        }
    }

    /// Gives a call in flight its outcome. `None`: an abandoned entry is free now, and the reply is
    /// discarded.
    pub(super) fn complete(&mut self, index: u32, outcome: EntryState) -> Option<&mut Entry> {
        if self.is_abandoned(index) {
            self.put_back(index);
            return None;
        }
        let entry = self.get(index)?;
        entry.set_state(outcome);
        Some(entry)
    }

    /// The caller gives up the result. True while the call is in flight: its reply frees the entry.
    pub(super) fn abandon(&mut self, index: u32) -> bool {
        match self.state(index) {
            Some(EntryState::Completed | EntryState::EpochEnded(_)) => {
                self.put_back(index);
                false
            }
            Some(EntryState::Ring(_) | EntryState::Ticket(_)) => {
                if let Some(cold) = self.cold_or_new(index) {
                    cold.abandoned = true;
                }
                true
            }
            Some(EntryState::Free(_)) | None => false,
        }
    }

    pub(super) fn is_abandoned(&mut self, index: u32) -> bool {
        self.cold(index).is_some_and(|cold| cold.abandoned)
    }

    /// The epoch is over: each call in flight has this outcome, and `release` ends its uses.
    pub(super) fn end_epoch(&mut self, ended: EpochEnd, mut release: impl FnMut(Uses)) {
        for index in 0..self.entries.len() as u32 {
            if let Some(EntryState::Ring(_) | EntryState::Ticket(_)) = self.state(index) {
                release(self.take_uses(index));
                self.complete(index, EntryState::EpochEnded(ended));
            }
        }
    }

    /// Back to the free list. Its uses were taken.
    #[inline(always)]
    pub(super) fn put_back(&mut self, index: u32) {
        self.put_back_used(index, |_| {});
    }

    /// Back to the free list; `release` ends what its cold part has, if there is one.
    #[inline(always)]
    pub(super) fn put_back_used(&mut self, index: u32, release: impl FnOnce(ColdPart)) {
        let free = self.free;
        if let Some(entry) = self.entries.get_mut(index as usize) {
            debug_assert!(!matches!(entry.state(), EntryState::Free(_)), "an entry is put back once");
            entry.set_state(EntryState::Free(free));
            self.free = index;
            self.in_use -= 1;
            if entry.cold != NONE {
                let cold = std::mem::replace(&mut entry.cold, NONE);
                self.drop_cold(cold, release);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn drop_cold(&mut self, cold: u32, release: impl FnOnce(ColdPart)) {
        if let Some(kept) = self.cold_parts.get_mut(cold as usize) {
            release(std::mem::take(kept));
            self.free_cold.push(cold);
        }
    }
}

#[cfg(test)]
mod tests;
