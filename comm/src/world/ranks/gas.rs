//! What GASNet's interface (package `hamr-gas`) stands on: the memory in which ranks write for each
//! other (abi §14), and the wait of a task for it. The task sends and serves these messages itself,
//! so the serve loop knows nothing of them.

use crate::task::wait::Wait;
use crate::task::{Interrupted, Place, Reason, Task};
use crate::world::{Caller, Peers, Rank, RankId, RankSet, WorldRef};
use hamr_shared_abi::task_line::WaitKind;
use hamr_shared_abi::window::{Queue, Window};
use hamr_shared_abi::world::{Announced, GasLayout};

/// The world of a rank, as its program's messages use it.
#[derive(Clone, Copy)]
pub struct GasWorld {
    rank: &'static Rank,
    window: &'static Window<()>,
    layout: &'static GasLayout,
}

impl Task<'_> {
    /// The memory for messages of programs; `None` on a device that was opened alone, and in a world
    /// without GAS.
    pub fn gas_world(&self) -> Option<GasWorld> {
        let rank = Rank::here()?;
        let (window, layout) = rank.peers.gas()?;
        Some(GasWorld { rank, window, layout })
    }

    /// Waits until `ready` returns true, or for so many microseconds. It looks in each round of the serve
    /// loop, and the device sleeps between two until a rank notifies it.
    #[track_caller]
    pub fn wait_for_ranks(&self, longest_us: u32, mut ready: impl FnMut() -> bool) -> Result<(), Interrupted> {
        let end = self.micros().saturating_add(longest_us.into());
        let mut reason = Reason::new(WaitKind::CONDITION, Place::caller());
        while !ready() {
            self.wait(Wait::Peer(end.min(self.until())), reason)?;
            reason = reason.again();
            let now = self.micros();
            if now >= self.until() {
                return Err(Interrupted::Deadline);
            } else if now >= end {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl GasWorld {
    /// This device's rank.
    pub fn me(self) -> RankId {
        self.rank.me
    }

    /// Ranks of the world.
    pub fn size(self) -> u32 {
        self.rank.size
    }

    /// The world, as the task sees it.
    #[inline(always)]
    pub fn world<'a>(self, task: &'a Task<'a>) -> WorldRef<'a> {
        WorldRef { rank: self.rank, caller: Caller::Task(task) }
    }

    /// Bytes of a rank's segment.
    pub fn segment_len(self, of: RankId) -> Option<u64> {
        if of == self.rank.me {
            return Some(self.rank.segment);
        }
        self.rank.peers.segment(of).map(Window::len)
    }

    /// GAS.
    pub fn window(self) -> &'static Window<()> {
        self.window
    }

    /// Where in [`Self::window`] what is.
    pub fn layout(self) -> &'static GasLayout {
        self.layout
    }

    /// The queue in which one rank sends messages to another, of which this rank is one.
    pub fn lane(self, to: RankId, from: RankId) -> Option<Queue<()>> {
        self.window.queue(&self.layout.lane(to, from)?).ok()
    }

    /// Do ranks announce what they publish in lanes? Else each is looked at.
    pub fn are_announced(self) -> bool {
        self.rank.peers.are_announced()
    }

    /// Announces to a rank what this one has published in a lane for it.
    #[inline(always)]
    pub fn announce(self, to: RankId) {
        self.rank.peers.announce(to, Announced::Message);
    }

    /// Adds the ranks that have announced something since the last time.
    #[inline(always)]
    pub fn collect(self, to: &mut RankSet) {
        self.rank.peers.collect(Announced::Message, to);
    }

    /// Has a rank announced something since?
    pub fn has_announced(self) -> bool {
        self.rank.peers.has_announced(Announced::Message)
    }

    /// Notifies a rank that sleeps of all that this one has published for it.
    pub fn notify(self, rank: RankId) {
        self.wake(rank, Peers::wake);
    }

    /// The same without a fence: a rank that goes to sleep at this moment may miss it. [`Self::notify`]
    /// must follow before this rank waits.
    #[inline(always)]
    pub fn notify_relaxed(self, rank: RankId) {
        self.wake(rank, Peers::wake_relaxed);
    }

    #[inline(always)]
    fn wake(self, rank: RankId, wake: fn(&Peers, RankId)) {
        if rank != self.rank.me {
            wake(&self.rank.peers, rank);
        }
    }

    /// States the code that this rank is going to leave with: that of the world also if the rank ends in another way, but
    /// for a trap.
    #[cfg(not(hamr_bare))]
    pub fn foretell(self, code: u8) {
        self.rank.peers.foretell(code);
    }

    /// [`WorldRef::exit`].
    pub fn exit(self, code: u8) -> ! {
        (self.rank.exit)(code)
    }
}
