//! The flow control of GASNet's portals-conduit, as its sources have it: single credits, counters per peer, epochs.
//!
//! "Porting GASNet to Portals", section 4.7, describes it in part; names here are the paper's. A short message costs one
//! credit. The mark of an epoch's end rides on replies and revocations. A receiver takes messages in the order in which
//! they came, since it has one ring for all.

use crate::scheme::{LinkId, Links, Scheme};

/// Credits that a peer always has.
const MIN: u16 = 8;
/// Credits that a peer has at most.
const MAX: u16 = 400;
/// Received requests of an epoch.
const EPOCH: u32 = 1024;
/// Credits that are lent to a peer, or revoked from it, in an epoch.
const LIMIT: u16 = 32;
/// Revocations under way.
const FAN_OUT: usize = 6;

pub(crate) struct Portals {
    ranks: u32,
    per_peer: u16,
    bank: u32,
}

impl Portals {
    /// Its table for chunks of 2,048 bytes, between the rows by a straight line.
    pub(crate) fn new(ranks: u32) -> Self {
        const TABLE: [(u32, u32, u32); 9] = [
            (1, 200, 200),
            (64, 170, 12_800),
            (128, 170, 25_600),
            (512, 64, 25_600),
            (1024, 32, 25_600),
            (2048, 16, 25_600),
            (3072, 12, 25_600),
            (4096, 8, 25_600),
            (u32::MAX, 8, 25_600),
        ];
        let above = TABLE.iter().position(|row| row.0 >= ranks).unwrap_or(0).max(1);
        let (low, high) = (TABLE[above - 1], TABLE[above]);
        let between = |from: u32, to: u32| {
            let share = (f64::from(ranks) - f64::from(low.0)) / (f64::from(high.0) - f64::from(low.0));
            (f64::from(from) + (f64::from(to) - f64::from(from)) * share) as u32
        };
        Self { ranks, per_peer: between(low.1, high.1) as u16, bank: between(low.2, high.2) }
    }
}

pub(crate) struct Rank {
    bank: u32,
    requests: u32,
    /// Links of the peers that have more than the minimum, and where the next walk begins.
    ring: Vec<LinkId>,
    cursor: usize,
    revoking: usize,
    revokes: Vec<LinkId>,
    /// Links whose counters the end of an epoch changes. The conduit walks over all peers.
    contacted: Vec<LinkId>,
    most_steps: u64,
}

pub(crate) struct Out {
    credits: u16,
    in_use: u16,
    max: u16,
    stalls: u16,
    revoked: u16,
    need: u16,
}

pub(crate) struct In {
    loan: u16,
    requested: u16,
    given: u16,
    is_revoking: bool,
    /// It answered a revocation with nothing.
    has_nothing: bool,
    at_epoch: bool,
    is_known: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Head {
    Data { need: u16 },
    Revoke { at_epoch: bool },
}

#[derive(Clone, Copy)]
pub(crate) struct Tail {
    at_epoch: bool,
    /// Granted, or returned.
    credits: u16,
}

impl Out {
    fn end_epoch(&mut self) {
        self.stalls >>= 2;
        self.max >>= 2;
        self.revoked >>= 2;
    }
}

impl Rank {
    fn step(&mut self, steps: u64) {
        self.most_steps = self.most_steps.max(steps);
    }

    fn end_epoch(&mut self, links: &mut Links<Portals>, ranks: u32) {
        self.step(u64::from(ranks));
        for &link in &self.contacted {
            let lent = &mut links.at(link).lent;
            (lent.has_nothing, lent.at_epoch) = (false, true);
            lent.requested >>= 2;
            lent.given >>= 2;
        }
    }

    /// Looks for credits to revoke.
    fn scavenge(&mut self, links: &mut Links<Portals>) {
        let mut steps = 0;
        while steps < self.ring.len() && self.revoking < FAN_OUT {
            let link = self.ring[self.cursor % self.ring.len()];
            self.cursor = (self.cursor + 1) % self.ring.len();
            steps += 1;
            let lent = &mut links.at(link).lent;
            if lent.is_revoking || lent.loan <= MIN || lent.has_nothing || lent.requested > 0 {
                continue;
            }
            lent.is_revoking = true;
            self.revoking += 1;
            self.revokes.push(link);
        }
        self.step(steps as u64);
    }
}

impl Scheme for Portals {
    const NAME: &'static str = "portals";
    const POLLS_LANES: bool = false;
    type Rank = Rank;
    type Out = Out;
    type In = In;
    type Head = Head;
    type Tail = Tail;

    fn rank(&self) -> Rank {
        Rank {
            bank: self.bank,
            requests: 0,
            ring: Vec::new(),
            cursor: 0,
            revoking: 0,
            revokes: Vec::new(),
            contacted: Vec::new(),
            most_steps: 0,
        }
    }

    fn out(&self) -> Out {
        Out { credits: self.per_peer, in_use: 0, max: 0, stalls: 0, revoked: 0, need: 0 }
    }

    fn lent(&self) -> In {
        In {
            loan: self.per_peer,
            requested: 0,
            given: 0,
            is_revoking: false,
            has_nothing: false,
            at_epoch: false,
            is_known: false,
        }
    }

    fn send(&self, _rank: &mut Rank, links: &mut Links<Self>, link: LinkId) -> Option<Head> {
        let out = &mut links.at(link).out;
        if out.credits <= out.in_use {
            return None;
        }
        out.in_use += 1;
        out.max = out.max.max(out.in_use);
        Some(Head::Data { need: std::mem::take(&mut out.need) })
    }

    fn stalled(&self, links: &mut Links<Self>, link: LinkId) {
        let out = &mut links.at(link).out;
        (out.need, out.stalls) = (1, out.stalls.saturating_add(1));
    }

    fn serve(&self, rank: &mut Rank, links: &mut Links<Self>, link: LinkId, head: Head) -> Tail {
        let need = match head {
            Head::Data { need } => need,
            Head::Revoke { at_epoch } => return self.revoked(links, link, at_epoch),
        };
        rank.requests += 1;
        let lent = &mut links.at(link).lent;
        if !lent.is_known {
            lent.is_known = true;
            rank.contacted.push(link);
            if lent.loan > MIN {
                rank.ring.push(link);
            }
        }
        if rank.requests.is_multiple_of(EPOCH) {
            rank.end_epoch(links, self.ranks);
        }
        let lent = &mut links.at(link).lent;
        let mut credits = 0;
        if need > 0 {
            lent.requested = lent.requested.saturating_add(1);
            let is_allowed = lent.given + need <= LIMIT && lent.loan + need <= MAX;
            if is_allowed && rank.bank >= u32::from(need) {
                if lent.loan == MIN {
                    rank.ring.push(link);
                }
                credits = need;
                rank.bank -= u32::from(need);
                lent.given += need;
                lent.loan += need;
            } else if is_allowed {
                rank.scavenge(links);
            }
        }
        let lent = &mut links.at(link).lent;
        Tail { at_epoch: std::mem::take(&mut lent.at_epoch), credits }
    }

    fn reply(&self, rank: &mut Rank, links: &mut Links<Self>, link: LinkId, head: Head, tail: Tail) {
        if let Head::Data { .. } = head {
            let out = &mut links.at(link).out;
            out.in_use -= 1;
            out.credits += tail.credits;
            if tail.at_epoch {
                out.end_epoch();
            }
            return;
        }
        // A revocation goes the other way: it is answered by the borrower.
        let (from, to) = (links.at(link).from, links.at(link).to);
        let back = links.find(to, from).expect("what is revoked was lent");
        let lent = &mut links.at(back).lent;
        lent.is_revoking = false;
        rank.revoking -= 1;
        match tail.credits {
            0 => lent.has_nothing = true,
            credits => {
                lent.loan -= credits;
                rank.bank += u32::from(credits);
                if lent.loan == MIN {
                    rank.ring.retain(|&other| other != back);
                }
            }
        }
    }

    fn control(&self, me: u32, rank: &mut Rank, links: &mut Links<Self>, out: &mut Vec<(LinkId, Head)>) {
        for link in rank.revokes.drain(..) {
            let peer = links.at(link).from;
            let at_epoch = std::mem::take(&mut links.at(link).lent.at_epoch);
            out.push((links.open(self, me, peer), Head::Revoke { at_epoch }));
        }
    }

    fn is_control(head: Head) -> bool {
        matches!(head, Head::Revoke { .. })
    }

    fn most_steps(rank: &Rank) -> u64 {
        rank.most_steps
    }

    fn check(&self, me: u32, rank: &Rank, links: &Links<Self>) {
        let mut lent = u64::from(rank.bank);
        for &link in &rank.contacted {
            let link = links.get(link);
            assert_eq!(link.lent.loan, link.out.credits, "rank {} has not what rank {me} lent it", link.from);
            lent += u64::from(link.lent.loan);
        }
        let all = u64::from(self.bank) + rank.contacted.len() as u64 * u64::from(self.per_peer);
        assert_eq!(lent, all, "credits of rank {me} are lost");
    }
}

impl Portals {
    /// The borrower's answer to a revocation.
    fn revoked(&self, links: &mut Links<Self>, link: LinkId, at_epoch: bool) -> Tail {
        let (from, to) = (links.at(link).from, links.at(link).to);
        let back = links.find(to, from).expect("what is revoked was lent");
        let out = &mut links.at(back).out;
        if at_epoch {
            out.end_epoch();
        }
        let mut credits = 0;
        if out.stalls == 0 && out.revoked < LIMIT {
            // The decayed maximum may be below what is in use.
            let keep = MIN.max(out.max).max(out.in_use);
            credits = out.credits.saturating_sub(keep).min(LIMIT - out.revoked);
        }
        out.credits -= credits;
        out.revoked += credits;
        Tail { at_epoch: false, credits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_conduits() {
        let of = |ranks| {
            let Portals { per_peer, bank, .. } = Portals::new(ranks);
            (per_peer, bank)
        };
        assert_eq!(
            [of(64), of(96), of(768), of(4096), of(100_000)],
            [(170, 12_800), (170, 19_200), (48, 25_600), (8, 25_600), (8, 25_600)]
        );
    }
}
