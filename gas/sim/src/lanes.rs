//! No flow control but the lane of each pair: what messages between programs have (`docs/gas.md`). 17 slots have 0.99 of the
//! rate of slots without end, with 2 and 64 ranks, near and far; 9 have 0.80 of it from far, 5 have 0.45.

use crate::scheme::{LinkId, Links, Scheme};

/// Lanes of so many slots.
pub(crate) struct Lanes {
    pub(crate) slots: u32,
}

impl Scheme for Lanes {
    const NAME: &'static str = "lanes";
    const POLLS_LANES: bool = true;
    type Rank = ();
    /// Slots without an answer.
    type Out = u32;
    type In = ();
    type Head = ();
    type Tail = ();

    fn rank(&self) {}
    fn out(&self) -> u32 {
        0
    }
    fn lent(&self) {}
    fn send(&self, (): &mut (), links: &mut Links<Self>, link: LinkId) -> Option<()> {
        let used = &mut links.at(link).out;
        (*used < self.slots).then(|| *used += 1)
    }
    fn stalled(&self, _links: &mut Links<Self>, _link: LinkId) {}
    fn serve(&self, (): &mut (), _links: &mut Links<Self>, _link: LinkId, (): ()) {}
    fn reply(&self, (): &mut (), links: &mut Links<Self>, link: LinkId, (): (), (): ()) {
        links.at(link).out -= 1;
    }
    fn control(&self, _me: u32, (): &mut (), _links: &mut Links<Self>, _out: &mut Vec<(LinkId, ())>) {}
    fn is_control((): ()) -> bool {
        false
    }
    fn most_steps((): &()) -> u64 {
        0
    }
    fn check(&self, _me: u32, (): &(), links: &Links<Self>) {
        assert!((0..links.len()).all(|link| links.get(link as LinkId).out == 0), "a slot is lost");
    }
}
