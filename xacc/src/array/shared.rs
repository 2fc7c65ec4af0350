//! Arrays that some nodes may read and write without the others.

use super::Array;
use super::section::{Section, SectionMut, copy_beside, outside, slice};
use super::view::{View, ViewMut};
use crate::dist::{NodeSet, Shape};
use crate::exchange;
use crate::plan::Gmove;
use crate::section::Sel;
use crate::spmd::Spmd;
use crate::what::Kind;
use core::panic::Location;
use hamr_comm::world::RankId;
use hamr_comm::{Element, Fault};

/// An array whose elements any node may read and write without the others. What a node writes, others
/// see once they have met it, in a barrier for example. Where two use an element between the same two
/// meetings and one of them writes it, its value is any.
pub struct SharedArray<'c, T, const N: usize> {
    array: Array<'c, T, N>,
}

impl<const N: usize> Shape<'_, N> {
    /// A shared array of this shape, all zero. All nodes of the executing set call this.
    ///
    /// # Errors
    /// There is no room; a node is in another collective.
    #[track_caller]
    pub fn shared<'c, T: Element>(&self, w: &mut Spmd<'c>) -> Result<SharedArray<'c, T, N>, Fault> {
        let array = self.zeros(w)?;
        // No node writes before all have set theirs to zero.
        w.meet(&self.reached::<T>(Kind::SHARED, w, Location::caller()))?;
        Ok(SharedArray { array })
    }
}

impl<'c, T: Element, const N: usize> SharedArray<'c, T, N> {
    /// This node's elements, until it communicates.
    pub fn view<'a>(&'a self, _: &'a Spmd<'_>) -> View<'a, 'c, T, N> {
        View::new(&self.array)
    }

    /// [`Self::view`], to be written.
    pub fn view_mut<'a>(&'a mut self, _: &'a Spmd<'_>) -> ViewMut<'a, 'c, T, N> {
        ViewMut::new(&mut self.array)
    }

    /// Assigns a section of this array to one of another array, for the nodes that own the latter: each
    /// reads what it needs, also of nodes that do not execute this.
    ///
    /// # Errors
    /// The shapes differ; the section is not in this array; an exchange of the other one is not finished.
    pub fn gmove_in<const M: usize>(
        &self,
        sel: [Sel; N],
        to: SectionMut<'_, '_, T, M>,
        w: &mut Spmd<'_>,
    ) -> Result<(), Fault> {
        to.array.is_free(w)?;
        let Array { desc, piece, .. } = to.array;
        let plan = Gmove::new(desc, to.region, &self.array.desc, self.array.desc.region(sel)?)?;
        let fabric = w.fabric();
        let (me, off, world) = (fabric.me, self.array.piece.off(), fabric.world());
        for rank in plan.sources(me).ranks() {
            for copy in plan.copies(rank, me) {
                if rank == me {
                    copy_beside(&copy, &self.array.piece, piece)?;
                    continue;
                }
                exchange::strided(&copy, size_of::<T>(), |from, at, shape| {
                    let here = exchange::turned(shape);
                    Ok(piece.get_strided(world, at, RankId(rank), off + from as u64, &here)?)
                })?;
            }
        }
        Ok(())
    }

    /// Assigns a section of another array to one of this array, for the nodes that own the former: each
    /// writes what it has, also to nodes that do not execute this.
    ///
    /// # Errors
    /// As [`Self::gmove_in`].
    pub fn gmove_out<const M: usize>(
        &mut self,
        sel: [Sel; N],
        from: Section<'_, '_, T, M>,
        w: &mut Spmd<'_>,
    ) -> Result<(), Fault> {
        from.array.is_free(w)?;
        let Array { desc, piece, .. } = &mut self.array;
        let plan = Gmove::new(desc, desc.region(sel)?, &from.array.desc, from.region)?;
        let fabric = w.fabric();
        let (me, world) = (fabric.me, fabric.world());
        for rank in plan.destinations(me).ranks() {
            for copy in plan.copies(me, rank) {
                if rank == me {
                    copy_beside(&copy, &from.array.piece, piece)?;
                    continue;
                }
                exchange::strided(&copy, size_of::<T>(), |at, there, shape| {
                    Ok(from.array.piece.put_strided(world, at, RankId(rank), piece.off() + there as u64, shape)?)
                })?;
            }
        }
        Ok(())
    }

    /// Copies a section to a slice of this node, in row-major order.
    ///
    /// # Errors
    /// The lengths differ; the section is not in the array.
    pub fn read(&self, sel: [Sel; N], to: &mut [T], w: &mut Spmd<'_>) -> Result<(), Fault> {
        let (fabric, region) = (w.fabric(), self.array.desc.region(sel)?);
        let me = fabric.me;
        let (desc, all) = slice::<T, N>(region, to.len(), NodeSet::one(me), me)?;
        let plan = Gmove::new(&desc, all, &self.array.desc, region)?;
        let (off, world) = (self.array.piece.off(), fabric.world());
        for rank in plan.sources(me).ranks() {
            for copy in plan.copies(rank, me) {
                if rank == me {
                    for (at, from, run) in copy.runs() {
                        let own = self.array.piece.part(from..from + run).ok_or_else(outside)?;
                        to.get_mut(at..at + run).ok_or_else(outside)?.copy_from_slice(own);
                    }
                    continue;
                }
                exchange::strided(&copy, size_of::<T>(), |from, at, shape| {
                    let here = exchange::turned(shape);
                    let to = bytemuck::cast_slice_mut(to).get_mut(at..).ok_or_else(outside)?;
                    Ok(world.get_strided(RankId(rank), off + from as u64, to, &here)?)
                })?;
            }
        }
        Ok(())
    }

    /// Copies a slice of this node to a section, in row-major order; of a replicated array, to all
    /// replicas.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn write(&mut self, sel: [Sel; N], from: &[T], w: &mut Spmd<'_>) -> Result<(), Fault> {
        let (fabric, region) = (w.fabric(), self.array.desc.region(sel)?);
        let me = fabric.me;
        let (desc, all) = slice::<T, N>(region, from.len(), NodeSet::one(me), me)?;
        let plan = Gmove::new(&self.array.desc, region, &desc, all)?;
        let (piece, world) = (&mut self.array.piece, fabric.world());
        for rank in plan.destinations(me).ranks() {
            for copy in plan.copies(me, rank) {
                if rank == me {
                    for (at, from_at, run) in copy.runs() {
                        let values = from.get(from_at..from_at + run).ok_or_else(outside)?;
                        piece.part_mut(at..at + run).ok_or_else(outside)?.copy_from_slice(values);
                    }
                    continue;
                }
                exchange::strided(&copy, size_of::<T>(), |at, there, shape| {
                    let from = bytemuck::cast_slice(from).get(at..).ok_or_else(outside)?;
                    Ok(world.put_strided(RankId(rank), piece.off() + there as u64, from, shape)?)
                })?;
            }
        }
        Ok(())
    }
}
