//! The borrower: what a rank holds of one lender.
//!
//! A rank has one of these for a lender from the message on that fills its lane there, until it has returned everything; a lender whose
//! lane is never full costs nothing. An event walks over the blocks held, at most 16.

use super::block::{Lease, Need, Notice, SLOTS};

/// Blocks that one rank holds of one lender, at most.
pub const HELD_MAX: usize = 16;

/// A block in which a message may be sent, with the epoch of its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The block of the lender's bank.
    pub block: u8,
    /// The epoch of its slots.
    pub tag: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    lease: Lease,
    block: u8,
    /// Messages without an answer.
    unanswered: u8,
    /// No more messages: it is to be returned.
    is_draining: bool,
    used: u32,
}

/// What one rank holds of one lender (see the module).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Borrower {
    /// In the order of their grants, without gaps.
    held: [Option<Held>; HELD_MAX],
    /// To be asked for: the program said so.
    hint: Need,
    /// Asked for and not answered: room for so many blocks is kept.
    asked: u8,
}

impl Default for Borrower {
    fn default() -> Self {
        Self::new()
    }
}

impl Borrower {
    /// Nothing is held.
    pub const fn new() -> Self {
        Self { held: [None; HELD_MAX], hint: Need::NONE, asked: 0 }
    }

    /// Takes a slot of a block; the caller fills its lane first. `now` is the number of messages that this rank has
    /// sent to anyone.
    pub fn place(&mut self, now: u32) -> Option<Place> {
        let mut open = self.held.iter_mut().flatten();
        let held = open.find(|held| !held.is_draining && u32::from(held.unanswered) < SLOTS)?;
        held.unanswered += 1;
        held.used = now;
        Some(Place { block: held.block, tag: held.lease.tag() })
    }

    /// A message in a block was answered.
    pub fn answered(&mut self, place: Place) {
        let mut held = self.held.iter_mut().flatten();
        if let Some(held) = held.find(|held| (held.block, held.lease.tag()) == (place.block, place.tag)) {
            held.unanswered = held.unanswered.saturating_sub(1);
        }
    }

    /// The program will send so many messages at a time: asks before the first of them.
    pub fn expect(&mut self, credits: u32, lane: u32) {
        self.hint = Need::of(credits.saturating_sub(self.slots(lane)));
    }

    /// What a message asks for, now that it has its slot: one that took the last slot, of the lane's `lane` slots and all
    /// blocks, asks for as much as the rank has and at least 4. One that asks is the asking message, of which
    /// [`Borrower::replied`] is told; there is one at a time.
    pub fn take_need(&mut self, lane: u32, is_lane_full: bool) -> Need {
        if self.asked > 0 {
            return Need::NONE;
        }
        let is_open = |held: &Held| !held.is_draining && u32::from(held.unanswered) < SLOTS;
        let mut need = self.hint;
        if is_lane_full && !self.held.iter().flatten().any(is_open) {
            need = Need::of((2 * self.slots(lane)).max(4)).max(need);
        }
        let need = self.allowed(need);
        (self.hint, self.asked) = (Need::NONE, need.blocks());
        need
    }

    /// The asking message was answered, perhaps with a lease. `Err`: no lender of ours grants this; it is to be
    /// ignored.
    pub fn replied(&mut self, lease: Option<Lease>, now: u32) -> Result<(), Lease> {
        self.asked = 0;
        match lease {
            Some(lease) if !self.take(lease, now) => Err(lease),
            _ => Ok(()),
        }
    }

    /// A [`Notice::Grant`] came. The answer is whether it is taken; else the lender has it back.
    pub fn offered(&mut self, lease: Lease, now: u32) -> bool {
        self.take(lease, now)
    }

    /// A [`Notice::Recall`] came. The answer is whether the lease is held, and so will be returned.
    pub fn recalled(&mut self, lease: Lease) -> bool {
        let mut is_held = false;
        for held in self.held.iter_mut().flatten().filter(|held| held.lease == lease) {
            (held.is_draining, is_held) = (true, true);
        }
        is_held
    }

    /// Gives up leases in which nothing was sent while the rank sent `idle` messages.
    pub fn tidy(&mut self, now: u32, idle: u32) {
        for at in 0..HELD_MAX {
            let Some(Held { lease, is_draining: false, .. }) = self.held[at] else { continue };
            let mut others = self.held.iter().flatten().filter(|held| held.lease == lease);
            if others.all(|held| now.wrapping_sub(held.used) >= idle) {
                self.recalled(lease);
            }
        }
    }

    /// Hands `send` one message to the lender that is to be sent, if there is one. If `send` has no slot for it, it
    /// says no, and nothing has changed. An [`Notice::Ask`] is an asking message.
    ///
    /// Whether a message was sent.
    pub fn send_next(&mut self, send: impl FnOnce(Notice) -> bool) -> bool {
        if let Some(lease) = self.drained() {
            if !send(Notice::Return(lease)) {
                return false;
            }
            self.drop_lease(lease);
            return true;
        }
        let need = self.allowed(self.hint);
        if self.asked > 0 || need.is_none() || !send(Notice::Ask(need)) {
            return false;
        }
        (self.hint, self.asked) = (Need::NONE, need.blocks());
        true
    }

    /// Whether this may be forgotten.
    pub fn is_empty(&self) -> bool {
        self.held[0].is_none() && self.asked == 0 && self.hint.is_none()
    }

    /// Blocks held.
    pub fn blocks(&self) -> usize {
        self.held.iter().flatten().count()
    }

    /// The leases held.
    pub fn leases(&self) -> impl Iterator<Item = Lease> + '_ {
        self.held.iter().flatten().filter(|held| held.block == held.lease.first()).map(|held| held.lease)
    }

    /// Slots of the lane and of all blocks.
    fn slots(&self, lane: u32) -> u32 {
        lane + self.blocks() as u32 * SLOTS
    }

    /// The part of a need for which there is room, also if all of it is granted.
    fn allowed(&self, need: Need) -> Need {
        let room = HELD_MAX - self.blocks();
        let smaller = (1..=need.code()).rev().map(Need::from_code);
        smaller.into_iter().find(|need| usize::from(need.blocks()) <= room).unwrap_or(Need::NONE)
    }

    /// Keeps a lease, if there is room and its blocks are not held.
    fn take(&mut self, lease: Lease, now: u32) -> bool {
        let held = self.blocks();
        let is_known = self.held.iter().flatten().any(|held| lease.blocks().contains(&held.block));
        if is_known || HELD_MAX - held < lease.blocks().len() + usize::from(self.asked) {
            return false;
        }
        for (at, block) in (held..).zip(lease.blocks()) {
            self.held[at] = Some(Held { lease, block, unanswered: 0, is_draining: false, used: now });
        }
        true
    }

    /// A lease that is to be returned, and has no message without an answer.
    fn drained(&self) -> Option<Lease> {
        let mut at = 0;
        while let Some(Held { lease, is_draining, .. }) = self.held.get(at).copied().flatten() {
            let of_it = &self.held[at..at + lease.blocks().len()];
            if is_draining && of_it.iter().flatten().all(|held| held.unanswered == 0) {
                return Some(lease);
            }
            at += lease.blocks().len();
        }
        None
    }

    fn drop_lease(&mut self, lease: Lease) {
        let mut kept = 0;
        for at in 0..HELD_MAX {
            let held = self.held[at].take();
            if held.is_some_and(|held| held.lease != lease) {
                self.held[kept] = held;
                kept += 1;
            }
        }
    }
}
