//! One node's part of an array, without a world around it.

use core::ops::{Index, IndexMut};
use hamr_xacc::dist::{Desc, Dist, NodeSet, Nodes, Shape};
use hamr_xacc::each::{Axis, Rows};

/// What node `me` of a grid of nodes knows of a template.
pub(crate) fn grid<const R: usize, const D: usize>(
    nodes: [u32; R],
    me: u32,
    extent: [i64; D],
    by: [Dist; D],
) -> Shape<D> {
    let nodes = Nodes::new(NodeSet::of_world(nodes.iter().product()), me, nodes).expect("nodes");
    nodes.template(extent).distribute(by).expect("a distribution")
}

/// The block of this node, from the start of a cache line on.
#[derive(Clone, Debug)]
pub(crate) struct Field<'g, T, const N: usize> {
    desc: Desc<'g, N>,
    elements: Vec<T>,
    start: usize,
}

impl<'g, T: Copy + Default, const N: usize> Field<'g, T, N> {
    /// With these values, in the shadow, too.
    pub(crate) fn new(shape: Shape<'g, N>, value: impl Fn([i64; N]) -> T) -> Self {
        let desc = shape.desc(size_of::<T>()).expect("a layout");
        let mut elements = Vec::<T>::with_capacity(desc.elements() + 64);
        let start = elements.as_ptr().align_offset(64);
        elements.resize(start + desc.elements(), T::default());
        let mut field = Self { desc, elements, start };
        let widest = shape.widths().map(|width| match width {
            hamr_xacc::dist::Width::Full => 64,
            hamr_xacc::dist::Width::Of(below, above) => below.max(above),
        });
        for run in shape.all().expand_unbound(widest).runs() {
            for k in 0..run.len as i64 {
                let mut index = run.first;
                index[N - 1] += k;
                if field.desc.offset(index).is_some() {
                    field[index] = value(index);
                }
            }
        }
        field
    }
}

impl<T: Copy, const N: usize> Index<[i64; N]> for Field<'_, T, N> {
    type Output = T;

    fn index(&self, index: [i64; N]) -> &T {
        let at = self.desc.offset(index).unwrap_or_else(|| panic!("{}", self.desc.explain(index)));
        &self.elements[self.start + at]
    }
}

impl<T: Copy, const N: usize> IndexMut<[i64; N]> for Field<'_, T, N> {
    fn index_mut(&mut self, index: [i64; N]) -> &mut T {
        let at = self.desc.offset(index).unwrap_or_else(|| panic!("{}", self.desc.explain(index)));
        &mut self.elements[self.start + at]
    }
}

impl<T: Copy, const N: usize> Rows<N> for Field<'_, T, N> {
    type Element = T;

    fn row_axis(&self, dim: usize) -> Axis {
        Axis::of(&self.desc, dim)
    }

    #[inline]
    fn row_part(&self, at: usize, len: usize, _: [i64; N]) -> &[T] {
        &self.elements[self.start + at..][..len]
    }

    #[inline]
    fn row_part_mut(&mut self, at: usize, len: usize, _: [i64; N]) -> &mut [T] {
        &mut self.elements[self.start + at..][..len]
    }
}
