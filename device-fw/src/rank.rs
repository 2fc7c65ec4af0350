//! This image as a rank of a world (abi §13): it finds its home, and follows the job's words.

use hamr_comm::abi::ids::RankId;
use hamr_comm::abi::window::{DeviceWindow, Window};
use hamr_comm::abi::world::{JobState, RankState, WorldFault, WorldLayout, word};

/// The words of the world, beside the home that the device serves.
pub(crate) struct Rank<K> {
    front: Window<K>,
    /// Where its own words are.
    state: u64,
    exit: u64,
}

impl<K: Clone> Rank<K> {
    /// Checks the world, takes the home of rank `me`, and publishes that it joined. `exit` is what
    /// handlers end the world by; it calls [`Self::leave`].
    pub(crate) fn join(
        world: DeviceWindow<K>,
        me: RankId,
        exit: fn(u8) -> !,
    ) -> Result<(DeviceWindow<K>, Self), WorldFault> {
        let layout = WorldLayout::read(&world)?;
        let home = layout.home(me)?;
        let segment = layout.segment(&world, me)?;
        let size = layout.homes().len() as u32;
        let (front, home) = world.split_home(layout.front(), home.off, home.len).map_err(|(why, _)| why)?;
        let rank = Self { front, state: layout.state_word(me), exit: layout.exit_word(me) };
        hamr_comm::world::Rank { me, size, segment: segment.len, exit }.join();
        rank.publish(rank.state, RankState::JOINED.0);
        Ok((home, rank))
    }

    /// Has the launcher asked every rank to end?
    pub(crate) fn is_ending(&self) -> bool {
        self.front.word(word::JOB_STATE).is_ok_and(|state| state.observe() == JobState::ENDING.0)
    }

    /// Publishes that this rank ends, and its code. The caller ends it.
    pub(crate) fn leave(&self, code: u8) {
        self.publish(self.exit, u32::from(code) + 1);
        self.publish(self.state, RankState::LEFT.0);
    }

    fn publish(&self, at: u64, value: u32) {
        // In the front, which has the whole directory.
        if let Ok(word) = self.front.word(at) {
            word.publish(value);
        }
    }
}
