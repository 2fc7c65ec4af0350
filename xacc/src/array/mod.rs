//! Arrays over the nodes of a program: each node has its own elements and copies of some of its
//! neighbours', at the place in its segment that every node knows.

mod gmove;
mod reflect;
mod section;
mod shared;

use crate::dist::{Desc, DistError, NodeSet, Shape, Share, refuse};
use crate::fabric::Begun;
use crate::spmd::Spmd;
use core::ops::{Index, IndexMut, Range};
use hamr_comm::world::Piece;
use hamr_comm::{Element, Fault};
use reflect::Plan;

pub use section::{Section, SectionMut, Sent, Source};
pub(crate) use section::{outside, slice};
pub use shared::SharedArray;

/// An array of `N` dimensions that the nodes of an executing set have together.
///
/// Indices are global. A node has the elements that it owns, and in its shadow copies of others, which
/// are as new as the last reflect. Only calls that have the array mutably let other nodes write here.
pub struct Array<'c, T, const N: usize> {
    pub(crate) desc: Desc<'c, N>,
    pub(crate) piece: Piece<'c, T>,
    /// The nodes that have made it.
    pub(crate) set: NodeSet,
    /// A reflect has begun: what is in the shadow is neither the old nor the new.
    pub(crate) pending: Option<Begun>,
    /// The wait that completes the last transfer to it as a coarray.
    pub(crate) got: Option<u32>,
    /// What the last reflect has copied.
    pub(crate) plan: Option<Plan<N>>,
}

impl<const N: usize> Shape<'_, N> {
    /// An array of this shape, all zero. All nodes of the executing set call this.
    ///
    /// # Errors
    /// There is no room; a node is in another collective.
    #[track_caller]
    pub fn zeros<'c, T: Element>(&self, w: &mut Spmd<'c>) -> Result<Array<'c, T, N>, Fault> {
        self.full(T::zeroed(), w)
    }

    /// An array whose elements have this value, in the shadow, too.
    ///
    /// # Errors
    /// As [`Self::zeros`].
    #[track_caller]
    pub fn full<'c, T: Element>(&self, value: T, w: &mut Spmd<'c>) -> Result<Array<'c, T, N>, Fault> {
        let desc = self.desc(size_of::<T>())?;
        let room = w.local::<u64>(desc.room())?;
        let desc = desc.keep(room)?;
        let mut piece = w.allocate::<T>(desc.elements())?;
        piece.as_mut_slice().fill(value);
        Ok(Array { desc, piece, set: w.set(), pending: None, got: None, plan: None })
    }

    /// Arrays that differ in their value.
    ///
    /// # Errors
    /// As [`Self::zeros`].
    #[track_caller]
    pub fn fulls<'c, T: Element, const K: usize>(
        &self,
        values: [T; K],
        w: &mut Spmd<'c>,
    ) -> Result<[Array<'c, T, N>; K], Fault> {
        let mut arrays = heapless::Vec::<_, K>::new();
        for value in values {
            // There is room for all.
            let _ = arrays.push(self.full(value, w)?);
        }
        arrays.into_array().map_err(|_| Fault::msg("an array was not made"))
    }
}

impl<'c, T: Element, const N: usize> Array<'c, T, N> {
    /// The iterations of this node: the elements that it owns.
    pub fn here(&self) -> Share<N> {
        self.desc.here()
    }

    /// How it lies on the nodes, and in their memory.
    pub fn desc(&self) -> &Desc<'c, N> {
        &self.desc
    }

    /// The indices that this node owns along the first dimension.
    ///
    /// # Errors
    /// They are several ranges.
    pub fn range(&self) -> Result<Range<i64>, Fault> {
        Ok(self.desc.owned_range(0)?)
    }

    /// The elements that this node owns, in row-major order.
    ///
    /// # Panics
    /// They are not contiguous in memory, because of a shadow or of rows that are padded.
    #[track_caller]
    pub fn local(&self) -> &[T] {
        let own = self.desc.contiguous().and_then(|own| self.piece.part(own));
        own.unwrap_or_else(|| refuse(self.scattered()))
    }

    /// [`Self::local`], to be written.
    ///
    /// # Panics
    /// As [`Self::local`].
    #[track_caller]
    pub fn local_mut(&mut self) -> &mut [T] {
        let why = self.scattered();
        let own = self.desc.contiguous().and_then(|own| self.piece.part_mut(own));
        own.unwrap_or_else(|| refuse(why))
    }

    /// Sets all elements that this node owns.
    pub fn fill(&mut self, value: T) {
        for run in self.here().runs() {
            // Along the last dimension, which may be cyclic: places are not always neighbours.
            for k in 0..run.len as i64 {
                let mut index = run.first;
                index[N - 1] += k * run.step;
                self[index] = value;
            }
        }
    }

    /// Other nodes may write the shadow.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    fn scattered(&self) -> DistError {
        if self.desc.is_closed() {
            return DistError::Moving;
        }
        DistError::Scattered { index: self.desc.owned(N - 1).bounds().map_or(0, |own| own.start) }
    }

    /// The place of an element in this node's block.
    #[inline]
    fn place(&self, index: [i64; N]) -> Result<usize, DistError> {
        match self.desc.offset(index) {
            Some(at) if !self.is_pending() || self.desc.owns_here(index) => Ok(at),
            Some(_) => Err(DistError::Pending),
            None => Err(self.desc.explain(index)),
        }
    }
}

/// An element by its global index.
///
/// # Panics
/// It is neither this node's nor in its shadow; it is in the shadow, and a reflect is not finished.
impl<T: Element, const N: usize> Index<[i64; N]> for Array<'_, T, N> {
    type Output = T;
    #[inline]
    #[track_caller]
    fn index(&self, index: [i64; N]) -> &T {
        match self.place(index).map(|at| self.piece.part(at..at + 1)) {
            Ok(Some([element])) => element,
            Ok(_) => refuse(DistError::NoNode),
            Err(why) => refuse(why),
        }
    }
}

impl<T: Element, const N: usize> IndexMut<[i64; N]> for Array<'_, T, N> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, index: [i64; N]) -> &mut T {
        match self.place(index).map(|at| self.piece.part_mut(at..at + 1)) {
            Ok(Some([element])) => element,
            Ok(_) => refuse(DistError::NoNode),
            Err(why) => refuse(why),
        }
    }
}
