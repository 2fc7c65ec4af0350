//! Shadows: filled with the owners' elements, or added to them.

use super::Array;
use crate::collective::Number;
use crate::dist::{Desc, DistError, NodeSet};
use crate::exchange::{self, turned};
use crate::fingerprint::mix;
use crate::plan::{Copy, Halo, Reflect, Short};
use crate::spmd::Spmd;
use crate::what::{Kind, What};
use core::panic::Location;
use hamr_comm::world::RankId;
use hamr_comm::{Element, Fault};

/// Elements that are read at once to be added.
const CHUNK: usize = 64;
/// Copies at most that are kept from one reflect to the next: those of a node with eight neighbours.
const MOST_KEPT: usize = 8;

/// How elements come into the shadows of other nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Their owners put them, and may change them at once.
    Put,
    /// The others get them, which is faster: processors fetch ahead what another has written, but each store into
    /// a line that another has read waits for it.
    Get,
}

/// What a reflect copies, for the next one of the same array.
pub(crate) struct Plan<const N: usize> {
    halo: Halo<N>,
    way: Way,
    /// With whom this node copies, and who copies with it.
    copied: NodeSet,
    others: NodeSet,
    /// The copies, with the other's rank; `None` if they are too many, or have too many levels.
    copies: Option<heapless::Vec<(u32, Short), MOST_KEPT>>,
}

impl<const N: usize> Plan<N> {
    fn new(desc: &Desc<'_, N>, halo: Halo<N>, way: Way, me: u32) -> Result<Self, DistError> {
        let reflect = Reflect::new(desc, halo)?;
        let (destinations, sources) = (reflect.destinations(me), reflect.sources(me));
        let (copied, others) = match way {
            Way::Put => (destinations, sources),
            Way::Get => (sources, destinations),
        };
        let mut copies = Some(heapless::Vec::new());
        for other in copied.with(NodeSet::one(me)).ranks() {
            for copy in copies_with(desc, &reflect, way, (me, other)) {
                copies = copies.and_then(|mut kept| {
                    kept.push((other, Short::of(&copy)?)).ok()?;
                    Some(kept)
                });
            }
        }
        Ok(Self { halo, way, copied, others, copies })
    }

    /// Makes the copies of node `me` with another, or of its own elements.
    fn each(
        &self,
        desc: &Desc<'_, N>,
        (me, other): (u32, u32),
        mut make: impl FnMut(&Copy) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Some(kept) = &self.copies else {
            let reflect = Reflect::new(desc, self.halo)?;
            return copies_with(desc, &reflect, self.way, (me, other)).try_for_each(|copy| make(&copy));
        };
        kept.iter().filter(|(rank, _)| *rank == other).try_for_each(|(_, short)| make(&short.copy()))
    }
}

fn copies_with<'a, const N: usize>(
    desc: &Desc<'_, N>,
    reflect: &Reflect<'a, N>,
    way: Way,
    (me, other): (u32, u32),
) -> impl Iterator<Item = Copy> + use<'a, N> {
    // One row of an array of one dimension has no gap behind it.
    let (row, pitch) = (desc.extents()[N - 1], desc.pitches()[N.saturating_sub(2)]);
    let copies = match way {
        Way::Put => reflect.copies(me, other),
        Way::Get => reflect.copies(other, me),
    };
    copies.map(move |copy| copy.with_gaps(row, pitch))
}

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
        let others = self.fill_shadow(&what, halo, Way::Get, w)?;
        exchange::end(w.fabric(), others)
    }

    /// Begins a [`Self::reflect_with`], which [`Self::reflect_finish`] ends. Until then the elements of
    /// the shadow are refused; those that this node owns may be used.
    ///
    /// # Errors
    /// As [`Self::reflect_with`]; too many are not finished.
    #[track_caller]
    pub fn reflect_start(&mut self, halo: Halo<N>, w: &mut Spmd<'_>) -> Result<(), Fault> {
        let what = self.what(Kind::REFLECT_START, &halo);
        w.fabric().has_room()?;
        let sources = self.fill_shadow(&what, halo, Way::Put, w)?;
        self.desc.open();
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

    /// Makes this node's copies; the nodes that make theirs with it.
    #[track_caller]
    fn fill_shadow(&mut self, what: &What, halo: Halo<N>, way: Way, w: &mut Spmd<'_>) -> Result<NodeSet, Fault> {
        let fabric = w.fabric();
        self.is_free(w)?;
        let me = fabric.me;
        let plan = match self.plan.take() {
            Some(plan) if (plan.halo, plan.way) == (halo, way) => plan,
            _ => Plan::new(&self.desc, halo, way, me)?,
        };
        let plan = self.plan.insert(plan);
        // Closed before a node is told that it may write here.
        let open = (way == Way::Put).then_some(self.desc);
        if open.is_some() {
            self.desc.close();
        }
        let desc = open.as_ref().unwrap_or(&self.desc);
        let (size, piece, world) = (size_of::<T>(), &mut self.piece, fabric.world());
        exchange::begin(fabric, what, plan.copied, plan.others, |other| {
            plan.each(desc, (me, other), |copy| {
                let (off, other) = (piece.off(), RankId(other));
                exchange::strided(copy, size, |from, at, shape| {
                    match way {
                        Way::Put => piece.put_strided(world, from, other, off + at as u64, shape)?,
                        Way::Get => piece.get_strided(world, at, other, off + from as u64, &turned(shape))?,
                    }
                    Ok(())
                })
            })
        })?;
        plan.each(desc, (me, me), |copy| {
            exchange::strided(copy, size, |from, at, shape| Ok(piece.copy_strided(from, at, shape)?))
        })?;
        Ok(plan.others)
    }

    #[track_caller]
    fn what(&self, kind: Kind, halo: &Halo<N>) -> What {
        What::new(kind, self.set, Location::caller()).of(self.piece.off(), mix(self.id, halo.hash()))
    }

    /// No exchange of the array is pending, and its nodes execute this.
    pub(crate) fn is_free(&self, w: &Spmd<'_>) -> Result<(), Fault> {
        self.is_settled(w)?;
        if !self.desc.nodes().is_within(w.set()) {
            return Err(Fault::msg("not all nodes of the array execute this"));
        }
        Ok(())
    }

    /// No exchange of the array is pending or has failed, and no transfer to it is: this node's elements do not change.
    pub(crate) fn is_settled(&self, w: &Spmd<'_>) -> Result<(), Fault> {
        if self.pending.is_some() {
            return Err(Fault::msg("an exchange of this array is not finished"));
        }
        if self.desc.is_closed() {
            return Err(DistError::Failed.into());
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
        let world = fabric.world();
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
