//! A lender and its borrowers under random orders of events: after each event every credit is in one place, and in the
//! end every message was sent and every lease came back.

use std::collections::VecDeque;

use hamr_gas::credit::{Borrower, HELD_MAX, Lease, Ledger, Need, Notice, Place, Policy, SLOTS};
use proptest::prelude::*;

/// Blocks of the bank.
const BANK: usize = 20;
const RANKS: usize = 4;
/// Slots of a lane.
const LANE: usize = 2;

/// A message on its way, or waiting for the lender.
struct Message {
    place: Option<Place>,
    need: Need,
}

struct Answer {
    place: Option<Place>,
    asked: bool,
    lease: Option<Lease>,
}

/// One sender, with what is under way between it and the lender. Each queue keeps its order, and none waits for
/// another.
#[derive(Default)]
struct Rank {
    borrower: Borrower,
    sent: u32,
    in_lane: usize,
    messages: VecDeque<Message>,
    answers: VecDeque<Answer>,
    to_rank: VecDeque<Notice>,
    to_lender: VecDeque<Notice>,
    refusals: VecDeque<Lease>,
}

struct World {
    ledger: Ledger<BANK>,
    ranks: [Rank; RANKS],
}

impl World {
    fn new() -> Self {
        let policy = Policy { safe: 8, idle: 16, apart: 4 };
        Self { ledger: Ledger::new(policy), ranks: Default::default() }
    }

    /// One event of rank `at`; `which` chooses it.
    fn event(&mut self, at: usize, which: u8) {
        match which {
            0..=3 => self.send(at),
            4..=6 => self.receive(at),
            7..=8 => self.see_answer(at),
            9 => self.see_notice(at),
            10 => self.see_return(at),
            11 => {
                let ranks = &mut self.ranks;
                self.ledger.send_next(|peer, notice| {
                    ranks[peer as usize].to_rank.push_back(notice);
                    true
                });
            }
            12 => assert!(!self.ledger.send_next(|_, _| false), "what could not be sent counts as sent"),
            13 => self.notify(at),
            14 => self.ranks[at].borrower.expect(100, LANE as u32),
            15 => {
                let sent = self.ranks[at].sent;
                self.ranks[at].borrower.tidy(sent, 8);
            }
            16 => self.ledger.idled(5),
            _ => {
                if let Some(lease) = self.ranks[at].refusals.pop_front() {
                    // It may have been returned meanwhile.
                    let _answer = self.ledger.recall_refused(at as u32, lease);
                }
            }
        }
        self.check();
    }

    fn send(&mut self, at: usize) {
        let rank = &mut self.ranks[at];
        let place = if rank.in_lane < LANE {
            rank.in_lane += 1;
            None
        } else {
            let Some(place) = rank.borrower.place(rank.sent) else { return };
            Some(place)
        };
        rank.sent += 1;
        let need = rank.borrower.take_need(LANE as u32, rank.in_lane == LANE);
        rank.messages.push_back(Message { place, need });
    }

    fn receive(&mut self, at: usize) {
        let Some(Message { place, need }) = self.ranks[at].messages.pop_front() else { return };
        self.ledger.received(place.map(|place| place.block));
        if let Some(place) = place {
            let is_lent = |(peer, lease): (u32, Lease)| {
                peer as usize == at && lease.tag() == place.tag && lease.blocks().contains(&place.block)
            };
            assert!(self.ledger.leases().any(is_lent), "a message in a block that its sender has not");
        }
        self.answer(at, place, need);
    }

    fn answer(&mut self, at: usize, place: Option<Place>, need: Need) {
        let has_more = place.is_some() && !self.ranks[at].messages.is_empty();
        let lease = self.ledger.needs(at as u32, need, has_more);
        if let Some(lease) = lease {
            assert!(lease.blocks().len() <= usize::from(need.blocks()), "more than was asked for");
        }
        self.ranks[at].answers.push_back(Answer { place, asked: !need.is_none(), lease });
    }

    fn see_answer(&mut self, at: usize) {
        let rank = &mut self.ranks[at];
        let Some(Answer { place, asked, lease }) = rank.answers.pop_front() else { return };
        match place {
            Some(place) => rank.borrower.answered(place),
            None => rank.in_lane -= 1,
        }
        if asked {
            assert_eq!(rank.borrower.replied(lease, rank.sent), Ok(()), "no room for what was asked for");
        }
    }

    fn see_notice(&mut self, at: usize) {
        let rank = &mut self.ranks[at];
        match rank.to_rank.pop_front() {
            Some(Notice::Grant(lease)) if !rank.borrower.offered(lease, rank.sent) => {
                self.ledger.returned(at as u32, lease).expect("the offer was open");
            }
            Some(Notice::Recall(lease)) if !rank.borrower.recalled(lease) => rank.refusals.push_back(lease),
            _ => {}
        }
    }

    fn notify(&mut self, at: usize) {
        let rank = &mut self.ranks[at];
        let (in_lane, to_lender) = (&mut rank.in_lane, &mut rank.to_lender);
        rank.borrower.send_next(|notice| {
            if *in_lane == LANE {
                return false;
            }
            *in_lane += 1;
            to_lender.push_back(notice);
            true
        });
    }

    fn see_return(&mut self, at: usize) {
        match self.ranks[at].to_lender.pop_front() {
            Some(Notice::Return(lease)) => {
                self.ledger.returned(at as u32, lease).expect("a lease is returned once");
                self.answer(at, None, Need::NONE);
            }
            Some(Notice::Ask(need)) => self.answer(at, None, need),
            _ => {}
        }
    }

    /// Every lease is at one place: held, offered, granted in an answer, or on its way back.
    fn check(&self) {
        assert!(self.ledger.is_conserved());
        let mut lent = 0;
        for (peer, lease) in self.ledger.leases() {
            let rank = &self.ranks[peer as usize];
            let places = rank.borrower.leases().filter(|held| *held == lease).count()
                + rank.to_rank.iter().filter(|notice| **notice == Notice::Grant(lease)).count()
                + rank.answers.iter().filter(|answer| answer.lease == Some(lease)).count()
                + rank.to_lender.iter().filter(|notice| **notice == Notice::Return(lease)).count();
            assert_eq!(places, 1, "{lease:?} of rank {peer}");
            lent += lease.blocks().len();
        }
        assert_eq!(lent + self.ledger.free_blocks() as usize, BANK);
        for rank in &self.ranks {
            assert!(rank.borrower.blocks() <= HELD_MAX);
            let in_blocks = rank.messages.iter().filter(|message| message.place.is_some()).count();
            assert!(in_blocks <= HELD_MAX * SLOTS as usize);
        }
    }

    /// Everything under way arrives, and nothing more is sent.
    fn settle(&mut self) {
        for _ in 0..200 {
            for at in 0..RANKS {
                for which in [4, 7, 9, 10, 13, 17] {
                    self.event(at, which);
                }
            }
        }
        for rank in &self.ranks {
            assert!(rank.messages.is_empty() && rank.answers.is_empty(), "a message is left");
            assert_eq!(rank.in_lane, 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn credits_are_conserved_in_any_order(events in prop::collection::vec((0..RANKS, 0..18u8), 1..600)) {
        let mut world = World::new();
        for (at, which) in events {
            world.event(at, which);
        }
        world.settle();
        // All leases come back when their holders send elsewhere.
        for at in 0..RANKS {
            world.ranks[at].sent += 1000;
            world.event(at, 15);
        }
        world.settle();
        prop_assert_eq!(world.ledger.free_blocks() as usize, BANK);
    }
}

#[test]
fn the_message_that_takes_the_last_slot_asks() {
    let mut world = World::new();
    for _ in 0..LANE {
        world.event(0, 0);
    }
    let needs: Vec<_> = world.ranks[0].messages.iter().map(|message| message.need).collect();
    assert_eq!(needs, [Need::NONE, Need::of(4)]);
    for _ in 0..LANE {
        world.event(0, 4);
        world.event(0, 7);
    }
    assert_eq!(world.ranks[0].borrower.blocks(), 1);
    // The lane, and a block; then as much again is asked for.
    for _ in 0..LANE + SLOTS as usize {
        world.event(0, 0);
    }
    let mut needs = world.ranks[0].messages.iter().map(|message| message.need).rev();
    assert_eq!(needs.next(), Some(Need::of(2 * (LANE as u32 + SLOTS))));
    assert!(needs.all(Need::is_none));
}

#[test]
fn nothing_is_recalled_for_a_sender_that_the_receiver_keeps_waiting() {
    let (mut ledger, [first, _]) = full();
    ledger.idled(1024);
    assert_eq!(ledger.returned(1, first), Ok(()));
    // Rank 3 waited for this block.
    assert!(matches!(next(&mut ledger), Some((3, Notice::Grant(_)))));
    ledger.idled(1024);
    assert_eq!(ledger.needs(4, Need::of(1), true), None);
    assert_eq!(next(&mut ledger), None);
    assert_eq!(ledger.needs(4, Need::of(1), false), None);
    assert!(matches!(next(&mut ledger), Some((2, Notice::Recall(_)))));
}

#[test]
fn a_hint_asks_before_the_first_message() {
    let mut world = World::new();
    world.event(0, 14);
    for which in [13, 10, 7] {
        world.event(0, which);
    }
    assert_eq!(world.ranks[0].sent, 0);
    assert_eq!(world.ranks[0].borrower.blocks(), 4, "100 credits are 4 blocks");
}

/// A full bank, and a peer that waits.
fn full() -> (Ledger<2>, [Lease; 2]) {
    let mut ledger = Ledger::new(Policy::DEFAULT);
    let leases = [1, 2].map(|peer| ledger.needs(peer, Need::of(1), false).expect("a block is free"));
    assert_eq!(ledger.needs(3, Need::of(1), false), None);
    (ledger, leases)
}

fn next(ledger: &mut Ledger<2>) -> Option<(u32, Notice)> {
    let mut sent = None;
    ledger.send_next(|peer, notice| {
        sent = Some((peer, notice));
        true
    });
    sent
}

#[test]
fn the_lease_used_least_recently_is_recalled_and_lent_to_the_one_that_waits() {
    let (mut ledger, [first, second]) = full();
    for _ in 0..1023 {
        ledger.received(Some(first.first()));
        assert_eq!(next(&mut ledger), None, "a young lease is safe");
    }
    ledger.received(Some(first.first()));
    assert_eq!(next(&mut ledger), Some((2, Notice::Recall(second))));
    assert_eq!(next(&mut ledger), None, "one that waits, one recall");
    assert!(ledger.returned(1, second).is_err(), "it is not rank 1's");
    assert_eq!(ledger.returned(2, second), Ok(()));
    let granted = next(&mut ledger);
    let Some((3, Notice::Grant(third))) = granted else { panic!("{granted:?}") };
    assert_eq!(third.first(), second.first());
    assert_ne!(third.tag(), second.tag());
    assert!(ledger.returned(2, second).is_err(), "an old return");
    assert!(ledger.is_conserved());
}

#[test]
fn an_idle_lender_takes_leases_back() {
    let (mut ledger, [first, _]) = full();
    ledger.idled(1024);
    assert_eq!(next(&mut ledger), Some((1, Notice::Recall(first))));
}

#[test]
fn a_recall_that_comes_before_its_grant_is_made_again_later() {
    let (mut ledger, [first, second]) = full();
    ledger.idled(1024);
    assert_eq!(next(&mut ledger), Some((1, Notice::Recall(first))));
    assert_eq!(ledger.recall_refused(1, first), Ok(()));
    assert_eq!(next(&mut ledger), Some((2, Notice::Recall(second))));
    assert_eq!(ledger.recall_refused(2, second), Ok(()));
    assert_eq!(next(&mut ledger), None);
    ledger.idled(1024);
    assert_eq!(next(&mut ledger), Some((1, Notice::Recall(first))));
}

#[test]
fn a_block_has_another_tag_in_its_next_lease() {
    let mut ledger = Ledger::<2>::new(Policy::DEFAULT);
    let rare = ledger.needs(0, Need::of(1), false).expect("a block is free");
    // The other block takes all tags but one; the rare one's comes up again.
    let mut last = rare.tag();
    for _ in 0..254 {
        let lease = ledger.needs(1, Need::of(1), false).expect("a block is free");
        assert_ne!(lease.tag(), last);
        last = lease.tag();
        assert_eq!(ledger.returned(1, lease), Ok(()));
    }
    assert_eq!(ledger.returned(0, rare), Ok(()));
    let both = ledger.needs(0, Need::from_code(5), false).expect("both are free");
    assert_eq!(both.blocks(), 0..2);
    assert!(both.tag() != rare.tag() && both.tag() != last, "{both:?} after {rare:?} and {last}");
}
