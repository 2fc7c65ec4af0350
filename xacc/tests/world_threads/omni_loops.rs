//! What the tests of the Omni compiler assert of loops, reductions, broadcasts, tasks, array statements and
//! inquiries, by their names.
#![allow(clippy::single_range_in_vec_init, reason = "the range of one dimension")]

use super::gmove::{all, compare, number, number_by};
use super::{run, world};
use hamr_comm::Fault;
use hamr_xacc::collective::{All, And, Any, FirstMax, FirstMin, LastMax, LastMin, Max, Min, Or, Prod, Sum, Value, Xor};
use hamr_xacc::dist::Dist::{Block, Cyclic, CyclicOf, GBlock, Whole};
use hamr_xacc::dist::{Dist, NodeSet, Shape, on, whole};
use hamr_xacc::plan::Halo;
use hamr_xacc::section::{Sel, triplet};
use hamr_xacc::{Array, Spmd, each, s};

fn same<V: PartialEq + std::fmt::Debug>(got: V, expected: V) -> Result<(), Fault> {
    if got == expected { Ok(()) } else { Err(Fault::msg(&format!("{got:?}, not {expected:?}"))) }
}

fn plane<'g>(w: &Spmd<'_>, extents: [i64; 2], by: [Dist<'g>; 2]) -> Result<Shape<'g, 2>, Fault> {
    Ok(w.nodes([w.size() / 2, 2])?.template(extents).distribute(by)?)
}

/// What element `i`, `j` of the plane is before.
fn before([i, j]: [i64; 2]) -> i64 {
    (i * 7919 + j * 104_729) % 1009
}

/// The mean of the neighbours, in the loops below.
fn after([i, j]: [i64; 2]) -> i64 {
    before([i - 1, j]) + before([i + 1, j]) + before([i, j - 1]) + before([i, j + 1])
}

#[test]
fn loop_peel_and_wait() {
    let done = run(&world(6), |w| {
        let shape = plane(w, [13, 10], [Block; 2])?.shadow([1, 1]);
        let (mut a, mut b) = (shape.zeros::<i64>(w)?, shape.zeros(w)?);
        each!([i, j] in shape.all() => a[[i, j]] = before([i, j]));
        let inner = shape.on([1..12, 1..9]);
        a.reflect_start(Halo::ALL, w)?;
        each!([i, j] in inner.inner(1) => {
            b[[i, j]] = a[[i - 1, j]] + a[[i + 1, j]] + a[[i, j - 1]] + a[[i, j + 1]];
        });
        a.reflect_finish(w)?;
        each!([i, j] in inner.margin(1) => {
            b[[i, j]] = a[[i - 1, j]] + a[[i + 1, j]] + a[[i, j - 1]] + a[[i, j + 1]];
        });
        let right = each!([i, j] in inner => all { b[[i, j]] == after([i, j]) });
        same(w.reduce(All, right)?, true)
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn loop_expand_and_margin_and_expand_margin() {
    let done = run(&world(4), |w| {
        let shape = plane(w, [8, 8], [Block; 2])?.shadow([1, 1]);
        let (mut a, mut b) = (shape.zeros::<i64>(w)?, shape.zeros::<i64>(w)?);
        each!([i, j] in shape.all() => a[[i, j]] = before([i, j]));
        a.reflect(w)?;
        // What a node computes of its neighbours' elements is what they compute.
        let all = shape.all();
        each!([i, j] in all.expand(1) => b[[i, j]] = a[[i, j]] + 1);
        let right = each!([i, j] in all.expand(1) => all { b[[i, j]] == before([i, j]) + 1 });
        same((right, all.expand(1).len()), (true, 25))?;
        // The two parts of a loop: every iteration once.
        let mut times = shape.zeros::<i64>(w)?;
        each!([i, j] in all.inner(1) => times[[i, j]] += 1);
        each!([i, j] in all.margin(1) => times[[i, j]] += 1);
        same((all.inner(1).len(), all.margin(1).len()), (4, 12))?;
        same(each!([i, j] in all => all { times[[i, j]] == 1 }), true)
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn loop_gblock_and_gblock2_and_different_template() {
    let done = run(&world(6), |w| {
        let (rows, columns) = ([2, 0, 9], [1, 6]);
        let shape = plane(w, [11, 7], [GBlock(&rows), GBlock(&columns)])?;
        let mut a = shape.zeros::<i64>(w)?;
        each!([i, j] in shape.all() => a[[i, j]] = i * 7 + j);
        let sum = each!([i, j] in shape.all() => sum { a[[i, j]] });
        same(w.reduce(Sum, sum)?, 77 * 76 / 2)?;
        // The loop is on another template with the same distribution.
        let lines = w.nodes([6])?;
        let (of_array, of_loop) =
            (lines.template([10]).distribute([Block])?, lines.template([10]).distribute([Block])?);
        let mut line = of_array.zeros::<u64>(w)?;
        each!([i] in of_loop.all() => line[[i]] = i as u64);
        compare(&line, &(0..10).collect::<Vec<_>>())
    });
    assert_eq!(done, Ok(()));
}

/// Loops over arrays of one to three dimensions with each reduction, against all elements one after the other.
fn reductions<const N: usize>(
    w: &mut Spmd<'_>,
    shape: Shape<'_, N>,
    parts: impl Fn(&Array<'_, u64, N>) -> Parts,
) -> Result<(), Fault> {
    let mut a = shape.zeros::<u64>(w)?;
    let me = a.desc().me();
    let elements = || all(a.desc()).len() as u64;
    let (n, values) = (elements(), |at: u64| at * 7 % 5 + 1);
    let indices = all(a.desc());
    for (at, index) in (0..).zip(indices) {
        if a.desc().owns(me, index) {
            a[index] = values(at);
        }
    }
    let Parts { sum, product, bits, most, least } = parts(&a);
    let values: Vec<_> = (0..n).map(values).collect();
    let fold = |f: fn(u64, u64) -> u64| values.iter().copied().reduce(f).unwrap_or(0);
    same(w.reduce(Sum, sum)?, fold(|a, b| a + b))?;
    same(w.reduce(Prod, product)?, fold(u64::wrapping_mul))?;
    same(w.reduce(And, bits[0])?, fold(|a, b| a & b))?;
    same(w.reduce(Or, bits[1])?, fold(|a, b| a | b))?;
    same(w.reduce(Xor, bits[2])?, fold(|a, b| a ^ b))?;
    same(w.reduce(All, most < 6)?, true)?;
    same(w.reduce(Any, least == 0)?, false)?;
    same((w.reduce(Max, most)?, w.reduce(Min, least)?), (5, 1))
}

/// What a node's part of a loop comes to.
struct Parts {
    sum: u64,
    product: u64,
    bits: [u64; 3],
    most: u64,
    least: u64,
}

/// Of an array with these loop variables.
macro_rules! parts {
    ($a:ident [$($i:ident),+]) => {{
        let here = $a.here();
        Parts {
            sum: each!([$($i),+] in here => sum { $a[[$($i),+]] }),
            product: each!([$($i),+] in here => prod { $a[[$($i),+]] }),
            bits: [
                each!([$($i),+] in here => and { $a[[$($i),+]] }),
                each!([$($i),+] in here => or { $a[[$($i),+]] }),
                each!([$($i),+] in here => xor { $a[[$($i),+]] }),
            ],
            most: each!([$($i),+] in here => max { $a[[$($i),+]] }),
            least: each!([$($i),+] in here => min { $a[[$($i),+]] }),
        }
    }};
}

#[test]
fn reduction_plus_mult_and_or_xor_logical_max_min() {
    for ranks in [1, 4, 6] {
        let done = run(&world(ranks), |w| {
            let nodes = w.nodes([w.size()])?;
            reductions(w, nodes.template([23]).distribute([Cyclic])?, |a| parts!(a[i]))?;
            reductions(w, nodes.template([7, 9]).distribute([Whole, Block])?, |a| parts!(a[i, j]))?;
            reductions(w, nodes.template([7, 3, 4]).distribute([CyclicOf(2), Whole, Whole])?, |a| parts!(a[i, j, k]))
        });
        assert_eq!(done, Ok(()), "{ranks} ranks");
    }
}

/// The first and last of equal extremes, with the place that comes with each.
#[test]
fn reduction_firstmax_lastmax_firstmin_lastmin_and_max_loc() {
    for ranks in [2, 4] {
        let done = run(&world(ranks), |w| {
            let shape = plane(w, [8, 6], [Block, Block])?;
            let mut a = shape.zeros::<f64>(w)?;
            each!([i, j] in shape.all() => a[[i, j]] = ((i + j) % 5) as f64);
            let here = shape.all();
            let most = each!([i, j] in here => firstmax { (a[[i, j]], [i, j]) });
            let least = each!([i, j] in here => firstmin { (a[[i, j]], [i, j]) });
            same(w.reduce(FirstMax, most)?, Some((4.0, [0, 4])))?;
            same(w.reduce(FirstMin, least)?, Some((0.0, [0, 0])))?;
            let most = each!([i, j] in here => lastmax { (a[[i, j]], [i, j]) });
            let least = each!([i, j] in here => lastmin { (a[[i, j]], [i, j]) });
            same(w.reduce(LastMax, most)?, Some((4.0, [7, 2])))?;
            same(w.reduce(LastMin, least)?, Some((0.0, [7, 3])))
        });
        assert_eq!(done, Ok(()), "{ranks} ranks");
    }
}

#[test]
fn reduction_array_and_of_parts_of_the_nodes() {
    // `plus2`, `max2` and the others with 2: along rows and columns of nodes.
    let done = run(&world(6), |w| {
        let nodes = w.nodes([3, 2])?;
        let [row, column] = nodes.here();
        let (me, along) = (w.me(), [nodes.set([Sel::Own, Sel::All]), nodes.set([Sel::All, Sel::Own])]);
        same(w.reduce_on(along[0], Sum, me)?, 4 * row + 1)?;
        same(w.reduce_on(along[1], Max, me)?, 4 + column)?;
        same(w.reduce_on(along[1], Min, me)?, column)?;
        same(w.reduce_on(along[0], Prod, me + 1)?, (2 * row + 1) * (2 * row + 2))?;
        let mut values = [0; 100].map(|_: u64| me);
        values[99] = 1;
        w.reduce_slice(Sum, &mut values)?;
        same((values[0], values[98], values[99]), (15, 15, 6))?;
        let mut values = [me, 5 - me];
        w.reduce_slice_on(along[0], Max, &mut values)?;
        same(values, [2 * row + 1, 5 - 2 * row])
    });
    assert_eq!(done, Ok(()));
}

/// A value from each node of a part to all of it. In a task of the part, nodes have other numbers.
fn bcast<V: Value + PartialEq + std::fmt::Debug>(
    w: &mut Spmd<'_>,
    on: NodeSet,
    value: impl Fn(i64) -> V,
) -> Result<(), Fault> {
    for (from, rank) in (0..).zip(on.ranks()) {
        let mut got = value(w.me());
        w.bcast_on(on, from, &mut got)?;
        same(got, value(if on == w.set() { from } else { rank.into() }))?;
    }
    Ok(())
}

/// `bcast_from_p`, `on_p`, `from_p_on_t`, `on_split_p`, `split_comm`, `array_section` and the same in two dimensions.
#[test]
fn bcast_from_and_on_every_part_of_the_nodes() {
    let done = run(&world(6), |w| {
        let (whole, nodes, line) = (w.set(), w.nodes([3, 2])?, w.nodes([6])?);
        bcast(w, whole, |node| node)?;
        bcast(w, nodes.set([Sel::Own, Sel::All]), |node| (node, node as f64))?;
        bcast(w, nodes.set([Sel::All, Sel::Own]), |node| [node as u32; 40])?;
        // Those that have a part of a template, and those in a section of the nodes.
        let shape = line.template([6]).distribute([Block])?;
        let owners = shape.owners([2]).with(shape.owners([3]));
        for part in [owners, NodeSet::from(line.sub::<1>([triplet(1, 3, 2)])?)] {
            w.task(part, |w| bcast(w, w.set(), |node| node))?.transpose()?;
            if part.contains(w.me()) {
                bcast(w, part, |node| node)?;
            }
        }
        // Elements of an array.
        let mut values = [0; 20].map(|_| w.me());
        let mut part = [values[3], values[4], values[5]];
        w.bcast(4, &mut part)?;
        values[3..6].copy_from_slice(&part);
        same(values[2..7].to_vec(), vec![w.me(), 4, 4, 4, w.me()])
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn task_barrier_gmove_in_nocomm_tasks_and_reduction() {
    let done = run(&world(6), |w| {
        let (me, nodes) = (w.me(), w.nodes([6])?);
        let mut shared = nodes.template([12]).distribute([Block])?.shared::<u64>(w)?;
        let desc = *shared.view(w).desc();
        let mut view = shared.view_mut(w);
        number_by(&desc, 1, |index, value| view[index] = value);
        w.barrier()?;
        // Tasks beside each other.
        let [low, high] = [0, 3].map(|from| nodes.sub::<1>([triplet(from, 3, 1)]).map(NodeSet::from));
        for (nth, on) in [low?, high?].into_iter().enumerate() {
            let done = w.task(on, |w| {
                w.barrier()?;
                let mut a = w.nodes([3])?.template([6]).distribute([Cyclic])?.zeros(w)?;
                shared.gmove_in(s![6 - 6 * nth as i64..12 - 6 * nth as i64], a.section_mut(s![..]), w)?;
                compare(&a, &(0..6).map(|i| 7 - 6 * nth as u64 + i).collect::<Vec<_>>())?;
                w.reduce(Sum, w.me())
            })?;
            same(done.transpose()?, on.contains(me).then_some(3))?;
        }
        same(w.task_nocomm(NodeSet::one(2), || me)?, (me == 2).then_some(2))
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn template_fix_block_cyclic_gblock_reflect() {
    // Sizes that the program learns when it runs.
    let done = run(&world(4), |w| {
        for size in [4, 11, 16] {
            let sizes = [1, 0, size - 3, 2];
            for by in [Block, Cyclic, CyclicOf(2), GBlock(&sizes)] {
                let shape = w.nodes([4])?.template([-2..size - 2]).distribute([by])?;
                let mut a = shape.zeros::<i64>(w)?;
                each!([i] in shape.all() => a[[i]] = i);
                let sum = each!([i] in shape.all() => sum { a[[i]] });
                same(w.reduce(Sum, sum)?, size * (size - 5) / 2)?;
            }
            let shape = w.nodes([4])?.template([-2..size - 2]).distribute([Block])?.shadow([1]);
            let mut a = shape.zeros::<i64>(w)?;
            each!([i] in shape.all() => a[[i]] = i);
            a.reflect(w)?;
            same(each!([i] in shape.on([-1..size - 3]) => all { a[[i - 1]] + a[[i + 1]] == 2 * i }), true)?;
        }
        Ok(())
    });
    assert_eq!(done, Ok(()));
}

/// `array`, `array3` and numbers 316, 361, 516 and 594: statements over sections, of whatever nodes own them.
#[test]
fn array_statements() {
    let done = run(&world(4), |w| {
        let mut a = plane(w, [10, 12], [Block, Cyclic])?.zeros::<u64>(w)?;
        number(&mut a, 0);
        a.section_mut(s![2..5, (1..12).step(3)]).fill(1000)?;
        a.section_mut(s![.., 11]).map(|x| x + 5)?;
        let value = |(i, j): (u64, u64)| match (i, j) {
            (2..5, 1 | 4 | 7 | 10) => 1000,
            (i, 11) => i * 12 + 16,
            (i, j) => i * 12 + j,
        };
        compare(&a, &(0..10).flat_map(|i| (0..12).map(move |j| (i, j))).map(value).collect::<Vec<_>>())
    });
    assert_eq!(done, Ok(()));
}

/// Number 417: a section of an array that is allocated by the program, to the same of another one, in one and two
/// dimensions. The last elements stay.
#[test]
fn array_417() {
    let done = run(&world(4), |w| {
        let line = w.nodes([4])?.template([100]).distribute([Block])?;
        let [mut a, mut b] = line.fulls([7; 2], w)?;
        number(&mut b, 1000);
        a.section_mut(s![0..99]).gmove(b.section(s![0..99]), w)?;
        compare(&a, &(0..100).map(|i| if i < 99 { 1000 + i } else { 7 }).collect::<Vec<_>>())?;
        let [mut a, mut b] = plane(w, [100, 100], [Block, Block])?.fulls([7; 2], w)?;
        number(&mut b, 1000);
        a.section_mut(s![0..99, 0..99]).gmove(b.section(s![0..99, 0..99]), w)?;
        let value = |at: u64| if at / 100 < 99 && at % 100 < 99 { 1000 + at } else { 7 };
        compare(&a, &(0..10_000).map(value).collect::<Vec<_>>())
    });
    assert_eq!(done, Ok(()));
}

/// Arrays that are members of a structure.
struct Fields<'c> {
    scale: u64,
    now: Array<'c, u64, 2>,
    next: Array<'c, u64, 2>,
}

/// `array`, `gmove`, `loop`, `shadow_reflect` and number 601 of the folder.
#[test]
fn structure() {
    let done = run(&world(4), |w| {
        let shape = plane(w, [8, 6], [Block; 2])?;
        let mut s = Fields { scale: 3, now: shape.shadow([1, 0]).zeros(w)?, next: shape.zeros(w)? };
        number(&mut s.now, 0);
        s.now.reflect(w)?;
        let (inner, scale) = (shape.on([1..7, 0..6]), s.scale);
        let Fields { now, next, .. } = &mut s;
        each!([i, j] in inner => next[[i, j]] = scale * (now[[i - 1, j]] + now[[i + 1, j]]));
        s.next.section_mut(s![0, ..]).fill(1)?;
        s.next.section_mut(s![7, ..]).gmove(s.now.section(s![3, ..]), w)?;
        let value = |(i, j): (u64, u64)| match i {
            0 => 1,
            7 => 3 * 6 + j,
            _ => 6 * (i * 6 + j),
        };
        compare(&s.next, &(0..8).flat_map(|i| (0..6).map(move |j| (i, j))).map(value).collect::<Vec<_>>())
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn inquiry() {
    let done = run(&world(12), |w| {
        let nodes = w.nodes([2, 3, 2])?;
        let t = nodes.template([9, 6, 16]).distribute([CyclicOf(2), Cyclic, Block])?;
        // Dimensions in another order than the template's.
        let a = t.align([on(1), on(0), on(2)]).shadow([(0, 0), (0, 0), (1, 2)]).zeros::<i32>(w)?;
        let replicated = t.align([whole(4), on(2)]);
        let me = w.me();
        same((nodes.shape(), nodes.image(nodes.here())), ([2, 3, 2], me))?;
        let desc = a.desc();
        same([0, 1, 2].map(|dim| desc.range(dim)), [0..6, 0..9, 0..16])?;
        same(desc.shape().widths(), [(0, 0), (0, 0), (1, 2)].map(Into::into))?;
        let [x, y, z] = nodes.here();
        same(desc.owned_range(2)?, 8 * z..8 * z + 8)?;
        same(desc.owner([y, 2 * x, 8 * z]).map(i64::from), Some(me))?;
        same(desc.owners([3, 3, 3]).ranks().map(i64::from).collect::<Vec<_>>(), vec![nodes.image([1, 0, 0])])?;
        same(desc.owned(0).len() * desc.owned(1).len() * desc.owned(2).len(), 2 * if x == 0 { 5 } else { 4 } * 8)?;
        // The second row and column there; the fourth plane behind one of the shadow.
        let there = desc.offset_at(nodes.image([1, 0, 0]) as u32, [3, 3, 3]);
        let pitches = desc.pitches();
        same(there, Some(pitches[0] + pitches[1] + 4 * pitches[2]))?;
        same(replicated.replicas(me as u32).len(), 6)
    });
    assert_eq!(done, Ok(()));
}
