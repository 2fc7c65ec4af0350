//! A completion queue at the device.
//!
//! The private position decides what was taken. The device stores it for the adapter behind each completion, and where it finds
//! none, so that an end between the two is made good; a host makes the ring longer than the completions that may wait by the
//! one of such an end. The number has the queue's tag: a handle that is kept over the next queue's making says nothing of that.
//! Everything else that a completion changes is absolute, so it may be taken in twice.

use crate::error::VerbsError;
use crate::ids::CqId;
use crate::memory::Memory;
use crate::ring::Ring;
use crate::shared_receive_queue::retire;
use crate::verbs::{CQ_WORDS, Verbs};
use crate::wire::{CQ_CI, CQ_STATE, CompletionEntry, FabricState, Kind, WcOpcode, WcStatus, word_of};
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_comm::Task;

/// The outcome of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The number that the program gave it.
    pub id: u64,
    /// The outcome. Of a failed request nothing else is valid.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// Bytes received, read, or written by a write that brought an immediate value.
    pub bytes: u32,
    /// The immediate value that came with it.
    pub immediate: Option<u32>,
    /// The index of the queue pair.
    pub qp: u16,
    /// Of a receive: the number of the queue pair that sent.
    pub source: u32,
}

/// A completion queue, open for the time of a call (see the module).
pub struct CompletionQueue<'v, M: Memory> {
    verbs: &'v Verbs<'v, M>,
    index: u16,
    /// Where the object is in the section.
    place: u64,
    ring: Ring,
    generation: u16,
    /// The key of its object, and completions taken.
    words: &'v [AtomicU32; CQ_WORDS],
}

impl<M: Memory> Verbs<'_, M> {
    /// Opens a completion queue.
    ///
    /// # Errors
    /// [`VerbsError::Stale`], [`VerbsError::Corrupt`].
    pub fn completion_queue(&self, id: CqId) -> Result<CompletionQueue<'_, M>, VerbsError> {
        let object = self.open(Kind::COMPLETION_QUEUE, id.name())?;
        let words = self.cq_words(object.index).ok_or(VerbsError::Stale)?;
        self.claim_words(words, object.generation);
        let ring = Ring::new(object.off, object.log2, 1, object.tag());
        let (index, generation) = (object.index, object.generation);
        let place = Kind::COMPLETION_QUEUE.place(index).ok_or(VerbsError::Stale)?;
        Ok(CompletionQueue { verbs: self, index, place, ring, generation, words })
    }
}

impl<M: Memory> CompletionQueue<'_, M> {
    /// Takes the next completion, if there is one. Those of a queue pair before its reset, or of the one that was in its place, are
    /// skipped once a handler has opened the next; of requests of a shared receive queue they come.
    ///
    /// # Errors
    /// When there is none and none will come: [`VerbsError::HcaLost`], [`VerbsError::Overrun`], [`VerbsError::Stale`]
    /// of a queue that the host has destroyed. [`VerbsError::Corrupt`] of a completion of no queue pair; it is taken.
    #[inline]
    pub fn poll(&self) -> Result<Option<Completion>, VerbsError> {
        match self.look()? {
            Look::Found(found) => Ok(Some(found)),
            Look::Nothing => Ok(None),
            Look::Again => self.poll_again(),
        }
    }

    /// [`Self::poll`] behind a look that is to be done again: apart, so that the first is no loop.
    #[cold]
    #[inline(never)]
    fn poll_again(&self) -> Result<Option<Completion>, VerbsError> {
        loop {
            match self.look()? {
                Look::Found(found) => return Ok(Some(found)),
                Look::Nothing => return Ok(None),
                Look::Again => {}
            }
        }
    }

    #[inline(always)]
    fn look(&self) -> Result<Look, VerbsError> {
        let ([key, position], memory) = (self.words, self.verbs.memory);
        if key.load(Ordering::Relaxed) != u32::from(self.generation) {
            return Err(VerbsError::Stale);
        }
        let x = position.load(Ordering::Relaxed);
        // The state before the look: what came before the adapter was lost is found.
        let state = self.verbs.state()?;
        if memory.observe(self.ring.word(x))? != self.ring.expected(x) {
            return self.nothing(state, x);
        }
        let entry: CompletionEntry = memory.read(self.ring.entry(x))?;
        // The host may have made another queue there meanwhile.
        self.verbs.check_still_live(self.place, self.generation)?;
        let owner = self.take_in(&entry);
        let next = x.wrapping_add(1);
        memory.keep(position, next);
        // Behind the copy of the entry, whose place it gives back.
        memory.publish(word_of(CQ_CI, self.index), self.ring.taken(next))?;
        let CompletionEntry { id, status, opcode, length: bytes, qp, source, .. } = entry;
        let immediate = (entry.flags & CompletionEntry::WITH_IMM != 0).then_some(entry.immediate);
        match owner {
            Owner::There => Ok(Look::Found(Completion { id, status, opcode, bytes, immediate, qp, source })),
            Owner::Former => Ok(Look::Again),
            Owner::None => Err(VerbsError::Corrupt),
        }
    }

    /// Takes the next completion, which the task waits for: its device serves other calls meanwhile, or sleeps.
    ///
    /// # Errors
    /// As of [`Self::poll`]; [`VerbsError::Interrupted`].
    #[track_caller]
    pub fn wait(&self, task: &Task<'_>) -> Result<Completion, VerbsError> {
        let mut found = Ok(None);
        task.wait_until_side(|| {
            found = self.poll();
            !matches!(found, Ok(None))
        })?;
        // The wait ends with one.
        found.and_then(|found| found.ok_or(VerbsError::Corrupt))
    }

    /// What is to be done where there is none.
    #[inline(always)]
    fn nothing(&self, state: FabricState, x: u32) -> Result<Look, VerbsError> {
        let memory = self.verbs.memory;
        memory.found_nothing();
        self.verbs.check_live(self.place, self.generation)?;
        // What a poll has taken that was ended before it said so. Stored only then: the adapter reads the line.
        let (at, taken) = (word_of(CQ_CI, self.index), self.ring.taken(x));
        if memory.observe(at)? != taken {
            memory.publish(at, taken)?;
        }
        match state {
            FabricState::ATTACHED if memory.observe(word_of(CQ_STATE, self.index))? == 0 => Ok(Look::Nothing),
            // It has overrun behind the look.
            FabricState::ATTACHED if memory.observe(self.ring.word(x))? == self.ring.expected(x) => Ok(Look::Again),
            FabricState::ATTACHED => Err(VerbsError::Overrun),
            _ => Err(VerbsError::HcaLost),
        }
    }

    /// Frees the entries of the queue that are done, if it has so many.
    #[inline(always)]
    fn take_in(&self, entry: &CompletionEntry) -> Owner {
        let (verbs, retired) = (self.verbs, entry.retired);
        let load = |word: &AtomicU32| word.load(Ordering::Relaxed);
        if !entry.opcode.is_send() && !entry.opcode.is_receive() {
            return Owner::None;
        }
        if let Some(srq) = entry.srq.checked_sub(1) {
            let Some(words) = verbs.srq_words(srq).filter(|_| entry.opcode.is_receive()) else { return Owner::None };
            return match load(&words[0]) {
                0 => Owner::None,
                key if key == u32::from(entry.generation) => {
                    Owner::there(retire(verbs.memory, words, retired.wrapping_sub(1)))
                }
                // Of a queue that was there before: it frees nothing.
                _ => Owner::There,
            };
        }
        let Some([key, sent, sent_retired, received, received_retired]) = verbs.qp_words(entry.qp) else {
            return Owner::None;
        };
        let (posted, free) = if entry.opcode.is_send() { (sent, sent_retired) } else { (received, received_retired) };
        // Of a post that was ended the position is not yet stepped.
        let (done, most) = (retired.wrapping_sub(load(free)), load(posted).wrapping_sub(load(free)).wrapping_add(1));
        match load(key) {
            0 => Owner::None,
            key if key != u32::from(entry.generation) => Owner::Former,
            // Taken in twice: the first time was ended.
            _ if done == 0 => Owner::There,
            _ if done <= most => {
                verbs.memory.keep(free, retired);
                Owner::There
            }
            _ => Owner::None,
        }
    }
}

/// What a look for a completion has found.
enum Look {
    Found(Completion),
    Nothing,
    /// One that is skipped, or one that came meanwhile.
    Again,
}

/// Whose a completion is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// A queue that is there.
    There,
    /// The queue pair that was in its place.
    Former,
    /// No one's: it has not so many requests.
    None,
}

impl Owner {
    const fn there(is_there: bool) -> Self {
        if is_there { Self::There } else { Self::None }
    }
}
