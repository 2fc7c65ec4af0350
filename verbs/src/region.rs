//! Registered memory at the device: copies, and which requests may write there. References are in `view`.

use crate::error::VerbsError;
use crate::ids::{MrId, Remote};
use crate::memory::Memory;
use crate::verbs::Verbs;
use crate::wire::{
    Access, FabricState, Kind, MAX_QUEUE_PAIRS, MAX_SHARED_RECEIVE_QUEUES, Object, REGION_HANDLES, Sge, word_of,
};
use core::ops::Range;
#[cfg(target_has_atomic = "64")]
use hamr_comm::abi::window::AtomicOp;

/// A memory region, open for the time of a call (see the module).
pub struct MemoryRegion<'v, M: Memory> {
    verbs: &'v Verbs<'v, M>,
    object: Object,
    /// Where the object is in the section.
    place: u64,
    _open: Open<'v, M>,
}

/// Counts an open handle of a region, so that the host does not use its memory for another one (abi §16.2). A handler
/// that is ended before it drops this leaves the count: then the memory is not used again in this epoch.
struct Open<'v, M: Memory> {
    memory: &'v M,
    /// Where the count is.
    word: u64,
}

impl<'v, M: Memory> Open<'v, M> {
    fn begin(memory: &'v M, word: u64) -> Result<Self, VerbsError> {
        memory.publish(word, memory.observe(word)?.checked_add(1).ok_or(VerbsError::Full)?)?;
        // H1, whose partner is H2 at the host: it finds the count, or this side that the object is not live.
        memory.fence();
        Ok(Self { memory, word })
    }
}

impl<M: Memory> Drop for Open<'_, M> {
    fn drop(&mut self) {
        // Behind every access to the region. The word was there before.
        let _ = self.memory.observe(self.word).and_then(|count| self.memory.publish(self.word, count.wrapping_sub(1)));
    }
}

impl<M: Memory> Verbs<'_, M> {
    /// Opens a memory region.
    ///
    /// # Errors
    /// [`VerbsError::Stale`], [`VerbsError::Corrupt`].
    pub fn region(&self, id: MrId) -> Result<MemoryRegion<'_, M>, VerbsError> {
        let place = Kind::REGION.place(id.index()).ok_or(VerbsError::Stale)?;
        let open = Open::begin(self.memory, word_of(REGION_HANDLES, id.index()))?;
        Ok(MemoryRegion { verbs: self, object: self.open(Kind::REGION, id.name())?, place, _open: open })
    }
}

impl<M: Memory> MemoryRegion<'_, M> {
    /// Bytes of it.
    pub fn len(&self) -> u64 {
        self.object.len
    }

    /// It has no bytes.
    pub fn is_empty(&self) -> bool {
        self.object.len == 0
    }

    /// A part of it, for a work request.
    ///
    /// # Errors
    /// [`VerbsError::Length`].
    pub fn part(&self, range: Range<u64>) -> Result<Sge, VerbsError> {
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= self.object.len);
        let len = len.and_then(|len| u32::try_from(len).ok()).ok_or(VerbsError::Length)?;
        Ok(Sge { addr: self.object.iova.wrapping_add(range.start), len, lkey: self.object.lkey })
    }

    /// Its byte `at`, for the requests of peers.
    ///
    /// # Errors
    /// [`VerbsError::Length`].
    pub fn remote(&self, at: u64) -> Result<Remote, VerbsError> {
        let Object { iova, lkey: rkey, len, .. } = self.object;
        if at > len { Err(VerbsError::Length) } else { Ok(Remote { addr: iova.wrapping_add(at), rkey }) }
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// [`VerbsError::Length`]; [`VerbsError::Stale`] when the host has deregistered the region.
    pub fn copy_in(&self, at: u64, from: &[u8]) -> Result<(), VerbsError> {
        let off = self.place(at, from.len())?;
        Ok(self.verbs.memory.write_bytes(off, from)?)
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// As of [`Self::copy_in`].
    pub fn copy_out(&self, at: u64, to: &mut [u8]) -> Result<(), VerbsError> {
        let off = self.place(at, to.len())?;
        Ok(self.verbs.memory.read_bytes(off, to)?)
    }

    /// The byte at a place, before every later access. When it is the last one of a write, all of that is there.
    ///
    /// # Errors
    /// As of [`Self::copy_in`].
    #[inline]
    pub fn watch(&self, at: u64) -> Result<u8, VerbsError> {
        let off = self.place(at, 1)?;
        // Regions end with their line.
        let word = self.verbs.memory.observe(off & !3)?;
        // The adapter may have missed the request that writes it, and sleep.
        self.verbs.memory.found_nothing();
        Ok((word >> (off % 4 * 8)) as u8)
    }

    /// An atomic access to the u64 at a place, a multiple of 8, which is one with those of adapters; the value before it.
    ///
    /// # Errors
    /// As of [`Self::copy_in`]; [`VerbsError::Length`] of another place.
    #[cfg(target_has_atomic = "64")]
    pub fn atomic(&self, at: u64, op: AtomicOp<u64>) -> Result<u64, VerbsError> {
        let off = self.place(at, size_of::<u64>())?;
        if off.is_multiple_of(8) { Ok(self.verbs.memory.atomic(off, op)?) } else { Err(VerbsError::Length) }
    }

    /// May a request of this device still write into these bytes? One may that a handler has posted, and of which no completion
    /// was taken, also if the handler has ended since. Peers' requests are not among them.
    ///
    /// # Errors
    /// [`VerbsError::Length`], [`VerbsError::Corrupt`].
    pub fn is_written(&self, range: Range<u64>) -> Result<bool, VerbsError> {
        let (verbs, bytes) = (self.verbs, self.part(range)?);
        // The adapter has ended.
        if verbs.state()? == FabricState::LOST {
            return Ok(false);
        }
        for index in 0..MAX_QUEUE_PAIRS {
            let key = verbs.qp_words(index).map(|[key, ..]| key);
            let served = verbs.served(Kind::QUEUE_PAIR, index, key)?;
            if served.map_or(Ok(false), |object| verbs.queue_pair_of(&object)?.writes(&bytes))? {
                return Ok(true);
            }
        }
        for index in 0..MAX_SHARED_RECEIVE_QUEUES {
            let key = verbs.srq_words(index).map(|[key, ..]| key);
            let served = verbs.served(Kind::SHARED_RECEIVE_QUEUE, index, key)?;
            if served.map_or(Ok(false), |object| verbs.shared_receive_queue_of(&object)?.writes(&bytes))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where in the section bytes are, and how many, that neither a request nor a peer nor the host's program writes.
    pub(crate) fn viewed(&self, range: Range<u64>) -> Result<(u64, u64), VerbsError> {
        let bytes = u64::from(self.part(range.clone())?.len);
        let off = self.place(range.start, bytes as usize)?;
        if !self.object.access.has(Access::VIEW) {
            return Err(VerbsError::NoViews);
        }
        if self.is_written(range)? { Err(VerbsError::Busy) } else { Ok((off, bytes)) }
    }

    /// Where so many bytes are in the section.
    fn place(&self, at: u64, len: usize) -> Result<u64, VerbsError> {
        self.verbs.check_live(self.place, self.object.generation)?;
        let end = at.checked_add(len as u64).filter(|end| *end <= self.object.len);
        end.map(|_| self.object.off + at).ok_or(VerbsError::Length)
    }
}
