//! The device's end of a ring of work requests, of any kind.
//!
//! A handler may be ended between any two stores. What decides is the published word of an entry: a post that was ended
//! before it has posted nothing, and one that was ended behind it is found by the next post, which steps over it.

use crate::error::VerbsError;
use crate::memory::Memory;
use crate::ring::Ring;
use crate::verbs::Verbs;
use crate::wire::{LINE, ReceiveEntry, SendEntry, Sge, WcOpcode, line};
use crate::work;
use core::sync::atomic::{AtomicU32, Ordering};

/// A ring with the private words of its object (see the module).
pub(crate) struct Queue<'v, M: Memory> {
    pub(crate) verbs: &'v Verbs<'v, M>,
    pub(crate) ring: Ring,
    pub(crate) generation: u16,
    /// Where the object is in the section.
    pub(crate) place: u64,
    /// The key of the object, entries posted, entries that are free again.
    pub(crate) words: [&'v AtomicU32; 3],
}

impl<M: Memory> Queue<'_, M> {
    /// Entries posted in this generation, modulo 2^32.
    pub(crate) fn posted(&self) -> u32 {
        self.words[1].load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn receive(&self, id: u64, into: &[Sge]) -> Result<(), VerbsError> {
        let entry = work::receive(id, into)?;
        self.publish(self.room(0)?, line(&entry))
    }

    /// A quiet request leaves the last entry to one that has a completion: without such a one, none would be free
    /// again.
    #[inline]
    pub(crate) fn send(&self, entry: &SendEntry, is_quiet: bool) -> Result<(), VerbsError> {
        let x = self.room(is_quiet.into())?;
        if entry.head & SendEntry::TWO_LINES != 0 {
            self.verbs.memory.write_bytes(self.ring.entry(x) + LINE, &entry.second)?;
        }
        self.publish(x, line(entry))
    }

    /// The position of the next entry, if there is more room than `spare`, behind one whose post was ended when it had
    /// been published.
    #[inline]
    fn room(&self, spare: u32) -> Result<u32, VerbsError> {
        self.verbs.check_attached()?;
        let ([key, posted, retired], ring) = (self.words, &self.ring);
        if key.load(Ordering::Relaxed) != u32::from(self.generation) {
            return Err(VerbsError::Stale);
        }
        self.verbs.check_live(self.place, self.generation)?;
        let (mut x, retired) = (posted.load(Ordering::Relaxed), retired.load(Ordering::Relaxed));
        // One completion may have been taken of a post that was ended: then it is -1.
        let has_room = |x: u32, spare| (x.wrapping_sub(retired) as i32) < ring.entries() as i32 - spare as i32;
        if has_room(x, 0) && self.verbs.memory.observe(ring.word(x))? == ring.expected(x) {
            x = x.wrapping_add(1);
            self.verbs.memory.keep(posted, x);
        }
        if has_room(x, spare) { Ok(x) } else { Err(VerbsError::Full) }
    }

    #[inline]
    fn publish(&self, x: u32, line: &[u32]) -> Result<(), VerbsError> {
        let (memory, ring) = (self.verbs.memory, &self.ring);
        memory.write_words(ring.entry(x), line)?;
        memory.post(ring.word(x), ring.expected(x))?;
        memory.keep(self.words[1], x.wrapping_add(1));
        Ok(())
    }

    /// May a request to receive that is not done write to this memory?
    pub(crate) fn receives_into(&self, to: &Sge, is_done: impl Fn(u32) -> bool) -> Result<bool, VerbsError> {
        self.any_open(is_done, |at| {
            let entry: ReceiveEntry = self.verbs.memory.read(at)?;
            Ok(entry.sge.iter().take(entry.sges as usize).any(|sge| sge.meets(to)))
        })
    }

    /// May a READ or atomic access that is not done do so?
    pub(crate) fn reads_into(&self, to: &Sge) -> Result<bool, VerbsError> {
        self.any_open(
            |_| false,
            |at| {
                let entry: SendEntry = self.verbs.memory.read(at)?;
                let (opcode, _, count) = entry.parts().unwrap_or_default();
                let brings = opcode.completion().is_none_or(WcOpcode::brings);
                Ok(!brings && entry.sges().iter().take(count).any(|sge| sge.meets(to)))
            },
        )
    }

    /// Is one of the entries that are not free again, but for those that are done, such a one? That of a post that was ended when
    /// it had been published is among them.
    fn any_open(
        &self,
        is_done: impl Fn(u32) -> bool,
        is_such: impl Fn(u64) -> Result<bool, VerbsError>,
    ) -> Result<bool, VerbsError> {
        let [_, posted, retired] = self.words.map(|word| word.load(Ordering::Relaxed));
        // One completion may have been taken of a post that was ended: then it is 0.
        let count = posted.wrapping_sub(retired).wrapping_add(1).min(self.ring.entries());
        for x in (0..count).map(|i| retired.wrapping_add(i)) {
            let is_there = self.verbs.memory.observe(self.ring.word(x))? == self.ring.expected(x);
            if is_there && !is_done(x) && is_such(self.ring.entry(x))? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
