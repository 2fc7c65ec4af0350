//! The lender: what of a bank is lent to whom.
//!
//! Leases that are lent and not recalled are in a list by their last use. A borrower fills its lane first and its
//! blocks in the order in which it got them, so what it does not need is not used, and comes to the old end of that
//! list: who holds how much need not be counted. An event costs a fixed number of steps, the longest a walk over the
//! 16 peers that may wait; none depends on how many ranks there are.

use super::block::{BANK_MAX, Lease, Need, Notice, RUN_MAX};
use super::loan::{Loan, NONE, State};

/// Peers that may wait for blocks. One more asks again, with each message that takes its last slot.
const WAITING: usize = 16;
/// Recalls without a return, at most.
const RECALLS: u8 = 4;
/// Records that the longest event looks at: one of a peer that waits, which is lent blocks. It is found among those that
/// wait; a run is found, its tags are looked at, its records written; those that wait move up.
pub const STEPS_MAX: usize = 2 * WAITING + 3 * RUN_MAX as usize;

/// When leases are taken back, in ticks: a tick is a message received, or an idle round in [`Ledger::idled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// A lease younger than this is not recalled.
    pub safe: u32,
    /// A lease in which no message came for so long is recalled when others wait.
    pub idle: u32,
    /// Leases in use are recalled so far apart, or a receiver that many want to send to would mostly send recalls.
    pub apart: u32,
}

impl Policy {
    /// What the simulator runs with.
    pub const DEFAULT: Self = Self { safe: 1024, idle: 1024, apart: 512 };
}

/// A peer that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Hungry {
    peer: u32,
    need: Need,
}

/// A message names a lease that is not lent to its sender under this tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLent;

/// The bank of one rank: `B` blocks, at most [`BANK_MAX`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger<const B: usize> {
    loans: [Loan; B],
    free: u64,
    policy: Policy,
    clock: u32,
    /// When a lease in use was recalled last.
    recalled_at: u32,
    newest: u8,
    oldest: u8,
    /// Recalls without a return.
    recalls: u8,
    tag: u8,
    waiting: u8,
    hungry: [Hungry; WAITING],
}

impl<const B: usize> Ledger<B> {
    /// A bank that has lent nothing.
    pub const fn new(policy: Policy) -> Self {
        const { assert!(B >= 1 && B <= BANK_MAX as usize) };
        Self {
            loans: [Loan::FREE; B],
            free: u64::MAX >> (64 - B),
            policy,
            clock: 0,
            recalled_at: 0u32.wrapping_sub(policy.apart),
            newest: NONE,
            oldest: NONE,
            recalls: 0,
            tag: 0,
            waiting: 0,
            hungry: [Hungry { peer: 0, need: Need::NONE }; WAITING],
        }
    }

    /// A message was received: in a lane, or in a block.
    pub fn received(&mut self, block: Option<u8>) {
        self.clock = self.clock.wrapping_add(1);
        let Some(loan) = block.and_then(|block| self.loans.get(usize::from(block))) else { return };
        let first = loan.first;
        if first == NONE {
            return;
        }
        self.loans[usize::from(first)].used = self.clock;
        if self.loans[usize::from(first)].state == State::Lent && self.newest != first {
            self.unlink(first);
            self.link_newest(first);
        }
    }

    /// So many ticks went by without messages: an idle lender's leases age, too.
    pub fn idled(&mut self, ticks: u32) {
        self.clock = self.clock.wrapping_add(ticks);
    }

    /// A message of `peer` asks. The lease goes into its reply; without one the peer waits, or asks again. The control
    /// words of these blocks must be zeroed before that reply is published.
    ///
    /// `has_more`: other messages of the peer have come already. It asked with the last slot that it had, so it was
    /// answered meanwhile and went on: this receiver is what it waits for, and more credits would not make it faster.
    /// It gets what is free, and nothing is taken from others.
    pub fn needs(&mut self, peer: u32, need: Need, has_more: bool) -> Option<Lease> {
        if need.is_none() {
            return None;
        }
        // What it asks now counts; what it is given now, it no longer waits for.
        let place = self.hungry[..usize::from(self.waiting)].iter().position(|hungry| hungry.peer == peer);
        if let Some(place) = place {
            self.hungry[place].need = need;
        }
        // Blocks that are free belong to those that wait already, first of all to the first.
        if place.map_or(self.waiting, |place| place as u8) == 0
            && let Some(lease) = self.lend(peer, self.share(need))
        {
            if place.is_some() {
                self.pop();
            }
            return Some(lease);
        }
        if place.is_none() && !has_more && usize::from(self.waiting) < WAITING {
            self.hungry[usize::from(self.waiting)] = Hungry { peer, need };
            self.waiting += 1;
        }
        None
    }

    /// `peer` returns `lease`: drained, or refused in the answer to its grant.
    pub fn returned(&mut self, peer: u32, lease: Lease) -> Result<(), NotLent> {
        let first = lease.first();
        match self.find(peer, lease)? {
            State::Recalled => self.recalls -= 1,
            _ => self.unlink(first),
        }
        for block in lease.blocks() {
            let loan = &mut self.loans[usize::from(block)];
            (loan.state, loan.first) = (State::Free, NONE);
            self.free |= 1 << block;
        }
        Ok(())
    }

    /// `peer` answered a recall with no: the lease has not come to it yet, or is on its way back. The next recall of
    /// it waits as if the lease were new.
    pub fn recall_refused(&mut self, peer: u32, lease: Lease) -> Result<(), NotLent> {
        if self.find(peer, lease)? == State::Recalled {
            self.recalls -= 1;
            let loan = &mut self.loans[usize::from(lease.first())];
            (loan.state, loan.granted) = (State::Lent, self.clock);
            self.link_newest(lease.first());
        }
        Ok(())
    }

    /// Hands `send` one message that is to be sent, if there is one, with the peer it is for. If `send` has no slot for
    /// it, it says no, and the message is still to be sent. Of a grant it zeroes the control words before it sends.
    ///
    /// Whether a message was sent.
    pub fn send_next(&mut self, send: impl FnOnce(u32, Notice) -> bool) -> bool {
        if self.waiting == 0 {
            return false;
        }
        let Hungry { peer, need } = self.hungry[0];
        if self.free != 0 {
            let Some(lease) = self.lend(peer, self.share(need)) else { return false };
            if send(peer, Notice::Grant(lease)) {
                self.pop();
                return true;
            }
            let undone = self.returned(peer, lease);
            debug_assert_eq!(undone, Ok(()));
            return false;
        }
        let Some((victim, is_idle)) = self.victim() else { return false };
        let loan = self.loans[usize::from(victim)];
        if loan.peer == peer {
            // It has a lease that it uses less than all others use theirs.
            self.pop();
            return false;
        }
        let Some(lease) = Lease::new(victim, loan.blocks, loan.tag) else { return false };
        if !send(loan.peer, Notice::Recall(lease)) {
            return false;
        }
        self.unlink(victim);
        self.loans[usize::from(victim)].state = State::Recalled;
        self.recalls += 1;
        if !is_idle {
            self.recalled_at = self.clock;
        }
        true
    }

    /// Blocks that are not lent.
    pub fn free_blocks(&self) -> u32 {
        self.free.count_ones()
    }

    /// The leases, with the peers that have them.
    pub fn leases(&self) -> impl Iterator<Item = (u32, Lease)> + '_ {
        self.loans.iter().enumerate().filter_map(|(first, loan)| {
            let lease = Lease::new(first as u8, loan.blocks, loan.tag)?;
            matches!(loan.state, State::Lent | State::Recalled).then_some((loan.peer, lease))
        })
    }

    /// Whether each block is free or in one lease, and each lease in the list or recalled.
    pub fn is_conserved(&self) -> bool {
        let mut seen = self.free;
        let mut leases = 0;
        for (_, lease) in self.leases() {
            for block in lease.blocks() {
                let is_new = seen & 1 << block == 0;
                let is_its = self.loans.get(usize::from(block)).is_some_and(|loan| loan.first == lease.first());
                if !is_new || !is_its {
                    return false;
                }
                seen |= 1 << block;
            }
            leases += 1;
        }
        let mut listed = 0;
        let mut at = self.oldest;
        while at != NONE && listed <= B {
            listed += 1;
            at = self.loans[usize::from(at)].newer;
        }
        seen == u64::MAX >> (64 - B) && leases == listed + usize::from(self.recalls)
    }

    /// The state of a lease that is lent under this tag to this peer.
    fn find(&self, peer: u32, lease: Lease) -> Result<State, NotLent> {
        let loan = self.loans.get(usize::from(lease.first())).ok_or(NotLent)?;
        let is_it = (loan.peer, loan.blocks, loan.tag) == (peer, lease.blocks().len() as u8, lease.tag());
        match loan.state {
            state @ (State::Lent | State::Recalled) if is_it => Ok(state),
            _ => Err(NotLent),
        }
    }

    /// The blocks that a need is granted: one where others wait.
    fn share(&self, need: Need) -> u8 {
        if self.waiting > 1 { 1 } else { need.blocks() }
    }

    /// Lends the longest free run of at most `most` blocks.
    fn lend(&mut self, peer: u32, most: u8) -> Option<Lease> {
        let (first, blocks) = self.run(most)?;
        let run = usize::from(first)..usize::from(first + blocks);
        self.tag = self.next_tag(&self.loans[run.clone()]);
        for loan in &mut self.loans[run] {
            (loan.state, loan.first, loan.tag) = (State::Within, first, self.tag);
        }
        let loan = &mut self.loans[usize::from(first)];
        (loan.state, loan.peer, loan.blocks) = (State::Lent, peer, blocks);
        (loan.granted, loan.used) = (self.clock, self.clock);
        self.link_newest(first);
        self.free &= !((u64::MAX >> (64 - u32::from(blocks))) << first);
        Lease::new(first, blocks, self.tag)
    }

    /// The next tag that none of these blocks had in its last lease.
    fn next_tag(&self, run: &[Loan]) -> u8 {
        // Tags count from 1 to 255. Bit d: the tag d behind the next one is taken; no more than 8 are.
        let next = u32::from(self.tag) % 255;
        let mut taken = 0u32;
        for loan in run.iter().filter(|loan| loan.tag != 0) {
            let ahead = (u32::from(loan.tag) - 1 + 255 - next) % 255;
            taken |= 1u32.checked_shl(ahead).unwrap_or(0);
        }
        ((next + taken.trailing_ones()) % 255) as u8 + 1
    }

    /// The longest run of free blocks, but no longer than `most`: its first block and its length.
    fn run(&self, most: u8) -> Option<(u8, u8)> {
        // Bit b of `starts`: the blocks from b on are free, as many as there were rounds.
        let (mut starts, mut found) = (self.free, None);
        for blocks in 1..=most.min(RUN_MAX) {
            if starts == 0 {
                break;
            }
            found = Some((starts.trailing_zeros() as u8, blocks));
            starts &= self.free >> blocks;
        }
        found
    }

    /// The lease to recall, and whether it is idle.
    fn victim(&self) -> Option<(u8, bool)> {
        let oldest = self.loans.get(usize::from(self.oldest))?;
        let is_idle = self.clock.wrapping_sub(oldest.used) >= self.policy.idle;
        let is_due = is_idle || self.clock.wrapping_sub(self.recalled_at) >= self.policy.apart;
        let is_old = self.clock.wrapping_sub(oldest.granted) >= self.policy.safe;
        let may = self.recalls < RECALLS.min(self.waiting);
        (may && is_old && is_due).then_some((self.oldest, is_idle))
    }

    /// Removes the first that waits.
    fn pop(&mut self) {
        self.hungry.copy_within(1..usize::from(self.waiting), 0);
        self.waiting -= 1;
    }

    fn unlink(&mut self, first: u8) {
        let Loan { older, newer, .. } = self.loans[usize::from(first)];
        match older {
            NONE => self.oldest = newer,
            older => self.loans[usize::from(older)].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.loans[usize::from(newer)].older = older,
        }
    }

    fn link_newest(&mut self, first: u8) {
        let loan = &mut self.loans[usize::from(first)];
        (loan.older, loan.newer) = (self.newest, NONE);
        match self.newest {
            NONE => self.oldest = first,
            newest => self.loans[usize::from(newest)].newer = first,
        }
        self.newest = first;
    }
}
