//! `each!` and the same loop by plain indexing, on the blocks of single nodes.
#![allow(clippy::single_range_in_vec_init, reason = "the range of one dimension")]

use super::field::{block, grid};
use hamr_xacc::dist::{Dist, Shape, Width, on, whole};
use hamr_xacc::each;
use proptest::prelude::*;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One node that has all of it.
fn alone<const N: usize>(extent: [i64; N]) -> Shape<'static, N> {
    grid([1], 0, extent, core::array::from_fn(|dim| if dim == 0 { Dist::Block } else { Dist::Whole }))
}

fn panics(body: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("a panic");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().expect("a text")).to_string(),
    }
}

#[test]
fn body_runs_once_per_element_and_in_order() {
    for n in [0, 1, 3, 4, 5, 7, 8, 9, 12, 13, 30] {
        let (count, mut seen) = (Cell::new(0), Vec::new());
        each!([i, k] in alone([3, n]).all() => {
            count.set(count.get() + 1);
            seen.push((i, k));
        });
        let plain: Vec<_> = (0..3).flat_map(|i| (0..n).map(move |k| (i, k))).collect();
        assert_eq!((count.get(), seen), (plain.len(), plain));
        let value = each!([_i, k] in alone([3, n]).all() => sum {
            count.set(count.get() - 1);
            k
        });
        assert_eq!((count.get(), value), (0, 3 * n * (n - 1) / 2));
    }
}

#[test]
fn steps_and_margins_are_honoured() {
    let shape = alone([6, 21]);
    for share in [shape.all().step([2, 3]), shape.on([1..5, 2..20]).step([1, 5]), shape.all().margin([(1, 1), (2, 3)])]
    {
        let (mut seen, mut plain) = (Vec::new(), Vec::new());
        each!([i, k] in share => seen.push([i, k]));
        (0..6).for_each(|i| plain.extend((0..21).map(|k| [i, k]).filter(|at| share.contains(*at))));
        assert_eq!(seen, plain);
        // The index behind the last iteration is accessed, and exists.
        let p = block(shape.shadow([0, 1]), |[i, k]| 100 * i + k);
        let sum = each!([i, k] in share => sum { p[[i, k + 1]] });
        assert_eq!(sum, plain.iter().map(|[i, k]| 100 * i + k + 1).sum::<i64>());
    }
}

#[test]
fn bounds_are_those_of_the_iterations() {
    // Index 9 is no iteration, so that 10 is not accessed.
    let p = block(alone([10]), |[k]| k);
    assert_eq!(each!([k] in alone([10]).all().step([2]) => sum { p[[k + 1]] }), 1 + 3 + 5 + 7 + 9);
}

#[test]
fn writes_may_be_conditional_and_read_what_was_written() {
    let mut p = block(alone([21]), |[k]| k);
    each!([k] in alone([21]).all() => {
        if k % 3 == 0 {
            p[[k]] = -p[[k]];
            p[[k]] *= 2;
        }
    });
    assert!((0..21).all(|k| p[[k]] == if k % 3 == 0 { -2 * k } else { k }));
    let mut q = block(alone([21]), |_| 0);
    each!([k] in alone([21]).all() => {
        let at = &mut p[[k]];
        (*at, q[[k]]) = (k, *at);
    });
    assert!((0..21).all(|k| p[[k]] == k && q[[k]] == if k % 3 == 0 { -2 * k } else { k }));
}

#[test]
fn elements_that_rows_do_not_serve_are_indexed() {
    let n = 13;
    let (a, table) = (block(alone([n, n]), |[i, k]| 100 * i + k), [5i64; 13]);
    let column = block(alone([n]), |[k]| n - 1 - k);
    let mut out = block(alone([n, n]), |_| 0);
    each!([i, k] in alone([n, n]).all() => {
        out[[i, k]] = a[[k, i]] + a[[i, column[[k]]]] + a[[2, k]] + a[[i, i]] + column[[i]] + table[k as usize];
    });
    let plain = |i, k| a[[k, i]] + a[[i, n - 1 - k]] + a[[2, k]] + a[[i, i]] + n - 1 - i + 5;
    assert!((0..n).all(|i| (0..n).all(|k| out[[i, k]] == plain(i, k))));
}

#[test]
fn arrays_of_other_ranks_are_aligned_by_their_indices() {
    let fixed = 1;
    let (row, cube) = (block(alone([11]), |[k]| k), block(alone([3, 5, 11]), |[h, i, k]| 1000 * h + 100 * i + k));
    let mut out = block(alone([3, 5, 11]), |_| 0);
    each!([i, k] in alone([5, 11]).on([1..5, 1..10]) => out[[2, i, k]] = row[[k - 1]] + cube[[fixed, i - 1, k + 1]]);
    for (i, k) in (1..5).flat_map(|i| (1..10).map(move |k| (i, k))) {
        assert_eq!(out[[2, i, k]], row[[k - 1]] + cube[[1, i - 1, k + 1]]);
    }
    assert_eq!([out[[2, 0, 5]], out[[2, 1, 10]], out[[1, 1, 1]]], [0; 3]);
}

#[test]
fn all_kinds_of_reductions() {
    let values = [3.0, -1.5, 8.0, f64::NAN, 8.0, 0.5, -1.5, 2.0, 1.0, 8.0, -1.5, 4.0];
    let x = block(alone([12]), |[k]| values[k as usize]);
    let bits = block(alone([12]), |[k]| 0b111 ^ (1u8 << (k % 2)));
    let share = alone([12]).all();
    assert_eq!(each!([k] in share => max { x[[k]] }), 8.0);
    assert_eq!(each!([k] in share => min { x[[k]] }), -1.5);
    assert_eq!(each!([k] in share => firstmax { (x[[k]], [k]) }), Some((8.0, [2])));
    assert_eq!(each!([k] in share => lastmax { (x[[k]], [k]) }), Some((8.0, [9])));
    assert_eq!(each!([k] in share => firstmin { (x[[k]], k) }), Some((-1.5, 1)));
    assert_eq!(each!([k] in share => lastmin { (x[[k]], k) }), Some((-1.5, 10)));
    assert_eq!(each!([k] in share => prod { k + 1 }), 479_001_600);
    assert_eq!(each!([k] in share => and { bits[[k]] }), 0b100);
    assert_eq!(each!([k] in share => or { bits[[k]] }), 0b111);
    assert_eq!(each!([k] in share => xor { 1u64 << k }), 0xFFF);
    assert!(each!([k] in share => any { k == 11 }));
    assert!(!each!([k] in share => all { k < 11 }));
    assert_eq!(each!([k] in share => sum { (1, k, 0.5, 2u8) }), (12, 66, 6.0, 24));
    assert_eq!(each!([k] in share => sum { k as f64 }), 66.0);
    let none = alone([0]).all();
    assert_eq!(each!([k] in none => max { k as f64 }), f64::NEG_INFINITY);
    assert_eq!(each!([k] in none => firstmin { (k as f32, k) }), None);
    assert_eq!(each!([k] in none => sum { k }), 0);
}

/// However many elements a chunk has: types of elements, lengths of runs, dense or strided, with neighbours in the
/// shadow or none.
#[test]
fn elements_of_all_sizes_have_the_values_of_plain_indexing() {
    macro_rules! with {
        ($($type:ty: |$seed:ident| $value:expr, |$l:ident, $r:ident| $two:expr, $as:expr;)*) => {$({
            let value = |[i, k]: [i64; 2]| -> $type {
                let $seed = (7 * i + 13 * k + k * k + 100) as u64;
                $value
            };
            let two = |$l: $type, $r: $type| -> $type { $two };
            for n in [0, 1, 3, 4, 7, 8, 31, 32, 33, 44, 63, 64, 65, 97, 130] {
                for (step, halo) in [(1, 0), (1, 1), (2, 0), (3, 1)] {
                    let shape = alone([3, n]).shadow([0, halo]);
                    let share = shape.all().step([1, step]);
                    let (a, h) = (block(shape, value), i64::from(halo));
                    let (mut out, mut some) = (block(shape, value), block(shape, value));
                    match halo {
                        0 => each!([i, k] in share => out[[i, k]] = two(a[[i, k]], a[[i, k]])),
                        _ => each!([i, k] in share => out[[i, k]] = two(a[[i, k - 1]], a[[i, k + 1]])),
                    }
                    each!([i, k] in share => {
                        if k % 5 < 2 {
                            some[[i, k]] = two(some[[i, k]], a[[i, k]]);
                        }
                    });
                    let sum = each!([i, k] in share => sum { ($as)(a[[i, k]]) });
                    let xor = each!([i, k] in share => xor { ($as)(a[[i, k]]) as u8 });
                    let mut plain = (0.0, 0);
                    for [i, k] in (0..3).flat_map(|i| (0..n).map(move |k| [i, k])) {
                        let is_in = k % i64::from(step) == 0;
                        let wanted = if is_in { two(a[[i, k - h]], a[[i, k + h]]) } else { a[[i, k]] };
                        let changes = is_in && k % 5 < 2;
                        let changed = if changes { two(a[[i, k]], a[[i, k]]) } else { a[[i, k]] };
                        let what = (stringify!($type), n, step, halo, i, k);
                        assert_eq!((out[[i, k]], some[[i, k]]), (wanted, changed), "{what:?}");
                        if is_in {
                            plain = (plain.0 + ($as)(a[[i, k]]), plain.1 ^ ($as)(a[[i, k]]) as u8);
                        }
                    }
                    assert_eq!((sum, xor), plain, "{} {n} {step} {halo}", stringify!($type));
                }
            }
        })*};
    }
    with! {
        bool: |seed| seed.is_multiple_of(3), |l, r| l ^ !r, f64::from;
        u8: |seed| seed as u8, |l, r| ((u16::from(l) + u16::from(r)) / 2) as u8, f64::from;
        i8: |seed| seed as i8, |l, r| l.wrapping_mul(r), f64::from;
        u16: |seed| (seed * 257) as u16, |l, r| l.wrapping_add(r) ^ 1, f64::from;
        f32: |seed| seed as f32, |l, r| l * 0.5 - r, f64::from;
        u64: |seed| seed, |l, r| l.rotate_left(7) ^ r, |value| value as f64;
        f64: |seed| seed as f64, |l, r| l * 0.5 - r, |value| value;
    }
}

/// Whatever is left of a run behind its chunks: no value counts that the body has not had.
#[test]
fn reductions_have_the_values_of_the_body_only() {
    // Each side of what a value that is none might be.
    for (n, sign) in (1..=3 * each::LANES as i64).flat_map(|n| [(n, 1), (n, -1)]) {
        let (share, value) = (alone([2, n]).all(), |i: i64, k: i64| sign * (i + k + 1));
        let all = || (0..2).flat_map(|i| (0..n).map(move |k| (i, k)));
        let values = || all().map(|(i, k)| value(i, k));
        let context = format!("{n} of {sign}");
        assert_eq!(each!([i, k] in share => sum { value(i, k) }), values().sum::<i64>(), "{context}");
        let odd = |i, k| value(i, k) * 2 + 1;
        let product = all().fold(1i64, |product, (i, k)| product.wrapping_mul(odd(i, k)));
        assert_eq!(each!([i, k] in share => prod { odd(i, k) }), product, "{context}");
        let (least, most) = (values().min().expect("one"), values().max().expect("one"));
        assert_eq!(each!([i, k] in share => min { value(i, k) }), least, "{context}");
        assert_eq!(each!([i, k] in share => max { value(i, k) }), most, "{context}");
        assert_eq!(each!([i, k] in share => max { value(i, k) as f64 }), most as f64, "{context}");
        let first = |wanted| all().find(|(i, k)| value(*i, *k) == wanted).map(|at| (wanted, at));
        let last = |wanted| all().rfind(|(i, k)| value(*i, *k) == wanted).map(|at| (wanted, at));
        assert_eq!(each!([i, k] in share => firstmin { (value(i, k), (i, k)) }), first(least), "{context}");
        assert_eq!(each!([i, k] in share => firstmax { (value(i, k), (i, k)) }), first(most), "{context}");
        assert_eq!(each!([i, k] in share => lastmin { (value(i, k), (i, k)) }), last(least), "{context}");
        assert_eq!(each!([i, k] in share => lastmax { (value(i, k), (i, k)) }), last(most), "{context}");
        assert_eq!(each!([i, k] in share => and { value(i, k) }), values().fold(-1, |a, b| a & b), "{context}");
        assert_eq!(each!([i, k] in share => or { value(i, k) }), values().fold(0, |a, b| a | b), "{context}");
        assert_eq!(each!([i, k] in share => xor { value(i, k) }), values().fold(0, |a, b| a ^ b), "{context}");
        assert!(each!([i, k] in share => all { value(i, k) != 0 }), "{context}");
        assert!(!each!([i, k] in share => any { value(i, k) == 0 }), "{context}");
    }
}

/// A sum has the bits that the order of lanes gives it, whatever the compiler makes of the loop.
#[test]
fn sums_have_the_bits_of_lanes() {
    let value = |[i, k]: [i64; 2]| 1.0f32 / (3 * i + 7 * k + 1) as f32;
    let x = block(alone([4, 29]), value);
    let sum = each!([i, k] in alone([4, 29]).all() => sum { f64::from(x[[i, k]]) });
    let mut lanes = [0.0; each::LANES];
    for i in 0..4 {
        let mut run = [0.0; each::LANES];
        (0..24).for_each(|k| run[k as usize % each::LANES] += f64::from(value([i, k])));
        lanes.iter_mut().zip(run).for_each(|(lane, run)| *lane += run);
        (24..29).for_each(|k| lanes[k as usize % each::LANES] += f64::from(value([i, k])));
    }
    assert_eq!(sum.to_bits(), lanes.iter().fold(0.0, |sum: f64, lane| sum + lane).to_bits());
}

#[test]
fn an_index_outside_is_refused_before_anything_is_written() {
    let (p, mut q) = (block(alone([4, 10]), |_| 1), block(alone([4, 10]), |_| 0));
    let text = panics(|| each!([i, k] in alone([4, 10]).all() => q[[i, k]] = p[[i + 1, k]]));
    assert_eq!(text, "dimension 0: index 4, here are 0..4");
    let text = panics(|| each!([i, k] in alone([4, 10]).all() => q[[i, k]] = p[[i, k - 2]]));
    assert_eq!(text, "dimension 1: index -2, here are 0..10");
    let text = panics(|| each!([i, k] in alone([5, 10]).all() => q[[i, k]] = 1));
    assert_eq!(text, "dimension 0: index 4, here are 0..4");
    assert!((0..4).all(|i| (0..10).all(|k| q[[i, k]] == 0)));
}

#[test]
fn shadow_is_read_and_written_by_expanded_loops_only() {
    let shape = grid([2], 1, [8, 6], [Dist::Block, Dist::Whole]);
    let mut p = block(shape.shadow([1, 0]), |[i, _]| i);
    let mut q = block(shape, |_| 0);
    each!([i, k] in shape.on([1..7, 0..6]) => q[[i, k]] = p[[i - 1, k]] + p[[i + 1, k]]);
    assert!((4..7).all(|i| (0..6).all(|k| q[[i, k]] == 2 * i)));
    let text = panics(|| each!([i, k] in shape.all().expand(1) => q[[i, k]] = 0));
    assert_eq!(text, "dimension 0: index 3, here are 4..8", "it has no shadow");
    each!([i, k] in shape.all().expand(1) => p[[i, k]] = 7 * i + k);
    assert!((3..8).all(|i| (0..6).all(|k| p[[i, k]] == 7 * i + k)));
    let text = panics(|| each!([i, k] in shape.all().expand(2) => p[[i, k]] = 0));
    assert_eq!(text, "dimension 0: index 2, here are 3..9");
}

#[test]
fn cyclic_and_replicated_arrays() {
    for me in 0..3 {
        let (single, blocks) =
            (grid([3], me, [20, 7], [Dist::Cyclic, Dist::Whole]), grid([3], me, [29], [Dist::CyclicOf(4)]));
        let (mut p, q) = (block(single, |_| 0), block(single, |[i, k]| 10 * i + k));
        each!([i, k] in single.all() => p[[i, k]] = q[[i, k]] + i);
        single
            .all()
            .runs()
            .for_each(|run| (0..7).for_each(|k| assert_eq!(p[[run.first[0], k]], 11 * run.first[0] + k)));
        let mut r = block(blocks, |[k]| k);
        each!([k] in blocks.all() => r[[k]] += 1);
        assert_eq!(each!([k] in blocks.all() => sum { r[[k]] - k }), blocks.all().len() as i64);
        // All of it is everywhere, but each node writes its own.
        let mut full = block(blocks.shadow([Width::Full]), |[k]| k);
        each!([k] in blocks.all() => full[[k]] = 0);
        assert_eq!(
            each!([k] in blocks.on([1..28]) => sum { full[[k - 1]].min(0) + i64::from(blocks.owns(me, [k])) }),
            blocks.on([1..28]).len() as i64
        );
        let other = grid([3], (me + 1) % 3, [29], [Dist::CyclicOf(4)]);
        assert!(panics(|| each!([k] in other.all() => full[[k]] = 1)).starts_with("dimension 0: index "));
        assert!(panics(|| each!([k] in other.all() => r[[k]] = 1)).starts_with("dimension 0: index "));
        assert_eq!(
            panics(|| assert!(each!([k] in blocks.on([4..16]) => any { r[[k + 1]] == 0 }))),
            "dimension 0 is cyclic: 1 further is not here"
        );
        // Replicated along the template's other dimension.
        let plane = grid([3], me, [9, 5], [Dist::Block, Dist::Whole]);
        let (rows, columns) = (block(plane.align([on(0)]), |[i]| i), block(plane.align([whole(5)]), |[k]| k));
        assert_eq!(
            each!([i, k] in plane.all() => sum { columns[[k]] + i - rows[[i]] }),
            10 * plane.all().len() as i64 / 5
        );
    }
}

/// One of the distributions of a dimension.
fn dist(of: u8) -> Dist<'static> {
    match of {
        0 => Dist::Block,
        1 => Dist::Cyclic,
        2 => Dist::CyclicOf(3),
        _ => Dist::BlockOf(64),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// On any node, any share and any shadow: the same elements and the same sum where all accesses are
    /// here; a panic where one is not.
    #[test]
    fn each_is_the_plain_loop(
        nodes in (1u32..4, 1u32..3), me in 0u32..6, extent in (1i64..24, 1i64..40), by in (0u8..4, 0u8..4),
        shadow in (0u32..3, 0u32..3), full in any::<(bool, bool)>(), range in (0i64..6, 0i64..24, 0i64..6, 0i64..40), step in (1u32..3, 1u32..4),
        part in 0u8..4,
    ) {
        let all = grid([nodes.0, nodes.1], me % (nodes.0 * nodes.1), [extent.0, extent.1], [dist(by.0), dist(by.1)]);
        let width = |by: u8, full: bool, width: u32| match (by, full) {
            (1 | 2, false) => Width::NONE,
            (_, true) => Width::Full,
            (_, false) => Width::Of(width, width),
        };
        let with_shadow = all.shadow([width(by.0, full.0, shadow.0), width(by.1, full.1, shadow.1)]);
        let share = all.on([range.0.min(extent.0)..range.1.min(extent.0), range.2.min(extent.1)..range.3.min(extent.1)]);
        let share = match part {
            0 => share,
            1 => share.inner([(1, 0), (0, 1)]),
            2 => share.margin([(1, 1), (2, 0)]),
            _ => share.step([step.0, step.1]),
        };
        let p = block(with_shadow, |[i, k]| 1000 * i + k);
        let (mut q, mut plain) = (block(all, |_| 7i64), block(all, |_| 7i64));
        let sum = catch_unwind(AssertUnwindSafe(|| each!([i, k] in share => sum {
            q[[i, k]] += 3 * p[[i, k]] - p[[i - 1, k]] + p[[i, k + 1]];
            q[[i, k]] ^ k
        })));
        let plain_sum = catch_unwind(AssertUnwindSafe(|| {
            let mut sum = 0;
            for run in share.runs() {
                for (i, k) in (0..run.len as i64).map(|n| (run.first[0], run.first[1] + n * run.step)) {
                    plain[[i, k]] += 3 * p[[i, k]] - p[[i - 1, k]] + p[[i, k + 1]];
                    sum += plain[[i, k]] ^ k;
                }
            }
            sum
        }));
        // A dimension with gaps has no neighbours for each!, where plain indexing finds some.
        let gaps = |by: u8, width: Width| matches!(by, 1 | 2) && width != Width::Full;
        let has_gaps = gaps(by.0, with_shadow.widths()[0]) || gaps(by.1, with_shadow.widths()[1]);
        match (sum, plain_sum) {
            (Ok(sum), Ok(plain_sum)) => {
                prop_assert_eq!(sum, plain_sum);
                for run in all.all().runs() {
                    for index in (0..run.len as i64).map(|n| [run.first[0], run.first[1] + n * run.step]) {
                        prop_assert_eq!(q[index], plain[index]);
                    }
                }
            }
            (sum, plain_sum) => prop_assert!(sum.is_err() && (plain_sum.is_err() || has_gaps)),
        }
    }
}
