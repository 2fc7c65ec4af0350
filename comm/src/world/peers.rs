//! The memory of the other ranks, as one rank reaches it: their segments, and the words that ranks
//! write for each other (abi §13.3).
//!
//! A rank's own home is not among it: its heap, whose views are references, is reached through a
//! [`LentHeap`](hamr_shared_abi::window::LentHeap) alone.

use hamr_shared_abi::ids::RankId;
use hamr_shared_abi::window::{Window, Word};
use hamr_shared_abi::world::{MAX_RANKS, PeersLayout, WorldFault, WorldLayout, word};

/// All of a world but one rank's home.
pub struct Peers {
    /// Header, directory, PEERS, and the homes before this rank's.
    before: Window<()>,
    layout: PeersLayout,
    /// In the order of the ranks; this rank's has no bytes.
    segments: heapless::Vec<Window<()>, MAX_RANKS>,
}

impl Peers {
    /// What rank `me` reaches: the windows before and behind its home.
    ///
    /// # Errors
    /// A segment that leaves its home.
    pub fn new(before: Window<()>, behind: &Window<()>, world: &WorldLayout, me: RankId) -> Result<Self, WorldFault> {
        let home = world.home(me)?;
        let mut segments = heapless::Vec::new();
        for (rank, other) in (0..).map(RankId).zip(world.homes()) {
            let segment = world.segment(&before, rank)?;
            let fault = |_| WorldFault::Segment(rank.0);
            let at = other.off + segment.off;
            let window = if rank == me {
                before.part(0, 0)
            } else if at < home.off {
                before.part(at, segment.len)
            } else {
                behind.part(at - (home.off + home.len), segment.len)
            };
            // There are at most so many homes.
            let _ = segments.push(window.map_err(fault)?);
        }
        Ok(Self { before, layout: *world.peers(), segments })
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

    fn word(&self, at: u64) -> Option<Word<'_>> {
        self.before.word(at).ok()
    }
}
