//! In the place of `ranks` in images whose ranks do not call each other.

use super::call_peers::CallPeers;
use super::peers::Peers;
use crate::buffer::BufferPtr;
use crate::fault::Fault;
use crate::registry::Table;
use crate::task::wait::{Callee, Wait};
use crate::task::{Answer, Target, Task};
use crate::why::NotSent;
use hamr_shared_abi::ids::{HandlerKey, RankId};

pub(super) struct CallRank;

impl CallRank {
    pub(super) fn new(_: Table, _: u32, _: &Peers) -> Self {
        Self
    }

    pub(super) fn begin_anew(&self, _: u32) {}
}

impl Peers {
    pub(super) fn note_outside(&self) {
        let CallPeers = self.calls;
    }
}

impl Task<'_> {
    pub(crate) fn comes_soon(&self, _: impl FnMut() -> bool) -> bool {
        false
    }

    pub(crate) fn call_directly(&self, wait: Wait) -> Result<Answer, Wait> {
        Err(wait)
    }

    pub(crate) fn note_words(&self, _: BufferPtr<u32>) -> Result<(), Fault> {
        Ok(())
    }
}

pub(crate) fn handler_key(_: RankId, _: &Callee) -> Result<HandlerKey, NotSent> {
    Err(NotSent::NotThere)
}

pub(crate) fn longest(_: Target) -> Option<usize> {
    None
}

/// Without worlds no rank is lost.
pub(super) fn lost_rank() -> Fault {
    Fault::msg("the epoch is over")
}
