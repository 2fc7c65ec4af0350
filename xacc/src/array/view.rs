//! A node's own elements of what others write, too, until it communicates.
//!
//! No `&mut Array` leads out of here: it could be swapped with that of an array whose slices others may not write.

use super::{Array, RowIndex};
use core::ops::{Deref, Index, IndexMut};
use hamr_comm::Element;

/// The elements of a coarray or a shared array that this node has. It borrows the [`Spmd`](crate::Spmd), so it ends at
/// the next communication.
pub struct View<'a, 'c, T, const N: usize> {
    array: &'a Array<'c, T, N>,
}

/// [`View`], to be written. A loop that writes it writes all elements of its share.
pub struct ViewMut<'a, 'c, T, const N: usize> {
    pub(crate) array: &'a mut Array<'c, T, N>,
}

impl<'a, 'c, T, const N: usize> View<'a, 'c, T, N> {
    pub(crate) fn new(array: &'a Array<'c, T, N>) -> Self {
        Self { array }
    }
}

impl<'a, 'c, T: Element, const N: usize> ViewMut<'a, 'c, T, N> {
    pub(crate) fn new(array: &'a mut Array<'c, T, N>) -> Self {
        Self { array }
    }

    /// The elements in row-major order.
    ///
    /// # Panics
    /// As [`Array::local`].
    #[track_caller]
    pub fn local_mut(&mut self) -> &mut [T] {
        self.array.local_mut()
    }

    /// The elements of a row.
    ///
    /// # Panics
    /// As [`Array::row`].
    #[track_caller]
    pub fn row_mut(&mut self, of: impl RowIndex<N>) -> &mut [T] {
        self.array.row_mut(of)
    }

    /// Sets all elements.
    #[track_caller]
    pub fn fill(&mut self, value: T) {
        self.array.fill(value);
    }
}

/// What can be asked of an array without writing it.
impl<'c, T, const N: usize> Deref for View<'_, 'c, T, N> {
    type Target = Array<'c, T, N>;
    fn deref(&self) -> &Self::Target {
        self.array
    }
}

/// What can be asked of an array without writing it.
impl<'c, T, const N: usize> Deref for ViewMut<'_, 'c, T, N> {
    type Target = Array<'c, T, N>;
    fn deref(&self) -> &Self::Target {
        self.array
    }
}

impl<T: Element, const N: usize> Index<[i64; N]> for ViewMut<'_, '_, T, N> {
    type Output = T;
    #[inline]
    #[track_caller]
    fn index(&self, index: [i64; N]) -> &T {
        &self.array[index]
    }
}

impl<T: Element, const N: usize> IndexMut<[i64; N]> for ViewMut<'_, '_, T, N> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, index: [i64; N]) -> &mut T {
        &mut self.array[index]
    }
}
