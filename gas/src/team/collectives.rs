//! Collectives of a team.

use super::Team;
use crate::collective::{Collective, CollectiveCall};
use crate::{GasError, Rank};
use bytemuck::Pod;

/// Bytes that are joined at a time.
const JOINED: usize = 256;

impl Team {
    /// Returns when all members have called it (`gex_Coll_BarrierNB`, and its wait).
    ///
    /// # Errors
    /// [`GasError::Unequal`], as of all collectives: a member is in another one, or has another length, root or size of
    /// elements. All members have it, and the next collective is as any. Types are not compared otherwise.
    pub fn barrier<S>(&mut self, rank: &mut Rank<'_, S>) -> Result<(), GasError> {
        self.exchange(rank, CollectiveCall::new(Collective::Barrier, 0, 0, None), &[])
    }

    /// Copies the data of the member `root` to all (`gex_Coll_BroadcastNB`).
    pub fn broadcast<S, T: Pod>(&mut self, rank: &mut Rank<'_, S>, root: u32, data: &mut [T]) -> Result<(), GasError> {
        if root >= self.size() {
            return Err(GasError::NoRank(root));
        }
        let data: &mut [u8] = bytemuck::cast_slice_mut(data);
        let call = CollectiveCall::new(Collective::Broadcast, data.len(), size_of::<T>(), Some(root));
        if data.is_empty() {
            return self.exchange(rank, call, &[]);
        }
        for part in data.chunks_mut(Self::PART) {
            let mine: &[u8] = if self.me == root { part } else { &[] };
            self.exchange(rank, call, mine)?;
            if self.me != root {
                self.hear(rank, root, 0, part)?;
            }
        }
        Ok(())
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
    /// at every member (`gex_Coll_ReduceToAllNB`). `join` may be any function.
    pub fn reduce_to_all<S, T: Pod>(
        &mut self,
        rank: &mut Rank<'_, S>,
        data: &mut [T],
        join: impl FnMut(T, T) -> T,
    ) -> Result<(), GasError> {
        self.reduce(rank, None, data, join)
    }

    /// The same at the member `root` (`gex_Coll_ReduceToOneNB`); the others' data stay as they are.
    pub fn reduce_to_one<S, T: Pod>(
        &mut self,
        rank: &mut Rank<'_, S>,
        root: u32,
        data: &mut [T],
        join: impl FnMut(T, T) -> T,
    ) -> Result<(), GasError> {
        if root >= self.size() {
            return Err(GasError::NoRank(root));
        }
        self.reduce(rank, Some(root), data, join)
    }

    fn reduce<S, T: Pod>(
        &mut self,
        rank: &mut Rank<'_, S>,
        root: Option<u32>,
        data: &mut [T],
        mut join: impl FnMut(T, T) -> T,
    ) -> Result<(), GasError> {
        const { assert!(size_of::<T>() <= JOINED && size_of::<T>() > 0, "hamr: an element of 1 to 256 bytes") };
        let call = CollectiveCall::new(Collective::Reduce, size_of_val(data), size_of::<T>(), root);
        if data.is_empty() {
            return self.exchange(rank, call, &[]);
        }
        for part in data.chunks_mut(Self::PART / size_of::<T>()) {
            self.exchange(rank, call, bytemuck::cast_slice(part))?;
            if root.is_some_and(|root| root != self.me) {
                continue;
            }
            let mut from = 0;
            for piece in part.chunks_mut(JOINED / size_of::<T>()) {
                let (mut said, mut mine) = ([0; JOINED], [0; JOINED]);
                let (said, _) = said.split_at_mut(size_of_val(piece));
                let (mine, _) = mine.split_at_mut(said.len());
                mine.copy_from_slice(bytemuck::cast_slice(piece));
                for member in 0..self.size() {
                    if member == self.me {
                        said.copy_from_slice(mine);
                    } else {
                        self.hear(rank, member, from, said)?;
                    }
                    for (to, bytes) in piece.iter_mut().zip(said.chunks_exact(size_of::<T>())) {
                        let value = bytemuck::pod_read_unaligned(bytes);
                        *to = if member == 0 { value } else { join(*to, value) };
                    }
                }
                from += said.len();
            }
        }
        Ok(())
    }
}
