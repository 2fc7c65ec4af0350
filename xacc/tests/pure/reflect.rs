//! Halos: every element of a halo that the array has is its owner's, and nothing else is written.

use super::gmove::{apply, filled};
use super::model::{self, Dim, indices};
use hamr_xacc::dist::{Dist, DistError, NodeSet, Nodes, Width};
use hamr_xacc::plan::{Halo, Reflect};
use proptest::prelude::*;

/// How far an index of a dimension is outside of what the receiver owns, as the halo counts it, and
/// the index that it stands for; `None`: it is neither own nor in the halo.
fn stands_for(dim: &Dim, at: u32, width: Width, periodic: bool, index: i64) -> Option<(bool, i64)> {
    let range = dim.range();
    let own: Vec<i64> = range.clone().filter(|index| dim.owner(*index) == Some(at)).collect();
    if own.contains(&index) {
        return Some((false, index));
    }
    let wrapped = || {
        if range.contains(&index) || !periodic || range.is_empty() {
            return index;
        }
        range.start + (index - range.start).rem_euclid(range.end - range.start)
    };
    let near = match (width, &own[..]) {
        (Width::Full, _) => range.contains(&index),
        (Width::Of(..), []) => false,
        (Width::Of(below, above), [first, ..]) => {
            let last = own[own.len() - 1];
            (first - i64::from(below)..*first).contains(&index)
                || (last + 1..last + 1 + i64::from(above)).contains(&index)
        }
    };
    // A full shadow ends where the array does.
    let near = near && (dim.shadow.is_some() || range.contains(&index));
    (near && range.contains(&wrapped())).then(|| (true, wrapped()))
}

fn check<const N: usize>(
    dims: &[Dim; N],
    halo: Halo<N>,
    widths: [Width; N],
    periodic: [bool; N],
    orthogonal: bool,
) -> Result<(), TestCaseError> {
    let (shape, ranks) = (model::shape(dims, 0), model::size(dims));
    let desc = shape.desc(8).expect("small");
    let source = filled(&desc, ranks);
    let plan = Reflect::new(&desc, halo).expect("within the shadow");
    for to in 0..ranks {
        let mut expected = vec![0; desc.elements()];
        let tables: [Vec<_>; N] = std::array::from_fn(|dim| {
            let (range, at) = (dims[dim].range(), model::coordinate(dims, to, dim));
            let stands = |index| Some((index, stands_for(&dims[dim], at, widths[dim], periodic[dim], index)?));
            (range.start - 4..range.end + 4).filter_map(stands).collect()
        });
        for nth in indices::<N>(std::array::from_fn(|dim| 0..tables[dim].len() as i64)) {
            let stands: [_; N] = std::array::from_fn(|dim| tables[dim][nth[dim] as usize]);
            let halos = stands.iter().filter(|(_, (halo, _))| *halo).count();
            if halos == 0 || (orthogonal && halos > 1) {
                continue;
            }
            let owned = stands.map(|(_, (_, owned))| owned);
            let owner = model::owner(dims, owned).expect("in the array");
            let value = source[owner as usize][desc.offset_at(owner, owned).expect("its owner has it")];
            expected[desc.offset_at(to, stands.map(|stands| stands.0)).expect("in the shadow")] = value;
        }
        let mut got = vec![0; desc.elements()];
        for from in 0..ranks {
            for copy in plan.copies(from, to) {
                apply(&copy, &source[from as usize], &mut got)?;
                prop_assert!(plan.sources(to).contains(from) && plan.destinations(from).contains(to));
            }
        }
        prop_assert_eq!(got, expected);
    }
    Ok(())
}

/// A halo within the shadow: some of its width, or all.
fn widths<const N: usize>(dims: &[Dim; N], less: [(u32, u32); N]) -> [Width; N] {
    std::array::from_fn(|dim| match dims[dim].width() {
        Width::Full if less[dim] == (1, 1) && !dims[dim].is_cyclic() => Width::Of(2, 1),
        Width::Full => Width::Full,
        Width::Of(below, above) => Width::Of(below.saturating_sub(less[dim].0), above.saturating_sub(less[dim].1)),
    })
}

fn checked<const N: usize>(
    dims: &[Dim; N],
    less: [(u32, u32); N],
    periodic: [bool; N],
    orthogonal: bool,
) -> Result<(), TestCaseError> {
    let widths = widths(dims, less);
    let halo = if less == [(0, 0); N] { Halo::ALL } else { Halo::new(widths) }.periodic(periodic);
    check(dims, if orthogonal { halo.orthogonal() } else { halo }, widths, periodic, orthogonal)
}

proptest! {
    #![proptest_config(model::config(1))]

    #[test]
    fn of_one_dimension(dim in (1u32..7).prop_flat_map(model::dim), less in (0u32..2, 0u32..2), periodic in any::<bool>()) {
        checked(&[dim], [less], [periodic], false)?;
    }
}

proptest! {
    #![proptest_config(model::config(4))]

    #[test]
    fn of_two_dimensions(
        dims in (1u32..4, 1u32..4).prop_flat_map(|(p, q)| [model::dim(p), model::dim(q)]),
        less in [(0u32..2, 0u32..2), (0u32..2, 0u32..2)],
        periodic in any::<[bool; 2]>(),
        orthogonal in any::<bool>(),
    ) {
        checked(&dims, less, periodic, orthogonal)?;
    }
}

proptest! {
    #![proptest_config(model::config(40))]

    #[test]
    fn of_three_dimensions(
        dims in (1u32..3, 1u32..3, 1u32..3).prop_flat_map(|(p, q, r)| [model::dim(p), model::dim(q), model::dim(r)]),
        periodic in any::<[bool; 3]>(),
        orthogonal in any::<bool>(),
    ) {
        checked(&dims, [(0, 0); 3], periodic, orthogonal)?;
    }
}

#[test]
fn a_halo_wider_than_the_shadow_is_refused() {
    let shape = Nodes::new(NodeSet::of_world(2), 0, [2]).expect("fits").template([8]).distribute([Dist::Block]);
    let desc = shape.expect("valid").shadow([(1, 2)]).desc(8).expect("small");
    let refused = |halo| Reflect::new(&desc, halo).err();
    assert_eq!(refused(Halo::new([(1, 3)])), Some(DistError::Halo { dim: 0, shadow: 2, halo: 3 }));
    assert_eq!(refused(Halo::new([(2, 0)])), Some(DistError::Halo { dim: 0, shadow: 1, halo: 2 }));
    assert!(refused(Halo::new([(0, 2)])).is_none() && refused(Halo::new([Width::Full])).is_some());
}

#[test]
fn a_plane_is_one_copy() {
    let grid = Nodes::new(NodeSet::of_world(2), 0, [2]).expect("fits").template([128, 128, 256]);
    let shape = grid.distribute([Dist::Block, Dist::Whole, Dist::Whole]).expect("valid");
    let p = shape.shadow([1, 1, 0]).desc(4).expect("fits");
    let copies: Vec<_> = Reflect::new(&p, Halo::ALL).expect("fits").copies(0, 1).collect();
    assert_eq!(copies.len(), 1);
    assert_eq!((copies[0].run, copies[0].levels().len(), copies[0].len()), (256, 1, 128 * 256));
}
