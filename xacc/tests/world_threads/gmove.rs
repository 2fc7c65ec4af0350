//! `gmove` and `gather`.

use super::model::{self, Dim, elements, indices, numbers, pair};
use super::{RANKS, run, run_once, world};
use hamr_comm::Fault;
use hamr_xacc::dist::{Desc, Dist, Nodes, Shape};
use hamr_xacc::section::{Region, Sel, Step, triplet};
use hamr_xacc::{Array, Spmd};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::array;

/// Arrays of these dimensions are on some of the nodes of the world.
pub(crate) trait OnWorld<const N: usize> {
    fn shape<'g>(dims: &'g [Dim; N], w: &Spmd<'_>) -> Result<Shape<'g, N>, Fault>;
}

pub(crate) struct Ranks;

impl OnWorld<1> for Ranks {
    fn shape<'g>(dims: &'g [Dim; 1], w: &Spmd<'_>) -> Result<Shape<'g, 1>, Fault> {
        let nodes = w.nodes([w.size()])?;
        match &dims[0].by {
            model::By::Whole => made(nodes.sub::<0>([Sel::Index((w.size() - 1).min(2))])?, dims),
            _ => made(nodes.sub::<1>([triplet(0, dims[0].nodes.into(), 1)])?, dims),
        }
    }
}

impl OnWorld<2> for Ranks {
    fn shape<'g>(dims: &'g [Dim; 2], w: &Spmd<'_>) -> Result<Shape<'g, 2>, Fault> {
        let nodes = w.nodes([w.size() / 2, 2])?;
        let [a, b] = [0, 1].map(|dim| match dims[dim].by {
            model::By::Whole => Sel::Index(dim as i64),
            _ => triplet(0, dims[dim].nodes.into(), 1),
        });
        match (a, b) {
            (Sel::Index(_), Sel::Index(_)) => made(nodes.sub::<0>([a, b])?, dims),
            (Sel::Index(_), _) | (_, Sel::Index(_)) => made(nodes.sub::<1>([a, b])?, dims),
            _ => made(nodes.sub::<2>([a, b])?, dims),
        }
    }
}

fn made<'g, const R: usize, const N: usize>(nodes: Nodes<R>, dims: &'g [Dim; N]) -> Result<Shape<'g, N>, Fault> {
    let extents: [_; N] = std::array::from_fn(|dim| dims[dim].lo..dims[dim].lo + dims[dim].len);
    let shape = nodes.template(extents).distribute(std::array::from_fn(|dim| dims[dim].by.dist()))?;
    let shape = shape.align::<N>(std::array::from_fn(|dim| dims[dim].align(dim)));
    Ok(shape.shadow(std::array::from_fn::<_, N, _>(|dim| dims[dim].width())))
}

/// All indices of an array, row-major.
pub(crate) fn all<const N: usize>(desc: &Desc<'_, N>) -> Vec<[i64; N]> {
    indices(std::array::from_fn(|dim| desc.range(dim)))
}

/// Gives each element its number from `from` on.
pub(crate) fn number<const N: usize>(array: &mut Array<'_, u64, N>, from: u64) {
    let desc = *array.desc();
    number_by(&desc, from, |index, value| array[index] = value);
}

/// The same of elements that `set` sets.
pub(crate) fn number_by<const N: usize>(desc: &Desc<'_, N>, from: u64, mut set: impl FnMut([i64; N], u64)) {
    for (value, index) in (from..).zip(all(desc)) {
        if desc.owns(desc.me(), index) {
            set(index, value);
        }
    }
}

/// Compares this node's elements with those of the whole array.
pub(crate) fn compare<const N: usize>(array: &Array<'_, u64, N>, expected: &[u64]) -> Result<(), Fault> {
    let me = array.desc().me();
    for (index, expected) in all(array.desc()).into_iter().zip(expected) {
        if array.desc().owns(me, index) && array[index] != *expected {
            return Err(Fault::msg(&format!("{index:?} on {me} is {}, not {expected}", array[index])));
        }
    }
    Ok(())
}

/// The whole of `to`, whose elements are 0, after an assignment of a section of the numbers of `from`.
fn assigned<const N: usize, const M: usize>(
    to: &Desc<'_, N>,
    x: &Region<N>,
    from: &Desc<'_, M>,
    y: &Region<M>,
) -> Vec<u64> {
    let (there, here) = (all(to), all(from));
    let mut whole = vec![0; there.len()];
    let values: Vec<_> =
        elements(y).iter().map(|index| here.iter().position(|at| at == index).expect("in it") as u64 + 1).collect();
    for (nth, index) in elements(x).into_iter().enumerate() {
        let at = there.iter().position(|at| *at == index).expect("in it");
        whole[at] = values[if values.len() == 1 { 0 } else { nth }];
    }
    whole
}

/// One assignment of an array by an array, by a slice, and to a slice.
fn check<const N: usize, const M: usize>(
    w: &mut Spmd<'_>,
    (a, x): (&[Dim; N], [Sel; N]),
    (b, y): (&[Dim; M], [Sel; M]),
    asynchronous: bool,
) -> Result<(), Fault>
where
    Ranks: OnWorld<N> + OnWorld<M>,
{
    let mut to = Ranks::shape(a, w)?.zeros::<u64>(w)?;
    let mut from = Ranks::shape(b, w)?.zeros::<u64>(w)?;
    number(&mut from, 1);
    let (to_region, from_region) = (to.desc().region(x)?, from.desc().region(y)?);
    let expected = assigned(to.desc(), &to_region, from.desc(), &from_region);
    if asynchronous {
        to.section_mut(x).gmove_start(from.section(y), w)?;
        // The source may be written at once.
        from.fill(0);
        to.gmove_finish(w)?;
        number(&mut from, 1);
    } else {
        to.section_mut(x).gmove(from.section(y), w)?;
    }
    compare(&to, &expected)?;
    let mut here = vec![0; from_region.len()];
    from.section(y).gather(&mut here, w)?;
    let numbers = all(from.desc());
    let wrong = |(index, value): &([i64; M], u64)| numbers.get(*value as usize - 1) != Some(index);
    if let Some((index, value)) = elements(&from_region).into_iter().zip(here.iter().copied()).find(wrong) {
        return Err(Fault::msg(&format!("gathered {value} for {index:?}")));
    }
    if here.len() == to_region.len() {
        to.fill(0);
        to.section_mut(x).gmove(&here[..], w)?;
        compare(&to, &expected)?;
    }
    to.gmove(7u64, w)?;
    compare(&to, &vec![7; expected.len()])
}

/// Cases of a run: a run costs more than many of them.
pub(crate) const AT_ONCE: usize = 20;

/// Runs cases on one world. The first that fails is told as it is, because it ends the world.
pub(crate) fn cases<V: std::fmt::Debug + Clone + Send + Sync + 'static>(
    runs: u32,
    strategy: impl Strategy<Value = V>,
    case: impl Fn(&mut Spmd<'_>, &V) -> Result<(), Fault> + Copy + Send + Sync + 'static,
) {
    cases_on(RANKS, runs, strategy, case);
}

/// The same on another number of ranks.
pub(crate) fn cases_on<V: std::fmt::Debug + Clone + Send + Sync + 'static>(
    ranks: u32,
    runs: u32,
    strategy: impl Strategy<Value = V>,
    case: impl Fn(&mut Spmd<'_>, &V) -> Result<(), Fault> + Copy + Send + Sync + 'static,
) {
    let world = world(ranks);
    let config =
        ProptestConfig { cases: runs, failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::default() };
    let all = proptest::collection::vec(strategy, AT_ONCE);
    let result = TestRunner::new(config).run(&all, |values| {
        let done = run(&world, move |w| {
            for value in &values {
                w.scope(|w| case(w, value)).inspect_err(|_| eprintln!("{value:?}"))?;
            }
            Ok(())
        });
        done.map_err(TestCaseError::fail)
    });
    result.unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn lines_are_assigned() {
    let dims = || (1u32..=RANKS).prop_flat_map(model::dim);
    cases(5, (dims(), dims(), numbers(), any::<bool>()), |w, (a, b, n, asynchronous)| {
        let (x, y) = pair(a.range(), b.range(), *n);
        check(w, (array::from_ref(a), [x]), (array::from_ref(b), [y]), *asynchronous)
    });
}

#[test]
fn planes_are_assigned() {
    let dims = || (1u32..=3, 1u32..=2).prop_flat_map(|(p, q)| [model::dim(p), model::dim(q)]);
    cases(5, (dims(), dims(), [numbers(), numbers()], any::<bool>()), |w, (a, b, n, asynchronous)| {
        let [(x0, y0), (x1, y1)] = [0, 1].map(|dim| pair(a[dim].range(), b[dim].range(), n[dim]));
        check(w, (a, [x0, x1]), (b, [y0, y1]), *asynchronous)
    });
}

#[test]
fn lines_and_planes_are_assigned_to_each_other() {
    let planes = (1u32..=3, 1u32..=2).prop_flat_map(|(p, q)| [model::dim(p), model::dim(q)]);
    let lines = (1u32..=RANKS).prop_flat_map(model::dim);
    cases(5, (planes, lines, numbers(), any::<u16>(), 0usize..2), |w, (a, b, n, at, dim)| {
        if a[1 - dim].range().is_empty() || b.range().is_empty() {
            return Ok(());
        }
        let (x, y) = pair(a[*dim].range(), b.range(), *n);
        let fixed = model::one(a[1 - dim].range(), *at);
        let x = if *dim == 0 { [x, fixed] } else { [fixed, x] };
        let b = [b.clone()];
        check(w, (a, x), (&b, [y]), true)?;
        check(w, (&b, [y]), (a, x), false)?;
        // One element to all of a section.
        check(w, (a, [Sel::All, (..).step(-2)]), (&b, [model::one(b[0].range(), *at)]), false)
    });
}

#[test]
fn other_sections_are_a_mismatch() {
    for (other, text) in [(1, "gmove"), (2, "gather")] {
        let failed = run(&world(2), move |w| {
            let shape = w.nodes([2])?.template([10]).distribute([Dist::Block])?;
            let (mut a, b) = (shape.zeros::<u64>(w)?, shape.zeros::<u64>(w)?);
            let half = triplet(0, 6, 1);
            match (w.me(), other) {
                (0, _) => a.section_mut([half]).gmove(b.section([triplet(4, 6, 1)]), w),
                (_, 1) => a.section_mut([half]).gmove(b.section([triplet(3, 6, 1)]), w),
                _ => b.gather(&mut [0; 10], w),
            }
        });
        let failed = failed.expect_err("they differ");
        assert!(failed.contains("node 0 is in gmove") && failed.contains(&format!("node 1 in {text}")), "{failed}");
    }
}

#[test]
fn sections_are_filled_and_mapped() {
    for ranks in [1, 3, 4] {
        let done = run(&world(ranks), |w| {
            let shape = w.nodes([w.size()])?.template([9, 5]).distribute([Dist::CyclicOf(2), Dist::Whole])?;
            let mut a = shape.zeros::<u64>(w)?;
            number(&mut a, 0);
            a.section_mut([(1..8).step(3), Sel::All]).map(|x| x + 100)?;
            a.section_mut([Sel::All, Sel::Index(2)]).fill(9)?;
            let value = |[i, j]: [i64; 2]| match (i, j) {
                (_, 2) => 9,
                (1 | 4 | 7, _) => (i * 5 + j) as u64 + 100,
                _ => (i * 5 + j) as u64,
            };
            let expected: Vec<_> = all(a.desc()).into_iter().map(value).collect();
            compare(&a, &expected)
        });
        assert_eq!(done, Ok(()), "{ranks} ranks");
    }
}

#[test]
fn an_array_is_closed_until_its_gmove_is_finished() {
    type Use = fn(&mut Array<'_, u64, 1>, &mut Spmd<'_>) -> Result<(), Fault>;
    let uses: [(Use, &str); 7] = [
        (|a, w| a.gmove_finish(w).and_then(|()| a.gmove(1, w)), ""),
        (|a, _| (a[[0]] == 0).then_some(()).ok_or_else(|| Fault::msg("read")), "before gmove_finish"),
        (|a, _| (a.local().is_empty()).then_some(()).ok_or_else(|| Fault::msg("a slice of it")), "before gmove_finish"),
        (|a, _| a.section_mut([Sel::All]).fill(1), "before gmove_finish"),
        (|a, w| a.gmove(1, w), "an exchange of this array is not finished"),
        (|a, w| a.reflect(w), "an exchange of this array is not finished"),
        (|_, w| w.barrier(), "not finished: gmove to the array"),
    ];
    for (nth, (using, text)) in uses.into_iter().enumerate() {
        let done = run_once(&world(2), move |w| {
            let t = w.nodes([2])?.template([8]);
            let mut b = t.distribute([Dist::Cyclic])?.zeros(w)?;
            number(&mut b, 1);
            let mut a = t.distribute([Dist::Block])?.zeros(w)?;
            a.gmove_start(&b, w)?;
            using(&mut a, w)
        });
        match done {
            Ok(()) => assert!(text.is_empty(), "use {nth} is not refused"),
            Err(e) => assert!(!text.is_empty() && e.contains(text), "use {nth}: {e}"),
        }
    }
}
