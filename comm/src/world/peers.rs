//! The memory of the other ranks, as one rank reaches it: their segments, and the words that ranks
//! write for each other (abi §13.3).
//!
//! A rank's own home is not among it: its heap, whose views are references, is reached through a
//! [`LentHeap`](hamr_shared_abi::window::LentHeap) alone.

use super::call_peers::CallPeers;
use super::{MOST_RANKS, PerRank, push};
use crate::wait::{Notifier, WaitWord};
use hamr_shared_abi::ids::RankId;
use hamr_shared_abi::preamble::word::DEVICE_WAIT;
use hamr_shared_abi::sync::{Coherent, Order};
use hamr_shared_abi::window::{KeptWord, Window, Word};
use hamr_shared_abi::world::{PeersLayout, Range, WorldFault, WorldLayout, word};

/// All of a world but one rank's home.
pub struct Peers {
    /// Header, directory, PEERS, and the homes before this rank's.
    pub(super) before: Window<()>,
    pub(super) layout: PeersLayout,
    /// What ranks need that call each other.
    pub(super) calls: CallPeers,
    /// In the order of the ranks; this rank's has no bytes.
    segments: PerRank<Window<()>>,
    /// The words in which the ranks ask to be notified, likewise.
    waits: PerRank<(KeptWord<()>, Notifier)>,
    /// Notifies a rank.
    notify: fn(RankId),
    /// The process that a rank is.
    #[cfg(not(hamr_bare))]
    process: fn(RankId) -> Option<u32>,
}

impl Peers {
    /// What rank `me` reaches: the windows before and behind `home`, its own.
    ///
    /// # Errors
    /// A segment that leaves its home; more than [`MOST_RANKS`] ranks.
    pub fn new(
        before: Window<()>,
        behind: &Window<()>,
        world: &WorldLayout,
        (me, home): (RankId, Range),
        notify: fn(RankId),
    ) -> Result<Self, WorldFault> {
        if world.ranks() as usize > MOST_RANKS {
            return Err(WorldFault::Room { ranks: world.ranks(), most: MOST_RANKS as u32 });
        }
        let (mut segments, mut waits) = (PerRank::new(), PerRank::new());
        // The window that a place is in, before this rank's home or behind it, and where.
        let around = |at: u64| match at.checked_sub(home.off + home.len) {
            Some(at) => (behind, at),
            None => (&before, at),
        };
        for rank in (0..world.ranks()).map(RankId) {
            // This rank's own are not used: no bytes, and any word will do.
            if rank == me {
                let nothing = || before.part(0, 0);
                push(&mut segments, nothing()?);
                push(&mut waits, (before.keep_word(0)?, Notifier::new()));
                continue;
            }
            let (other, segment) = (world.home(&before, rank)?, world.segment(&before, rank)?);
            let fault = |_| WorldFault::Segment(rank.0);
            let (window, at) = around(other.off);
            let wait = window.keep_word(at + DEVICE_WAIT).map_err(fault)?;
            let (window, at) = around(other.off + segment.off);
            push(&mut segments, window.part(at, segment.len).map_err(fault)?);
            push(&mut waits, (wait, Notifier::new()));
        }
        let calls = CallPeers::new((&before, behind), world, (me, home), around)?;
        Ok(Self {
            before,
            layout: *world.peers(),
            calls,
            segments,
            waits,
            notify,
            #[cfg(not(hamr_bare))]
            process: |_| None,
        })
    }

    /// The same, where `process` says which process a rank is ([`WorldRef::process`](super::WorldRef::process)).
    #[cfg(not(hamr_bare))]
    #[must_use]
    pub fn with_processes(self, process: fn(RankId) -> Option<u32>) -> Self {
        Self { process, ..self }
    }

    /// The process that a rank is.
    #[cfg(not(hamr_bare))]
    pub(super) fn process(&self, of: RankId) -> Option<u32> {
        (self.process)(of)
    }

    /// Notifies a rank that sleeps, of all that this one has published for it: rules 21 and 22 (abi §7)
    /// at once.
    pub(super) fn wake(&self, rank: RankId) {
        Coherent::full();
        self.wake_relaxed(rank);
    }

    /// Rule 21 alone: [`Self::wake`] follows when this rank has nothing else to do. A task may be ended at any
    /// instruction: the rank counts as notified when it is.
    pub(super) fn wake_relaxed(&self, rank: RankId) {
        if self.waits.get(rank.0 as usize).is_some_and(|(wait, _)| wait.word().is_odd()) {
            self.notify(rank);
        }
    }

    #[cold]
    #[inline(never)]
    fn notify(&self, rank: RankId) {
        if let Some((wait, notifier)) = self.waits.get(rank.0 as usize) {
            notifier.notify_if_needed_relaxed(wait.word(), || (self.notify)(rank));
        }
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

    pub(super) fn word(&self, at: u64) -> Option<Word<'_>> {
        self.before.word(at).ok()
    }
}
