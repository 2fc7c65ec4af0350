//! What the tests of the Omni compiler assert of `gmove`, by their names: local copies, all to all,
//! broadcasts, redistribution, from global to local, matrices of sections, arrays of one to seven
//! dimensions, on 2 to 16 nodes.

use super::gmove::{all, compare, number, number_by};
use super::{run, world};
use hamr_comm::Fault;
use hamr_xacc::dist::{Dist, NodeSet, Shape, on, whole};
use hamr_xacc::section::{Sel, Step, triplet};
use hamr_xacc::{Array, Spmd};

const N: i64 = 24;

/// The lengths of unequal blocks on so many nodes.
fn sizes(nodes: i64) -> Vec<i64> {
    let mut sizes: Vec<_> = (0..nodes).map(|node| (node * 7 + 3) % 5 % (N / 4)).collect();
    let rest = (N - sizes[1..].iter().sum::<i64>()).max(0);
    sizes[0] = rest;
    let more = sizes.iter().sum::<i64>() - N;
    let last = sizes.iter().rposition(|size| *size >= more).unwrap_or(0);
    sizes[last] -= more;
    sizes
}

/// Distributions of a line of `N` elements.
fn lines<'g>(sizes: &'g [i64]) -> [Dist<'g>; 6] {
    let blocks = (N as u64).div_ceil(sizes.len() as u64) as i64 + 1;
    [Dist::Block, Dist::Cyclic, Dist::CyclicOf(3), Dist::CyclicOf(2), Dist::BlockOf(blocks), Dist::GBlock(sizes)]
}

fn line<'g>(by: Dist<'g>, w: &Spmd<'_>) -> Result<Shape<'g, 1>, Fault> {
    Ok(w.nodes([w.size()])?.template([N]).distribute([by])?)
}

fn numbers(n: i64) -> Vec<u64> {
    (1..=n as u64).collect()
}

#[test]
fn gmove_lc_and_cp() {
    for ranks in [2, 4, 8] {
        // Local copies where both are the same, redistribution otherwise.
        let done = run(&world(ranks), |w| {
            let sizes = sizes(w.size());
            for from in lines(&sizes) {
                let mut a = line(from, w)?.zeros(w)?;
                number(&mut a, 1);
                for to in lines(&sizes) {
                    let mut b = line(to, w)?.shadow([if matches!(to, Dist::Block) { 2 } else { 0 }]).zeros(w)?;
                    b.gmove(&a, w)?;
                    compare(&b, &numbers(N))?;
                    b.section_mut([(1..N).step(2)]).gmove(a.section([(0..N).step(-2)]), w)?;
                    let value = |i: u64| if i % 2 == 1 { N as u64 - i + 1 } else { i + 1 };
                    compare(&b, &(0..N as u64).map(value).collect::<Vec<_>>())?;
                }
            }
            Ok(())
        });
        assert_eq!(done, Ok(()), "{ranks} ranks");
    }
}

#[test]
fn gmove_ata() {
    for ranks in [2, 4, 12] {
        // Rows become columns: every node sends to every other.
        let done = run(&world(ranks), |w| {
            let t = w.nodes([w.size()])?.template([13, 9]);
            for by in [Dist::Block, Dist::CyclicOf(2)] {
                let mut a = t.distribute([by, Dist::Whole])?.zeros(w)?;
                let mut b = t.distribute([Dist::Whole, by])?.zeros(w)?;
                number(&mut a, 1);
                b.gmove(&a, w)?;
                compare(&b, &numbers(13 * 9))?;
                a.fill(0);
                a.gmove(&b, w)?;
                compare(&a, &numbers(13 * 9))?;
            }
            Ok(())
        });
        assert_eq!(done, Ok(()), "{ranks} ranks");
    }
}

#[test]
fn gmove_bca_and_bca_2() {
    for ranks in [4, 8, 16] {
        // A row goes to arrays that all nodes of the other dimension have.
        let done = run(&world(ranks), |w| {
            let grid = w.nodes([w.size() / 2, 2])?.template([10, 12]);
            let t = grid.distribute([Dist::Block, Dist::Cyclic])?;
            let mut a = t.zeros(w)?;
            number(&mut a, 1);
            let mut row = t.align([on(1)]).zeros::<u64>(w)?;
            let mut column = t.align([on(0)]).zeros::<u64>(w)?;
            let mut panel = t.align([whole(3), on(1)]).zeros::<u64>(w)?;
            row.gmove(a.section([Sel::Index(7), Sel::All]), w)?;
            compare(&row, &(0..12).map(|j| 7 * 12 + j + 1).collect::<Vec<_>>())?;
            column.gmove(a.section([Sel::All, Sel::Index(11)]), w)?;
            compare(&column, &(0..10).map(|i| i * 12 + 12).collect::<Vec<_>>())?;
            panel.gmove(a.section([triplet(2, 3, 3), Sel::All]), w)?;
            let rows = [2, 5, 8].into_iter().flat_map(|i| (0..12).map(move |j| i * 12 + j + 1));
            compare(&panel, &rows.collect::<Vec<_>>())?;
            // And back, from one of the replicas.
            a.section_mut([Sel::Index(0), Sel::All]).gmove(&row, w)?;
            a.section_mut([Sel::All, (..).step(12)]).gmove(a_column(&column, w)?.section([Sel::All]), w)?;
            let value = |(i, j): (u64, u64)| match (i, j) {
                (i, 0) => i * 12 + 12,
                (0, j) => 7 * 12 + j + 1,
                (i, j) => i * 12 + j + 1,
            };
            compare(&a, &(0..10).flat_map(|i| (0..12).map(move |j| (i, j))).map(value).collect::<Vec<_>>())
        });
        assert_eq!(done, Ok(()), "{ranks} ranks");
    }
}

/// Number 337: rows of a plane to an array that each row of nodes has all rows of. The others stay.
#[test]
fn gmove_337() {
    let done = run(&world(4), |w| {
        let t = w.nodes([2, 2])?.template([4, 4]).distribute([Dist::Block; 2])?;
        let (mut a, mut b) = (t.zeros(w)?, t.align([whole(4), on(1)]).zeros(w)?);
        number(&mut a, 1);
        b.section_mut([triplet(0, 2, 1), Sel::All]).gmove(a.section([triplet(0, 2, 1), Sel::All]), w)?;
        compare(&b, &(1..=16).map(|at| if at <= 8 { at } else { 0 }).collect::<Vec<_>>())
    });
    assert_eq!(done, Ok(()));
}

/// The same values on other nodes.
fn a_column<'c>(of: &Array<'c, u64, 1>, w: &mut Spmd<'c>) -> Result<Array<'c, u64, 1>, Fault> {
    let mut other = w.nodes([w.size()])?.template([10]).distribute([Dist::Cyclic])?.zeros(w)?;
    other.gmove(of, w)?;
    Ok(other)
}

#[test]
fn gmove_g2l() {
    for ranks in [2, 8] {
        let done = run(&world(ranks), |w| {
            let sizes = sizes(w.size());
            for by in lines(&sizes) {
                let mut a = line(by, w)?.zeros(w)?;
                number(&mut a, 1);
                let mut here = [0u64; N as usize];
                a.gather(&mut here, w)?;
                assert_same(&here, &numbers(N))?;
                let mut some = [0u64; 8];
                a.section([triplet(22, 8, -3)]).gather(&mut some, w)?;
                assert_same(&some, &[23, 20, 17, 14, 11, 8, 5, 2])?;
                let mut one = [0u64];
                a.section([Sel::Index(5)]).gather(&mut one, w)?;
                assert_same(&one, &[6])?;
            }
            Ok(())
        });
        assert_eq!(done, Ok(()), "{ranks} ranks");
    }
}

fn assert_same(got: &[u64], expected: &[u64]) -> Result<(), Fault> {
    if got == expected { Ok(()) } else { Err(Fault::msg(&format!("{got:?}"))) }
}

#[test]
fn test_normal() {
    // Left: a section or an element. Right: those, a local section, a value.
    let done = run(&world(4), |w| {
        let mut a = line(Dist::Block, w)?.zeros(w)?;
        let mut b = line(Dist::CyclicOf(3), w)?.zeros(w)?;
        number(&mut a, 1);
        let mut expected = vec![0; N as usize];
        b.section_mut([triplet(4, 5, 3)]).gmove(a.section([triplet(20, 5, -4)]), w)?;
        (0..5).for_each(|nth| expected[4 + nth * 3] = 21 - nth as u64 * 4);
        compare(&b, &expected)?;
        b.section_mut([triplet(0, 3, 1)]).gmove(a.section([Sel::Index(17)]), w)?;
        expected[..3].fill(18);
        compare(&b, &expected)?;
        b.section_mut([Sel::Index(23)]).gmove(a.section([Sel::Index(0)]), w)?;
        expected[23] = 1;
        compare(&b, &expected)?;
        b.section_mut([triplet(12, 4, 2)]).gmove(&[91, 92, 93, 94][..], w)?;
        (0..4).for_each(|nth| expected[12 + nth * 2] = 91 + nth as u64);
        compare(&b, &expected)?;
        b.section_mut([Sel::Index(11)]).gmove(&[95][..], w)?;
        b.section_mut([triplet(20, 2, 1)]).gmove(96, w)?;
        (expected[11], expected[20], expected[21]) = (95, 96, 96);
        compare(&b, &expected)
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn test_in_and_inout() {
    let done = run(&world(6), |w| {
        let mut a = line(Dist::CyclicOf(3), w)?.shared(w)?;
        let desc = *a.view(w).desc();
        let mut view = a.view_mut(w);
        number_by(&desc, 1, |index, value| view[index] = value);
        let mut b = line(Dist::Block, w)?.zeros(w)?;
        w.barrier()?;
        a.gmove_in([Sel::All], b.section_mut([(..).step(-1)]), w)?;
        compare(&b, &numbers(N).into_iter().rev().collect::<Vec<_>>())?;
        let (mut some, mut one) = ([0u64; 6], [0u64]);
        a.read([triplet(23, 6, -4)], &mut some, w)?;
        assert_same(&some, &[24, 20, 16, 12, 8, 4])?;
        a.read([Sel::Index(13)], &mut one, w)?;
        assert_same(&one, &[14])?;
        // In a task, of all nodes' elements; the others go on.
        let low = NodeSet::from(w.nodes([6])?.sub::<1>([triplet(1, 2, 2)])?);
        let mut inner = Ok(());
        w.task(low, |w| {
            inner = (|| {
                let mut c = w.nodes([2])?.template([5]).distribute([Dist::Cyclic])?.zeros(w)?;
                a.gmove_in([triplet(2, 5, 4)], c.section_mut([Sel::All]), w)?;
                compare(&c, &[3, 7, 11, 15, 19])?;
                a.gmove_in([Sel::Index(6)], c.section_mut([Sel::All]), w)?;
                compare(&c, &[7; 5])
            })();
        })?;
        inner?;
        w.barrier()
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn test_out_and_inout() {
    let done = run(&world(6), |w| {
        let grid = w.nodes([3, 2])?.template([9, 8]).distribute([Dist::Block, Dist::Cyclic])?;
        let mut a = grid.shared(w)?;
        let mut replicated = grid.align([on(1)]).shared::<u64>(w)?;
        let mut b = line(Dist::Cyclic, w)?.zeros(w)?;
        number(&mut b, 1);
        a.gmove_out([triplet(1, 3, 3), Sel::All], b_plane(&b, w)?.section([Sel::All; 2]), w)?;
        if w.me() == 4 {
            a.write([Sel::Index(0), (0..8).step(3)], &[91, 92, 93], w)?;
            a.write([Sel::Index(8), Sel::Index(8 - 1)], &[94], w)?;
            replicated.write([(..).step(-1)], &numbers(8), w)?;
        }
        w.barrier()?;
        let value = |(i, j): (u64, u64)| match (i, j) {
            (1 | 4 | 7, j) => (i - 1) / 3 * 8 + j + 1,
            (0, 0 | 3 | 6) => 91 + j / 3,
            (8, 7) => 94,
            _ => 0,
        };
        compare(&a.view(w), &(0..9).flat_map(|i| (0..8).map(move |j| (i, j))).map(value).collect::<Vec<_>>())?;
        compare(&replicated.view(w), &numbers(8).into_iter().rev().collect::<Vec<_>>())
    });
    assert_eq!(done, Ok(()));
}

/// A line of 24 elements as a plane.
fn b_plane<'c>(of: &Array<'c, u64, 1>, w: &mut Spmd<'c>) -> Result<Array<'c, u64, 2>, Fault> {
    let mut plane = w.nodes([w.size()])?.template([3, 8]).distribute([Dist::Whole, Dist::Block])?.zeros(w)?;
    for row in 0..3 {
        plane.section_mut([Sel::Index(row), Sel::All]).gmove(of.section([triplet(row * 8, 8, 1)]), w)?;
    }
    Ok(plane)
}

#[test]
fn opt_53_and_54() {
    // Arrays on different parts of the nodes.
    let done = run(&world(8), |w| {
        let nodes = w.nodes([8])?;
        let low = nodes.sub::<1>([triplet(0, 3, 1)])?.template([N]).distribute([Dist::Block])?;
        let high = nodes.sub::<1>([triplet(3, 3, 2)])?.template([N]).distribute([Dist::Cyclic])?;
        let (mut a, mut b) = (low.zeros(w)?, high.zeros(w)?);
        number(&mut a, 1);
        b.gmove(&a, w)?;
        compare(&b, &numbers(N))?;
        a.fill(0);
        a.section_mut([(..).step(-1)]).gmove(&b, w)?;
        compare(&a, &numbers(N).into_iter().rev().collect::<Vec<_>>())?;
        // In a task of those nodes only.
        let members = NodeSet::from(nodes.sub::<1>([triplet(3, 3, 2)])?);
        let mut inner = Ok(());
        w.task(members, |w| {
            inner = (|| {
                let mut c = w.nodes([3])?.template([N]).distribute([Dist::BlockOf(10)])?.zeros(w)?;
                c.gmove(&b, w)?;
                compare(&c, &numbers(N))
            })();
        })?;
        inner
    });
    assert_eq!(done, Ok(()));
}

/// An array of these extents is redistributed from its first dimensions to its last ones.
macro_rules! dimensions {
    ($($name:ident: $extents:expr, $from:expr, $to:expr, $nodes:expr, $ranks:expr;)+) => {
        $(#[test]
        fn $name() {
            let done = run(&world($ranks), |w| {
                let (mut a, mut b) = (
                    w.nodes($nodes)?.template($extents).distribute($from)?.zeros(w)?,
                    w.nodes($nodes)?.template($extents).distribute($to)?.zeros(w)?,
                );
                number(&mut a, 1);
                b.gmove(&a, w)?;
                let count = all(b.desc()).len() as i64;
                compare(&b, &numbers(count))?;
                // Backwards along all dimensions.
                a.section_mut([(..).step(-1); _]).gmove(&b, w)?;
                compare(&a, &numbers(count).into_iter().rev().collect::<Vec<_>>())
            });
            assert_eq!(done, Ok(()));
        })+
    };
}

use Dist::{Block, Cyclic, CyclicOf, Whole};

dimensions! {
    rank_1: [17], [Block], [CyclicOf(2)], [4], 4;
    rank_2: [7, 5], [Block, Cyclic], [Cyclic, Block], [2, 2], 4;
    rank_3: [5, 4, 6], [Block, Whole, Cyclic], [Whole, Block, Block], [2, 2], 4;
    rank_4: [3, 4, 2, 5], [Block, Block, Whole, Block], [CyclicOf(2), Whole, Block, Cyclic], [2, 2, 2], 8;
    rank_5: [3, 2, 2, 3, 4], [Block, Whole, Whole, Whole, Cyclic], [Whole, Whole, Block, Block, Whole], [2, 3], 6;
    rank_6: [2, 2, 2, 3, 2, 3], [Block, Block, Block, Whole, Whole, Whole], [Whole, Whole, Whole, Block, Cyclic, Block], [2, 2, 2], 8;
    rank_7: [2, 2, 2, 2, 2, 2, 3], [Block, Whole, Whole, Whole, Whole, Whole, Whole], [Whole, Whole, Whole, Whole, Whole, Whole, Cyclic], [3], 3;
}
