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
    preamble::{DEVICE_RECORD, DeviceRecord},
    queue::QueueDescriptor,
};

/// Where a home has the fingerprint of its rank's table.
#[cfg(all(feature = "tasks", feature = "world"))]
const FINGERPRINT: u64 = DEVICE_RECORD + core::mem::offset_of!(DeviceRecord, fingerprint) as u64;

/// All of a world but one rank's home.
pub struct Peers {
    /// Header, directory, PEERS, and the homes before this rank's.
    before: Window<()>,
    layout: PeersLayout,
    /// In the order of the ranks; this rank's has no bytes.
    segments: heapless::Vec<Window<()>, MAX_RANKS>,
    /// The words in which the ranks ask to be notified, likewise.
    waits: heapless::Vec<(KeptWord<()>, Notifier), MAX_RANKS>,
    /// The two halves of the fingerprints of their handler tables, likewise.
    #[cfg(all(feature = "tasks", feature = "world"))]
    tables: heapless::Vec<[KeptWord<()>; 2], MAX_RANKS>,
    /// Notifies a rank.
    notify: fn(RankId),
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
        let mut tables = heapless::Vec::new();
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
            let _ = segments.push(window.map_err(fault)?);
            let _ = waits.push((word(DEVICE_WAIT)?, Notifier::new()));
            #[cfg(all(feature = "tasks", feature = "world"))]
            let _ = tables.push([word(FINGERPRINT)?, word(FINGERPRINT + 4)?]);
        }
        Ok(Self {
            before,
            layout: *world.peers(),
            segments,
            waits,
            #[cfg(all(feature = "tasks", feature = "world"))]
            tables,
            notify,
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

    /// The fingerprint of another rank's handler table; 0 before it has attached.
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(super) fn table(&self, of: RankId) -> Option<u64> {
        let [low, high] = self.tables.get(of.0 as usize)?;
        Some(u64::from(low.word().load()) | u64::from(high.word().load()) << 32)
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

    fn word(&self, at: u64) -> Option<Word<'_>> {
        self.before.word(at).ok()
    }
}
