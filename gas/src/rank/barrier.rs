//! The split-phase barrier, with names.
//!
//! A rank that has notified merges what it knows with what others tell it, by dissemination (Hensgen,
//! Finkel, Manber 1988). Merging twice is as merging once, so overlapping rounds do no harm. A line
//! (abi §14.3) has a half for odd and one for even numbers: a rank is one barrier ahead at most.

use super::Rank;
use crate::GasError;
use hamr_comm::abi::window::Words;
use hamr_comm::world::RankId;

/// Words of half a line.
const HALF: u64 = 8;
/// Where in it the number is.
const NUMBER: usize = 7;

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

    fn write(self, to: Words<'_>) {
        let mut words = [0; NUMBER];
        match self {
            Self::Anonymous => {}
            Self::Named { rank, name } => words = [1, name, rank, 0, 0, 0, 0],
            Self::Mismatch { one: (a, x), other: (b, y) } => {
                let named = u32::from(x.is_some()) | u32::from(y.is_some()) << 1;
                words = [2, x.unwrap_or(0), a, y.unwrap_or(0), b, named, 0];
            }
        }
        for (i, value) in words.into_iter().enumerate() {
            if let Some(word) = to.get(i) {
                word.store(value);
            }
        }
    }

    /// Any words are something.
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
}

struct Inside {
    round: u32,
    merged: Merge,
}

impl Barrier {
    pub(crate) const fn new() -> Self {
        Self { number: 0, inside: None }
    }

    /// Is it in a round in which another rank has come?
    pub(crate) fn has_news<S>(&self, rank: &Rank<'_, S>) -> bool {
        self.inside.as_ref().is_some_and(|inside| {
            let line = rank.barrier_words(rank.me(), inside.round, self.number);
            line.and_then(|words| words.get(NUMBER)).is_some_and(|word| word.load() == self.number)
        })
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
            if self.poll_once()? == 0 {
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
        let size = self.size();
        loop {
            let Inside { round, merged } = *self.barrier.inside.as_ref()?;
            if 1 << round >= size {
                return Some(merged);
            }
            let line = self.barrier_words(self.me(), round, self.barrier.number)?;
            // B2, of which B1 is the other end.
            if line.get(NUMBER)?.observe() != self.barrier.number {
                return None;
            }
            let theirs = Merge::read(line);
            // Not a message, and yet what a poll waits for: the next one spins again.
            self.idle = 0;
            self.barrier.inside = Some(Inside { round: round + 1, merged: merged.with(theirs) });
            self.tell();
        }
    }

    /// Tells the rank of this round what is known.
    fn tell(&mut self) {
        let (me, size, number) = (self.me(), self.size(), self.barrier.number);
        let Some(Inside { round, merged }) = self.barrier.inside else { return };
        if 1 << round >= size {
            return;
        }
        let to = RankId((me.0 + (1 << round)) % size);
        if let Some(line) = self.barrier_words(to, round, number)
            && let Some(word) = line.get(NUMBER)
        {
            merged.write(line);
            // B1, of which B2 is the other end.
            word.publish(number);
        }
        self.touched(to);
    }

    /// The half of a barrier line for barriers of this number.
    fn barrier_words(&self, of: RankId, round: u32, number: u32) -> Option<Words<'static>> {
        let line = self.gas.layout().barrier_line(of, round)?;
        self.gas.window().words(line + u64::from(number & 1) * HALF * 4, HALF).ok()
    }

    /// Zeroes the words that this rank writes for others, before they meet in `attach`.
    pub(crate) fn clear_barriers(&mut self) {
        self.barrier = Barrier::new();
        let mut round = 0;
        while 1 << round < self.size() {
            let to = RankId((self.me().0 + (1 << round)) % self.size());
            for number in [0, 1] {
                if let Some(word) = self.barrier_words(to, round, number).and_then(|line| line.get(NUMBER)) {
                    word.store(0);
                }
            }
            round += 1;
        }
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
