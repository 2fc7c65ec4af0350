//! Arrays over the nodes of a program: each node has its own elements and copies of some of its
//! neighbours', at the place in its segment that every node knows.

mod gmove;
mod reflect;
mod section;
mod shared;
mod view;

use crate::dist::{Desc, DistError, NodeSet, Shape, Share, refuse};
use crate::error::fault;
use crate::fabric::Begun;
use crate::fingerprint;
use crate::spmd::Spmd;
use crate::what::{Kind, What};
use core::ops::{Index, IndexMut, Range};
use core::panic::Location;
use hamr_comm::world::Piece;
use hamr_comm::{Element, Fault};
use reflect::Plan;

pub use section::{Section, SectionMut, Sent, Source};
pub(crate) use section::{outside, slice};
pub use shared::SharedArray;
pub use view::{View, ViewMut};

/// An array of `N` dimensions that the nodes of an executing set have together.
///
/// Indices are global. A node has the elements that it owns, and in its shadow copies of others, which
/// are as new as the last reflect. Only calls that have the array mutably let other nodes write here. Behind one that has
/// failed others may still write, so no element is here any more.
pub struct Array<'c, T, const N: usize> {
    pub(crate) desc: Desc<'c, N>,
    pub(crate) piece: Piece<'c, T>,
    /// The nodes that have made it.
    pub(crate) set: NodeSet,
    /// Fingerprint of it and its place, which each exchange compares.
    pub(crate) id: u64,
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
    /// There is no room; a node is in another collective, or makes another array; the shape is that of another node.
    /// Extents of [`Spmd::own`] may differ: each exchange of the array compares them.
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
        is_mine(self, w)?;
        let desc = self.desc(size_of::<T>())?;
        let room = w.local::<u64>(desc.room())?;
        let desc = desc.keep(room)?;
        let fingerprint = fingerprint::of_array::<T, N>(self);
        let mut piece = w.allocate::<T, N>(desc.elements(), self)?;
        piece.as_mut_slice().fill(value);
        let id = fingerprint::of_nodes(fingerprint, self, piece.off());
        Ok(Array::new(desc, piece, w.set(), id))
    }

    /// The making of an array of this shape that nodes reach without a meeting, for which each compares all of it.
    pub(crate) fn reached<T: Element>(&self, kind: Kind, w: &Spmd<'_>, at: &Location<'_>) -> What {
        let fingerprint = fingerprint::of_array::<T, N>(self);
        What::new(kind, w.set(), at).made(fingerprint, Some(self.elements()), T::TYPE_NAME)
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

/// A shape says what is on the node that has made it.
pub(crate) fn is_mine<const N: usize>(shape: &Shape<'_, N>, w: &Spmd<'_>) -> Result<(), Fault> {
    let (of, me) = (shape.me(), w.fabric().me);
    if of == me { Ok(()) } else { Err(fault(format_args!("this shape is that of rank {of}, this node is rank {me}"))) }
}

impl<'c, T, const N: usize> Array<'c, T, N> {
    pub(crate) fn new(desc: Desc<'c, N>, piece: Piece<'c, T>, set: NodeSet, id: u64) -> Self {
        Self { desc, piece, set, id, pending: None, got: None, plan: None }
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
        match self.desc.contiguous().and_then(|own| self.piece.part(own)) {
            Some(own) => own,
            None => refuse(self.scattered()),
        }
    }

    /// [`Self::local`], to be written.
    ///
    /// # Panics
    /// As [`Self::local`].
    #[track_caller]
    pub fn local_mut(&mut self) -> &mut [T] {
        let Some(own) = self.desc.contiguous() else { refuse(self.scattered()) };
        match self.piece.part_mut(own) {
            Some(own) => own,
            None => refuse(DistError::NoNode),
        }
    }

    /// This node's own elements of a row, which the indices of all dimensions but the last one name: `a.row(i)` of two
    /// dimensions, `a.row([i, j])` of three, `a.row(())` of one. The row may be one of the shadow.
    ///
    /// # Panics
    /// It is not here; its elements are not contiguous: the last dimension is cyclic and has a shadow.
    #[track_caller]
    pub fn row(&self, of: impl RowIndex<N>) -> &[T] {
        match self.row_range(of.index()).map(|row| self.piece.part(row)) {
            Ok(Some(row)) => row,
            Ok(None) => refuse(DistError::NoNode),
            Err(why) => refuse(why),
        }
    }

    /// [`Self::row`], to be written.
    ///
    /// # Panics
    /// As [`Self::row`].
    #[track_caller]
    pub fn row_mut(&mut self, of: impl RowIndex<N>) -> &mut [T] {
        match self.row_range(of.index()).map(|row| self.piece.part_mut(row)) {
            Ok(Some(row)) => row,
            Ok(None) => refuse(DistError::NoNode),
            Err(why) => refuse(why),
        }
    }

    /// The places of a row, whose last index does not count.
    fn row_range(&self, mut index: [i64; N]) -> Result<Range<usize>, DistError> {
        if let Some(why) = self.why_closed() {
            return Err(why);
        }
        // Where nothing is owned along the last dimension, no element is.
        let Some(own) = self.desc.owned(N - 1).bounds() else { return Ok(0..0) };
        index[N - 1] = own.start;
        self.place(index)?;
        self.desc.row(index).ok_or(DistError::Scattered { index: own.start })
    }

    /// Sets all elements that this node owns.
    #[track_caller]
    pub fn fill(&mut self, value: T) {
        for index in self.here().indices() {
            self[index] = value;
        }
    }

    /// Other nodes may write the shadow.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Why no element is here, if an exchange is the reason.
    #[cold]
    pub(crate) fn why_closed(&self) -> Option<DistError> {
        let why = if self.is_pending() { DistError::Moving } else { DistError::Failed };
        self.desc.is_closed().then_some(why)
    }

    fn scattered(&self) -> DistError {
        if let Some(why) = self.why_closed() {
            return why;
        }
        DistError::Scattered { index: self.desc.owned(N - 1).bounds().map_or(0, |own| own.start) }
    }

    /// The place of an element in this node's block.
    #[inline]
    fn place(&self, index: [i64; N]) -> Result<usize, DistError> {
        match self.desc.offset(index) {
            Some(at) if !self.is_pending() || self.desc.owns_here(index) => Ok(at),
            Some(_) => Err(DistError::Pending),
            None => Err(self.why_closed().unwrap_or_else(|| self.desc.explain(index))),
        }
    }
}

/// The indices of a row of an array of `N` dimensions: all but the last one.
pub trait RowIndex<const N: usize> {
    /// With any last one.
    fn index(self) -> [i64; N];
}

impl RowIndex<1> for () {
    fn index(self) -> [i64; 1] {
        [0]
    }
}

impl RowIndex<2> for i64 {
    fn index(self) -> [i64; 2] {
        [self, 0]
    }
}

macro_rules! row_indices {
    ($($n:literal $outer:literal: $($i:ident)*;)*) => {$(
        impl RowIndex<$n> for [i64; $outer] {
            fn index(self) -> [i64; $n] {
                let [$($i),*] = self;
                [$($i,)* 0]
            }
        }
    )*};
}
row_indices! {
    1 0: ;
    2 1: a;
    3 2: a b;
    4 3: a b c;
    5 4: a b c d;
    6 5: a b c d e;
    7 6: a b c d e f;
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
