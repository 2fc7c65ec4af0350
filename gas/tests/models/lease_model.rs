//! Every order of events of small worlds with one lender: a block is used by its holder alone, no message of an old
//! lease is taken for one of the next, and nothing gets stuck.
//!
//! `Ledger` and `Borrower` are the production ones. The states of a world are searched exhaustively: each has only
//! steps of one rank at a time, since memory order is the business of the slots (`tests/model`). Lanes keep their
//! order, and nothing else does: an answer is seen before or after a notice that was sent earlier. Each rule that keeps
//! leases apart has a twin without it, which must be caught.

use std::collections::HashSet;
use std::collections::VecDeque;

use hamr_gas::credit::{Borrower, Lease, Ledger, Need, Notice, Place, Policy};

/// Borrowers; they borrow one block.
const RANKS: usize = 2;
/// Messages that each sends.
const MESSAGES: [u8; RANKS] = [3, 2];
/// Slots of the block that matter: as many as there can be messages in it.
const WORDS: usize = 3;

/// A rule that is broken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Twin {
    None,
    /// Leases of a block have one tag, and its words are not zeroed.
    NoTagStep,
    /// A lease is returned while messages in it are unanswered.
    ReturnedEarly,
    /// The lender takes any return for that of the lease that is out.
    OldReturnTaken,
}

/// What a sender has in a lane or block, unanswered.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Message {
    number: u8,
    need: Need,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Answer {
    place: Option<Place>,
    asked: bool,
    lease: Option<Lease>,
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Rank {
    borrower: Borrower,
    sent: u8,
    /// Its lane of one slot, and what was put in the block so far.
    lane: Option<Message>,
    lane_busy: bool,
    in_block: u8,
    answers: Vec<Answer>,
    /// Of the lender's lane to this rank, and of this rank's notices to the lender.
    notices: VecDeque<Notice>,
    returns: VecDeque<Lease>,
    /// What it returned before, for the twin.
    returned: Option<Lease>,
    got: u8,
}

/// A word of the block: the tag and count that it was published with, the sender and its message.
type Word = Option<(u8, u8, usize, Message)>;

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    ledger: Ledger<1>,
    ranks: [Rank; RANKS],
    words: [Word; WORDS],
    /// What the lender's end of the block expects next.
    expected: (u8, u8),
    /// Answers to recalls, per rank.
    refused: Vec<(usize, Lease)>,
    gave_up: bool,
}

impl World {
    fn new() -> Self {
        Self {
            ledger: Ledger::new(Policy { safe: 0, idle: 0, apart: 0 }),
            ranks: Default::default(),
            words: Default::default(),
            expected: (0, 0),
            refused: Vec::new(),
            gave_up: false,
        }
    }

    /// The block is lent anew.
    fn open(&mut self, lease: Lease, twin: Twin) {
        if twin != Twin::NoTagStep {
            self.words = Default::default();
        }
        self.expected = (tag(lease.tag(), twin), 0);
    }

    fn take(&mut self, from: usize, message: Message, place: Option<Place>, twin: Twin) {
        assert_eq!(self.ranks[from].got & 1 << message.number, 0, "a message ran twice");
        self.ranks[from].got |= 1 << message.number;
        self.ledger.received(place.map(|place| place.block));
        let lease = self.ledger.needs(from as u32, message.need, false);
        if let Some(lease) = lease {
            self.open(lease, twin);
        }
        self.ranks[from].answers.push(Answer { place, asked: !message.need.is_none(), lease });
    }

    /// The worlds that one step of a rank leads to.
    fn steps(&self, twin: Twin) -> Vec<World> {
        let mut next = Vec::new();
        let mut step = |act: &dyn Fn(&mut World) -> bool| {
            let mut world = self.clone();
            if act(&mut world) {
                next.push(world);
            }
        };
        for at in 0..RANKS {
            step(&|world| world.send(at, twin));
            step(&|world| {
                let Some(message) = world.ranks[at].lane.take() else { return false };
                world.take(at, message, None, twin);
                true
            });
            for which in 0..self.ranks[at].answers.len() {
                step(&|world| world.see_answer(at, which));
            }
            step(&|world| world.see_notice(at, twin));
            step(&|world| {
                let rank = &mut world.ranks[at];
                let returns = &mut rank.returns;
                rank.borrower.send_next(|notice| {
                    let Notice::Return(lease) = notice else { unreachable!("only returns are sent here") };
                    returns.push_back(lease);
                    true
                })
            });
            step(&|world| {
                let Some(lease) = world.ranks[at].returns.pop_front() else { return false };
                world.see_return(at, lease, twin);
                true
            });
            // One lease of a world is given up unasked.
            step(&|world| {
                let lease = world.ranks[at].borrower.leases().next();
                !world.gave_up
                    && lease.is_some_and(|lease| {
                        world.gave_up = true;
                        world.ranks[at].borrower.recalled(lease)
                    })
            });
        }
        step(&|world| {
            let (tag, count) = world.expected;
            // Blocks that are not lent are not looked at.
            let Some((holder, lease)) = world.ledger.leases().next() else { return false };
            let found = world.words.iter().flatten().find(|word| (word.0, word.1) == (tag, count + 1)).cloned();
            let Some((_, _, from, message)) = found else { return false };
            assert_eq!(holder as usize, from, "a message of another lease was taken");
            world.expected.1 += 1;
            world.take(from, message, Some(Place { block: 0, tag: lease.tag() }), twin);
            true
        });
        step(&|world| {
            let mut sent = None;
            let did = world.ledger.send_next(|peer, notice| {
                sent = Some((peer as usize, notice));
                true
            });
            let Some((peer, notice)) = sent else { return did };
            if let Notice::Grant(lease) = notice {
                world.open(lease, twin);
            }
            world.ranks[peer].notices.push_back(notice);
            true
        });
        for which in 0..self.refused.len() {
            step(&|world| {
                let (peer, lease) = world.refused.remove(which);
                let _not_lent_any_more = world.ledger.recall_refused(peer as u32, lease);
                true
            });
        }
        next
    }

    fn send(&mut self, at: usize, twin: Twin) -> bool {
        let rank = &mut self.ranks[at];
        if rank.sent == MESSAGES[at] {
            return false;
        }
        let place = if rank.lane_busy { rank.borrower.place(u32::from(rank.sent)) } else { None };
        if rank.lane_busy && place.is_none() {
            return false;
        }
        // The lane's slot is taken by now, by this message or by another.
        let message = Message { number: rank.sent, need: rank.borrower.take_need(1, true) };
        rank.sent += 1;
        match place {
            None => (rank.lane, rank.lane_busy) = (Some(message), true),
            Some(place) => {
                let word = (tag(place.tag, twin), rank.in_block + 1, at, message);
                self.words[usize::from(rank.in_block)] = Some(word);
                rank.in_block += 1;
            }
        }
        true
    }

    fn see_answer(&mut self, at: usize, which: usize) -> bool {
        let rank = &mut self.ranks[at];
        let Answer { place, asked, lease } = rank.answers.remove(which);
        match place {
            Some(place) => rank.borrower.answered(place),
            None => rank.lane_busy = false,
        }
        if asked {
            assert_eq!(rank.borrower.replied(lease, u32::from(rank.sent)), Ok(()), "no room for a grant");
            rank.in_block = if lease.is_some() { 0 } else { rank.in_block };
        }
        true
    }

    fn see_notice(&mut self, at: usize, twin: Twin) -> bool {
        let rank = &mut self.ranks[at];
        match rank.notices.pop_front() {
            Some(Notice::Grant(lease)) => {
                if rank.borrower.offered(lease, u32::from(rank.sent)) {
                    rank.in_block = 0;
                } else {
                    self.see_return(at, lease, twin);
                }
            }
            Some(Notice::Recall(lease)) if rank.borrower.recalled(lease) => {
                if twin == Twin::ReturnedEarly {
                    rank.returns.push_back(lease);
                }
            }
            Some(Notice::Recall(lease)) => self.refused.push((at, lease)),
            _ => return false,
        }
        true
    }

    fn see_return(&mut self, at: usize, lease: Lease, twin: Twin) {
        let current = self.ledger.leases().find(|(_, current)| current.first() == lease.first());
        let (peer, taken) = match current {
            Some((peer, current)) if twin == Twin::OldReturnTaken => (peer, current),
            _ => (at as u32, lease),
        };
        let unread = |word: &Word| word.as_ref().is_some_and(|word| word.0 == lease.tag() && word.1 > self.expected.1);
        if self.ledger.returned(peer, taken).is_ok() && twin != Twin::NoTagStep {
            assert!(!self.words.iter().any(unread), "returned before it was drained");
        }
        // A message may come twice for the twin: the lender has to tell an old return by its tag.
        if twin == Twin::OldReturnTaken && self.ranks[at].returned.is_none() {
            self.ranks[at].returned = Some(lease);
            self.ranks[at].returns.push_back(lease);
        }
    }

    fn check(&self) {
        assert!(self.ledger.is_conserved(), "credits are not conserved");
        let holders = self.ranks.iter().filter(|rank| rank.borrower.blocks() > 0).count();
        assert!(holders <= 1, "two ranks hold one block");
    }

    fn is_done(&self) -> bool {
        let mut ranks = self.ranks.iter().zip(MESSAGES);
        ranks.all(|(rank, messages)| rank.got == (1 << messages) - 1 && rank.answers.is_empty())
    }
}

/// The epoch of a block's slots under this tag.
fn tag(tag: u8, twin: Twin) -> u8 {
    if twin == Twin::NoTagStep { 1 } else { tag }
}

/// Searches all states; returns their number.
fn search(twin: Twin) -> usize {
    let first = World::new();
    let mut known = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(world) = open.pop() {
        world.check();
        let next = world.steps(twin);
        assert!(!next.is_empty() || world.is_done(), "no step is left, and messages are");
        for world in next {
            if known.insert(world.clone()) {
                open.push(world);
            }
        }
    }
    known.len()
}

#[test]
fn a_lease_has_one_holder_in_every_order() {
    let states = search(Twin::None);
    assert!(states > 30_000, "{states} states are not all");
    println!("{states} states");
}

#[test]
#[should_panic(expected = "of another lease was taken")]
fn without_a_tag_step_an_old_message_is_taken() {
    search(Twin::NoTagStep);
}

#[test]
#[should_panic(expected = "two ranks hold one block")]
fn a_lease_returned_before_it_is_drained_has_two_holders() {
    search(Twin::ReturnedEarly);
}

#[test]
#[should_panic(expected = "two ranks hold one block")]
fn an_old_return_that_is_taken_gives_a_block_to_two() {
    search(Twin::OldReturnTaken);
}
