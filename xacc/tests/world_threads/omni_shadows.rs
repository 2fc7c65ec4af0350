//! What the tests of the Omni compiler and of its XcalableACC part assert of shadows, by their names.

use super::gmove::all;
use super::model::indices;
use super::{run, world};
use hamr_comm::Fault;
use hamr_xacc::dist::Dist::{self, Block, Whole};
use hamr_xacc::dist::Width::{self, Full};
use hamr_xacc::plan::Halo;
use hamr_xacc::{Array, Spmd};
use std::array::from_fn;

type Widths<const N: usize> = [(u32, u32); N];

/// No element has it.
const NONE: u64 = u64::MAX;

fn code<const N: usize>(index: [i64; N], round: u64) -> u64 {
    index.into_iter().fold(round, |code, i| code * 100 + i as u64)
}

fn set<const N: usize>(a: &mut Array<'_, u64, N>, round: u64) {
    let me = a.desc().me();
    for index in all(a.desc()) {
        if a.desc().owns(me, index) {
            a[index] = code(index, round);
        }
    }
}

/// Checks all elements of a node's block: its own, what halos of these widths bring, and the rest of the shadow.
fn compare<const N: usize>(
    a: &Array<'_, u64, N>,
    shadow: Widths<N>,
    halos: &[Widths<N>],
    round: u64,
) -> Result<(), Fault> {
    let own: [_; N] = from_fn(|dim| a.desc().owned_range(dim).unwrap_or(0..0));
    if own.iter().any(|own| own.is_empty()) {
        return Ok(());
    }
    let block = |by: Widths<N>| -> [_; N] {
        from_fn(|dim| own[dim].start - i64::from(by[dim].0)..own[dim].end + i64::from(by[dim].1))
    };
    for index in indices(block(shadow)) {
        let is_in = |block: [std::ops::Range<i64>; N]| (0..N).all(|dim| block[dim].contains(&index[dim]));
        let exists = (0..N).all(|dim| a.desc().range(dim).contains(&index[dim]));
        let is_set = is_in(own.clone()) || halos.iter().any(|halo| exists && is_in(block(*halo)));
        let expected = if is_set { code(index, round) } else { NONE };
        if a[index] != expected {
            return Err(Fault::msg(&format!("{index:?} is {}, not {expected}", a[index])));
        }
    }
    Ok(())
}

/// Reflects of an array, each with other elements.
fn reflects<const R: usize, const N: usize>(
    w: &mut Spmd<'_>,
    (nodes, extents, by): ([u32; R], [i64; N], [Dist<'_>; N]),
    (shadow, halo): (Widths<N>, Widths<N>),
    rounds: u64,
) -> Result<(), Fault> {
    w.scope(|w| {
        let mut a = w.nodes(nodes)?.template(extents).distribute(by)?.shadow(shadow).full(NONE, w)?;
        for round in 0..rounds {
            set(&mut a, round);
            if round % 2 == 0 {
                a.reflect_with(Halo::new(halo), w)?;
            } else {
                a.reflect_start(Halo::new(halo), w)?;
                a.reflect_finish(w)?;
            }
            compare(&a, shadow, &[halo], round)?;
        }
        Ok(())
    })
}

/// Rounds of the tests that Omni calls massive, of which every second one is asynchronous.
const MASSIVE: u64 = 30;

#[test]
fn basic_and_reflect_acc_1_2_3_with_dup_and_massive() {
    for rounds in [1, 2, MASSIVE] {
        let done = run(&world(4), move |w| {
            reflects(w, ([4], [16], [Block]), ([(1, 1)], [(1, 1)]), rounds)?;
            reflects(w, ([2, 2], [9, 10], [Block; 2]), ([(1, 1); 2], [(1, 1); 2]), rounds)?;
            reflects(w, ([4], [7, 10], [Whole, Block]), ([(0, 0), (2, 2)], [(0, 0), (2, 2)]), rounds)
        });
        assert_eq!(done, Ok(()), "{rounds} rounds");
    }
    // All 26 neighbours of a node.
    let done = run(&world(8), |w| reflects(w, ([2; 3], [6, 5, 7], [Block; 3]), ([(1, 1); 3], [(1, 1); 3]), 4));
    assert_eq!(done, Ok(()));
}

#[test]
fn reflect_acc_oneside() {
    let done = run(&world(4), |w| {
        for side in [(1, 0), (0, 1), (0, 3), (2, 0)] {
            reflects(w, ([4], [16], [Block]), ([side], [side]), 2)?;
        }
        // Less than there is room for.
        reflects(w, ([2, 2], [8, 8], [Block; 2]), ([(2, 1), (1, 2)], [(0, 1), (1, 0)]), 2)
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn reflect_array4d_dist3d_and_dist4d_and_width2() {
    let done = run(&world(8), |w| {
        for n in [1, 2] {
            let widths = |by: [Dist<'_>; 4]| by.map(|by| if by == Whole { (0, 0) } else { (n, n) });
            let by = [Block, Block, Block, Whole];
            reflects(w, ([2; 3], [4, 6, 5, 3], by), (widths(by), widths(by)), 2)?;
            let by = [Whole, Block, Block, Block];
            reflects(w, ([2; 3], [3, 4, 6, 5], by), (widths(by), widths(by)), 2)?;
            reflects(w, ([2, 2, 1, 2], [4, 5, 4, 6], [Block; 4]), ([(n, n); 4], [(n, n); 4]), 2)?;
        }
        Ok(())
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn reflect_array4d_dist4d_lxux() {
    // Two nodes along each dimension in turn: every shadow of 0 or 2 on each side of it, and of the other
    // dimensions, and every halo along it that fits.
    for dim in 0..4 {
        let done = run(&world(2), move |w| {
            let nodes: [u32; 4] = from_fn(|at| if at == dim { 2 } else { 1 });
            let sides = [(0, 0), (2, 0), (0, 2), (2, 2)];
            for (own, others) in sides.into_iter().flat_map(|own| sides.map(|others| (own, others))) {
                let shadow = from_fn(|at| if at == dim { own } else { others });
                for (lower, upper) in (0..=own.0).flat_map(|lower| (0..=own.1).map(move |upper| (lower, upper))) {
                    let halo = from_fn(|at| if at == dim { (lower, upper) } else { (0, 0) });
                    reflects(w, (nodes, [4; 4], [Block; 4]), (shadow, halo), 1)?;
                }
            }
            Ok(())
        });
        assert_eq!(done, Ok(()), "dimension {dim}");
    }
}

#[test]
fn reflect_reallocated() {
    // The memory of an array is that of the one before.
    let done = run(&world(4), |w| {
        for size in [12, 20, 8, 12] {
            reflects(w, ([2, 2], [size, size + 1], [Block; 2]), ([(1, 1); 2], [(1, 1); 2]), 2)?;
        }
        Ok(())
    });
    assert_eq!(done, Ok(()));
}

/// The halo of a full shadow is the whole dimension.
fn full<const R: usize, const N: usize>(
    w: &mut Spmd<'_>,
    (nodes, extents, by): ([u32; R], [i64; N], [Dist<'_>; N]),
) -> Result<(), Fault> {
    let shadow = by.map(|by| if by == Whole { Width::NONE } else { Full });
    let mut a = w.nodes(nodes)?.template(extents).distribute(by)?.shadow(shadow).full(NONE, w)?;
    for round in 0..3 {
        set(&mut a, round);
        a.reflect(w)?;
        if let Some(index) = all(a.desc()).into_iter().find(|index| a[*index] != code(*index, round)) {
            return Err(Fault::msg(&format!("{index:?} is {}", a[index])));
        }
    }
    Ok(())
}

#[test]
fn full_and_full2_full3_full4() {
    let done = run(&world(4), |w| {
        full(w, ([4], [10], [Block]))?;
        full(w, ([2, 2], [6, 7], [Block; 2]))?;
        full(w, ([2, 2], [6, 4, 5], [Block, Whole, Block]))?;
        full(w, ([4], [9, 3], [Dist::Cyclic, Whole]))?;
        full(w, ([2, 2], [3, 6, 5, 4], [Whole, Block, Dist::CyclicOf(2), Whole]))
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn ordinal_reflect() {
    // Dimensions one after the other bring what all of them at once do without the corners.
    let done = run(&world(8), |w| {
        let shape = w.nodes([2; 3])?.template([6, 5, 7]).distribute([Block; 3])?.shadow([1; 3]);
        let [mut a, mut b] = shape.fulls([NONE; 2], w)?;
        let axes: [Widths<3>; 3] = from_fn(|axis| from_fn(|dim| if dim == axis { (1, 1) } else { (0, 0) }));
        for round in 0..3 {
            set(&mut a, round);
            set(&mut b, round);
            for axis in axes {
                a.reflect_with(Halo::new(axis), w)?;
            }
            b.reflect_with(Halo::new([1; 3]).orthogonal(), w)?;
            compare(&a, [(1, 1); 3], &axes, round)?;
            compare(&b, [(1, 1); 3], &axes, round)?;
        }
        Ok(())
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn reduce_shadow() {
    // Elements at the ends of blocks are in two nodes.
    let done = run(&world(4), |w| {
        let shape = w.nodes([4])?.template([16]).distribute([Block])?.shadow([1]);
        let mut a = shape.zeros::<u64>(w)?;
        let own = a.range()?;
        for i in (own.start - 1..own.end + 1).filter(|i| (0..16).contains(i)) {
            a[[i]] = i as u64;
        }
        a.reduce_shadow(w)?;
        for i in own.clone() {
            let times = if (i % 4 == 0 && i > 0) || (i % 4 == 3 && i < 15) { 2 } else { 1 };
            if a[[i]] != times * i as u64 {
                return Err(Fault::msg(&format!("{i} is {}", a[[i]])));
            }
        }
        Ok(())
    });
    assert_eq!(done, Ok(()));
}
