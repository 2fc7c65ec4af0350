//! Random distributions.

use super::model::{self, Dim};
use hamr_xacc::dist::Dist::{Block, BlockOf, Cyclic, CyclicOf};
use hamr_xacc::dist::{Extent, NodeSet, Nodes, on};
use proptest::prelude::*;
use std::collections::HashSet;

/// Everything that a description says of its elements, against counting.
fn check<const N: usize>(dims: &[Dim; N]) -> Result<(), TestCaseError> {
    let all = model::indices(std::array::from_fn(|dim| dims[dim].range()));
    let mut owned = 0;
    for rank in 0..model::size(dims) {
        let shape = model::shape(dims, rank);
        let desc = shape.desc(8).expect("small");
        let mine: Vec<_> = all.iter().copied().filter(|index| model::owner(dims, *index) == Some(rank)).collect();
        owned += mine.len();
        // The runs are the owned elements in their order.
        let mut ran = Vec::new();
        for run in shape.all().runs() {
            prop_assert!(run.len > 0 && run.step == 1);
            for nth in 0..run.len {
                let mut index = run.first;
                index[N - 1] += nth as i64;
                ran.push(index);
            }
        }
        prop_assert_eq!(&ran, &mine);
        prop_assert_eq!(shape.all().len(), mine.len());
        let mut places = HashSet::new();
        for index in &mine {
            prop_assert_eq!(desc.owner(*index), Some(rank));
            prop_assert!(desc.owns(rank, *index) && shape.all().contains(*index));
            let place = desc.offset(*index);
            prop_assert_eq!(model::shape(dims, 0).desc(8).expect("small").offset_at(rank, *index), place);
            prop_assert!(place.is_some_and(|place| place < desc.elements() && places.insert(place)));
        }
        if let Some(range) = desc.contiguous() {
            prop_assert_eq!(range.len(), mine.len());
            prop_assert!(mine.iter().zip(range).all(|(index, place)| desc.offset(*index) == Some(place)));
        }
        // The shadow: as far around the own ones as it is wide, each element with a place of its own.
        let around = std::array::from_fn(|dim| dims[dim].range().start - 4..dims[dim].range().end + 4);
        for index in model::indices(around) {
            let here = (0..N).all(|dim| held(&dims[dim], model::coordinate(dims, rank, dim), index[dim]));
            let place = desc.offset(index);
            prop_assert_eq!(place.is_some(), here, "{:?} on {}", index, rank);
            prop_assert!(place.is_none_or(|place| place < desc.elements()));
            if let Some(place) = place.filter(|_| !desc.owns(rank, index)) {
                prop_assert!(places.insert(place), "{:?} shares its place", index);
            }
        }
    }
    prop_assert_eq!(owned, all.len());
    Ok(())
}

/// Whether an index of a dimension is an own one of a coordinate, or in its shadow.
fn held(dim: &Dim, at: u32, index: i64) -> bool {
    let own: Vec<i64> = dim.range().filter(|index| dim.owner(*index) == Some(at)).collect();
    match (dim.shadow, &own[..]) {
        (None, _) => dim.range().contains(&index),
        (Some(_), []) => false,
        (Some((below, above)), [first, ..]) => {
            let last = own[own.len() - 1];
            own.contains(&index)
                || (first - i64::from(below)..*first).contains(&index)
                || (last + 1..last + 1 + i64::from(above)).contains(&index)
        }
    }
}

proptest! {
    #![proptest_config(model::config(1))]

    #[test]
    fn owners_and_places_of_one_dimension(dims in (1u32..7).prop_flat_map(model::dim)) {
        check(&[dims])?;
    }
}

proptest! {
    #![proptest_config(model::config(4))]

    #[test]
    fn owners_and_places_of_two_dimensions(dims in (1u32..4, 1u32..4).prop_flat_map(|(a, b)| [model::dim(a), model::dim(b)])) {
        check(&dims)?;
    }
}

/// Blocks and shadows as long as numbers go, on as many nodes as there may be.
#[test]
fn the_longest_blocks_are_those_of_the_first_nodes() {
    const MOST: i64 = 1 << 56;
    for by in [CyclicOf(i64::MAX), CyclicOf(1 << 57), CyclicOf(1 << 51), BlockOf(i64::MAX), Cyclic, Block] {
        for (lo, hi) in [(1 - MOST, MOST - 1), (MOST - 20, MOST - 1), (1 - MOST, 20 - MOST)] {
            let shape = |me| {
                let nodes = Nodes::new(NodeSet::of_world(64), me, [64]).expect("64");
                nodes.template([Extent::from(lo..hi)]).distribute([by]).expect("it fits")
            };
            if by != Cyclic {
                let all: i64 = (0..64).map(|me| shape(me).all().ranges().map_or(0, |[own]| own.end - own.start)).sum();
                assert_eq!(all, hi - lo, "{by:?} of {lo}..{hi}");
            }
            let aligned = shape(63).align([on(0).offset(lo).range(0..10)]);
            let all: usize = (0..64).map(|rank| aligned.share_of(rank).len()).sum();
            assert_eq!(all, 10, "{by:?} of {lo}..{hi}");
            assert_eq!(shape(0).owner([hi - 1]).map(|rank| shape(rank).owns(rank, [hi - 1])), Some(true), "{by:?}");
        }
    }
}
