//! What ranks reach of each other that call each other, run programs and keep memory for each other.

use crate::world::RankSet;
use crate::world::interest;
use crate::world::peers::Peers;
use hamr_shared_abi::ids::RankId;
use hamr_shared_abi::queue::QueueDescriptor;
use hamr_shared_abi::window::Window;
use hamr_shared_abi::world::{Announced, GasLayout, InterestWord, RankState, WorldHeader, word};

impl Peers {
    /// Do ranks announce what they publish in lanes?
    pub(in crate::world) fn are_announced(&self) -> bool {
        self.calls.interest.is_some()
    }

    /// Announces to a rank what this one has published in a lane for it.
    #[inline(always)]
    pub(in crate::world) fn announce(&self, to: RankId, what: Announced) {
        if let Some(layout) = &self.calls.interest {
            interest::announce(self.calls.me, |word| self.word(layout.word(to, what, word)?));
        }
    }

    /// Adds the ranks that have announced something to this one since the last time.
    #[inline(always)]
    pub(in crate::world) fn collect(&self, what: Announced, to: &mut RankSet) {
        if let Some(layout) = &self.calls.interest {
            interest::collect(layout.groups(), |word| self.word(layout.word(self.calls.me, what, word)?), to);
        }
    }

    /// Has a rank announced something that [`Self::collect`] has not seen?
    pub(in crate::world) fn has_announced(&self, what: Announced) -> bool {
        self.calls.interest.as_ref().is_some_and(|layout| {
            let group = |at| self.word(layout.word(self.calls.me, what, InterestWord::Group(at))?);
            (0..layout.groups()).any(|at| group(at).is_some_and(|group| group.load() != 0))
        })
    }

    /// GAS, and where its parts are in it.
    pub(in crate::world) fn gas(&self) -> Option<(&Window<()>, &GasLayout)> {
        self.calls.gas.as_ref().map(|(window, layout)| (window, layout))
    }

    /// The home of another rank.
    pub(in crate::world) fn home(&self, of: RankId) -> Option<&Window<()>> {
        self.calls.homes.get(of.0 as usize)
    }

    /// What is in front of the homes, and more.
    pub(in crate::world) fn front(&self) -> &Window<()> {
        &self.before
    }

    /// The queue pairs in which another rank calls this one, and is called.
    pub(in crate::world) fn lanes(&self, me: RankId, other: RankId) -> Option<(QueueDescriptor, QueueDescriptor)> {
        Some((self.layout.lane(me, other)?, self.layout.lane(other, me)?))
    }

    /// The random number of the world.
    pub(in crate::world) fn job(&self) -> u64 {
        let mut bytes = [0; 8];
        // In the header, which every world has.
        let _ = self.before.read_bytes(core::mem::offset_of!(WorldHeader, job) as u64, &mut bytes);
        u64::from_ne_bytes(bytes)
    }

    /// Who was lost and why, as the launcher says it.
    pub(in crate::world) fn lost_text(&self) -> heapless::String<{ word::LOST_TEXT_BYTES }> {
        let mut bytes = [0; word::LOST_TEXT_BYTES];
        // In the header, which every world has.
        let _ = self.before.read_bytes(word::LOST_TEXT, &mut bytes);
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let valid = text.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        heapless::String::try_from(valid).unwrap_or_default()
    }

    /// A number of a barrier or meeting is taken: is it of no run? Then its partners may not take theirs.
    pub(in crate::world) fn note_outside(&self) {
        if self.word(word::IN_RUN).is_some_and(|in_run| in_run.load() == 0) {
            self.count_outside();
        }
    }

    #[cold]
    fn count_outside(&self) {
        if let Some(outside) = self.word(self.calls.outside) {
            outside.publish(outside.load().wrapping_add(1));
        }
    }

    /// No task of this rank waits for a lost rank any more.
    pub(in crate::world) fn inform(&self) {
        if let Some(state) = self.word(self.calls.state) {
            state.publish(RankState::INFORMED.0);
        }
    }

    /// States the code that this rank is going to leave with.
    #[cfg(not(hamr_bare))]
    pub(in crate::world) fn foretell(&self, code: u8) {
        if let Some(exit) = self.word(self.calls.exit) {
            exit.publish(u32::from(code) + 1);
        }
    }
}
