//! The memory of the other ranks, as one rank reaches it: their segments, and the words that ranks
//! write for each other (abi §13.3).
//!
//! A rank's own home is not among it: its heap, whose views are references, is reached through a
//! [`LentHeap`](hamr_shared_abi::window::LentHeap) alone.

use super::{MOST_RANKS, PerRank, push};
use crate::wait::{Notifier, WaitWord};
use hamr_shared_abi::ids::RankId;
use hamr_shared_abi::preamble::word::DEVICE_WAIT;
use hamr_shared_abi::sync::{Coherent, Order};
use hamr_shared_abi::window::{KeptWord, Window, Word};
#[cfg(all(feature = "tasks", feature = "world"))]
use hamr_shared_abi::world::{GasLayout, InterestLayout};
use hamr_shared_abi::world::{PeersLayout, Range, WorldFault, WorldLayout, word};

#[cfg(all(feature = "tasks", feature = "world"))]
mod ranks;

/// All of a world but one rank's home.
pub struct Peers {
    /// Header, directory, PEERS, and the homes before this rank's.
    before: Window<()>,
    #[cfg(all(feature = "tasks", feature = "world"))]
    me: RankId,
    layout: PeersLayout,
    /// Where ranks say what they have published.
    #[cfg(all(feature = "tasks", feature = "world"))]
    interest: Option<InterestLayout>,
    /// In the order of the ranks; this rank's has no bytes.
    segments: PerRank<Window<()>>,
    /// The words in which the ranks ask to be notified, likewise.
    waits: PerRank<(KeptWord<()>, Notifier)>,
    /// Their homes, for what their handler tables say, likewise.
    #[cfg(all(feature = "tasks", feature = "world"))]
    homes: PerRank<Window<()>>,
    /// GAS, which is behind the homes.
    #[cfg(all(feature = "tasks", feature = "world"))]
    gas: Option<(Window<()>, GasLayout)>,
    /// Notifies a rank.
    notify: fn(RankId),
    /// The process that a rank is.
    #[cfg(not(hamr_bare))]
    process: fn(RankId) -> Option<u32>,
    /// Where in the directory this rank's state is.
    #[cfg(all(feature = "tasks", feature = "world"))]
    state: u64,
    /// And its exit code.
    #[cfg(all(feature = "tasks", feature = "world", not(hamr_bare)))]
    exit: u64,
    /// And its count of what it has done outside of runs.
    #[cfg(all(feature = "tasks", feature = "world"))]
    outside: u64,
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
        #[cfg(all(feature = "tasks", feature = "world"))]
        let mut homes = PerRank::new();
        let home_end = home.off + home.len;
        for rank in (0..world.ranks()).map(RankId) {
            // This rank's own are not used: no bytes, and any word will do.
            if rank == me {
                let nothing = || before.part(0, 0);
                push(&mut segments, nothing()?);
                push(&mut waits, (before.keep_word(0)?, Notifier::new()));
                #[cfg(all(feature = "tasks", feature = "world"))]
                push(&mut homes, nothing()?);
                continue;
            }
            let (other, segment) = (world.home(&before, rank)?, world.segment(&before, rank)?);
            let fault = |_| WorldFault::Segment(rank.0);
            // Where it is before this rank's home or behind it.
            let place = |at: u64| match at.checked_sub(home_end) {
                Some(at) => (behind, at),
                None => (&before, at),
            };
            let part = |at: u64, len| {
                let (window, at) = place(at);
                window.part(at, len).map_err(fault)
            };
            let (window, at) = place(other.off);
            let wait = window.keep_word(at + DEVICE_WAIT).map_err(fault)?;
            push(&mut segments, part(other.off + segment.off, segment.len)?);
            push(&mut waits, (wait, Notifier::new()));
            #[cfg(all(feature = "tasks", feature = "world"))]
            push(&mut homes, part(other.off, other.len)?);
        }
        #[cfg(all(feature = "tasks", feature = "world"))]
        let gas = match world.gas() {
            Some(gas) => {
                let range = gas.range();
                let fault = |_| WorldFault::Gas(range.off);
                let at = range.off.checked_sub(home_end).ok_or(WorldFault::Gas(range.off))?;
                let window = behind.part(at, range.len).map_err(fault)?;
                Some((window, gas.at_front()))
            }
            None => None,
        };
        Ok(Self {
            before,
            #[cfg(all(feature = "tasks", feature = "world"))]
            me,
            layout: *world.peers(),
            #[cfg(all(feature = "tasks", feature = "world"))]
            interest: world.interest().copied(),
            segments,
            waits,
            #[cfg(all(feature = "tasks", feature = "world"))]
            homes,
            #[cfg(all(feature = "tasks", feature = "world"))]
            gas,
            notify,
            #[cfg(not(hamr_bare))]
            process: |_| None,
            #[cfg(all(feature = "tasks", feature = "world"))]
            state: world.state_word(me),
            #[cfg(all(feature = "tasks", feature = "world", not(hamr_bare)))]
            exit: world.exit_word(me),
            #[cfg(all(feature = "tasks", feature = "world"))]
            outside: world.outside_word(me),
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

    fn word(&self, at: u64) -> Option<Word<'_>> {
        self.before.word(at).ok()
    }
}
