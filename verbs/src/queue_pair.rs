//! A queue pair at the device: posts work requests.
//!
//! A handler may be ended between any two stores. What decides is the published word of an entry: a post that was ended before
//! it has posted nothing, and one that was ended behind it is found by the next post, which steps over it.

use crate::error::VerbsError;
use crate::ids::QpId;
use crate::memory::Memory;
use crate::ring::Ring;
use crate::verbs::{QP_WORDS, Verbs, word};
use crate::wire::{
    Kind, LINE, MAX_INLINE, MAX_MESSAGE, MAX_RECEIVE_SGE, MAX_SEND_SGE, Object, QP_STATE, QpState, ReceiveEntry,
    SendEntry, Sge, word_of,
};
use core::sync::atomic::{AtomicU32, Ordering};
use zerocopy::{FromZeros, IntoBytes};

/// A request to send. It has a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendWr<'a> {
    id: u64,
    message: Message<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Message<'a> {
    Regions(&'a [Sge]),
    Inline(&'a [u8]),
}

impl<'a> SendWr<'a> {
    /// Sends up to five parts of registered memory, one behind the other. They stay as they are until the completion.
    pub const fn send(id: u64, from: &'a [Sge]) -> Self {
        Self { id, message: Message::Regions(from) }
    }

    /// Sends up to 92 bytes, which are copied now.
    pub const fn inline(id: u64, bytes: &'a [u8]) -> Self {
        Self { id, message: Message::Inline(bytes) }
    }

    fn encode(&self) -> Result<SendEntry, VerbsError> {
        let mut entry = SendEntry { id: self.id, ..SendEntry::new_zeroed() };
        match self.message {
            Message::Regions(sges) => {
                entry.length = total(sges, MAX_SEND_SGE)?;
                let flags = SendEntry::SIGNALED | if sges.len() > 1 { SendEntry::TWO_LINES } else { 0 };
                entry.head = SendEntry::head(flags, sges.len());
                let (first, second) = sges.split_at(sges.len().min(1));
                fill(&mut entry.first, first.as_bytes());
                fill(&mut entry.second, second.as_bytes());
            }
            Message::Inline(bytes) if bytes.len() > MAX_INLINE => {
                return Err(VerbsError::InlineTooLong(MAX_INLINE as u32));
            }
            Message::Inline(bytes) => {
                let (first, second) = bytes.split_at(bytes.len().min(entry.first.len()));
                let flags = if second.is_empty() { 0 } else { SendEntry::TWO_LINES };
                entry.length = bytes.len() as u32;
                entry.head = SendEntry::head(SendEntry::SIGNALED | SendEntry::INLINE | flags, 0);
                fill(&mut entry.first, first);
                fill(&mut entry.second, second);
            }
        }
        Ok(entry)
    }
}

/// Copies to the front of a longer field.
fn fill(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

/// The bytes of at most so many parts.
fn total(sges: &[Sge], most: usize) -> Result<u32, VerbsError> {
    if sges.len() > most {
        return Err(VerbsError::TooManySges(most as u32));
    }
    let sum: u64 = sges.iter().map(|sge| u64::from(sge.len)).sum();
    if sum > MAX_MESSAGE { Err(VerbsError::Length) } else { Ok(sum as u32) }
}

/// A queue pair, open for the time of a call (see the module).
pub struct QueuePair<'v, M: Memory> {
    verbs: &'v Verbs<'v, M>,
    index: u16,
    sends: Ring,
    receives: Ring,
    words: &'v [AtomicU32; QP_WORDS],
}

impl<M: Memory> Verbs<'_, M> {
    /// Opens a queue pair.
    ///
    /// # Errors
    /// [`VerbsError::Stale`], [`VerbsError::Corrupt`].
    pub fn queue_pair(&self, id: QpId) -> Result<QueuePair<'_, M>, VerbsError> {
        let object: Object = self.open(Kind::QUEUE_PAIR, id.name())?;
        let words = self.qp_words(object.index).ok_or(VerbsError::Stale)?;
        self.claim_words(words, object.generation);
        let sends = Ring::new(object.off, object.log2, 2, object.tag());
        let receives = Ring::new(object.receive_off, object.receive_log2, 1, object.tag());
        Ok(QueuePair { verbs: self, index: object.index, sends, receives, words })
    }
}

impl<M: Memory> QueuePair<'_, M> {
    /// Its state, as the adapter says.
    ///
    /// # Errors
    /// [`VerbsError::Corrupt`].
    pub fn state(&self) -> Result<QpState, VerbsError> {
        Ok(QpState(self.verbs.memory.observe(word_of(QP_STATE, self.index))? & 0xF))
    }

    /// Posts a request to send. Its completion comes when the message is at the peer, or never will be.
    ///
    /// # Errors
    /// [`VerbsError::Full`], of the request itself, [`VerbsError::HcaLost`]; [`VerbsError::State`] before the queue pair is
    /// connected. In error, requests are taken, and flushed.
    pub fn post(&self, request: &SendWr<'_>) -> Result<(), VerbsError> {
        let entry = request.encode()?;
        match self.state()? {
            QpState::RTS | QpState::ERR => {}
            other => return Err(VerbsError::State(other.0)),
        }
        let x = self.room(&self.sends, word::SENT, word::SENT_RETIRED)?;
        let (memory, at) = (self.verbs.memory, self.sends.entry(x));
        let bytes = entry.as_bytes();
        if entry.head & SendEntry::TWO_LINES != 0 {
            memory.write_bytes(at + LINE, bytes.get(LINE as usize..).unwrap_or_default())?;
        }
        self.publish(&self.sends, x, bytes, word::SENT)
    }

    /// Posts a request to receive one message into up to two parts of registered memory.
    ///
    /// # Errors
    /// As of [`Self::post`].
    pub fn receive(&self, id: u64, into: &[Sge]) -> Result<(), VerbsError> {
        total(into, MAX_RECEIVE_SGE)?;
        let mut entry = ReceiveEntry { sges: into.len() as u32, id, ..ReceiveEntry::new_zeroed() };
        entry.sge.iter_mut().zip(into).for_each(|(to, sge)| *to = *sge);
        if self.state()? == QpState::RESET {
            return Err(VerbsError::State(QpState::RESET.0));
        }
        let x = self.room(&self.receives, word::RECEIVED, word::RECEIVED_RETIRED)?;
        self.publish(&self.receives, x, entry.as_bytes(), word::RECEIVED)
    }

    /// Requests to send that were posted in this epoch, modulo 2^32.
    pub fn sent(&self) -> u32 {
        self.load(word::SENT)
    }

    fn load(&self, word: usize) -> u32 {
        self.words.get(word).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn keep(&self, word: usize, value: u32) {
        if let Some(word) = self.words.get(word) {
            self.verbs.memory.keep(word, value);
        }
    }

    /// The position for the next entry of a ring that has room, behind one whose post was ended when it had been published.
    fn room(&self, ring: &Ring, posted: usize, retired: usize) -> Result<u32, VerbsError> {
        self.verbs.check_attached()?;
        let (mut x, retired) = (self.load(posted), self.load(retired));
        // One completion may have been taken of a post that was ended: then it is -1.
        let has_room = |x: u32| (x.wrapping_sub(retired) as i32) < ring.entries() as i32;
        if has_room(x) && self.verbs.memory.observe(ring.word(x))? == ring.expected(x) {
            x = x.wrapping_add(1);
            self.keep(posted, x);
        }
        if has_room(x) { Ok(x) } else { Err(VerbsError::Full) }
    }

    fn publish(&self, ring: &Ring, x: u32, line: &[u8], posted: usize) -> Result<(), VerbsError> {
        let memory = self.verbs.memory;
        memory.write_bytes(ring.entry(x), line.get(..crate::wire::WORD as usize).unwrap_or_default())?;
        memory.post(ring.word(x), ring.expected(x))?;
        self.keep(posted, x.wrapping_add(1));
        Ok(())
    }
}
