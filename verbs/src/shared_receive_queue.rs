//! A shared receive queue at the device: receive requests of which several queue pairs take.
//!
//! They complete out of order. The device keeps a bit for each of the last 512 positions, which says whether the
//! request there is done: it changes its value from lap to lap, so that it is never cleared, and a completion may be
//! taken in twice. The ring is free up to the first request that is not done.

use crate::error::VerbsError;
use crate::ids::SrqId;
use crate::memory::Memory;
use crate::queue::Queue;
use crate::ring::Ring;
use crate::verbs::{SRQ_WORDS, Verbs};
use crate::wire::{Kind, MAX_LOG2, Object, Sge};
use core::sync::atomic::{AtomicU32, Ordering};

/// A shared receive queue, open for the time of a call (see the module).
pub struct SharedReceiveQueue<'v, M: Memory> {
    queue: Queue<'v, M>,
    /// The bits (see the module).
    done: &'v [AtomicU32],
}

impl<M: Memory> Verbs<'_, M> {
    /// Opens a shared receive queue.
    ///
    /// # Errors
    /// [`VerbsError::Stale`], [`VerbsError::Corrupt`].
    pub fn shared_receive_queue(&self, id: SrqId) -> Result<SharedReceiveQueue<'_, M>, VerbsError> {
        let object = self.open(Kind::SHARED_RECEIVE_QUEUE, id.name())?;
        self.claim_words(self.srq_words(object.index).ok_or(VerbsError::Stale)?, object.generation);
        self.shared_receive_queue_of(&object)
    }

    /// One of an object that was checked, whose private words are there.
    pub(crate) fn shared_receive_queue_of(&self, object: &Object) -> Result<SharedReceiveQueue<'_, M>, VerbsError> {
        let [key, posted, retired, done @ ..] = self.srq_words(object.index).ok_or(VerbsError::Stale)?;
        let ring = Ring::new(object.off, object.log2, 1, object.tag());
        let place = Kind::SHARED_RECEIVE_QUEUE.place(object.index).ok_or(VerbsError::Stale)?;
        let words = [key, posted, retired];
        let queue = Queue { verbs: self, ring, generation: object.generation, place, words };
        Ok(SharedReceiveQueue { queue, done })
    }
}

impl<M: Memory> SharedReceiveQueue<'_, M> {
    /// Posts a request to receive one message of any of the queue pairs into up to two parts of registered memory.
    ///
    /// # Errors
    /// [`VerbsError::Full`], of the request itself, [`VerbsError::HcaLost`], [`VerbsError::Stale`].
    pub fn receive(&self, id: u64, into: &[Sge]) -> Result<(), VerbsError> {
        self.queue.receive(id, into)
    }

    /// May one of its requests still write to this memory?
    pub(crate) fn writes(&self, to: &Sge) -> Result<bool, VerbsError> {
        self.queue.receives_into(to, |x| is_done(self.done, x))
    }
}

/// Marks the request at a position as done, and frees what is done up to the first one that is not. False: it was not
/// posted.
pub(crate) fn retire<M: Memory>(memory: &M, words: &[AtomicU32; SRQ_WORDS], position: u32) -> bool {
    let [_, posted, retired, bits @ ..] = words;
    let first = retired.load(Ordering::Relaxed);
    // Of a post that was ended the position is not yet stepped.
    let most = posted.load(Ordering::Relaxed).wrapping_sub(first).wrapping_add(1);
    let done = position.wrapping_sub(first);
    if done.cast_signed() < 0 {
        // Taken in twice: the first time was ended.
        return true;
    }
    let Some((word, bit)) = place(bits, position).filter(|_| done < most) else { return false };
    memory.keep(word, word.load(Ordering::Relaxed) & !bit | mark(position, bit));
    let count = (0..most.min(1 << MAX_LOG2)).take_while(|i| is_done(bits, first.wrapping_add(*i))).count();
    memory.keep(retired, first.wrapping_add(count as u32));
    true
}

/// Where the bit of a position is.
fn place(bits: &[AtomicU32], x: u32) -> Option<(&AtomicU32, u32)> {
    Some((bits.get(x as usize % (1 << MAX_LOG2) / 32)?, 1 << (x % 32)))
}

/// The bit of a position that is done, in its lap.
const fn mark(x: u32, bit: u32) -> u32 {
    if x >> MAX_LOG2 & 1 == 0 { bit } else { 0 }
}

fn is_done(bits: &[AtomicU32], x: u32) -> bool {
    place(bits, x).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit == mark(x, bit))
}
