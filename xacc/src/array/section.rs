//! Sections of arrays.

use super::Array;
use crate::dist::{Desc, NodeSet, Shape, or_refuse};
use crate::error::fault;
use crate::exchange;
use crate::plan::{Copy, Gmove};
use crate::section::{Region, Sel, Triplet};
use crate::spmd::Spmd;
use crate::what::What;
use hamr_comm::world::Piece;
use hamr_comm::{Element, Fault};

/// A regular part of an array, to be read.
pub struct Section<'a, 'c, T, const N: usize> {
    pub(crate) array: &'a Array<'c, T, N>,
    pub(crate) region: Region<N>,
}

/// A regular part of an array, to be written.
pub struct SectionMut<'a, 'c, T, const N: usize> {
    pub(super) array: &'a mut Array<'c, T, N>,
    pub(super) region: Region<N>,
}

/// The right side of an assignment: an array, a section of one, a slice that every node has, in
/// row-major order, or one value.
pub trait Source<T> {
    /// Sends what this node has of it to a section.
    ///
    /// # Errors
    /// As [`Array::gmove`].
    #[doc(hidden)]
    #[track_caller]
    fn send<const N: usize>(self, to: &mut SectionMut<'_, '_, T, N>, w: &mut Spmd<'_>) -> Result<Sent, Fault>;
}

/// A part of an assignment: what this node waits for now.
#[doc(hidden)]
pub struct Sent {
    pub(super) what: What,
    /// The nodes that send here.
    pub(super) sources: NodeSet,
}

impl<'c, T: Element, const N: usize> Array<'c, T, N> {
    /// Elements of all nodes.
    ///
    /// # Panics
    /// The selection reaches beyond the array.
    #[track_caller]
    pub fn section(&self, sel: [Sel; N]) -> Section<'_, 'c, T, N> {
        let region = or_refuse(self.desc.region(sel));
        Section { array: self, region }
    }

    /// [`Self::section`], to be written.
    ///
    /// # Panics
    /// As [`Self::section`].
    #[track_caller]
    pub fn section_mut(&mut self, sel: [Sel; N]) -> SectionMut<'_, 'c, T, N> {
        let region = or_refuse(self.desc.region(sel));
        SectionMut { array: self, region }
    }

    /// All elements.
    pub(crate) fn whole(&self) -> Region<N> {
        self.desc.whole()
    }
}

impl<T: Element, const N: usize> SectionMut<'_, '_, T, N> {
    /// Assigns to the section: see [`Array::gmove`].
    ///
    /// # Errors
    /// As [`Array::gmove`].
    #[track_caller]
    pub fn gmove(mut self, from: impl Source<T>, w: &mut Spmd<'_>) -> Result<(), Fault> {
        let sources = from.send(&mut self, w)?.sources;
        exchange::end(w.fabric(), sources)?;
        self.array.desc.open();
        Ok(())
    }

    /// Begins to assign to the section: see [`Array::gmove_start`].
    ///
    /// # Errors
    /// As [`Array::gmove_start`].
    #[track_caller]
    pub fn gmove_start(mut self, from: impl Source<T>, w: &mut Spmd<'_>) -> Result<(), Fault> {
        w.fabric().has_room()?;
        let Sent { what, sources } = from.send(&mut self, w)?;
        self.array.pending = Some(w.fabric().open(self.array.piece.off(), what, sources)?);
        self.array.desc.close();
        Ok(())
    }

    /// Sets the elements of the section that this node owns.
    ///
    /// # Errors
    /// An exchange of the array is not finished.
    pub fn fill(&mut self, value: T) -> Result<(), Fault> {
        self.map(|_| value)
    }

    /// Replaces each element of the section that this node owns.
    ///
    /// # Errors
    /// As [`Self::fill`].
    pub fn map(&mut self, f: impl Fn(T) -> T) -> Result<(), Fault> {
        if let Some(why) = self.array.why_closed() {
            return Err(why.into());
        }
        let (desc, me) = (&self.array.desc, self.array.desc.me());
        // What one element would be assigned to.
        let one = Shape::own(NodeSet::one(me), me, [1])?.dense(size_of::<T>())?;
        let all = Region { dims: [Triplet { first: 0, len: 1, step: 1 }] };
        for copy in Gmove::new(desc, self.region, &one, all)?.copies(me, me) {
            for (at, _, run) in copy.runs() {
                let elements = self.array.piece.part_mut(at..at + run).ok_or_else(outside)?;
                elements.iter_mut().for_each(|element| *element = f(*element));
            }
        }
        Ok(())
    }
}

/// The elements of a section as those of a slice that each node of a set has for itself.
pub(crate) fn slice<T, const N: usize>(
    of: Region<N>,
    len: usize,
    set: NodeSet,
    me: u32,
) -> Result<(Desc<'static, N>, Region<N>), Fault> {
    if len != of.len() {
        return Err(fault(format_args!("a section of {} elements, a slice of {len}", of.len())));
    }
    let desc = Shape::own(set, me, of.dims.map(|dim| dim.len))?.dense(size_of::<T>())?;
    Ok((desc, Region { dims: of.dims.map(|dim| Triplet { first: 0, step: 1, ..dim }) }))
}

/// Makes a planned copy within this node, whose memory no other one writes.
pub(super) fn copy_here<T: Element>(copy: &Copy, from: &[T], to: &mut [T]) {
    for span in copy.spans(1) {
        match (span.levels(), span.run) {
            ([], run) => to[span.to..][..run].copy_from_slice(&from[span.from..][..run]),
            ([level], 1) => {
                let to = to[span.to..].iter_mut().step_by(level.to as usize).take(level.count);
                match level.from {
                    0 => to.for_each(|to| *to = from[span.from]),
                    by if by > 0 => {
                        to.zip(from[span.from..].iter().step_by(by as usize)).for_each(|(to, from)| *to = *from)
                    }
                    by => {
                        let from = from[..=span.from].iter().rev().step_by(by.unsigned_abs());
                        to.zip(from).for_each(|(to, from)| *to = *from);
                    }
                }
            }
            _ => {
                for (a, b, run) in span.runs() {
                    to[a..][..run].copy_from_slice(&from[b..][..run]);
                }
            }
        }
    }
}

/// [`copy_here`] while other nodes write other elements of the destination, which no reference covers.
pub(super) fn copy_beside<T: Element>(copy: &Copy, from: &Piece<'_, T>, to: &mut Piece<'_, T>) -> Result<(), Fault> {
    for (a, b, run) in copy.runs() {
        let from = from.part(b..b + run).ok_or_else(outside)?;
        to.part_mut(a..a + run).ok_or_else(outside)?.copy_from_slice(from);
    }
    Ok(())
}

#[cold]
pub(crate) fn outside() -> Fault {
    Fault::msg("a plan leaves the array")
}
