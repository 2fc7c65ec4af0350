//! Shadows: filled with the owners' elements, or added to them.

use super::Array;
use crate::collective::Number;
use crate::dist::{DistError, NodeSet};
use crate::exchange;
use crate::plan::{Halo, Reflect};
use crate::spmd::Spmd;
use crate::what::{Kind, What};
use core::panic::Location;
use hamr_comm::world::RankId;
use hamr_comm::{Element, Fault};

/// Elements that are read at once to be added.
const CHUNK: usize = 64;

impl<T: Element, const N: usize> Array<'_, T, N> {
    /// Fills the shadow with the elements of their owners. All nodes that have the array call this.
    ///
    /// # Errors
    /// A node is in another collective, or the wait was interrupted.
    #[track_caller]
    pub fn reflect(&mut self, w: &mut Spmd<'_>) -> Result<(), Fault> {
        self.reflect_with(Halo::ALL, w)
    }

    /// [`Self::reflect`] of a part of the shadow, or with periodic dimensions.
    ///
    /// # Errors
    /// As [`Self::reflect`]; the halo is wider than the shadow.
    #[track_caller]
    pub fn reflect_with(&mut self, halo: Halo<N>, w: &mut Spmd<'_>) -> Result<(), Fault> {
        let what = self.what(Kind::REFLECT, &halo);
        let sources = self.start(&what, halo, w)?;
        exchange::end(w.fabric(), sources)
    }

    /// Begins a [`Self::reflect_with`], which [`Self::reflect_finish`] ends. Until then the elements of
    /// the shadow are refused; those that this node owns may be used.
    ///
    /// # Errors
    /// As [`Self::reflect_with`]; too many are not finished.
    #[track_caller]
    pub fn reflect_start(&mut self, halo: Halo<N>, w: &mut Spmd<'_>) -> Result<(), Fault> {
        let what = self.what(Kind::REFLECT, &halo);
        let sources = self.start(&what, halo, w)?;
        self.pending = Some(w.fabric().open(self.piece.off(), what, sources)?);
        Ok(())
    }

    /// Waits until the shadow is there.
    ///
    /// # Errors
    /// None has begun; the wait was interrupted.
    #[track_caller]
    pub fn reflect_finish(&mut self, w: &mut Spmd<'_>) -> Result<(), Fault> {
        if self.pending.is_none() {
            return Err(Fault::msg("no reflect of this array has begun"));
        }
        self.finish(w)
    }

    /// Waits until all is there that others put here.
    #[track_caller]
    pub(super) fn finish(&mut self, w: &mut Spmd<'_>) -> Result<(), Fault> {
        if let Some(pending) = &self.pending {
            w.fabric().close(pending)?;
        }
        self.pending = None;
        self.desc.open();
        Ok(())
    }

    /// Puts what others need of this node; the nodes that put here.
    #[track_caller]
    fn start(&mut self, what: &What, halo: Halo<N>, w: &mut Spmd<'_>) -> Result<NodeSet, Fault> {
        let fabric = w.fabric();
        self.is_free(w)?;
        let plan = Reflect::new(&self.desc, halo)?;
        let (me, size, piece) = (fabric.me, size_of::<T>(), &mut self.piece);
        let (destinations, sources) = match self.partners {
            Some((of, destinations, sources)) if of == halo => (destinations, sources),
            _ => (plan.destinations(me), plan.sources(me)),
        };
        self.partners = Some((halo, destinations, sources));
        let world = fabric.world()?;
        // One row of an array of one dimension has no gap behind it.
        let (row, pitch) = (self.desc.extents()[N - 1], self.desc.pitches()[N.saturating_sub(2)]);
        exchange::begin(fabric, what, destinations, sources, |to| {
            for copy in plan.copies(me, to).map(|copy| copy.with_gaps(row, pitch)) {
                exchange::strided(&copy, size, |from, at, shape| {
                    Ok(piece.put_strided(&world, from, RankId(to), piece.off() + at as u64, shape)?)
                })?;
            }
            Ok(())
        })?;
        for copy in plan.copies(me, me).map(|copy| copy.with_gaps(row, pitch)) {
            exchange::strided(&copy, size, |from, at, shape| Ok(piece.copy_strided(from, at, shape)?))?;
        }
        Ok(sources)
    }

    #[track_caller]
    fn what(&self, kind: Kind, halo: &Halo<N>) -> What {
        What::new(kind, self.set, Location::caller()).of(self.piece.off(), halo.hash())
    }

    /// No exchange of the array is pending, and its nodes execute this.
    pub(crate) fn is_free(&self, w: &Spmd<'_>) -> Result<(), Fault> {
        if self.pending.is_some() {
            return Err(Fault::msg("an exchange of this array is not finished"));
        }
        if !self.desc.nodes().is_within(w.set()) {
            return Err(Fault::msg("not all nodes of the array execute this"));
        }
        Ok(self.is_complete(w)?)
    }

    /// No transfer to it as a coarray is pending.
    pub(crate) fn is_complete(&self, w: &Spmd<'_>) -> Result<(), DistError> {
        if w.fabric().is_complete(self.got) { Ok(()) } else { Err(DistError::Incomplete) }
    }
}

impl<T: Element + Number, const N: usize> Array<'_, T, N> {
    /// Adds the elements of shadows to those of their owners, in the order of the nodes. The shadows
    /// stay as they are.
    ///
    /// # Errors
    /// As [`Self::reflect`].
    #[track_caller]
    pub fn reduce_shadow(&mut self, w: &mut Spmd<'_>) -> Result<(), Fault> {
        self.reduce_shadow_with(Halo::ALL, w)
    }

    /// [`Self::reduce_shadow`] of a part of the shadow, or with periodic dimensions.
    ///
    /// # Errors
    /// As [`Self::reflect_with`].
    #[track_caller]
    pub fn reduce_shadow_with(&mut self, halo: Halo<N>, w: &mut Spmd<'_>) -> Result<(), Fault> {
        let fabric = w.fabric();
        self.is_free(w)?;
        let plan = Reflect::new(&self.desc, halo)?;
        let what = self.what(Kind::REDUCE_SHADOW, &halo);
        let (me, piece) = (fabric.me, &mut self.piece);
        // Who has copies of this node's elements, and whose elements this node has copies of.
        let (holders, owners) = (plan.destinations(me), plan.sources(me));
        let partners = holders.with(owners);
        for partner in fabric.others(partners) {
            fabric.tell(partner, &what, &[])?;
        }
        for partner in fabric.others(partners) {
            fabric.hear(partner, &what, &mut [])?;
        }
        let world = fabric.world()?;
        for holder in holders.ranks() {
            for copy in plan.copies(me, holder) {
                for (there, here, run) in copy.runs() {
                    for done in (0..run).step_by(CHUNK) {
                        let (there, here, n) = (there + done, here + done, CHUNK.min(run - done));
                        let mut values = [T::zeroed(); CHUNK];
                        let values = &mut values[..n];
                        if holder == me {
                            values.copy_from_slice(piece.part(there..there + n).ok_or_else(outside)?);
                        } else {
                            let off = piece.off() + (there * size_of::<T>()) as u64;
                            world.get(RankId(holder), off, bytemuck::cast_slice_mut(values))?;
                        }
                        let own = piece.part_mut(here..here + n).ok_or_else(outside)?;
                        own.iter_mut().zip(values).for_each(|(own, value)| *own = T::sum(*own, *value));
                    }
                }
            }
            if holder != me {
                fabric.arrive(holder)?;
            }
        }
        exchange::end(fabric, owners)
    }
}

#[cold]
fn outside() -> Fault {
    Fault::msg("a plan leaves the array")
}
