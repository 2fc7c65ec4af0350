//! Transfers between sections of coarrays and what images have for themselves.

use super::Coarray;
use crate::array::{Section, outside, slice};
use crate::dist::{Desc, DistError, NodeSet, Shape};
use crate::exchange;
use crate::plan::{Copy, Gmove};
use crate::section::{Region, Sel, Triplet};
use crate::spmd::Spmd;
use core::ops::Range;
use hamr_comm::world::{Piece, RankId, SegAddr, WorldRef};
use hamr_comm::{Element, Fault};

/// The right side of a [`Coarray::put`]. `K` is its kind, which the compiler finds out.
pub trait Local<T, const N: usize, K> {
    /// Puts it.
    ///
    /// # Errors
    /// As [`Coarray::put`].
    #[doc(hidden)]
    fn put(self, to: &mut Coarray<'_, T, N>, image: i64, sel: [Sel; N], w: &mut Spmd<'_>) -> Result<(), Fault>;
}

/// A section of an image's elements: see [`Coarray::at`].
pub struct Remote<'a, 'c, T, const N: usize> {
    of: &'a Coarray<'c, T, N>,
    image: i64,
    sel: [Sel; N],
}

impl<'a, 'c, T, const N: usize> Remote<'a, 'c, T, N> {
    pub(super) fn new(of: &'a Coarray<'c, T, N>, image: i64, sel: [Sel; N]) -> Self {
        Self { of, image, sel }
    }
}

/// Kinds of right sides.
#[doc(hidden)]
pub mod kind {
    pub struct Own;
    pub struct Slice;
    pub struct Value;
    pub struct Part;
    pub struct There;
}

/// This image's part of the same coarray.
impl<T: Element, const N: usize> Local<T, N, kind::Own> for [Sel; N] {
    fn put(self, to: &mut Coarray<'_, T, N>, image: i64, sel: [Sel; N], w: &mut Spmd<'_>) -> Result<(), Fault> {
        to.copy((image, sel), (w.me(), self), w)
    }
}

/// In row-major order.
impl<T: Element, const N: usize> Local<T, N, kind::Slice> for &[T] {
    fn put(self, to: &mut Coarray<'_, T, N>, image: i64, sel: [Sel; N], w: &mut Spmd<'_>) -> Result<(), Fault> {
        let me = w.fabric().me;
        let (_, region) = to.aim(image, sel, w)?;
        let (desc, all) = slice::<T, N>(region, self.len(), NodeSet::one(me), me)?;
        assign(to, (image, sel), (&desc, all, me), From::Slice(self), w)
    }
}

/// To each element.
impl<T: Element, const N: usize> Local<T, N, kind::Value> for T {
    fn put(self, to: &mut Coarray<'_, T, N>, image: i64, sel: [Sel; N], w: &mut Spmd<'_>) -> Result<(), Fault> {
        let me = w.fabric().me;
        let one = Shape::own(NodeSet::one(me), me, [1])?.dense(size_of::<T>())?;
        let all = Region { dims: [Triplet { first: 0, len: 1, step: 1 }] };
        assign(to, (image, sel), (&one, all, me), From::Slice(&[self]), w)
    }
}

/// Of an array, or of this image's part of another coarray.
impl<T: Element, const N: usize, const M: usize> Local<T, N, kind::Part> for Section<'_, '_, T, M> {
    fn put(self, to: &mut Coarray<'_, T, N>, image: i64, sel: [Sel; N], w: &mut Spmd<'_>) -> Result<(), Fault> {
        let Self { array, region } = self;
        array.is_settled(w)?;
        assign(to, (image, sel), (&array.desc, region, w.fabric().me), From::Piece(&array.piece), w)
    }
}

impl<T: Element, const N: usize, const M: usize> Local<T, N, kind::There> for Remote<'_, '_, T, M> {
    fn put(self, to: &mut Coarray<'_, T, N>, image: i64, sel: [Sel; N], w: &mut Spmd<'_>) -> Result<(), Fault> {
        let Self { of, image: source, sel: from } = self;
        let (rank, region) = of.aim(source, from, w)?;
        of.is_read(rank, w)?;
        let from = of.from(rank, w);
        assign(to, (image, sel), (&of.array.desc, region, rank), from, w)
    }
}

/// Where the elements of a right side are.
enum From<'a, T> {
    Slice(&'a [T]),
    Piece(&'a Piece<'a, T>),
    /// A rank, and the byte of its segment.
    Rank(u32, u64),
}

/// Where those of a left side are.
enum To<'a, 'c, T> {
    Slice(&'a mut [T]),
    Piece(&'a mut Piece<'c, T>),
    Rank(u32, u64),
}

impl<T: Element, const N: usize> Coarray<'_, T, N> {
    /// The rank of an image, and a part of its elements.
    fn aim(&self, image: i64, sel: [Sel; N], w: &Spmd<'_>) -> Result<(u32, Region<N>), Fault> {
        Ok((self.rank(image, w)?, self.region(image, sel)?))
    }

    fn from(&self, rank: u32, w: &Spmd<'_>) -> From<'_, T> {
        let piece = &self.array.piece;
        if rank == w.fabric().me { From::Piece(piece) } else { From::Rank(rank, piece.off()) }
    }

    /// Before a transfer from a rank's elements: this one's are all there.
    fn is_read(&self, rank: u32, w: &Spmd<'_>) -> Result<(), DistError> {
        if rank == w.fabric().me { self.array.is_complete(w) } else { Ok(()) }
    }
}

/// Before a transfer to a rank's elements, of which this is `Array::got`.
fn is_written(got: &mut Option<u32>, rank: u32, w: &Spmd<'_>) -> Result<(), DistError> {
    let fabric = w.fabric();
    match fabric.begin_transfer() {
        wait @ Some(_) if rank == fabric.me => *got = wait,
        None if rank == fabric.me && !fabric.is_complete(*got) => return Err(DistError::Incomplete),
        _ => {}
    }
    Ok(())
}

/// Assigns to a section of a coarray what is not of the same coarray.
fn assign<T: Element, const N: usize, const M: usize>(
    to: &mut Coarray<'_, T, N>,
    (image, sel): (i64, [Sel; N]),
    (desc, region, source): (&Desc<'_, M>, Region<M>, u32),
    from: From<'_, T>,
    w: &mut Spmd<'_>,
) -> Result<(), Fault> {
    let (rank, to_region) = to.aim(image, sel, w)?;
    let (fabric, off) = (w.fabric(), to.array.piece.off());
    let plan = Gmove::new(&to.array.desc, to_region, desc, region)?.from_each_replica();
    let copies = plan.copies(source, rank);
    if copies.clone().map(|copy| copy.len()).sum::<usize>() != to_region.len() {
        return Err(Fault::msg("elements of the section are not on this image"));
    }
    is_written(&mut to.array.got, rank, w)?;
    let target = if rank == fabric.me { To::Piece(&mut to.array.piece) } else { To::Rank(rank, off) };
    transfer(copies, from, target, fabric.world())
}

/// [`Coarray::get_into`].
pub(super) fn get_into<T: Element, const N: usize>(
    of: &Coarray<'_, T, N>,
    image: i64,
    sel: [Sel; N],
    to: &mut [T],
    w: &mut Spmd<'_>,
) -> Result<(), Fault> {
    let (rank, region) = of.aim(image, sel, w)?;
    let fabric = w.fabric();
    let (desc, all) = slice::<T, N>(region, to.len(), NodeSet::one(fabric.me), fabric.me)?;
    let plan = Gmove::new(&desc, all, &of.array.desc, region)?.from_each_replica();
    of.is_read(rank, w)?;
    transfer(plan.copies(rank, fabric.me), of.from(rank, w), To::Slice(to), fabric.world())
}

/// [`Coarray::copy`].
pub(super) fn copy<T: Element, const N: usize>(
    of: &mut Coarray<'_, T, N>,
    (to_image, to): (i64, [Sel; N]),
    (from_image, from): (i64, [Sel; N]),
    w: &mut Spmd<'_>,
) -> Result<(), Fault> {
    let ((to_rank, to), (from_rank, from)) = (of.aim(to_image, to, w)?, of.aim(from_image, from, w)?);
    let (fabric, off) = (w.fabric(), of.array.piece.off());
    let desc = of.array.desc;
    let plan = Gmove::new(&desc, to, &desc, from)?.from_each_replica();
    let copies = plan.copies(from_rank, to_rank);
    of.is_read(from_rank, w)?;
    is_written(&mut of.array.got, to_rank, w)?;
    if to_rank == from_rank {
        let overlap = |copy: Copy| {
            let (to, from) = copy.bounds();
            to.start < from.end && from.start < to.end
        };
        if copies.clone().any(overlap) {
            // By way of memory of this image.
            let (dense, all) = slice::<T, N>(from, from.len(), NodeSet::one(fabric.me), fabric.me)?;
            let first = Gmove::new(&dense, all, &desc, from)?.from_each_replica();
            let second = Gmove::new(&desc, to, &dense, all)?.from_each_replica();
            let (source, world) = (of.from(from_rank, w), fabric.world());
            let scratch = w.scratch::<T>(from.len())?;
            transfer(first.copies(from_rank, fabric.me), source, To::Slice(scratch), world)?;
            let piece = &mut of.array.piece;
            let target = if to_rank == fabric.me { To::Piece(piece) } else { To::Rank(to_rank, off) };
            return transfer(second.copies(fabric.me, to_rank), From::Slice(scratch), target, world);
        }
        if to_rank == fabric.me {
            for copy in copies {
                exchange::strided(&copy, size_of::<T>(), |from, to, shape| {
                    Ok(of.array.piece.copy_strided(from, to, shape)?)
                })?;
            }
            return Ok(());
        }
    }
    let world = fabric.world();
    if to_rank == fabric.me {
        return transfer(copies, From::Rank(from_rank, off), To::Piece(&mut of.array.piece), world);
    }
    transfer(copies, of.from(from_rank, w), To::Rank(to_rank, off), world)
}

/// Makes copies whose sides do not overlap.
fn transfer<T: Element>(
    copies: impl Iterator<Item = Copy>,
    from: From<'_, T>,
    mut to: To<'_, '_, T>,
    world: &WorldRef<'_>,
) -> Result<(), Fault> {
    let size = size_of::<T>();
    for copy in copies {
        match (&from, &mut to) {
            (From::Slice(from), To::Rank(rank, off)) => exchange::strided(&copy, size, |at, there, shape| {
                let from = bytemuck::cast_slice(from).get(at..).ok_or_else(outside)?;
                Ok(world.put_strided(RankId(*rank), *off + there as u64, from, shape)?)
            })?,
            (From::Piece(from), To::Rank(rank, off)) => exchange::strided(&copy, size, |at, there, shape| {
                Ok(from.put_strided(world, at, RankId(*rank), *off + there as u64, shape)?)
            })?,
            (From::Rank(rank, off), To::Slice(to)) => exchange::strided(&copy, size, |there, at, shape| {
                let to = bytemuck::cast_slice_mut(to).get_mut(at..).ok_or_else(outside)?;
                Ok(world.get_strided(RankId(*rank), *off + there as u64, to, &exchange::turned(shape))?)
            })?,
            (From::Rank(rank, off), To::Piece(to)) => exchange::strided(&copy, size, |there, at, shape| {
                Ok(to.get_strided(world, at, RankId(*rank), *off + there as u64, &exchange::turned(shape))?)
            })?,
            (From::Rank(source, from), To::Rank(rank, to)) => {
                for (at, there, run) in copy.runs() {
                    let from = SegAddr { rank: RankId(*source), off: *from + (there * size) as u64 };
                    let to = SegAddr { rank: RankId(*rank), off: *to + (at * size) as u64 };
                    world.copy(from, to, (run * size) as u64)?;
                }
            }
            (from @ (From::Slice(_) | From::Piece(_)), to @ (To::Slice(_) | To::Piece(_))) => {
                for (at, there, run) in copy.runs() {
                    let from = from.here(there..there + run).ok_or_else(outside)?;
                    to.here(at..at + run).ok_or_else(outside)?.copy_from_slice(from);
                }
            }
        }
    }
    Ok(())
}

impl<T: Element> From<'_, T> {
    /// Some elements of this image.
    fn here(&self, range: Range<usize>) -> Option<&[T]> {
        match self {
            Self::Slice(slice) => slice.get(range),
            Self::Piece(piece) => piece.part(range),
            Self::Rank(..) => None,
        }
    }
}

impl<T: Element> To<'_, '_, T> {
    /// Some elements of this image.
    fn here(&mut self, range: Range<usize>) -> Option<&mut [T]> {
        match self {
            Self::Slice(slice) => slice.get_mut(range),
            Self::Piece(piece) => piece.part_mut(range),
            Self::Rank(..) => None,
        }
    }
}
