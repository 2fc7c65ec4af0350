//! Parts of loops: what is inside of a node's own part, its margin, and beyond it.

use super::model::{self, Dim, indices};
use hamr_xacc::dist::{Reach, Share};
use proptest::prelude::*;
use std::ops::Range;

/// The iterations that a share's runs hand out, in their order.
fn iterations<const N: usize>(share: &Share<N>) -> Vec<[i64; N]> {
    let mut all = Vec::new();
    for run in share.runs() {
        assert!(run.len > 0 && run.step > 0);
        for nth in 0..run.len {
            let mut index = run.first;
            index[N - 1] += nth as i64 * run.step;
            all.push(index);
        }
    }
    assert_eq!(share.len(), all.len());
    all
}

/// A range within another one, by two numbers.
fn part(of: &Range<i64>, a: u8, b: u8) -> Range<i64> {
    let len = of.end - of.start + 1;
    let (a, b) = (i64::from(a) % len, i64::from(b) % len);
    of.start + a.min(b)..of.start + a.max(b)
}

type Sides<const N: usize> = [(u32, u32); N];

fn check<const N: usize>(
    dims: &[Dim; N],
    cuts: [(u8, u8); N],
    steps: [u32; N],
    reach: Sides<N>,
) -> Result<(), TestCaseError> {
    let ranges: [_; N] = std::array::from_fn(|dim| part(&dims[dim].range(), cuts[dim].0, cuts[dim].1));
    for rank in 0..model::size(dims) {
        let shape = model::shape(dims, rank);
        let share = shape.on(ranges.clone()).step(steps);
        let owned: [Vec<bool>; N] = std::array::from_fn(|dim| {
            let range = dims[dim].range();
            (range.start - 8..range.end + 8)
                .map(|index| dims[dim].owner(index) == Some(model::coordinate(dims, rank, dim)))
                .collect()
        });
        let owns = |dim: usize, index: i64| {
            owned[dim].get((index - dims[dim].range().start + 8) as usize).copied().unwrap_or(false)
        };
        let looped = |index: &[i64; N], dim: usize| {
            ranges[dim].contains(&index[dim]) && (index[dim] - ranges[dim].start) % i64::from(steps[dim]) == 0
        };
        let near = |index: &[i64; N], dim: usize| -> (bool, bool) {
            let (below, above) = (i64::from(reach[dim].0), i64::from(reach[dim].1));
            let at = index[dim];
            let inner = (at - below..=at + above).all(|at| owns(dim, at));
            let beyond = (at - above..=at + below).any(|at| owns(dim, at));
            (inner, beyond)
        };
        let around = indices::<N>(std::array::from_fn(|dim| dims[dim].range().start - 5..dims[dim].range().end + 5));
        let of = |wanted: &dyn Fn(&[i64; N]) -> bool| around.iter().copied().filter(wanted).collect::<Vec<_>>();
        let mine = |index: &[i64; N]| (0..N).all(|dim| looped(index, dim) && owns(dim, index[dim]));
        let inner = |index: &[i64; N]| (0..N).all(|dim| near(index, dim).0);
        prop_assert_eq!(iterations(&share), of(&mine));
        prop_assert_eq!(iterations(&share.inner(reach)), of(&|index| mine(index) && inner(index)));
        prop_assert_eq!(iterations(&share.margin(reach)), of(&|index| mine(index) && !inner(index)));
        prop_assert_eq!(
            iterations(&share.expand(reach)),
            of(&|index| (0..N).all(|dim| looped(index, dim) && near(index, dim).1))
        );
        let unbound = |index: &[i64; N], dim: usize| {
            let (below, above) = (i64::from(reach[dim].0), i64::from(reach[dim].1));
            (ranges[dim].start - below..ranges[dim].end + above).contains(&index[dim])
                && (index[dim] - ranges[dim].start) % i64::from(steps[dim]) == 0
                && near(index, dim).1
        };
        prop_assert_eq!(
            iterations(&share.expand_unbound(reach)),
            of(&|index| !ranges.iter().any(|range| range.is_empty()) && (0..N).all(|dim| unbound(index, dim)))
        );
        for index in &around {
            let margin = share.margin(reach);
            prop_assert_eq!(margin.contains(*index), mine(index) && !inner(index));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(model::config(1))]

    #[test]
    fn of_one_dimension(
        dim in (1u32..7).prop_flat_map(model::dim),
        cut in any::<(u8, u8)>(),
        step in 1u32..4,
        reach in (0u32..4, 0u32..4),
    ) {
        check(&[dim], [cut], [step], [reach])?;
    }
}

proptest! {
    #![proptest_config(model::config(4))]

    #[test]
    fn of_two_dimensions(
        dims in (1u32..4, 1u32..4).prop_flat_map(|(p, q)| [model::dim(p), model::dim(q)]),
        cuts in any::<[(u8, u8); 2]>(),
        steps in [1u32..4, 1u32..4],
        reach in [(0u32..3, 0u32..3), (0u32..3, 0u32..3)],
    ) {
        check(&dims, cuts, steps, reach)?;
    }
}

#[test]
fn a_number_reaches_along_distributed_dimensions_only() {
    let dims = [model::plain(16, 2), model::plain(5, 1)];
    let share = model::shape(&dims, 0).all();
    assert_eq!(share.inner(1), share.inner(Reach::Each([(1, 1), (0, 0)])));
    assert_eq!((share.len(), share.inner(1).len(), share.margin(1).len()), (40, 30, 10));
}
