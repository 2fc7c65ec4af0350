//! What a rank has of the others that call it and are called.

use super::rank_set::{PerRank, push};
use hamr_shared_abi::ids::RankId;
use hamr_shared_abi::window::Window;
use hamr_shared_abi::world::{GasLayout, InterestLayout, Range, WorldFault, WorldLayout};

/// Part of [`Peers`](super::Peers).
pub(super) struct CallPeers {
    pub(super) me: RankId,
    /// Where ranks say what they have published.
    pub(super) interest: Option<InterestLayout>,
    /// The homes of the ranks, for what their handler tables say; this rank's has no bytes.
    pub(super) homes: PerRank<Window<()>>,
    /// GAS, which is behind the homes.
    pub(super) gas: Option<(Window<()>, GasLayout)>,
    /// Where in the directory this rank's state is.
    pub(super) state: u64,
    /// And its exit code.
    #[cfg(not(hamr_bare))]
    pub(super) exit: u64,
    /// And its count of what it has done outside of runs.
    pub(super) outside: u64,
}

impl CallPeers {
    /// As [`Peers::new`](super::Peers::new); `around` is the window that a place of the world is in, before this rank's home or
    /// behind it, and where.
    pub(super) fn new<'w>(
        (before, behind): (&Window<()>, &Window<()>),
        world: &WorldLayout,
        (me, home): (RankId, Range),
        around: impl Fn(u64) -> (&'w Window<()>, u64),
    ) -> Result<Self, WorldFault> {
        let mut homes = PerRank::new();
        for rank in (0..world.ranks()).map(RankId) {
            if rank == me {
                push(&mut homes, before.part(0, 0)?);
                continue;
            }
            let other = world.home(before, rank)?;
            let (window, at) = around(other.off);
            push(&mut homes, window.part(at, other.len).map_err(|_| WorldFault::Segment(rank.0))?);
        }
        let gas = match world.gas() {
            Some(gas) => {
                let range = gas.range();
                let fault = |_| WorldFault::Gas(range.off);
                let at = range.off.checked_sub(home.off + home.len).ok_or(WorldFault::Gas(range.off))?;
                Some((behind.part(at, range.len).map_err(fault)?, gas.at_front()))
            }
            None => None,
        };
        Ok(Self {
            me,
            interest: world.interest().copied(),
            homes,
            gas,
            state: world.state_word(me),
            #[cfg(not(hamr_bare))]
            exit: world.exit_word(me),
            outside: world.outside_word(me),
        })
    }
}
