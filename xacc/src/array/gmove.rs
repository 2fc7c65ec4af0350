//! Assignments between arrays that are distributed in any way.

use super::Array;
use super::section::{Section, SectionMut, Sent, Source, copy_beside, copy_here, outside, slice};
use crate::collective::{Number, Op};
use crate::dist::NodeSet;
use crate::exchange::{self, turned};
use crate::fingerprint::{mix, of_name};
use crate::plan::Gmove;
use crate::spmd::Spmd;
use crate::what::{Kind, What};
use core::ops::Range;
use core::panic::Location;
use hamr_comm::world::{RankId, WorldRef};
use hamr_comm::{Element, Fault};

/// Elements that are read at once to be combined.
const CHUNK: usize = 128;

impl<T: Element, const M: usize> Source<T> for &Array<'_, T, M> {
    #[track_caller]
    fn send<const N: usize>(self, to: &mut SectionMut<'_, '_, T, N>, w: &mut Spmd<'_>) -> Result<Sent, Fault> {
        Section { array: self, region: self.whole() }.send(to, w)
    }
}

impl<T: Element, const M: usize> Source<T> for Section<'_, '_, T, M> {
    #[track_caller]
    fn send<const N: usize>(self, to: &mut SectionMut<'_, '_, T, N>, w: &mut Spmd<'_>) -> Result<Sent, Fault> {
        let (fabric, from) = (w.fabric(), self.array);
        to.array.is_free(w)?;
        from.is_free(w)?;
        let Array { desc, piece, id, .. } = &mut *to.array;
        // Closed before a node is told that it may write here; open again once all have.
        let open = *desc;
        let plan = Gmove::new(&open, to.region, &from.desc, self.region)?;
        let what = What::new(Kind::GMOVE, w.set(), Location::caller());
        let what = what.of(piece.off(), mix(mix(*id, from.id), plan.hash()));
        desc.close();
        let (me, size, world) = (fabric.me, size_of::<T>(), fabric.world());
        let (destinations, sources) = (plan.destinations(me), plan.sources(me));
        exchange::begin(fabric, &what, destinations, sources, |rank| {
            for copy in plan.copies(me, rank) {
                exchange::strided(&copy, size, |at, there, shape| {
                    Ok(from.piece.put_strided(world, at, RankId(rank), piece.off() + there as u64, shape)?)
                })?;
            }
            Ok(())
        })?;
        let alone = sources.is_within(NodeSet::one(me));
        for copy in plan.copies(me, me) {
            if alone {
                copy_here(&copy, from.piece.as_slice(), piece.as_mut_slice());
            } else {
                copy_beside(&copy, &from.piece, piece)?;
            }
        }
        Ok(Sent { what, sources })
    }
}

impl<T: Element> Source<T> for &[T] {
    #[track_caller]
    fn send<const N: usize>(self, to: &mut SectionMut<'_, '_, T, N>, w: &mut Spmd<'_>) -> Result<Sent, Fault> {
        to.array.is_free(w)?;
        let me = w.fabric().me;
        let (from, all) = slice::<T, N>(to.region, self.len(), w.set(), me)?;
        for copy in Gmove::new(&to.array.desc, to.region, &from, all)?.copies(me, me) {
            copy_here(&copy, self, to.array.piece.as_mut_slice());
        }
        Ok(Sent { what: What::new(Kind::GMOVE, w.set(), Location::caller()), sources: NodeSet::EMPTY })
    }
}

impl<T: Element> Source<T> for T {
    #[track_caller]
    fn send<const N: usize>(self, to: &mut SectionMut<'_, '_, T, N>, w: &mut Spmd<'_>) -> Result<Sent, Fault> {
        to.array.is_free(w)?;
        to.map(|_| self)?;
        Ok(Sent { what: What::new(Kind::GMOVE, w.set(), Location::caller()), sources: NodeSet::EMPTY })
    }
}

impl<T: Element, const N: usize> Array<'_, T, N> {
    /// Assigns to all elements, whatever nodes they are on. All nodes of the executing set call this.
    /// A value and a slice are those of each node itself, which assigns them to its own elements.
    ///
    /// # Errors
    /// The shapes differ; a node is in another collective; an exchange of an array is not finished.
    #[track_caller]
    pub fn gmove(&mut self, from: impl Source<T>, w: &mut Spmd<'_>) -> Result<(), Fault> {
        let region = self.whole();
        SectionMut { array: self, region }.gmove(from, w)
    }

    /// Begins a [`Self::gmove`], which [`Self::gmove_finish`] ends. Until then no element of this array
    /// can be used; those of the source can.
    ///
    /// # Errors
    /// As [`Self::gmove`]; too many are not finished.
    #[track_caller]
    pub fn gmove_start(&mut self, from: impl Source<T>, w: &mut Spmd<'_>) -> Result<(), Fault> {
        let region = self.whole();
        SectionMut { array: self, region }.gmove_start(from, w)
    }

    /// Waits until all elements are there.
    ///
    /// # Errors
    /// None has begun; the wait was interrupted.
    #[track_caller]
    pub fn gmove_finish(&mut self, w: &mut Spmd<'_>) -> Result<(), Fault> {
        if self.pending.is_none() {
            return Err(Fault::msg("no gmove to this array has begun"));
        }
        self.finish(w)
    }

    /// Copies all elements to a slice on every node, in row-major order.
    ///
    /// # Errors
    /// As [`Self::gmove`]; the slice has another length than the array.
    #[track_caller]
    pub fn gather(&self, to: &mut [T], w: &mut Spmd<'_>) -> Result<(), Fault> {
        Section { array: self, region: self.whole() }.gather(to, w)
    }
}

impl<T: Element, const M: usize> Section<'_, '_, T, M> {
    /// Copies its elements to a slice on every node, in row-major order.
    ///
    /// # Errors
    /// As [`Array::gather`].
    #[track_caller]
    pub fn gather(&self, to: &mut [T], w: &mut Spmd<'_>) -> Result<(), Fault> {
        let (fabric, from) = (w.fabric(), self.array);
        from.is_free(w)?;
        let (desc, all) = slice::<T, M>(self.region, to.len(), w.set(), fabric.me)?;
        let plan = Gmove::new(&desc, all, &from.desc, self.region)?;
        let what = What::new(Kind::GATHER, w.set(), Location::caller()).of(from.piece.off(), mix(from.id, plan.hash()));
        let (me, size, world) = (fabric.me, size_of::<T>(), fabric.world());
        // The slice is no memory of the world: each node reads what it needs, and says when it has.
        let (owners, readers) = (plan.sources(me), plan.destinations(me));
        exchange::begin(fabric, &what, owners, readers, |rank| {
            for copy in plan.copies(rank, me) {
                exchange::strided(&copy, size, |there, at, shape| {
                    let to = bytemuck::cast_slice_mut(to).get_mut(at..).ok_or_else(outside)?;
                    Ok(world.get_strided(RankId(rank), from.piece.off() + there as u64, to, &turned(shape))?)
                })?;
            }
            Ok(())
        })?;
        for copy in plan.copies(me, me) {
            copy_here(&copy, from.piece.as_slice(), to);
        }
        exchange::end(fabric, readers)
    }
}

impl<T: Element + Number, const N: usize> Array<'_, T, N> {
    /// Assigns the sum of all replicas of each element, in the order of their nodes: the array that is
    /// summed holds a part of the value on each node that has the element.
    ///
    /// # Errors
    /// As [`Self::gmove`].
    #[track_caller]
    pub fn gmove_sum<const M: usize>(&mut self, from: &Array<'_, T, M>, w: &mut Spmd<'_>) -> Result<(), Fault> {
        let fabric = w.fabric();
        self.is_free(w)?;
        from.is_free(w)?;
        let plan = Gmove::new(&self.desc, self.whole(), &from.desc, from.whole())?.from_each_replica();
        let what = What::new(Kind::GMOVE_SUM, w.set(), Location::caller());
        let what = what.of(self.piece.off(), mix(mix(self.id, from.id), plan.hash()));
        let (me, size, world) = (fabric.me, size_of::<T>(), fabric.world());
        let (owners, readers) = (plan.sources(me), plan.destinations(me));
        for partner in fabric.others(owners.with(readers)) {
            fabric.tell(partner, &what, &[])?;
        }
        for partner in fabric.others(owners.with(readers)) {
            fabric.hear(partner, &what, &mut [])?;
        }
        let mut values = [T::zeroed(); CHUNK];
        for owner in owners.ranks() {
            let is_first = from.desc.replicas(owner).rank(0) == Some(owner);
            for copy in plan.copies(owner, me) {
                for (at, there, run) in copy.runs() {
                    for done in (0..run).step_by(CHUNK) {
                        let (at, there, n) = (at + done, there + done, CHUNK.min(run - done));
                        let values = if owner == me {
                            from.piece.part(there..there + n).ok_or_else(outside)?
                        } else {
                            let off = from.piece.off() + (there * size) as u64;
                            world.get(RankId(owner), off, bytemuck::cast_slice_mut(&mut values[..n]))?;
                            &values[..n]
                        };
                        let sums = self.piece.part_mut(at..at + n).ok_or_else(outside)?;
                        let add =
                            |(sum, value): (&mut T, &T)| *sum = if is_first { *value } else { T::sum(*sum, *value) };
                        sums.iter_mut().zip(values).for_each(add);
                    }
                }
            }
            if owner != me {
                fabric.arrive(owner)?;
            }
        }
        exchange::end(fabric, readers)
    }
}

impl<T: Element, const N: usize> Array<'_, T, N> {
    /// Combines the replicas of each element in the order of their nodes; all of them get the result.
    /// An array that is not replicated stays as it is.
    ///
    /// # Errors
    /// As [`Self::gmove`].
    #[track_caller]
    pub fn reduce<O: Op<T>>(&mut self, _: O, w: &mut Spmd<'_>) -> Result<(), Fault> {
        let fabric = w.fabric();
        self.is_free(w)?;
        let (me, open) = (fabric.me, self.desc);
        let replicas = open.replicas(me);
        let what = What::new(Kind::ARRAY_REDUCE, w.set(), Location::caller()).named(O::NAME, "").with(self.id);
        let what = what.checked(const { of_name(O::NAME, 0) });
        // Replicas write to each other.
        self.desc.close();
        for partner in fabric.others(replicas) {
            fabric.tell(partner, &what, &[])?;
        }
        for partner in fabric.others(replicas) {
            fabric.hear(partner, &what, &mut [])?;
        }
        // Each replica combines its slice of the elements and writes it to all: no other one reads or
        // writes there.
        if let Some(nth) = replicas.number(me) {
            let (total, n) = (open.here().len(), replicas.len() as usize);
            let slice = total * nth as usize / n..total * (nth as usize + 1) / n;
            let mut before = 0;
            for run in open.here().runs() {
                let part = slice.start.clamp(before, before + run.len) - before
                    ..slice.end.clamp(before, before + run.len) - before;
                before += run.len;
                let first = open.offset(run.first).ok_or_else(outside)?;
                for done in part.clone().step_by(CHUNK) {
                    let places = first + done..first + part.end.min(done + CHUNK);
                    self.combine::<O>(replicas, places, fabric.world())?;
                }
            }
            for partner in fabric.others(replicas) {
                fabric.arrive(partner)?;
            }
            exchange::end(fabric, replicas)?;
        }
        self.desc = open;
        Ok(())
    }

    /// Combines some places of all replicas, which are not more than a chunk.
    fn combine<O: Op<T>>(
        &mut self,
        replicas: NodeSet,
        places: Range<usize>,
        world: &WorldRef<'_>,
    ) -> Result<(), Fault> {
        let (me, off) = (self.desc.me(), self.piece.off() + (places.start * size_of::<T>()) as u64);
        let own = self.piece.part_mut(places).ok_or_else(outside)?;
        let (mut sums, mut values) = ([T::zeroed(); CHUNK], [T::zeroed(); CHUNK]);
        let (sums, values) = (&mut sums[..own.len()], &mut values[..own.len()]);
        for (nth, replica) in replicas.ranks().enumerate() {
            if replica == me {
                values.copy_from_slice(own);
            } else {
                world.get(RankId(replica), off, bytemuck::cast_slice_mut(values))?;
            }
            match nth {
                0 => sums.copy_from_slice(values),
                _ => sums.iter_mut().zip(&*values).for_each(|(sum, value)| *sum = O::combine(*sum, *value)),
            }
        }
        own.copy_from_slice(sums);
        for replica in replicas.ranks().filter(|replica| *replica != me) {
            world.put(RankId(replica), off, bytemuck::cast_slice(sums))?;
        }
        Ok(())
    }
}
