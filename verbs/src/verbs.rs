//! A device's view of its adapter: finds the objects that ids name, and the private words of each.

use crate::error::VerbsError;
use crate::ids::Name;
use crate::memory::Memory;
use crate::wire::{
    FABRIC_STATE, FabricState, Kind, MAX_COMPLETION_QUEUES, MAX_LOG2, MAX_QUEUE_PAIRS, MAX_SHARED_RECEIVE_QUEUES,
    Object, WORD,
};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering, fence};
use hamr_comm::side::{Side, WORDS};

/// The private words of a queue pair: the key of its object, requests posted and free again, of sends and of receives.
pub(crate) const QP_WORDS: usize = 5;
/// Those of a completion queue: the key, completions taken.
pub(crate) const CQ_WORDS: usize = 2;
/// Those of a shared receive queue: the key, requests posted and free again, a bit for each of the longest ring.
pub(crate) const SRQ_WORDS: usize = 3 + (1 << MAX_LOG2) / 32;
/// The key of private words that are being made: no generation, and not 0 as of a place that was never used.
const OF_NONE: u32 = u32::MAX;
/// Where those of completion queues begin, behind those of queue pairs.
const CQ_BASE: usize = QP_WORDS * MAX_QUEUE_PAIRS as usize;
/// Where those of shared receive queues begin.
const SRQ_BASE: usize = CQ_BASE + CQ_WORDS * MAX_COMPLETION_QUEUES as usize;
const _: () = assert!(SRQ_BASE + SRQ_WORDS * MAX_SHARED_RECEIVE_QUEUES as usize <= WORDS);

/// A device's adapter, for the time of a call. What is made of it stays with the thread that runs the handler.
pub struct Verbs<'c, M: Memory = Side> {
    pub(crate) memory: &'c M,
    words: &'c [AtomicU32],
    node: u16,
    epoch: u32,
    _thread: PhantomData<*const ()>,
}

impl<'c, M: Memory> Verbs<'c, M> {
    /// One over other memory, with private words that were zero when the epoch began.
    ///
    /// # Errors
    /// As of [`Verbs::of`].
    #[doc(hidden)]
    pub fn over(memory: &'c M, words: &'c [AtomicU32], node: u16, epoch: u32) -> Result<Self, VerbsError> {
        let this = Self { memory, words, node, epoch, _thread: PhantomData };
        match this.state()? {
            FabricState::NONE => Err(VerbsError::NoFabric),
            _ => Ok(this),
        }
    }

    /// Wakes an adapter that has missed a request. Polls for completions do that by themselves, and so does the device when the
    /// handler has returned: this is for handlers that look for something else, such as bytes of a region.
    pub fn notify(&self) {
        self.memory.notify_fenced();
    }

    #[inline]
    pub(crate) fn state(&self) -> Result<FabricState, VerbsError> {
        Ok(FabricState(self.memory.observe(FABRIC_STATE)?))
    }

    /// Is the adapter there?
    #[inline]
    pub(crate) fn check_attached(&self) -> Result<(), VerbsError> {
        match self.state()? {
            FabricState::ATTACHED => Ok(()),
            _ => Err(VerbsError::HcaLost),
        }
    }

    /// A checked copy of the object that an id names.
    pub(crate) fn open(&self, kind: Kind, id: Name) -> Result<Object, VerbsError> {
        let is_here = id.node == self.node && id.epoch == self.epoch as u16 && id.generation != 0;
        if !is_here {
            return Err(VerbsError::Stale);
        }
        let object = self.object(kind, id.index, id.generation, |word| word == Object::live(id.generation))?;
        object.ok_or(VerbsError::Stale)
    }

    /// A checked copy of the object in a place, if its word is right: before the copy and behind it, as the host may begin
    /// another one meanwhile.
    pub(crate) fn object(
        &self,
        kind: Kind,
        index: u16,
        generation: u16,
        is_right: impl Fn(u32) -> bool,
    ) -> Result<Option<Object>, VerbsError> {
        let place = kind.place(index).ok_or(VerbsError::Stale)?;
        if !is_right(self.memory.observe(place + WORD)?) {
            return Ok(None);
        }
        let object: Object = self.memory.read(place)?;
        fence(Ordering::Acquire);
        if !is_right(self.memory.observe(place + WORD)?) {
            return Ok(None);
        }
        let is_named = object.kind == kind && object.index == index && object.generation == generation;
        if is_named && object.fits(self.memory.bytes()) { Ok(Some(object)) } else { Err(VerbsError::Corrupt) }
    }

    /// The queue in a place that the device has private words of, if the adapter may serve it: also one that the host has given
    /// up without an answer.
    pub(crate) fn served(&self, kind: Kind, index: u16, key: Option<&AtomicU32>) -> Result<Option<Object>, VerbsError> {
        let key = key.map_or(0, |key| key.load(Ordering::Relaxed));
        match u16::try_from(key) {
            // Nothing was posted to it, or to its former generation, which the adapter has ended.
            Err(_) | Ok(0) => Ok(None),
            Ok(generation) => self.object(kind, index, generation, |word| {
                [Object::live(generation), Object::given_up(generation)].contains(&word)
            }),
        }
    }

    /// Is the object at a place still of this generation?
    #[inline]
    pub(crate) fn check_live(&self, place: u64, generation: u16) -> Result<(), VerbsError> {
        let is_live = self.memory.observe(place + WORD)? == Object::live(generation);
        if is_live { Ok(()) } else { Err(VerbsError::Stale) }
    }

    /// The same behind a copy of what is there.
    #[inline]
    pub(crate) fn check_still_live(&self, place: u64, generation: u16) -> Result<(), VerbsError> {
        fence(Ordering::Acquire);
        self.check_live(place, generation)
    }

    /// The private words of a queue pair. `None`: there is no such.
    #[inline]
    pub(crate) fn qp_words(&self, index: u16) -> Option<&'c [AtomicU32; QP_WORDS]> {
        self.words_of(0, index, MAX_QUEUE_PAIRS)
    }

    /// Those of a completion queue.
    pub(crate) fn cq_words(&self, index: u16) -> Option<&'c [AtomicU32; CQ_WORDS]> {
        self.words_of(CQ_BASE, index, MAX_COMPLETION_QUEUES)
    }

    /// Those of a shared receive queue.
    pub(crate) fn srq_words(&self, index: u16) -> Option<&'c [AtomicU32; SRQ_WORDS]> {
        self.words_of(SRQ_BASE, index, MAX_SHARED_RECEIVE_QUEUES)
    }

    #[inline]
    fn words_of<const N: usize>(&self, base: usize, index: u16, most: u16) -> Option<&'c [AtomicU32; N]> {
        let at = base + N * usize::from(index);
        if index >= most { None } else { self.words.get(at..)?.first_chunk() }
    }

    /// Makes private words those of an object of this generation: the first is its key, stored last, so that an end in between
    /// has them made again. Until then it is the key of none, so that completions and handles of an earlier generation find
    /// nothing here.
    pub(crate) fn claim_words(&self, words: &[AtomicU32], generation: u16) {
        let Some((key, rest)) = words.split_first() else { return };
        if key.load(Ordering::Relaxed) != u32::from(generation) {
            self.memory.keep(key, OF_NONE);
            rest.iter().for_each(|word| self.memory.keep(word, 0));
            self.memory.keep(key, generation.into());
        }
    }
}
