//! One node's part of an array, without a world around it.

use hamr_xacc::dist::{Dist, NodeSet, Nodes, Shape};

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

/// The block of this node with these values, in the shadow, too. Its memory is never freed.
pub(crate) fn block<'g, T: Copy + Default, const N: usize>(
    shape: Shape<'g, N>,
    value: impl Fn([i64; N]) -> T,
) -> hamr_xacc::each::Field<'static, 'g, T, N> {
    let elements = shape.desc(size_of::<T>()).expect("a layout").elements();
    let memory = vec![T::default(); elements + 64].leak();
    let mut field = hamr_xacc::each::Field::new(shape, memory).expect("it is long enough");
    let widest = shape.widths().map(|width| match width {
        hamr_xacc::dist::Width::Full => 64,
        hamr_xacc::dist::Width::Of(below, above) => below.max(above),
    });
    for run in shape.all().expand_unbound(widest).runs() {
        for k in 0..run.len as i64 {
            let mut index = run.first;
            index[N - 1] += k;
            if field.desc().offset(index).is_some() {
                field[index] = value(index);
            }
        }
    }
    field
}
