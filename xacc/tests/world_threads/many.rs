//! Many assignments and sums between the same arrays, each behind the one before: 100,000 together.
//!
//! On ranks that share processors, what a case costs is the making of its arrays and the meetings. So a
//! case has many assignments, which only partners meet for, and every rank compares its own elements.

use super::gmove::{AT_ONCE, OnWorld, Ranks, all, cases_on};
use super::model::{self, Dim, Numbers, elements, numbers, pair};
use super::sums;
use hamr_comm::Fault;
use hamr_xacc::collective::{Max, Sum};
use hamr_xacc::dist::Desc;
use hamr_xacc::section::{Region, Sel};
use hamr_xacc::{Array, Spmd};
use proptest::prelude::*;
use std::array;

/// Assignments or sums of a case, of which a run has `AT_ONCE`: 2,000 together.
const EACH: usize = 2000 / AT_ONCE;
/// Runs of assignments, and of sums.
const ASSIGNMENTS: u32 = 40;
const SUMS: u32 = 10;
/// Those of lines to lines, likewise of planes. The others are between both.
const ALIKE: u32 = 16;
/// More than there are processors would wait for these.
const TWO: u32 = 2;

/// The elements of a whole array, row-major.
struct Whole<const N: usize> {
    indices: Vec<[i64; N]>,
    values: Vec<u64>,
    /// Places of those that this rank owns.
    own: Vec<usize>,
}

impl<const N: usize> Whole<N> {
    fn new(desc: &Desc<'_, N>) -> Self {
        let indices = all(desc);
        let own = (0..indices.len()).filter(|at| desc.owns(desc.me(), indices[*at])).collect();
        Self { values: vec![0; indices.len()], own, indices }
    }

    /// Where the elements of a section are.
    fn places(&self, desc: &Desc<'_, N>, region: &Region<N>) -> Vec<usize> {
        let place = |index: [i64; N]| {
            (0..N).fold(0, |at, dim| {
                let range = desc.range(dim);
                at * (range.end - range.start) as usize + (index[dim] - range.start) as usize
            })
        };
        elements(region).into_iter().map(place).collect()
    }

    /// Gives all elements other values.
    fn renew(&mut self, array: &mut Array<'_, u64, N>, from: u64) {
        self.values.iter_mut().zip(from..).for_each(|(value, new)| *value = new);
        self.own.iter().for_each(|at| array[self.indices[*at]] = self.values[*at]);
    }

    fn compare(&self, array: &Array<'_, u64, N>) -> Result<(), Fault> {
        let wrong = self.own.iter().find(|at| array[self.indices[**at]] != self.values[**at]);
        let Some(at) = wrong else { return Ok(()) };
        let (index, expected) = (self.indices[*at], self.values[*at]);
        Err(Fault::msg(&format!("{index:?} is {}, not {expected}", array[index])))
    }
}

/// What a number makes of an assignment: a section of an array, also in two steps, a slice, a value, or a
/// section to a slice.
fn assign<const N: usize, const M: usize>(
    w: &mut Spmd<'_>,
    (to, of_to): (&mut Array<'_, u64, N>, &mut Whole<N>),
    (from, of_from): (&mut Array<'_, u64, M>, &mut Whole<M>),
    (x, y): ([Sel; N], [Sel; M]),
    (how, nth): (u8, u64),
) -> Result<(), Fault> {
    of_from.renew(from, nth << 16);
    let (to_region, from_region) = (to.desc().region(x)?, from.desc().region(y)?);
    let values: Vec<_> = of_from.places(from.desc(), &from_region).into_iter().map(|at| of_from.values[at]).collect();
    let mut write = |values: &[u64]| {
        for (nth, at) in of_to.places(to.desc(), &to_region).into_iter().enumerate() {
            of_to.values[at] = values[if values.len() == 1 { 0 } else { nth }];
        }
    };
    match how % 6 {
        0..=2 => {
            write(&values);
            to.section_mut(x).gmove(from.section(y), w)?;
        }
        3 => {
            write(&values);
            to.section_mut(x).gmove_start(from.section(y), w)?;
            of_from.renew(from, nth << 16 | 1 << 15);
            to.gmove_finish(w)?;
        }
        4 if nth % 2 == 0 && values.len() == to_region.len() => {
            write(&values);
            to.section_mut(x).gmove(&values[..], w)?;
        }
        4 => {
            write(&[nth]);
            to.section_mut(x).gmove(nth, w)?;
        }
        _ => {
            let mut got = vec![0; values.len()];
            from.section(y).gather(&mut got, w)?;
            if got != values {
                return Err(Fault::msg(&format!("gathered {got:?}, not {values:?}")));
            }
        }
    }
    of_to.compare(to)
}

/// All assignments of a case; the one that is wrong is printed.
fn check<const N: usize, const M: usize>(
    w: &mut Spmd<'_>,
    (a, b): (&[Dim; N], &[Dim; M]),
    sections: impl Iterator<Item = (([Sel; N], [Sel; M]), u8)>,
) -> Result<(), Fault>
where
    Ranks: OnWorld<N> + OnWorld<M>,
{
    let (mut to, mut from) = (Ranks::shape(a, w)?.zeros::<u64>(w)?, Ranks::shape(b, w)?.zeros::<u64>(w)?);
    let (mut of_to, mut of_from) = (Whole::new(to.desc()), Whole::new(from.desc()));
    for (nth, (sections, how)) in (1..).zip(sections) {
        let done = assign(w, (&mut to, &mut of_to), (&mut from, &mut of_from), sections, (how, nth));
        done.inspect_err(|_| eprintln!("assignment {nth}: {sections:?}, {how}, of {a:?} and {b:?}"))?;
    }
    Ok(())
}

fn each<T: std::fmt::Debug>(of: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<(T, u8)>> {
    proptest::collection::vec((of, any::<u8>()), EACH)
}

#[test]
fn many_sections_of_lines_are_assigned() {
    let dims = || (1u32..=TWO).prop_flat_map(model::dim);
    cases_on(TWO, ALIKE, (dims(), dims(), each(numbers())), |w, (a, b, many)| {
        let sections = many.iter().map(|(n, how)| {
            let (x, y) = pair(a.range(), b.range(), *n);
            (([x], [y]), *how)
        });
        check(w, (array::from_ref(a), array::from_ref(b)), sections)
    });
}

#[test]
fn many_sections_of_planes_are_assigned() {
    let dims = || (Just(1), 1u32..=TWO).prop_flat_map(|(p, q)| [model::dim(p), model::dim(q)]);
    cases_on(TWO, ALIKE, (dims(), dims(), each([numbers(), numbers()])), |w, (a, b, many)| {
        let sections = many.iter().map(|(n, how)| {
            let [(x0, y0), (x1, y1)] = [0, 1].map(|dim| pair(a[dim].range(), b[dim].range(), n[dim]));
            (([x0, x1], [y0, y1]), *how)
        });
        check(w, (a, b), sections)
    });
}

#[test]
fn many_sections_of_planes_are_assigned_to_lines_and_back() {
    let planes = (Just(1), 1u32..=TWO).prop_flat_map(|(p, q)| [model::dim(p), model::dim(q)]);
    let lines = (1u32..=TWO).prop_flat_map(model::dim);
    let strategy = (planes, lines, each((numbers(), any::<u16>())), any::<bool>(), 0usize..2);
    cases_on(TWO, ASSIGNMENTS - 2 * ALIKE, strategy, |w, (a, b, many, is_back, dim)| {
        if a[1 - dim].range().is_empty() {
            return Ok(());
        }
        let sections = |&((n, at), how): &((Numbers, u16), u8)| {
            let (x, y) = pair(a[*dim].range(), b.range(), n);
            let fixed = model::one(a[1 - dim].range(), at);
            ((if *dim == 0 { [x, fixed] } else { [fixed, x] }, [y]), how)
        };
        let (many, b) = (many.iter().map(sections), array::from_ref(b));
        if *is_back { check(w, (b, a), many.map(|((x, y), how)| ((y, x), how))) } else { check(w, (a, b), many) }
    });
}

/// What a rank holds of an element in a round: sums of these depend on their order.
fn part(index: i64, rank: impl Into<i64>, nth: u32) -> f64 {
    let rank = rank.into();
    let size = if (rank + i64::from(nth)) % 2 == 0 { 1e9 } else { 1.0 };
    size / (rank as f64 * 3.0 + index as f64 + 20.0 + f64::from(nth))
}

/// Elements have these bits.
fn is_all(array: &Array<'_, f64, 1>, expected: impl Iterator<Item = ([i64; 1], f64)>) -> Result<(), Fault> {
    for (index, expected) in expected {
        if array[index].to_bits() != expected.to_bits() {
            return Err(Fault::msg(&format!("{index:?} is {}, not {expected}", array[index])));
        }
    }
    Ok(())
}

#[test]
fn many_replicas_are_summed() {
    let dims = (0usize..2).prop_flat_map(|along| (sums::dim([1, TWO][along]), Just(along)));
    let how = proptest::collection::vec(any::<u8>(), EACH);
    cases_on(TWO, SUMS, (dims, 0usize..2, how), |w, ((from, along), to_along, how)| {
        let mut v = sums::line(from, *along, w)?.zeros::<f64>(w)?;
        let nodes = [w.size() as u32 / 2, 2][*to_along];
        let plain = model::plain(from.range().end - from.range().start, nodes);
        // Also over one node.
        let to = Dim { lo: from.range().start, by: model::By::Block, ..plain };
        let mut q = sums::line(&to, *to_along, w)?.full(f64::NAN, w)?;
        let (desc, own, own_q) = (*v.desc(), sums::own(&v), sums::own(&q));
        let owners = |of: &[[i64; 1]]| of.iter().map(|index| desc.owners(*index).ranks().collect()).collect();
        let (ranks, ranks_q): (Vec<Vec<u32>>, Vec<Vec<u32>>) = (owners(&own), owners(&own_q));
        for (nth, how) in (0..).zip(how) {
            own.iter().for_each(|index| v[*index] = part(index[0], desc.me(), nth));
            let folded = |index: [i64; 1], ranks: &[u32], by: fn(f64, f64) -> f64| {
                ranks.iter().map(|rank| part(index[0], *rank, nth)).reduce(by).unwrap_or(0.0)
            };
            // Of each own element of `v` the one that it must have become.
            let all_are = |array: &Array<'_, f64, 1>, by: fn(f64, f64) -> f64| {
                is_all(array, own.iter().zip(&ranks).map(|(index, ranks)| (*index, folded(*index, ranks, by))))
            };
            let add = |a, b| a + b;
            let done = match how % 4 {
                0 => q.gmove_sum(&v, w).and_then(|()| {
                    is_all(&q, own_q.iter().zip(&ranks_q).map(|(index, ranks)| (*index, folded(*index, ranks, add))))
                }),
                1 => v.reduce(Sum, w).and_then(|()| all_are(&v, add)),
                2 => v.reduce(Max, w).and_then(|()| all_are(&v, f64::max)),
                _ => {
                    let of = |rank: i64| part(i64::from(*how), rank, nth);
                    let expected = (0..w.size()).map(of).reduce(|a, b| a + b);
                    match w.reduce(Sum, of(w.me()))? {
                        got if Some(got.to_bits()) == expected.map(f64::to_bits) => Ok(()),
                        got => Err(Fault::msg(&format!("the sum is {got}, not {expected:?}"))),
                    }
                }
            };
            done.inspect_err(|_| eprintln!("sum {nth}: {how}, along {along} and {to_along}, of {from:?}"))?;
        }
        Ok(())
    });
}
