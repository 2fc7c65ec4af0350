//! `gmove_sum`, and reductions of replicated arrays.

use super::gmove::{all, cases};
use super::model::{self, Dim};
use super::{run, world};
use hamr_comm::Fault;
use hamr_xacc::collective::{Max, Sum};
use hamr_xacc::dist::{Dist, Shape, on};
use hamr_xacc::{Array, Spmd};
use proptest::prelude::*;

/// An array along one dimension of the nodes, which are half of them by two, replicated along the other one.
pub(crate) fn line<'g>(dim: &'g Dim, along: usize, w: &Spmd<'_>) -> Result<Shape<'g, 1>, Fault> {
    let nodes = w.nodes([w.size() / 2, 2])?;
    let (own, other) = (dim.lo..dim.lo + dim.len, 0..1);
    let by = dim.by.dist();
    let shape = if along == 0 {
        nodes.template([own, other]).distribute([by, Dist::Block])?
    } else {
        nodes.template([other, own]).distribute([Dist::Block, by])?
    };
    Ok(shape.align([on(along).offset(dim.offset).range(dim.range())]).shadow([dim.width()]))
}

/// What a node holds of an element: sums of these depend on their order.
fn part(index: i64, rank: impl Into<i64>) -> f64 {
    let rank = rank.into();
    1.0 / (rank as f64 * 3.0 + index as f64 + 20.0) * if rank % 2 == 0 { 1e9 } else { 1.0 }
}

pub(crate) fn own<const N: usize>(array: &Array<'_, f64, N>) -> Vec<[i64; N]> {
    let me = array.desc().me();
    all(array.desc()).into_iter().filter(|index| array.desc().owns(me, *index)).collect()
}

fn compare(array: &Array<'_, f64, 1>, expected: impl Fn([i64; 1]) -> f64) -> Result<(), Fault> {
    for index in own(array) {
        if array[index].to_bits() != expected(index).to_bits() {
            return Err(Fault::msg(&format!("{index:?} is {}, not {}", array[index], expected(index))));
        }
    }
    Ok(())
}

/// The dimension of a template along nodes cannot be whole.
pub(crate) fn dim(nodes: u32) -> impl Strategy<Value = Dim> {
    model::dim(nodes).prop_filter("distributed", |dim| !matches!(dim.by, model::By::Whole))
}

#[test]
fn replicas_are_summed_in_the_order_of_their_nodes() {
    let lines = (0usize..2).prop_flat_map(|along| (dim([3, 2][along]), Just(along)));
    cases(5, (lines, 0usize..2), |w, ((from, along), to_along)| {
        let mut v = line(from, *along, w)?.zeros::<f64>(w)?;
        let to =
            Dim { lo: from.range().start, ..model::plain(from.range().end - from.range().start, [3, 2][*to_along]) };
        let mut q = line(&to, *to_along, w)?.full(f64::NAN, w)?;
        let me = v.desc().me();
        for index in own(&v) {
            v[index] = part(index[0], me);
        }
        let desc = *v.desc();
        let parts = |index: [i64; 1]| desc.owners(index).ranks().map(move |rank| part(index[0], rank));
        let sum = |index: [i64; 1]| parts(index).reduce(|a, b| a + b).unwrap_or(0.0);
        q.gmove_sum(&v, w)?;
        compare(&q, sum)?;
        v.reduce(Sum, w)?;
        compare(&v, sum)?;
        for index in own(&v) {
            v[index] = part(index[0], me);
        }
        v.reduce(Max, w)?;
        compare(&v, |index| parts(index).fold(0.0, f64::max))
    });
}

#[test]
fn long_replicas_are_reduced_in_slices() {
    for ranks in [1, 2, 5] {
        let done = run(&world(ranks), |w| {
            let mut a = w.own([3, 401]).zeros::<f64>(w)?;
            let me = w.me();
            for index in own(&a) {
                a[index] = part(index[0] * 401 + index[1], me);
            }
            a.reduce(Sum, w)?;
            for index in own(&a) {
                let sum = (0..w.size()).map(|rank| part(index[0] * 401 + index[1], rank)).reduce(|a, b| a + b);
                if Some(a[index]) != sum {
                    return Err(Fault::msg(&format!("{index:?} is {}, not {sum:?}", a[index])));
                }
            }
            Ok(())
        });
        assert_eq!(done, Ok(()), "{ranks} ranks");
    }
}
