//! What the programs write, and what a misuse is told.

use hamr_xacc::Int;
use hamr_xacc::dist::{Dist, DistError, NodeSet, Nodes, Shape, Width, on, width};
use hamr_xacc::section::{Sel, Step, Triplet, triplet};

fn nodes<const R: usize>(me: u32, shape: [u32; R]) -> Nodes<R> {
    Nodes::new(NodeSet::of_world(shape.iter().product()), me, shape).expect("they fit")
}

#[test]
fn nodes_have_coordinates_neighbours_and_parts() {
    let n = nodes(4, [2, 3]);
    assert_eq!((n.here(), n.image([1, 2])), ([1, 1], 5));
    assert_eq!((n.neighbour(0, -1), n.neighbour(0, 1), n.neighbour(1, 1)), (Some(1), None, Some(5)));
    let row = n.set([Sel::Own, Sel::All]);
    assert_eq!(row.ranks().collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!((row.rank(1), row.number(5), row.number(2)), (Some(4), Some(2), None));
    let column = n.sub::<1>([Sel::All, Sel::Index(1)]).expect("one dimension is left");
    assert_eq!((column.shape(), column.here(), column.image([1])), ([2], [1], 4));
    let ends = n.sub::<2>([Sel::All, (0..3).step(2)]).expect("both are left");
    assert_eq!((ends.place(5), ends.place(4), NodeSet::from(ends).len()), (Some([1, 1]), None, 4));
    assert!(matches!(n.sub::<1>([Sel::All, Sel::All]), Err(DistError::Rank { expected: 1, got: 2 })));
    // Within a part of a world, numbers are those of the part.
    let part = Nodes::new(row, 5, [3]).expect("a row has three");
    assert_eq!((part.here(), part.neighbour(0, -1), part.place(3)), ([2], Some(1), Some([0])));
}

/// What a program gives may be of any integer type; what it gets is an `i64`.
#[test]
fn numbers_are_of_any_type() {
    fn with<I: Int + From<u8>>(n: I) {
        let two = || I::from(2);
        let nodes = Nodes::new(NodeSet::of_world(4), 1, [two(), two()]).expect("four");
        let shape = nodes.template([n, n]).distribute([Dist::Block, Dist::BlockOf(6)]).expect("it fits");
        let here: [i64; 2] = nodes.here();
        assert_eq!((here, nodes.image([I::from(0), I::from(1)])), ([0, 1], 1));
        assert_eq!(shape.on([I::from(0)..n, I::from(1)..n]).step([two(), I::from(1)]).len(), 15);
        assert_eq!(shape.all().within([two()..n, I::from(7)..n]).len(), 16);
        assert_eq!(
            nodes.template([I::from(1)..n]).distribute([Dist::Whole]).err(),
            Some(DistError::Rank { expected: 2, got: 0 })
        );
        assert!(NodeSet::one(two()).contains(two()) && NodeSet::of_world(4).rank(I::from(4)).is_none());
    }
    with(11u8);
    with(11u16);
    with(11i16);
    with(11i32);
    with(11u32);
    with(11i64);
    with(11u64);
    with(11usize);
    assert!(Nodes::new(NodeSet::of_world(4), 0, [-4]).is_err() && NodeSet::one(-1).is_empty());
    assert_eq!(NodeSet::one(u64::MAX).with([1u8, 3].into_iter().collect()).ranks().collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn himeno_grid_is_addressed_with_its_halo() {
    let grid = nodes(1, [2, 2]).template([128, 128, 256]).distribute([Dist::Block, Dist::Block, Dist::Whole]);
    let grid = grid.expect("it fits");
    let p = grid.shadow([1, 1, 0]).desc(4).expect("it fits");
    assert_eq!(p.extents(), [66, 66, 256]);
    // A row of 1024 bytes would be a multiple of 512.
    assert_eq!(p.pitches(), [66 * 272, 272, 1]);
    assert_eq!(p.offset([0, 64, 0]), Some((66 + 1) * 272));
    assert_eq!(p.offset([-1, 63, 255]), Some(255));
    assert_eq!((p.offset([65, 64, 0]), p.offset([0, 62, 0])), (None, None));
    assert_eq!(p.explain([0, 62, 0]).to_string(), "dimension 1: index 62, here are 63..129");
    assert_eq!((p.owner([127, 0, 3]), p.owner([128, 0, 3])), (Some(2), None));
    let run = grid.on([1..127, 1..127, 1..255]).runs().next().expect("not empty");
    assert_eq!((run.first, run.len, run.step), ([1, 64, 1], 254, 1));
}

#[test]
fn vectors_of_cg_are_replicated() {
    let t = nodes(2, [2, 2]).template([10, 10]).distribute([Dist::Block, Dist::Block]).expect("it fits");
    let (v, x) = (t.align([on(0)]), t.align([on(1)]));
    assert_eq!(
        (v.replicas(2).ranks().collect::<Vec<_>>(), x.replicas(2).ranks().collect::<Vec<_>>()),
        (vec![2, 3], vec![0, 2])
    );
    assert_eq!(v.desc(8).and_then(|v| v.owned_range(0)), Ok(5..10));
    assert_eq!(x.desc(8).map(|x| x.contiguous()), Ok(Some(0..5)));
    assert_eq!(x.owners([7]).ranks().collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn misuses_name_dimension_and_range() {
    let n = nodes(0, [4]);
    assert_eq!(Nodes::new(NodeSet::of_world(4), 0, [3]).err(), Some(DistError::Nodes { expected: 4, got: 3 }));
    let refused = |by| n.template([10]).distribute([by]).err();
    assert_eq!(refused(Dist::BlockOf(2)), Some(DistError::Blocks { dim: 0, room: 8, len: 10 }));
    assert_eq!(refused(Dist::GBlock(&[5, 5])), Some(DistError::Parts { dim: 0, expected: 4, got: 2 }));
    assert_eq!(refused(Dist::GBlock(&[5, 5, 0, 1])), Some(DistError::Blocks { dim: 0, room: 11, len: 10 }));
    for (by, room) in [
        (Dist::BlockOf(-3), 0),
        (Dist::CyclicOf(-1), 0),
        (Dist::CyclicOf(0), 0),
        (Dist::GBlock(&[5, -1, 6, 0]), u64::MAX),
    ] {
        assert_eq!(refused(by), Some(DistError::Blocks { dim: 0, room, len: 10 }), "{by:?}");
    }
    assert_eq!(refused(Dist::Whole), Some(DistError::Rank { expected: 1, got: 0 }));
    assert_eq!(n.template([-1]).distribute([Dist::Block]).err(), Some(DistError::Extent { dim: 0, lo: 0, hi: -1 }));
    let fault = hamr_comm::Fault::from(DistError::Outside { dim: 1, index: -9, lo: 0, hi: 5 });
    assert_eq!(fault.text.as_str(), "dimension 1: index -9 outside of 0..5");
}

#[test]
#[should_panic(expected = "dimension 0: index 10 outside of 0..10")]
fn a_loop_beyond_the_array_is_refused() {
    let shape = nodes(0, [2]).template([10, 10]).distribute([Dist::Block, Dist::Whole]).expect("it fits");
    let _ = shape.on([0..11, 0..10]);
}

#[test]
#[should_panic(expected = "dimension 0 is cyclic")]
fn a_shadow_of_a_cyclic_dimension_is_refused() {
    let shape = nodes(0, [2]).template([10]).distribute([Dist::Cyclic]).expect("it fits");
    let _ = shape.shadow([1]);
}

#[test]
fn a_node_without_elements_is_no_exception() {
    let shape = |me| nodes(me, [4]).template([3]).distribute([Dist::BlockOf(2)]).expect("it fits").shadow([(1, 0)]);
    assert_eq!(shape(2).all().runs().count(), 0);
    let desc = shape(3).desc(8).expect("it fits");
    assert_eq!((desc.elements(), desc.offset([0]), desc.owned_range(0)), (3, None, Ok(3..3)));
    assert_eq!(desc.offset_at(1, [1]), Some(0));
}

#[test]
fn arrays_of_one_node_each_need_no_nodes() {
    let own = Shape::own(NodeSet::of_world(3), 1, [4, 5]).expect("it fits");
    assert_eq!((own.all().len(), own.replicas(1).len()), (20, 3));
    let full = own.shadow([Width::Full, width(1)]).desc(8).expect("it fits");
    assert_eq!(full.extents(), [4, 7]);
}

#[test]
fn sections_resolve_to_triplets() {
    let within = |sel: Sel| sel.within(0, 0..10);
    assert_eq!(within((2..10).step(-3)), Ok(Triplet { first: 9, len: 3, step: -3 }));
    assert_eq!(within((..).step(4)), Ok(Triplet { first: 0, len: 3, step: 4 }));
    assert_eq!(within(triplet(8, 4, -2)), Ok(Triplet { first: 8, len: 4, step: -2 }));
    assert_eq!(within(Sel::from(3..3)).map(|t| t.len), Ok(0));
    assert_eq!(within(Sel::from(3..=9)).map(|t| t.len), Ok(7));
    assert_eq!(within(triplet(8, 2, 2)), Err(DistError::Outside { dim: 0, index: 10, lo: 0, hi: 10 }));
    assert_eq!(within((..).step(0)), Err(DistError::Step { dim: 0 }));
    assert_eq!(
        within(triplet(1, i64::MAX, i64::MAX)),
        Err(DistError::Outside { dim: 0, index: i64::MAX, lo: 0, hi: 10 })
    );
}
