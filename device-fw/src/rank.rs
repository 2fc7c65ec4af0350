//! This image as a rank of a world (abi §13): it finds its home, and follows the job's words.

use hamr_comm::abi::ids::RankId;
use hamr_comm::abi::window::{DeviceWindow, SplitWorld, Window};
use hamr_comm::abi::world::{JobState, RankState, WorldFault, WorldLayout, word};
use hamr_comm::world::Peers;

/// The words of the world, beside the home that the device serves.
pub(crate) struct Rank {
    front: Window<()>,
    /// Where its own words are.
    state: u64,
    exit: u64,
}

impl Rank {
    /// Checks the world and takes the home of rank `me`; the world stays mapped for good. `exit` is
    /// what handlers end the world by; it calls [`Self::leave`]; `ring` notifies another rank. A world that is refused comes back.
    pub(crate) fn find<K: Clone>(
        world: DeviceWindow<K>,
        me: RankId,
        exit: fn(u8) -> !,
        ring: fn(RankId),
    ) -> Result<(DeviceWindow<K>, Self), (WorldFault, DeviceWindow<K>)> {
        let check = || {
            let layout = WorldLayout::read(&world)?;
            Ok((layout, layout.home(me)?, layout.segment(&world, me)?))
        };
        let (layout, home, segment) = match check() {
            Ok(checked) => checked,
            Err(why) => return Err((why, world)),
        };
        let SplitWorld { before, home: own, behind } =
            world.split_home(home.off, home.len).map_err(|(why, world)| (why.into(), world))?;
        let (before, behind) = (before.leak(), behind.leak());
        let joined = before.part(0, layout.front()).map_err(WorldFault::from).and_then(|front| {
            let peers = Peers::new(before, &behind, &layout, me, ring)?;
            hamr_comm::world::Rank::new(me, layout.homes().len() as u32, segment.len, exit, peers).join();
            Ok(Self { front, state: layout.state_word(me), exit: layout.exit_word(me) })
        });
        match joined {
            Ok(rank) => Ok((own, rank)),
            Err(why) => Err((why, own)),
        }
    }

    /// Publishes that this rank joined.
    pub(crate) fn join(&self) {
        self.publish(self.state, RankState::JOINED.0);
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

/// The rank that a bare-metal image is, or why it can be none; empty in an image alone.
#[cfg(hamr_bare)]
pub(crate) static RANK: spin::Once<Result<Rank, WorldFault>> = spin::Once::new();

/// The window that a bare-metal image serves, of the memory behind its function: all of it, or
/// where that is a world, the rank's home. `position` is the image's number among those that share
/// the memory. The image ends before it serves where [`RANK`] has a fault.
#[cfg(hamr_bare)]
pub(crate) fn find_home(memory: DeviceWindow<()>, position: u32) -> DeviceWindow<()> {
    if !WorldLayout::is_there(&memory) {
        return memory;
    }
    // The launcher has number 0.
    let (window, rank) =
        match Rank::find(memory, RankId(position.wrapping_sub(1)), crate::bare::world::leave, crate::bare::world::ring)
        {
            Ok((home, rank)) => (home, Ok(rank)),
            Err((why, memory)) => (memory, Err(why)),
        };
    RANK.call_once(|| rank);
    window
}
