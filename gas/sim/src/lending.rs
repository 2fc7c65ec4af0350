//! The flow control of `hamr-gas`: its `Ledger` and `Borrower`, unchanged.

use hamr_gas::credit::{Borrower, Lease, Ledger, Need, Notice, Place, Policy, STEPS_MAX};

use crate::scheme::{LinkId, Links, Scheme};

/// Blocks of a bank.
pub const BANK: usize = 64;
/// Leases in which a rank sent nothing for so many of its messages go back.
const TIDY: u32 = 4096;
/// Idle rounds of 64 take about so long.
const IDLE_TICK: u64 = 1000;

pub(crate) struct Lending {
    lane: u32,
}

/// The ring of a pair's lane in a world of so many ranks.
pub fn lane_ring(ranks: u32) -> u32 {
    match ranks {
        0..=64 => 16,
        65..=256 => 8,
        257..=1024 => 4,
        _ => 2,
    }
}

impl Lending {
    pub(crate) fn new(ranks: u32) -> Self {
        Self { lane: lane_ring(ranks) }
    }
}

pub(crate) struct Rank {
    ledger: Ledger<BANK>,
    sent: u32,
    /// Links on which something is borrowed.
    borrowing: Vec<LinkId>,
    /// Something may have to go back.
    has_drained: bool,
    idle: u64,
}

impl Rank {
    /// Behind each event that moves credits.
    fn check(&self) {
        assert!(self.ledger.is_conserved(), "a credit is lost, or there twice");
    }
}

#[derive(Default)]
pub(crate) struct Out {
    in_lane: u32,
    borrower: Borrower,
}

#[derive(Clone, Copy)]
pub(crate) enum Head {
    Data { place: Option<Place>, need: Need },
    Notice(Notice),
}

#[derive(Clone, Copy)]
pub(crate) struct Tail {
    lease: Option<Lease>,
    /// Of a grant or recall: it was refused.
    refused: bool,
}

impl Scheme for Lending {
    const NAME: &'static str = "blocks";
    const POLLS_LANES: bool = true;
    type Rank = Rank;
    type Out = Out;
    type In = ();
    type Head = Head;
    type Tail = Tail;

    fn rank(&self) -> Rank {
        Rank { ledger: Ledger::new(Policy::DEFAULT), sent: 0, borrowing: Vec::new(), has_drained: false, idle: 0 }
    }

    fn out(&self) -> Out {
        Out::default()
    }

    fn lent(&self) {}

    fn send(&self, rank: &mut Rank, links: &mut Links<Self>, link: LinkId) -> Option<Head> {
        let out = &mut links.at(link).out;
        let place = if out.in_lane < self.lane {
            out.in_lane += 1;
            None
        } else {
            Some(out.borrower.place(rank.sent)?)
        };
        rank.sent += 1;
        let need = out.borrower.take_need(self.lane, out.in_lane == self.lane);
        if rank.sent.is_multiple_of(64) {
            rank.has_drained = true;
            for &link in &rank.borrowing {
                links.at(link).out.borrower.tidy(rank.sent, TIDY);
            }
        }
        Some(Head::Data { place, need })
    }

    fn stalled(&self, _links: &mut Links<Self>, _link: LinkId) {}

    fn serve(&self, rank: &mut Rank, links: &mut Links<Self>, link: LinkId, head: Head) -> Tail {
        let (from, to) = (links.at(link).from, links.at(link).to);
        let has_more = !links.at(link).came.is_empty();
        let mut tail = Tail { lease: None, refused: false };
        match head {
            Head::Data { place, need } => {
                rank.ledger.received(place.map(|place| place.block));
                tail.lease = rank.ledger.needs(from, need, has_more);
            }
            Head::Notice(Notice::Ask(need)) => tail.lease = rank.ledger.needs(from, need, has_more),
            Head::Notice(Notice::Return(lease)) => {
                rank.ledger.returned(from, lease).expect("a lease is returned once, by its holder");
            }
            Head::Notice(Notice::Grant(lease)) => {
                let back = links.open(self, to, from);
                tail.refused = !links.at(back).out.borrower.offered(lease, rank.sent);
                if !tail.refused && !rank.borrowing.contains(&back) {
                    rank.borrowing.push(back);
                }
            }
            Head::Notice(Notice::Recall(lease)) => {
                let back = links.open(self, to, from);
                tail.refused = !links.at(back).out.borrower.recalled(lease);
                rank.has_drained = true;
            }
        }
        if tail.lease.is_some() || Self::is_control(head) {
            rank.check();
        }
        tail
    }

    fn reply(&self, rank: &mut Rank, links: &mut Links<Self>, link: LinkId, head: Head, tail: Tail) {
        let to = links.at(link).to;
        let out = &mut links.at(link).out;
        let (place, asked) = match head {
            Head::Data { place, need } => (place, !need.is_none()),
            Head::Notice(notice) => (None, matches!(notice, Notice::Ask(_))),
        };
        match place {
            None => out.in_lane -= 1,
            Some(place) => out.borrower.answered(place),
        }
        if asked {
            out.borrower.replied(tail.lease, rank.sent).expect("there is room for what was asked for");
            if tail.lease.is_some() && !rank.borrowing.contains(&link) {
                rank.borrowing.push(link);
            }
        }
        match head {
            Head::Notice(Notice::Grant(lease)) if tail.refused => {
                rank.ledger.returned(to, lease).expect("the offer was open");
            }
            Head::Notice(Notice::Recall(lease)) if tail.refused => {
                // Else it was returned before the recall came.
                let _answer = rank.ledger.recall_refused(to, lease);
            }
            _ => return,
        }
        rank.check();
    }

    fn control(&self, me: u32, rank: &mut Rank, links: &mut Links<Self>, out: &mut Vec<(LinkId, Head)>) {
        let mut post = |to: &mut Out, link: LinkId, notice: Notice| {
            let is_free = to.in_lane < self.lane;
            if is_free {
                to.in_lane += 1;
                out.push((link, Head::Notice(notice)));
            }
            is_free
        };
        while rank.ledger.send_next(|peer, notice| {
            let link = links.open(self, me, peer);
            post(&mut links.at(link).out, link, notice)
        }) {
            rank.check();
        }
        if !rank.has_drained {
            return;
        }
        rank.borrowing.retain(|&link| {
            let to = &mut links.at(link).out;
            let mut borrower = std::mem::take(&mut to.borrower);
            while borrower.send_next(|notice| post(to, link, notice)) {}
            let is_empty = borrower.is_empty();
            to.borrower = borrower;
            !is_empty
        });
    }

    fn is_control(head: Head) -> bool {
        matches!(head, Head::Notice(_))
    }

    fn idled(&self, rank: &mut Rank, nanoseconds: u64) {
        rank.idle += nanoseconds;
        rank.ledger.idled((rank.idle / IDLE_TICK) as u32);
        rank.idle %= IDLE_TICK;
    }

    fn most_steps(_rank: &Rank) -> u64 {
        STEPS_MAX as u64
    }

    fn check(&self, me: u32, rank: &Rank, links: &Links<Self>) {
        let mut lent = 0;
        for (peer, lease) in rank.ledger.leases() {
            let held = links.find(peer, me).map(|link| &links.get(link).out.borrower);
            let is_held = held.is_some_and(|borrower| borrower.leases().any(|held| held == lease));
            assert!(is_held, "rank {peer} has not what rank {me} lent it");
            lent += lease.blocks().len();
        }
        assert_eq!(lent + rank.ledger.free_blocks() as usize, BANK);
    }
}
