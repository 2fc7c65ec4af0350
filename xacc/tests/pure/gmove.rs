//! Any section to any section: what all ranks copy is what an assignment of the whole arrays does.

use super::model::{self, Dim, elements, indices, numbers, one, pair};
use hamr_xacc::dist::{Desc, Dist, DistError, NodeSet, Nodes, Shape, on};
use hamr_xacc::plan::{Copy, Gmove};
use hamr_xacc::section::{Region, Sel, Step};
use proptest::prelude::*;

/// A block of every rank, and the value of an element that no copy has written.
type Blocks = Vec<Vec<u64>>;
const NONE: u64 = 0;

/// Blocks in which each element of its owners has its own number from 1 on.
pub(crate) fn filled<const N: usize>(desc: &Desc<'_, N>, ranks: u32) -> Blocks {
    let mut blocks = vec![vec![NONE; desc.elements()]; ranks as usize];
    let all = indices(std::array::from_fn(|dim| desc.range(dim)));
    for (value, index) in all.into_iter().enumerate() {
        for rank in desc.owners(index).ranks() {
            blocks[rank as usize][desc.offset_at(rank, index).expect("its owner has it")] = value as u64 + 1;
        }
    }
    blocks
}

/// Makes a copy, each element once.
pub(crate) fn apply(copy: &Copy, from: &[u64], to: &mut [u64]) -> Result<(), TestCaseError> {
    let mut count = 0;
    for (a, b, run) in copy.runs() {
        for nth in 0..run {
            prop_assert_eq!(to[a + nth], NONE, "written twice");
            to[a + nth] = from[b + nth];
        }
        count += run;
    }
    prop_assert!(count == copy.len() && count > 0);
    let parts: usize = copy.spans(2).map(|part| part.len()).sum();
    prop_assert_eq!(parts, count);
    let (to_range, from_range) = copy.bounds();
    prop_assert!(copy.runs().all(|(a, b, run)| to_range.start <= a
        && a + run <= to_range.end
        && from_range.start <= b
        && b + run <= from_range.end));
    prop_assert!(copy.levels().iter().all(|level| level.count > 1 && level.to > 0));
    Ok(())
}

fn check<const N: usize, const M: usize>(
    to: &Desc<'_, N>,
    to_region: Region<N>,
    from: &Desc<'_, M>,
    from_region: Region<M>,
) -> Result<(), TestCaseError> {
    let ranks = to.nodes().with(from.nodes()).ranks().last().map_or(0, |last| last + 1);
    let source = filled(from, ranks);
    let mut expected = vec![vec![NONE; to.elements()]; ranks as usize];
    let values = elements(&from_region);
    for (nth, index) in elements(&to_region).into_iter().enumerate() {
        let value = values[if values.len() == 1 { 0 } else { nth }];
        let owner = from.owner(value).expect("in the array");
        let value = source[owner as usize][from.offset_at(owner, value).expect("its owner has it")];
        for rank in to.owners(index).ranks() {
            expected[rank as usize][to.offset_at(rank, index).expect("its owner has it")] = value;
        }
    }
    let mut got = vec![vec![NONE; to.elements()]; ranks as usize];
    let plan = Gmove::new(to, to_region, from, from_region).expect("the sections agree");
    for (rank, block) in got.iter_mut().enumerate() {
        let mut sources = NodeSet::EMPTY;
        for sender in 0..ranks {
            for copy in plan.copies(sender, rank as u32) {
                sources = sources.with(NodeSet::one(sender));
                apply(&copy, &source[sender as usize], block)?;
            }
            prop_assert_eq!(plan.destinations(sender).contains(rank as u32), sources.contains(sender));
        }
        prop_assert_eq!(plan.sources(rank as u32), sources);
    }
    prop_assert_eq!(got, expected);
    Ok(())
}

fn region<const N: usize>(desc: &Desc<'_, N>, sel: [Sel; N]) -> Region<N> {
    desc.region(sel).expect("within")
}

/// Whether a section that is a part of a longer one has the dimensions that are expected.
fn agrees<const N: usize, const M: usize>(to: &Desc<'_, N>, a: Region<N>, from: &Desc<'_, M>, b: Region<M>) -> bool {
    Gmove::new(to, a, from, b).is_ok()
}

/// A dimension on the second or first of two dimensions of nodes, replicated along the other one.
fn replicated<'g>(dim: &'g [Dim; 1], more: u32, first: bool) -> Shape<'g, 1> {
    let Dim { lo, len, nodes, .. } = dim[0];
    let (own, other) = (lo..lo + len, 0..1);
    let team = NodeSet::of_world(nodes * more);
    let by = dim[0].by.dist();
    if matches!(by, Dist::Whole) {
        return model::shape(dim, 0);
    }
    let shape = if first {
        Nodes::new(team, 0, [nodes, more]).expect("fits").template([own, other]).distribute([by, Dist::Block])
    } else {
        Nodes::new(team, 0, [more, nodes]).expect("fits").template([other, own]).distribute([Dist::Block, by])
    };
    let along = on(usize::from(!first)).offset(dim[0].offset).range(dim[0].range());
    shape.expect("valid").align([along]).shadow([dim[0].width()])
}

proptest! {
    #![proptest_config(model::config(1))]

    #[test]
    fn of_one_dimension(a in (1u32..7).prop_flat_map(model::dim), b in (1u32..7).prop_flat_map(model::dim), n in numbers()) {
        let (a, b) = ([a], [b]);
        let (to, from) = (model::shape(&a, 0).desc(8).expect("small"), model::shape(&b, 0).desc(4).expect("small"));
        let (x, y) = pair(to.range(0), from.range(0), n);
        check(&to, region(&to, [x]), &from, region(&from, [y]))?;
    }

    #[test]
    fn of_long_cyclic_arrays(n in 50i64..130, p in 1u32..5, q in 1u32..5, b in 1i64..7, c in 1i64..7, m in numbers()) {
        let shape = |p, b| Nodes::new(NodeSet::of_world(p), 0, [p]).expect("fits").template([n]).distribute([Dist::CyclicOf(b)]);
        let (to, from) = (shape(p, b).expect("valid"), shape(q, c).expect("valid"));
        let (to, from) = (to.desc(8).expect("small"), from.desc(8).expect("small"));
        let (x, y) = pair(0..n, 0..n, m);
        check(&to, region(&to, [x]), &from, region(&from, [y]))?;
    }

    #[test]
    fn of_replicated_arrays(
        a in (1u32..4).prop_flat_map(model::dim),
        b in (1u32..4).prop_flat_map(model::dim),
        more in (1u32..4, 1u32..4),
        first in (any::<bool>(), any::<bool>()),
        n in numbers(),
    ) {
        let (a, b) = ([a], [b]);
        let to = replicated(&a, more.0, first.0).desc(8).expect("small");
        let from = replicated(&b, more.1, first.1).desc(8).expect("small");
        let (x, y) = pair(to.range(0), from.range(0), n);
        check(&to, region(&to, [x]), &from, region(&from, [y]))?;
    }
}

proptest! {
    #![proptest_config(model::config(4))]

    #[test]
    fn of_two_dimensions(
        a in (1u32..4, 1u32..4).prop_flat_map(|(p, q)| [model::dim(p), model::dim(q)]),
        b in (1u32..4, 1u32..4).prop_flat_map(|(p, q)| [model::dim(p), model::dim(q)]),
        n in [numbers(), numbers()],
    ) {
        let (to, from) = (model::shape(&a, 0).desc(8).expect("small"), model::shape(&b, 0).desc(8).expect("small"));
        let [(x0, y0), (x1, y1)] = [0, 1].map(|dim| pair(to.range(dim), from.range(dim), n[dim]));
        let (x, y) = (region(&to, [x0, x1]), region(&from, [y0, y1]));
        if agrees(&to, x, &from, y) {
            check(&to, x, &from, y)?;
        } else {
            // Sections of one element in one dimension may not be told apart from single indices.
            prop_assert!(x.dims.iter().zip(y.dims).any(|(a, b)| a.len != b.len));
        }
    }

    #[test]
    fn between_one_and_two_dimensions(
        a in (1u32..4, 1u32..4).prop_flat_map(|(p, q)| [model::dim(p), model::dim(q)]),
        b in (1u32..5).prop_flat_map(model::dim),
        n in numbers(),
        at in any::<u16>(),
        dim in 0usize..2,
    ) {
        let b = [b];
        let (plane, line) = (model::shape(&a, 0).desc(8).expect("small"), model::shape(&b, 0).desc(8).expect("small"));
        let (x, y) = pair(plane.range(dim), line.range(0), n);
        let fixed = one(plane.range(1 - dim), at);
        let (x, y) = (region(&plane, if dim == 0 { [x, fixed] } else { [fixed, x] }), region(&line, [y]));
        if !plane.range(1 - dim).is_empty() {
            check(&plane, x, &line, y)?;
            check(&line, y, &plane, x)?;
        }
        // One element to all of a section.
        let (from, to) = (one(line.range(0), at), region(&plane, [Sel::All, (..).step(-2)]));
        if !line.range(0).is_empty() {
            check(&plane, to, &line, region(&line, [from]))?;
        }
    }
}

#[test]
fn sections_of_other_shapes_are_refused() {
    let grid = Nodes::new(NodeSet::of_world(4), 0, [2, 2]).expect("fits").template([6, 8]);
    let a = grid.distribute([Dist::Block, Dist::Cyclic]).expect("valid").desc(8).expect("small");
    let of = |sel| a.region(sel).expect("within");
    let refused = |x, y| Gmove::new(&a, of(x), &a, of(y)).err();
    assert_eq!(
        refused([Sel::All, Sel::All], [Sel::All, (0..4).into()]),
        Some(DistError::Shapes { dim: 1, to: 8, from: 4 })
    );
    assert_eq!(refused([Sel::All, Sel::Index(1)], [Sel::All; 2]), Some(DistError::Shapes { dim: 1, to: 1, from: 8 }));
    assert_eq!(refused([Sel::All; 2], [Sel::Index(1), Sel::All]), Some(DistError::Shapes { dim: 0, to: 6, from: 8 }));
    assert_eq!(refused([Sel::All, Sel::Index(3)], [Sel::All, (0..1).into()]), None);
}

#[test]
fn a_long_regular_transfer_is_one_copy() {
    let line = |by| {
        Nodes::new(NodeSet::of_world(4), 0, [4]).expect("fits").template([1 << 20]).distribute([by]).expect("valid")
    };
    let (block, cyclic) = (line(Dist::Block).desc(8).expect("fits"), line(Dist::Cyclic).desc(8).expect("fits"));
    let all = block.region([Sel::All]).expect("all");
    let plan = Gmove::new(&cyclic, all, &block, all).expect("agrees");
    let copies: Vec<_> = plan.copies(1, 3).collect();
    assert_eq!(copies.len(), 1);
    assert_eq!((copies[0].run, copies[0].levels().len(), copies[0].len()), (1, 1, 1 << 16));
    let same: Vec<_> = Gmove::new(&block, all, &block, all).expect("agrees").copies(2, 2).collect();
    assert_eq!((same.len(), same[0].run, same[0].levels().len()), (1, 1 << 18, 0));
}
