//! Collectives of a team.

use super::Team;
use crate::collective::{Collective, CollectiveCall};
use crate::{GasError, Rank};
use bytemuck::Pod;

/// Bytes that are joined at a time.
const JOINED: usize = 256;

/// A collective that was begun. It goes on in [`Self::test`] and [`Self::wait`]; a team has one at a time. Dropped
/// before its end it is over for this member: the data may be anything, and members in a later step of it find
/// this one's next collective unequal.
#[must_use = "it goes on when it is tested, or waited for"]
pub struct Begun<'a, T = u8, J = fn(u8, u8) -> u8> {
    team: &'a mut Team,
    call: CollectiveCall,
    data: &'a mut [T],
    /// Elements that are through, and those of a step.
    from: usize,
    step: usize,
    is_done: bool,
    join: J,
}

impl<'a, T: Pod, J: FnMut(T, T) -> T> Begun<'a, T, J> {
    fn new<S>(
        team: &'a mut Team,
        rank: &mut Rank<'_, S>,
        call: CollectiveCall,
        data: &'a mut [T],
        join: J,
    ) -> Result<Self, GasError> {
        if let Some(root) = call.root.map(u32::from).filter(|root| *root >= team.size()) {
            return Err(GasError::NoRank(root));
        }
        let mut this = Self { team, call, data, from: 0, step: Team::PART / size_of::<T>(), is_done: false, join };
        this.say(rank)?;
        Ok(this)
    }

    /// Has it ended (`gex_Event_Test`)? It does not poll, and after an error it has.
    ///
    /// # Errors
    /// As of [`Team::barrier`].
    pub fn test<S>(&mut self, rank: &mut Rank<'_, S>) -> Result<bool, GasError> {
        while !self.is_done {
            match self.team.has_come(rank) {
                Ok(false) => return Ok(false),
                Ok(true) => {}
                Err(why) => {
                    self.is_done = true;
                    return Err(why);
                }
            }
            self.take(rank)?;
            self.from += self.step;
            self.is_done = self.from >= self.data.len();
            if !self.is_done {
                self.say(rank)?;
            }
        }
        Ok(true)
    }

    /// Waits until it has ended, and serves messages meanwhile (`gex_Event_Wait`).
    ///
    /// # Errors
    /// As of [`Team::barrier`].
    pub fn wait<S>(mut self, rank: &mut Rank<'_, S>) -> Result<(), GasError> {
        while !self.test(rank)? {
            self.team.rest(rank)?;
        }
        Ok(())
    }

    /// Begins a step.
    fn say<S>(&mut self, rank: &mut Rank<'_, S>) -> Result<(), GasError> {
        let part = self.data.chunks(self.step).nth(self.from / self.step).unwrap_or_default();
        let says = self.call.what == Collective::Reduce || self.call.root.map(u32::from) == Some(self.team.me);
        self.team.say(rank, self.call, if says { bytemuck::cast_slice(part) } else { &[] })
    }

    /// All have come to a step.
    fn take<S>(&mut self, rank: &Rank<'_, S>) -> Result<(), GasError> {
        let (me, root) = (self.team.me, self.call.root.map(u32::from));
        let Some(part) = self.data.chunks_mut(self.step).nth(self.from / self.step) else { return Ok(()) };
        match (self.call.what, root) {
            (Collective::Broadcast, Some(root)) if root != me => {
                self.team.hear(rank, root, 0, bytemuck::cast_slice_mut(part))
            }
            (Collective::Reduce, root) if root.is_none_or(|root| root == me) => {
                join_all(self.team, rank, part, &mut self.join)
            }
            _ => Ok(()),
        }
    }
}

/// Joins what all members have said with this one's part, in the order of their places.
fn join_all<S, T: Pod>(
    team: &Team,
    rank: &Rank<'_, S>,
    part: &mut [T],
    join: &mut impl FnMut(T, T) -> T,
) -> Result<(), GasError> {
    let mut from = 0;
    for piece in part.chunks_mut(JOINED / size_of::<T>()) {
        let (mut said, mut mine) = ([0; JOINED], [0; JOINED]);
        let (said, _) = said.split_at_mut(size_of_val(piece));
        let (mine, _) = mine.split_at_mut(said.len());
        mine.copy_from_slice(bytemuck::cast_slice(piece));
        for member in 0..team.size() {
            if member == team.me {
                said.copy_from_slice(mine);
            } else {
                team.hear(rank, member, from, said)?;
            }
            for (to, bytes) in piece.iter_mut().zip(said.chunks_exact(size_of::<T>())) {
                let value = bytemuck::pod_read_unaligned(bytes);
                *to = if member == 0 { value } else { join(*to, value) };
            }
        }
        from += said.len();
    }
    Ok(())
}

fn first(x: u8, _: u8) -> u8 {
    x
}

impl Team {
    /// Returns when all members have called it (`gex_Coll_BarrierNB`, and its wait).
    ///
    /// # Errors
    /// [`GasError::Unequal`], as of all collectives: a member is in another one, or has another length, root or size of
    /// elements. All members have it, and the next collective is as any. Types are not compared otherwise.
    pub fn barrier<S>(&mut self, rank: &mut Rank<'_, S>) -> Result<(), GasError> {
        self.begin_barrier(rank)?.wait(rank)
    }

    /// [`Self::barrier`] without waiting (`gex_Coll_BarrierNB`), as `begin_…` of the others.
    pub fn begin_barrier<S>(&mut self, rank: &mut Rank<'_, S>) -> Result<Begun<'_>, GasError> {
        Begun::new(self, rank, CollectiveCall::new(Collective::Barrier, 0, 0, None), &mut [], first)
    }

    /// Copies the data of the member `root` to all (`gex_Coll_BroadcastNB`, and its wait).
    pub fn broadcast<S, T: Pod>(&mut self, rank: &mut Rank<'_, S>, root: u32, data: &mut [T]) -> Result<(), GasError> {
        self.begin_broadcast(rank, root, data)?.wait(rank)
    }

    /// [`Self::broadcast`] without waiting.
    pub fn begin_broadcast<'a, S, T: Pod>(
        &'a mut self,
        rank: &mut Rank<'_, S>,
        root: u32,
        data: &'a mut [T],
    ) -> Result<Begun<'a>, GasError> {
        let call = CollectiveCall::new(Collective::Broadcast, size_of_val(data), size_of::<T>(), Some(root));
        Begun::new(self, rank, call, bytemuck::cast_slice_mut(data), first)
    }

    /// What all members say, in the order of their places, at all of them. `all` is as long as the members' data
    /// together, which have the same length.
    pub fn gather<S, T: Pod>(&mut self, rank: &mut Rank<'_, S>, mine: &[T], all: &mut [T]) -> Result<(), GasError> {
        let (mine, all): (&[u8], &mut [u8]) = (bytemuck::cast_slice(mine), bytemuck::cast_slice_mut(all));
        let wanted = mine.len() * self.members.len();
        if all.len() != wanted {
            return Err(GasError::TooLong { len: all.len(), max: wanted });
        }
        let call = CollectiveCall::new(Collective::Gather, mine.len(), size_of::<T>(), None);
        if wanted == 0 {
            return self.exchange(rank, call, &[]);
        }
        for (from, part) in (0..).step_by(Self::PART).zip(mine.chunks(Self::PART)) {
            self.exchange(rank, call, part)?;
            for (member, to) in (0..).zip(all.chunks_exact_mut(mine.len())) {
                let Some(to) = to.get_mut(from..from + part.len()) else { continue };
                if member == self.me {
                    to.copy_from_slice(part);
                } else {
                    self.hear(rank, member, 0, to)?;
                }
            }
        }
        Ok(())
    }

    /// Joins the data of all members, element by element, in the order of their places: the same bits in every run and
    /// at every member (`gex_Coll_ReduceToAllNB`, and its wait). `join` may be any function.
    pub fn reduce_to_all<S, T: Pod>(
        &mut self,
        rank: &mut Rank<'_, S>,
        data: &mut [T],
        join: impl FnMut(T, T) -> T,
    ) -> Result<(), GasError> {
        self.begin_reduce(rank, None, data, join)?.wait(rank)
    }

    /// The same at the member `root` (`gex_Coll_ReduceToOneNB`, and its wait); the others' data stay as they are.
    pub fn reduce_to_one<S, T: Pod>(
        &mut self,
        rank: &mut Rank<'_, S>,
        root: u32,
        data: &mut [T],
        join: impl FnMut(T, T) -> T,
    ) -> Result<(), GasError> {
        self.begin_reduce(rank, Some(root), data, join)?.wait(rank)
    }

    /// [`Self::reduce_to_one`] without waiting; without a root [`Self::reduce_to_all`].
    pub fn begin_reduce<'a, S, T: Pod, J: FnMut(T, T) -> T>(
        &'a mut self,
        rank: &mut Rank<'_, S>,
        root: Option<u32>,
        data: &'a mut [T],
        join: J,
    ) -> Result<Begun<'a, T, J>, GasError> {
        const { assert!(size_of::<T>() <= JOINED && size_of::<T>() > 0, "hamr: an element of 1 to 256 bytes") };
        let call = CollectiveCall::new(Collective::Reduce, size_of_val(data), size_of::<T>(), root);
        Begun::new(self, rank, call, data, join)
    }
}
