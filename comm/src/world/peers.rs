//! The memory of the other ranks, as one rank reaches it: their segments, and the words that ranks
//! write for each other (abi §13.3).
//!
//! A rank's own home is not among it: its heap, whose views are references, is reached through a
//! [`LentHeap`](hamr_shared_abi::window::LentHeap) alone.

use crate::wait::Notifier;
use hamr_shared_abi::ids::RankId;
use hamr_shared_abi::preamble::word::DEVICE_WAIT;
use hamr_shared_abi::sync::Coherent;
use hamr_shared_abi::window::{KeptWord, Window, Word};
use hamr_shared_abi::world::{MAX_RANKS, PeersLayout, WorldFault, WorldLayout, word};
#[cfg(all(feature = "tasks", feature = "world"))]
use hamr_shared_abi::{
    queue::QueueDescriptor,
    world::{GasLayout, RankState},
};

/// All of a world but one rank's home.
pub struct Peers {
    /// Header, directory, PEERS, and the homes before this rank's.
    before: Window<()>,
    layout: PeersLayout,
    /// In the order of the ranks; this rank's has no bytes.
    segments: heapless::Vec<Window<()>, MAX_RANKS>,
    /// The words in which the ranks ask to be notified, likewise.
    waits: heapless::Vec<(KeptWord<()>, Notifier), MAX_RANKS>,
    /// Their homes, for what their handler tables say, likewise.
    #[cfg(all(feature = "tasks", feature = "world"))]
    homes: heapless::Vec<Window<()>, MAX_RANKS>,
    /// GAS, which is behind the homes.
    #[cfg(all(feature = "tasks", feature = "world"))]
    gas: Option<(Window<()>, GasLayout)>,
    /// Notifies a rank.
    notify: fn(RankId),
    /// Where in the directory this rank's state is.
    #[cfg(all(feature = "tasks", feature = "world"))]
    state: u64,
}

impl Peers {
    /// What rank `me` reaches: the windows before and behind its home.
    ///
    /// # Errors
    /// A segment that leaves its home.
    pub fn new(
        before: Window<()>,
        behind: &Window<()>,
        world: &WorldLayout,
        me: RankId,
        notify: fn(RankId),
    ) -> Result<Self, WorldFault> {
        let home = world.home(me)?;
        let (mut segments, mut waits) = (heapless::Vec::new(), heapless::Vec::new());
        #[cfg(all(feature = "tasks", feature = "world"))]
        let mut homes = heapless::Vec::new();
        for (rank, other) in (0..).map(RankId).zip(world.homes()) {
            let segment = world.segment(&before, rank)?;
            let fault = |_| WorldFault::Segment(rank.0);
            let part = |at: u64, len| {
                let window = if rank == me {
                    before.part(0, 0)
                } else if at < home.off {
                    before.part(at, len)
                } else {
                    behind.part(at - (home.off + home.len), len)
                };
                window.map_err(fault)
            };
            // This rank's own is not used: any word will do.
            let word = |at: u64| {
                let word = if rank == me {
                    before.keep_word(0)
                } else if other.off < home.off {
                    before.keep_word(other.off + at)
                } else {
                    behind.keep_word(other.off - (home.off + home.len) + at)
                };
                word.map_err(fault)
            };
            // There are at most so many homes.
            let _ = segments.push(part(other.off + segment.off, segment.len)?);
            let _ = waits.push((word(DEVICE_WAIT)?, Notifier::new()));
            #[cfg(all(feature = "tasks", feature = "world"))]
            let _ = homes.push(part(other.off, other.len)?);
        }
        #[cfg(all(feature = "tasks", feature = "world"))]
        let gas = match world.gas() {
            Some(gas) => {
                let range = gas.range();
                let fault = |_| WorldFault::Gas(range.off);
                let window = behind.part(range.off - (home.off + home.len), range.len).map_err(fault)?;
                Some((window, gas.at_front()))
            }
            None => None,
        };
        Ok(Self {
            before,
            layout: *world.peers(),
            segments,
            waits,
            #[cfg(all(feature = "tasks", feature = "world"))]
            homes,
            #[cfg(all(feature = "tasks", feature = "world"))]
            gas,
            notify,
            #[cfg(all(feature = "tasks", feature = "world"))]
            state: world.state_word(me),
        })
    }

    /// Notifies a rank that sleeps, of all that this one has published for it: rules 21 and 22 (abi §7)
    /// at once.
    pub(super) fn wake(&self, rank: RankId) {
        if let Some((wait, notifier)) = self.waits.get(rank.0 as usize)
            && notifier.needs_notify::<Coherent>(wait.word())
        {
            (self.notify)(rank);
        }
    }

    /// Rule 21 alone: [`Self::wake`] follows when this rank has nothing else to do.
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(super) fn wake_relaxed(&self, rank: RankId) {
        if let Some((wait, notifier)) = self.waits.get(rank.0 as usize)
            && notifier.needs_notify_relaxed(wait.word())
        {
            (self.notify)(rank);
        }
    }

    /// GAS, and where its parts are in it.
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(super) fn gas(&self) -> Option<(&Window<()>, &GasLayout)> {
        self.gas.as_ref().map(|(window, layout)| (window, layout))
    }

    /// The home of another rank.
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(super) fn home(&self, of: RankId) -> Option<&Window<()>> {
        self.homes.get(of.0 as usize)
    }

    /// What is in front of the homes, and more.
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(super) fn front(&self) -> &Window<()> {
        &self.before
    }

    /// The queue pairs in which another rank calls this one, and is called.
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(super) fn lanes(&self, me: RankId, other: RankId) -> Option<(QueueDescriptor, QueueDescriptor)> {
        Some((self.layout.lane(me, other)?, self.layout.lane(other, me)?))
    }

    /// The segment of another rank.
    #[inline(always)]
    pub(super) fn segment(&self, of: RankId) -> Option<&Window<()>> {
        self.segments.get(of.0 as usize)
    }

    /// A word that rank `from` writes and rank `of` waits for.
    pub(super) fn signal(&self, of: RankId, from: RankId, word: u32) -> Option<Word<'_>> {
        self.word(self.layout.signal_word(of, from, word)?)
    }

    /// The word in which rank `of` waits in a round of a barrier.
    pub(super) fn barrier(&self, of: RankId, round: u32) -> Option<Word<'_>> {
        self.word(self.layout.barrier_word(of, round)?)
    }

    /// Stepped when signals and barriers have started over.
    pub(super) fn run(&self) -> u32 {
        self.word(word::RUN).map_or(0, Word::observe)
    }

    /// The rank that the launcher has lost.
    pub(super) fn lost(&self) -> Option<RankId> {
        let rank = self.word(word::FAILED_RANK)?.observe().checked_sub(1)?;
        ((rank as usize) < self.segments.len()).then_some(RankId(rank))
    }

    /// Who was lost and why, as the launcher says it.
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(super) fn lost_text(&self) -> heapless::String<{ word::LOST_TEXT_BYTES }> {
        let mut bytes = [0; word::LOST_TEXT_BYTES];
        // In the header, which every world has.
        let _ = self.before.read_bytes(word::LOST_TEXT, &mut bytes);
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let valid = text.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        heapless::String::try_from(valid).unwrap_or_default()
    }

    /// No task of this rank waits for a lost rank any more.
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(super) fn inform(&self) {
        if let Some(state) = self.word(self.state) {
            state.publish(RankState::INFORMED.0);
        }
    }

    fn word(&self, at: u64) -> Option<Word<'_>> {
        self.before.word(at).ok()
    }
}
