//! What credits cost a rank in memory.

use std::fmt;
use std::mem::size_of;

use hamr_gas::credit::{Borrower, Ledger, SLOTS};

use crate::lending::{BANK, lane_ring};

/// A slot, in bytes.
const LINE: u64 = 64;
/// Of portals-conduit: 8 credits of a peer, each 256 B of the receive ring and 128 B of an event queue, and its counters.
const PORTALS_PEER: u64 = 8 * (256 + 128) + 16;

/// Bytes of one rank in a world of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Ranks of the world.
    pub ranks: u32,
    /// For each peer: its lane, which is a ring and a hot slot. Credits add nothing.
    pub lane: u64,
    /// Once: the slots of all blocks.
    pub bank: u64,
    /// Once: who has them.
    pub ledger: u64,
    /// For each lender of which something is borrowed, or asked.
    pub borrower: u64,
}

impl Memory {
    /// In a world of `ranks`.
    pub fn of(ranks: u32) -> Self {
        Self {
            ranks,
            lane: (u64::from(lane_ring(ranks)) + 1) * LINE,
            bank: BANK as u64 * (u64::from(SLOTS) + 1) * LINE,
            ledger: size_of::<Ledger<BANK>>() as u64,
            borrower: size_of::<Borrower>() as u64,
        }
    }

    /// All of it, but for what is borrowed.
    pub fn total(self) -> u64 {
        u64::from(self.ranks - 1) * self.lane + self.bank + self.ledger
    }

    /// What portals-conduit sets aside.
    pub fn portals(self) -> u64 {
        u64::from(self.ranks - 1) * PORTALS_PEER
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranks, lane, bank, ledger, borrower } = *self;
        write!(
            f,
            "a rank of {ranks}: {lane} B a peer (lane), {bank} B (bank) and {ledger} B (ledger) once, {borrower} B a lender \
             while something is borrowed there: {:.1} MB; portals-conduit {PORTALS_PEER} B a peer: {:.1} MB",
            self.total() as f64 / 1e6,
            self.portals() as f64 / 1e6,
        )
    }
}
