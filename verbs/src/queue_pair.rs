//! A queue pair at the device: posts work requests.

use crate::error::VerbsError;
use crate::ids::QpId;
use crate::memory::Memory;
use crate::queue::Queue;
use crate::ring::Ring;
use crate::verbs::Verbs;
use crate::wire::{Kind, Object, QP_STATE, QpState, Sge, word_of};
use crate::work::SendWr;

/// A queue pair, open for the time of a call (see the module).
pub struct QueuePair<'v, M: Memory> {
    index: u16,
    sends: Queue<'v, M>,
    /// `None`: it takes from a shared receive queue.
    receives: Option<Queue<'v, M>>,
}

impl<M: Memory> Verbs<'_, M> {
    /// Opens a queue pair.
    ///
    /// # Errors
    /// [`VerbsError::Stale`], [`VerbsError::Corrupt`].
    pub fn queue_pair(&self, id: QpId) -> Result<QueuePair<'_, M>, VerbsError> {
        let object = self.open(Kind::QUEUE_PAIR, id.name())?;
        self.claim_words(self.qp_words(object.index).ok_or(VerbsError::Stale)?, object.generation);
        self.queue_pair_of(&object)
    }

    /// One of an object that was checked, whose private words are there.
    pub(crate) fn queue_pair_of(&self, object: &Object) -> Result<QueuePair<'_, M>, VerbsError> {
        let [key, sent, sent_retired, received, received_retired] =
            self.qp_words(object.index).ok_or(VerbsError::Stale)?;
        let (verbs, generation) = (self, object.generation);
        let place = Kind::QUEUE_PAIR.place(object.index).ok_or(VerbsError::Stale)?;
        let ring = Ring::new(object.off, object.log2, 2, object.tag());
        let sends = Queue { verbs, ring, generation, place, words: [key, sent, sent_retired] };
        let receives = object.shared_receive_queue().is_none().then(|| {
            let ring = Ring::new(object.receive_off, object.receive_log2, 1, object.tag());
            Queue { verbs, ring, generation, place, words: [key, received, received_retired] }
        });
        Ok(QueuePair { index: object.index, sends, receives })
    }
}

impl<M: Memory> QueuePair<'_, M> {
    /// Its state, as the adapter says.
    ///
    /// # Errors
    /// [`VerbsError::Stale`] when the host has reset it; [`VerbsError::Corrupt`].
    pub fn state(&self) -> Result<QpState, VerbsError> {
        self.sends.verbs.check_live(self.sends.place, self.sends.generation)?;
        self.shown()
    }

    /// What the adapter shows of it: the next one's state is there before the next object.
    #[inline]
    fn shown(&self) -> Result<QpState, VerbsError> {
        let word = self.sends.verbs.memory.observe(word_of(QP_STATE, self.index))?;
        QpState::of(word, self.sends.generation).ok_or(VerbsError::Stale)
    }

    /// Posts a request to move data. Its completion comes when it has happened, or never will.
    ///
    /// # Errors
    /// [`VerbsError::Full`], of the request itself, [`VerbsError::HcaLost`]; [`VerbsError::State`] before the queue pair is
    /// connected; [`VerbsError::Stale`] when the host has reset it. In error, requests are taken, and flushed.
    #[inline]
    pub fn post(&self, request: &SendWr<'_>) -> Result<(), VerbsError> {
        let entry = request.encode()?;
        match self.shown()? {
            QpState::RTS | QpState::ERR => self.sends.send(&entry, request.is_quiet()),
            other => Err(VerbsError::State(other.0)),
        }
    }

    /// Posts a request to receive one message into up to two parts of registered memory.
    ///
    /// # Errors
    /// As of [`Self::post`]; [`VerbsError::Unsupported`] of a queue pair that takes from a shared receive queue.
    #[inline]
    pub fn receive(&self, id: u64, into: &[Sge]) -> Result<(), VerbsError> {
        let receives = self.receives.as_ref().ok_or(VerbsError::Unsupported)?;
        match self.shown()? {
            QpState::RESET => Err(VerbsError::State(QpState::RESET.0)),
            _ => receives.receive(id, into),
        }
    }

    /// Requests to send that were posted since it was made or reset, modulo 2^32.
    pub fn sent(&self) -> u32 {
        self.sends.posted()
    }

    /// May one of its requests still write to this memory?
    pub(crate) fn writes(&self, to: &Sge) -> Result<bool, VerbsError> {
        let writes = |queue: &Queue<'_, M>| queue.receives_into(to, |_| false);
        Ok(self.sends.reads_into(to)? || self.receives.as_ref().map_or(Ok(false), writes)?)
    }
}
