//! For tests of loops: one node's part of an array, in memory of the caller's own and without a world around it.

use super::rows::sealed::Sealed;
use super::{Axis, Rows};
use crate::dist::{Desc, Shape};
use core::ops::{Index, IndexMut};

/// The block of one node (see the module).
#[derive(Debug)]
pub struct Field<'f, 'g, T, const N: usize> {
    desc: Desc<'g, N>,
    elements: &'f mut [T],
}

impl<'f, 'g, T: Copy, const N: usize> Field<'f, 'g, T, N> {
    /// Over a part of `memory` that begins with a cache line. `None`: it is too short, or the shape has no layout.
    pub fn new(shape: Shape<'g, N>, memory: &'f mut [T]) -> Option<Self> {
        let desc = shape.desc(size_of::<T>()).ok()?;
        let start = memory.as_ptr().align_offset(64);
        let elements = memory.get_mut(start..)?.get_mut(..desc.elements())?;
        Some(Self { desc, elements })
    }

    /// Where elements are in the block.
    pub fn desc(&self) -> &Desc<'g, N> {
        &self.desc
    }

    #[track_caller]
    fn offset(&self, index: [i64; N]) -> usize {
        self.desc.offset(index).unwrap_or_else(|| panic!("{}", self.desc.explain(index)))
    }
}

impl<T: Copy, const N: usize> Index<[i64; N]> for Field<'_, '_, T, N> {
    type Output = T;

    fn index(&self, index: [i64; N]) -> &T {
        &self.elements[self.offset(index)]
    }
}

impl<T: Copy, const N: usize> IndexMut<[i64; N]> for Field<'_, '_, T, N> {
    fn index_mut(&mut self, index: [i64; N]) -> &mut T {
        let at = self.offset(index);
        &mut self.elements[at]
    }
}

impl<T: Copy, const N: usize> Sealed for Field<'_, '_, T, N> {}

impl<T: Copy, const N: usize> Rows<N> for Field<'_, '_, T, N> {
    type Element = T;

    fn row_axis(&self, dim: usize) -> Axis {
        Axis::of(&self.desc, dim)
    }

    #[inline]
    fn row_part(&self, at: usize, len: usize, _: [i64; N]) -> &[T] {
        &self.elements[at..][..len]
    }

    #[inline]
    fn row_part_mut(&mut self, at: usize, len: usize, _: [i64; N]) -> &mut [T] {
        &mut self.elements[at..][..len]
    }
}
