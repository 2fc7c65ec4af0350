//! The pending table: calls that have more than a ring slot: a ticket, buffers in use, a deadline (rule 12).
//!
//! Each has an entry from its submission until its result is read, or until its reply comes when it was
//! abandoned. All other calls of the stream are counted here, and found in the ring or in
//! [`super::moved`]. The table has no access to a device or a window: its user reads the slots.

use super::epoch::EpochEnd;
use super::reply::ReplyCopy;
use super::uses::Uses;
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr};
use std::time::Instant;

/// A call in flight or unread, as its caller knows it: an entry, or the number of a call without one, which
/// counts those of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Name(pub(super) u64);

impl Name {
    /// Bits of a name.
    pub(super) const BITS: u32 = 48;
    const IS_NUMBER: u64 = 1 << 47;
    /// The bits of a number that a name has. A name is as good as its whole number: a caller does not read a
    /// result 140,737 billion calls later.
    pub(super) const NUMBER: u64 = Self::IS_NUMBER - 1;

    #[inline(always)]
    pub(super) fn of_entry(entry: u32) -> Self {
        Self(entry.into())
    }

    #[inline(always)]
    pub(super) fn of_number(number: u64) -> Self {
        Self(number & Self::NUMBER | Self::IS_NUMBER)
    }

    /// The entry, where it has one.
    #[inline(always)]
    pub(super) fn entry(self) -> Option<u32> {
        (self.0 & Self::IS_NUMBER == 0).then_some(self.0 as u32)
    }
}

/// Where an entry's call is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EntryState {
    Free,
    /// Its reply comes in the ring slot of this position.
    Ring(u64),
    /// Its reply comes in this ticket slot.
    Ticket(u32),
    /// Its reply is in the entry.
    Completed,
    /// It ended without a reply.
    EpochEnded(EpochEnd),
}

/// One entry.
pub(super) struct Entry {
    pub(super) state: EntryState,
    pub(super) uses: Uses,
    /// The ticket slot of a queued call.
    pub(super) ticket: Option<u32>,
    /// When its caller stops waiting.
    pub(super) until: Option<Instant>,
    /// The caller gave up the result: the entry is freed when its reply comes.
    abandoned: bool,
    /// It was sent one-way, and has an entry only for its uses: its failure is counted.
    pub(super) one_way: bool,
    /// With the place of its task, before the reply.
    pub(super) reply: ReplyCopy,
}

impl Entry {
    fn new(state: EntryState) -> Self {
        let reply = ReplyCopy { hdr: RepHdr(0), words: [0; INLINE_WORDS], long: Vec::new(), place: None };
        Self { state, uses: Uses::default(), ticket: None, until: None, abandoned: false, one_way: false, reply }
    }
}

/// The table of one stream. Never shrinks.
pub(super) struct PendingTable {
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Calls in flight or unread, with an entry or without.
    in_use: usize,
    limit: usize,
}

impl PendingTable {
    pub(super) fn new(limit: usize) -> Self {
        Self { entries: Vec::with_capacity(64), free: Vec::with_capacity(64), in_use: 0, limit }
    }

    /// From now on so many calls are in flight or unread at most. Those that are stay.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// See [`Self::set_limit`].
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Calls in flight or unread.
    pub(super) fn in_use(&self) -> usize {
        self.in_use
    }

    /// May there be another call?
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.in_use < self.limit
    }

    /// There is one more call, without an entry.
    #[inline(always)]
    pub(super) fn count(&mut self) {
        self.in_use += 1;
    }

    /// A call without an entry has ended.
    #[inline(always)]
    pub(super) fn discount(&mut self) {
        self.in_use -= 1;
    }

    /// An entry in state `state`, or `None` at the limit.
    pub(super) fn take(&mut self, state: EntryState) -> Option<u32> {
        if !self.has_room() {
            return None;
        }
        self.in_use += 1;
        Some(self.give(state))
    }

    /// An entry for a call that is counted.
    pub(super) fn give(&mut self, state: EntryState) -> u32 {
        let Some(index) = self.free.pop() else {
            self.entries.push(Entry::new(state));
            return self.entries.len() as u32 - 1;
        };
        if let Some(entry) = self.get(index) {
            entry.state = state;
        }
        index
    }

    #[inline(always)]
    pub(super) fn get(&mut self, index: u32) -> Option<&mut Entry> {
        self.entries.get_mut(index as usize)
    }

    #[inline(always)]
    pub(super) fn state(&self, index: u32) -> Option<EntryState> {
        self.entries.get(index as usize).map(|entry| entry.state)
    }

    /// The caller gives up the result. True while the call is in flight: its reply frees the entry.
    pub(super) fn abandon(&mut self, index: u32) -> bool {
        let Some(entry) = self.get(index) else { return false };
        match entry.state {
            EntryState::Completed | EntryState::EpochEnded(_) => {
                self.put_back(index);
                false
            }
            EntryState::Ring(_) | EntryState::Ticket(_) => {
                entry.abandoned = true;
                true
            }
            EntryState::Free => false,
        }
    }

    /// Gives a call in flight its outcome. False: an abandoned entry is free now, and the reply is discarded.
    pub(super) fn complete(&mut self, index: u32, outcome: EntryState) -> bool {
        let Some(entry) = self.get(index) else { return false };
        if entry.abandoned {
            self.put_back(index);
            return false;
        }
        entry.state = outcome;
        true
    }

    /// The epoch is over: each call in flight has this outcome, and `release` ends its uses.
    pub(super) fn end_epoch(&mut self, ended: EpochEnd, mut release: impl FnMut(&mut Uses)) {
        for index in 0..self.entries.len() as u32 {
            if let Some(entry) = self.get(index)
                && let EntryState::Ring(_) | EntryState::Ticket(_) = entry.state
            {
                release(&mut entry.uses);
                self.complete(index, EntryState::EpochEnded(ended));
            }
        }
    }

    /// The entry is free. Its uses have ended.
    pub(super) fn put_back(&mut self, index: u32) {
        let Some(entry) = self.entries.get_mut(index as usize) else { return };
        debug_assert!(entry.state != EntryState::Free, "an entry is put back once");
        (entry.state, entry.ticket, entry.until) = (EntryState::Free, None, None);
        (entry.abandoned, entry.one_way, entry.reply.place) = (false, false, None);
        entry.reply.long = Vec::new();
        self.free.push(index);
        self.in_use -= 1;
    }
}

#[cfg(test)]
mod tests;
