//! The split-phase barrier, with names.
//!
//! A rank that has notified merges what it knows with what others tell it, by dissemination (Hensgen,
//! Finkel, Manber 1988). Merging twice is as merging once, so overlapping rounds do no harm. A line
//! (abi §14.3) has a half for odd and one for even numbers: a rank is one barrier ahead at most.

use super::Rank;
use crate::GasError;
use hamr_comm::abi::window::{Word, Words};
use hamr_comm::world::RankId;

/// Words of half a line.
const HALF: u64 = 8;
/// Rounds of the most ranks.
const ROUNDS: usize = super::MAX_RANKS.next_power_of_two().ilog2() as usize;
/// Where in it the number is.
const NUMBER: usize = 7;
/// Looks at a line between two polls.
const LOOKS: u32 = 16;

/// What a rank calls a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BarrierName {
    /// Nothing in particular (`GASNET_BARRIERFLAG_ANONYMOUS`).
    Anonymous,
    /// This number, as all others that name it.
    Named(u32),
    /// Something else than all others (`GASNET_BARRIERFLAG_MISMATCH`).
    Mismatch,
}

/// What ranks have said so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Merge {
    Anonymous,
    Named {
        rank: u32,
        name: u32,
    },
    /// Two ranks and their names. `None`: that rank asked for a mismatch.
    Mismatch {
        one: (u32, Option<u32>),
        other: (u32, Option<u32>),
    },
}

impl Merge {
    fn of(rank: RankId, name: BarrierName) -> Self {
        match name {
            BarrierName::Anonymous => Self::Anonymous,
            BarrierName::Named(name) => Self::Named { rank: rank.0, name },
            BarrierName::Mismatch => Self::Mismatch { one: (rank.0, None), other: (rank.0, None) },
        }
    }

    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Anonymous, any) | (any, Self::Anonymous) => any,
            (found @ Self::Mismatch { .. }, _) | (_, found @ Self::Mismatch { .. }) => found,
            (Self::Named { name, .. }, Self::Named { name: same, .. }) if name == same => self,
            (Self::Named { rank, name }, Self::Named { rank: there, name: another }) => {
                Self::Mismatch { one: (rank, Some(name)), other: (there, Some(another)) }
            }
        }
    }

    /// Writes the words that are read again.
    #[inline]
    fn write(self, to: Words<'_>) {
        let put = |i, value| {
            if let Some(word) = to.get(i) {
                word.store(value);
            }
        };
        match self {
            Self::Anonymous => put(0, 0),
            Self::Named { rank, name } => {
                put(0, 1);
                put(1, name);
                put(2, rank);
            }
            Self::Mismatch { one: (a, x), other: (b, y) } => {
                let named = u32::from(x.is_some()) | u32::from(y.is_some()) << 1;
                (0..).zip([2, x.unwrap_or(0), a, y.unwrap_or(0), b, named]).for_each(|(i, value)| put(i, value));
            }
        }
    }

    /// Any words are something.
    #[inline]
    fn read(from: Words<'_>) -> Self {
        let word = |i| from.get(i).map_or(0, |word| word.load());
        match word(0) {
            0 => Self::Anonymous,
            1 => Self::Named { rank: word(2), name: word(1) },
            _ => {
                let name = |bit, i| (word(5) & bit != 0).then(|| word(i));
                Self::Mismatch { one: (word(2), name(1, 1)), other: (word(4), name(2, 3)) }
            }
        }
    }
}

/// This rank's place in its barriers.
pub(crate) struct Barrier {
    /// Of the last one that it notified.
    number: u32,
    /// Between notify and the end of its wait.
    inside: Option<Inside>,
    /// Where the number comes that this rank waits for, in a round.
    told: Option<Word<'static>>,
    rounds: heapless::Vec<Round, ROUNDS>,
}

/// A round: whom this rank tells, and the halves of the lines in which it tells and is told.
struct Round {
    to: RankId,
    theirs: [Words<'static>; 2],
    mine: [Words<'static>; 2],
}

struct Inside {
    round: usize,
    merged: Merge,
}

impl Barrier {
    pub(crate) const fn new() -> Self {
        Self { number: 0, inside: None, told: None, rounds: heapless::Vec::new() }
    }

    /// Is it in a round in which another rank has come?
    #[inline(always)]
    pub(crate) fn has_news(&self) -> bool {
        self.told.is_some_and(|word| word.load() == self.number)
    }

    /// The same, looked at some times in a row: a rank that is near comes sooner than a poll of all lanes ends.
    #[inline]
    fn comes_soon(&self) -> bool {
        (0..LOOKS).any(|_| self.has_news())
    }
}

impl<S> Rank<'_, S> {
    /// Says that this rank has come to the barrier (`gasnet_barrier_notify`).
    ///
    /// # Errors
    /// [`GasError::BarrierOrder`]: it has, and did not wait.
    pub fn barrier_notify(&mut self, name: BarrierName) -> Result<(), GasError> {
        self.attached()?;
        if self.barrier.inside.is_some() {
            return Err(GasError::BarrierOrder { notified: true });
        }
        self.barrier.number = self.barrier.number.wrapping_add(1);
        self.barrier.inside = Some(Inside { round: 0, merged: Merge::of(self.me(), name) });
        self.tell();
        Ok(())
    }

    /// Waits until all ranks have come (`gasnet_barrier_wait`), and serves messages meanwhile. Returns the
    /// name that they agree on; `None` if no rank has given one (`gasnet_barrier_result`).
    ///
    /// # Errors
    /// [`GasError::BarrierNames`]: two ranks have different names, or one asked for a mismatch, or `name`
    /// differs from what all agree on. The barrier is over nevertheless.
    pub fn barrier_wait(&mut self, name: BarrierName) -> Result<Option<u32>, GasError> {
        loop {
            if let Some(agreed) = self.barrier_try(name)? {
                return Ok(agreed);
            }
            if !self.barrier.comes_soon() && self.poll_once()? == 0 {
                self.rest()?;
            }
        }
    }

    /// The same without waiting (`gasnet_barrier_try`). `None`: not all have come.
    pub fn barrier_try(&mut self, name: BarrierName) -> Result<Option<Option<u32>>, GasError> {
        self.attached()?;
        if self.barrier.inside.is_none() {
            return Err(GasError::BarrierOrder { notified: false });
        }
        let Some(merged) = self.advance() else { return Ok(None) };
        self.barrier.inside = None;
        // A name that differs from the agreed one is a mismatch here; where none was given, any name is right.
        let agreed = match (merged, name) {
            (Merge::Anonymous, BarrierName::Named(_)) => merged,
            _ => merged.with(Merge::of(self.me(), name)),
        };
        match agreed {
            Merge::Anonymous => Ok(Some(None)),
            Merge::Named { name, .. } => Ok(Some(Some(name))),
            Merge::Mismatch { one, other } => Err(GasError::BarrierNames { one, other }),
        }
    }

    /// Notifies and waits (`gasnet_barrier`).
    pub fn barrier(&mut self, name: BarrierName) -> Result<Option<u32>, GasError> {
        self.barrier_notify(name)?;
        self.barrier_wait(name)
    }

    /// Goes through the rounds whose ranks have come. The names of all, behind the last one.
    fn advance(&mut self) -> Option<Merge> {
        loop {
            let Barrier { number, inside, told, rounds } = &mut self.barrier;
            let inside = inside.as_mut()?;
            // Behind the last round.
            let Some(word) = told else { return Some(inside.merged) };
            // B2, of which B1 is the other end.
            if word.observe() != *number {
                return None;
            }
            let line = rounds.get(inside.round)?.mine.get((*number & 1) as usize)?;
            match Merge::read(*line) {
                Merge::Anonymous => {}
                heard => inside.merged = inside.merged.with(heard),
            }
            inside.round += 1;
            // Not a message, and yet what a poll waits for: the next one spins again.
            self.idle = 0;
            self.tell();
        }
    }

    /// Tells the rank of this round, if there is one, what is known.
    fn tell(&mut self) {
        let Barrier { number, inside: Some(Inside { round, merged }), told, rounds } = &mut self.barrier else {
            return;
        };
        let (number, side) = (*number, (*number & 1) as usize);
        let Some(Round { to, theirs, mine }) = rounds.get(*round) else {
            *told = None;
            return;
        };
        let to = *to;
        *told = mine.get(side).and_then(|line| line.get(NUMBER));
        if let Some(line) = theirs.get(side)
            && let Some(word) = line.get(NUMBER)
        {
            merged.write(*line);
            // B1, of which B2 is the other end.
            word.publish(number);
        }
        self.touched(to);
    }

    /// The lines of all rounds; zeroes the words that this rank writes for others, before they meet in `attach`. `None`: one
    /// lies outside, in no layout that was checked.
    pub(crate) fn clear_barriers(&mut self) -> Option<()> {
        self.barrier = Barrier::new();
        let halves = |of, round| {
            let line = self.gas.layout().barrier_line(of, round)?;
            let half = |off| self.gas.window().words(line + off * 4, HALF).ok();
            Some([half(0)?, half(HALF)?])
        };
        let mut round = 0;
        while 1 << round < self.size() {
            let to = RankId((self.me().0 + (1 << round)) % self.size());
            let (theirs, mine) = (halves(to, round)?, halves(self.me(), round)?);
            theirs.iter().filter_map(|half| half.get(NUMBER)).for_each(|word| word.store(0));
            self.barrier.rounds.push(Round { to, theirs, mine }).ok()?;
            round += 1;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::abi::window::Window;
    use proptest::prelude::*;

    fn merge() -> impl Strategy<Value = Merge> {
        let side = || (0..4_u32, proptest::option::of(0..4_u32));
        prop_oneof![
            Just(Merge::Anonymous),
            (0..4_u32, 0..4_u32).prop_map(|(rank, name)| Merge::Named { rank, name }),
            (side(), side()).prop_map(|(one, other)| Merge::Mismatch { one, other }),
        ]
    }

    /// What ranks learn, without who said it.
    fn kind(merge: Merge) -> Option<Option<u32>> {
        match merge {
            Merge::Anonymous => Some(None),
            Merge::Named { name, .. } => Some(Some(name)),
            Merge::Mismatch { .. } => None,
        }
    }

    proptest! {
        #[test]
        fn the_order_of_merging_changes_nothing(a in merge(), b in merge(), c in merge()) {
            prop_assert_eq!(a.with(a), a);
            prop_assert_eq!(kind(a.with(b)), kind(b.with(a)));
            prop_assert_eq!(kind(a.with(b).with(c)), kind(a.with(b.with(c))));
        }

        #[test]
        fn a_line_has_what_was_merged(merge in merge()) {
            let window = Window::private(64).leak();
            let words = window.words(32, HALF).expect("inside");
            merge.write(words);
            prop_assert_eq!(Merge::read(words), merge);
        }
    }
}
