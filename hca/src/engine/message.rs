//! Messages as the engine keeps them: private copies of what requests say, and how far they are.

use hamr_comm::abi::window::AtomicOp;
use hamr_verbs::wire::{Access, MAX_INLINE, MAX_SEND_SGE, Opcode, Sge, WcOpcode, WcStatus};

/// Parts of registered memory, one behind the other: what a request names, as a private copy. Keys are looked up at
/// each segment, so that nothing goes to a region that was deregistered meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Ranges {
    sges: [Sge; MAX_SEND_SGE],
    count: u32,
    pub(super) right: Access,
}

impl Ranges {
    /// What local keys name: at most as many as a request has.
    pub(super) fn local(sges: &[Sge], right: Access) -> Self {
        let mut all = [Sge::default(); MAX_SEND_SGE];
        all.iter_mut().zip(sges).for_each(|(to, sge)| *to = *sge);
        Self { sges: all, count: sges.len() as u32, right }
    }

    /// The first `count` of these.
    pub(super) const fn first(sges: [Sge; MAX_SEND_SGE], count: usize, right: Access) -> Self {
        Self { sges, count: count as u32, right }
    }

    /// What a remote key names, for the right that the peer needs.
    pub(super) fn remote(addr: u64, rkey: u32, len: u32, right: Access) -> Self {
        Self::local(&[Sge { addr, len, lkey: rkey }], right)
    }

    pub(super) fn sges(&self) -> &[Sge] {
        self.sges.get(..self.count as usize).unwrap_or(&self.sges)
    }

    /// Bytes of it.
    pub(super) fn len(&self) -> u64 {
        self.sges().iter().map(|sge| u64::from(sge.len)).sum()
    }
}

/// A receive request that a message has taken: a private copy.
#[derive(Clone, Copy)]
pub(super) struct Receive {
    pub(super) id: u64,
    /// Its position in its queue.
    pub(super) position: u32,
    /// The shared receive queue that it was in.
    pub(super) srq: Option<usize>,
    pub(super) into: Ranges,
    /// Bytes of the message that have come.
    pub(super) at: u64,
}

/// A checked request: a private copy.
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) opcode: Opcode,
    pub(super) completion: WcOpcode,
    pub(super) is_signaled: bool,
    pub(super) immediate: Option<u32>,
    pub(super) length: u64,
    pub(super) local: Local,
    pub(super) remote: Ranges,
    pub(super) operands: [u64; 2],
}

/// Its near end.
pub(super) enum Local {
    Ranges(Ranges),
    Inline([u8; MAX_INLINE]),
}

/// A request of which a part is done, or whose peer is not ready.
pub(super) struct Progress {
    pub(super) request: Request,
    /// Bytes that are moved.
    pub(super) at: u64,
    pub(super) has_begun: bool,
    /// When the peer that is not ready is given up. `None`: it was ready so far, or it is waited for without an end.
    pub(super) give_up: Option<u64>,
}

impl Request {
    /// It uses up a receive request.
    pub(super) const fn is_received(&self) -> bool {
        matches!(self.opcode, Opcode::SEND) || self.opcode.has_immediate()
    }

    /// What it does at the peer, if it is an atomic access.
    pub(super) const fn atomic(&self) -> AtomicOp<u64> {
        let [expected, new] = self.operands;
        match self.opcode {
            Opcode::COMPARE_SWAP => AtomicOp::CompareSwap { expected, new },
            _ => AtomicOp::Add(expected),
        }
    }
}

/// What a completion says of a request.
pub(super) struct Outcome {
    pub(super) status: WcStatus,
    pub(super) opcode: WcOpcode,
    pub(super) length: u32,
    pub(super) immediate: Option<u32>,
}

impl Outcome {
    /// Success of no bytes.
    pub(super) fn of(opcode: WcOpcode) -> Self {
        Self { status: WcStatus::SUCCESS, opcode, length: 0, immediate: None }
    }
}
