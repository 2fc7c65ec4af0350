//! This image as a rank of a world (abi §13): it finds its home, and follows the job's words.

use hamr_comm::abi::ids::RankId;
use hamr_comm::abi::window::{DeviceWindow, SplitWorld, Window};
use hamr_comm::abi::world::{JobState, Range, RankState, WorldFault, WorldLayout, word};
use hamr_comm::registry::Table;
use hamr_comm::world::Peers;

/// The world, beside the home that the device serves.
pub(crate) struct Rank {
    before: Window<()>,
    behind: Window<()>,
    layout: WorldLayout,
    me: RankId,
    home: Range,
}

impl Rank {
    /// Checks the world and takes the home of rank `me`; the world stays mapped for good. A world that
    /// is refused comes back.
    pub(crate) fn find<K: Clone>(
        world: DeviceWindow<K>,
        me: RankId,
    ) -> Result<(DeviceWindow<K>, Self), (WorldFault, DeviceWindow<K>)> {
        let check = || {
            let layout = WorldLayout::read(&world)?;
            Ok((layout, layout.home(&world, me)?))
        };
        let (layout, home) = match check() {
            Ok(checked) => checked,
            Err(why) => return Err((why, world)),
        };
        let own = home;
        let SplitWorld { before, home, behind } =
            world.split_home(home.off, home.len).map_err(|(why, world)| (why.into(), world))?;
        Ok((home, Self { before: before.leak(), behind: behind.leak(), layout, me, home: own }))
    }

    /// Publishes that this rank joined, with the handlers of `table`. These end the world by `exit`, which
    /// calls [`Self::leave`], and notify ranks by `notify`. `process` says which process a rank is.
    pub(crate) fn join(
        &self,
        table: Table,
        exit: fn(u8) -> !,
        notify: fn(RankId),
        #[cfg(not(hamr_bare))] process: fn(RankId) -> Option<u32>,
    ) -> Result<(), WorldFault> {
        let Self { before, behind, layout, me, home } = self;
        let segment = layout.segment(before, *me)?.len;
        let peers = Peers::new(before.part(0, before.len())?, behind, layout, (*me, *home), notify)?;
        #[cfg(not(hamr_bare))]
        let peers = peers.with_processes(process);
        hamr_comm::world::Rank::new(*me, layout.ranks(), segment, table, exit, peers).join();
        self.publish(layout.state_word(*me), RankState::JOINED.0);
        Ok(())
    }

    /// Has the launcher asked every rank to end?
    pub(crate) fn is_ending(&self) -> bool {
        self.before.word(word::JOB_STATE).is_ok_and(|state| state.observe() == JobState::ENDING.0)
    }

    /// Publishes that this rank ends, and its code. The caller ends it.
    pub(crate) fn leave(&self, code: u8) {
        self.publish(self.layout.exit_word(self.me), u32::from(code) + 1);
        self.publish(self.layout.state_word(self.me), RankState::LEFT.0);
    }

    fn publish(&self, at: u64, value: u32) {
        // In front of the homes, where the whole directory is.
        if let Ok(word) = self.before.word(at) {
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
    let (window, rank) = match Rank::find(memory, RankId(position.wrapping_sub(1))) {
        Ok((home, rank)) => (home, Ok(rank)),
        Err((why, memory)) => (memory, Err(why)),
    };
    RANK.call_once(|| rank);
    window
}
