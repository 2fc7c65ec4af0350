//! Rows of arrays as slices, and what is said where there is none.

use super::{run, world};
use hamr_comm::Fault;
use hamr_xacc::Array;
use hamr_xacc::each::Rows;
use hamr_xacc::prelude::*;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn expect(ok: bool, what: &str) -> Result<(), Fault> {
    if ok { Ok(()) } else { Err(Fault::msg(what)) }
}

#[test]
fn rows_are_a_nodes_own_elements() {
    let done = run(&world(3), |w| {
        let [n, m] = [7, 20];
        let plane = w.nodes([w.size()])?.template([n, m]).distribute([Block, Whole])?.shadow([1, 0]);
        let mut a = plane.zeros::<f64>(w)?;
        each!([i, j] in plane.all() => a[[i, j]] = (100 * i + (7 * j) % 20) as f64);
        a.reflect(w)?;
        let own = a.range()?;
        for i in own.clone() {
            a.row_mut(i).sort_by(f64::total_cmp);
            expect(a.row(i).iter().zip(0..).all(|(x, j)| *x == f64::from(100 * i as i32 + j)), "a sorted row")?;
        }
        // Of the shadow, too.
        if own.start > 0 {
            expect(a.row(own.start - 1)[1] == (100 * (own.start - 1) + 7) as f64, "a row of the shadow")?;
        }
        // Each node has every third element of a row, one behind the other.
        let round = w.nodes([w.size()])?.template([m]).distribute([Cyclic])?.align([whole(n), on(0)]);
        let mut b = round.zeros::<i64>(w)?;
        each!([i, j] in round.all() => b[[i, j]] = 100 * i + j);
        let me = w.me();
        expect(b.row([4]).iter().copied().eq((me..m).step_by(3).map(|j| 400 + j)), "a row in turns")?;
        let indices: Vec<_> = round.on([2..4, 0..m]).indices().collect();
        expect(indices == (2..4).flat_map(|i| (me..m).step_by(3).map(move |j| [i, j])).collect::<Vec<_>>(), "indices")?;
        let (line, cube) = (w.own([5]).full(3u8, w)?, w.own([2, 3, 70]).full(4u8, w)?);
        expect(line.row(()) == [3; 5] && cube.row([1, 2]) == [4; 70], "a line and a cube")
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn rows_that_are_not_padded_are_one_slice() {
    let done = run(&world(2), |w| {
        let plane = w.nodes([w.size()])?.template([6, 100]).distribute([Block, Whole])?;
        let mut a = plane.unpadded().zeros::<f64>(w)?;
        each!([i, j] in plane.all() => a[[i, j]] = (100 * i + j) as f64);
        let first = a.range()?.start * 100;
        expect(a.local().iter().zip(first..).all(|(x, at)| *x == at as f64), "all of a node's elements")?;
        expect(a.local().len() == 300, "all of them")?;
        let padded = plane.zeros::<f64>(w)?;
        expect(catch_unwind(AssertUnwindSafe(|| padded.local().len())).is_err(), "rows with gaps")?;
        // Padded or not, elements go where they belong.
        let mut all = [0.0; 600];
        let mut b = plane.zeros::<f64>(w)?;
        b.gmove(&a, w)?;
        b.gather(&mut all, w)?;
        expect(all.iter().zip(0..).all(|(x, at)| *x == f64::from(at)), "elements of both")
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn rows_of_a_shadow_are_not_there_while_it_is_filled() {
    let done = run(&world(3), |w| {
        let refused = |rows: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(rows)).is_err();
        // Rows 3 before and behind, of 8 elements and one on either side.
        let plane = w.nodes([w.size()])?.template([12, 8]).distribute([Block, Whole])?.shadow([3, 1]);
        let mut a = plane.full(7u64, w)?;
        a.reflect_start(Halo::ALL, w)?;
        let (first, pitch) = (a.range()?.start, a.desc().pitches()[0]);
        for row in -3..7 {
            for column in -1..9 {
                let at = (row + 3) as usize * pitch + (column + 1) as usize;
                for len in [0, 1, 3, 8, 9] {
                    let is_own = (0..4).contains(&row) && (0..8).contains(&column) && column + len <= 8;
                    let (from, len) = ([first + row, column], len as usize);
                    let is_refused = refused(&mut || assert_eq!(a.row_part(at, len, from), &[7].repeat(len)));
                    expect(is_refused != is_own, "an element of the shadow, or none of an own row")?;
                    let is_refused = refused(&mut || a.row_part_mut(at, len, from).fill(7));
                    expect(is_refused != is_own, "the same, to be written")?;
                }
            }
        }
        // Another place than that of the index, and none.
        let own = [first, 0];
        expect(refused(&mut || _ = a.row_part(0, 1, own)), "a place of the shadow")?;
        expect(refused(&mut || _ = a.row_part(3 * pitch + 1, usize::MAX, own)), "a length of any number")?;
        expect(refused(&mut || _ = a.row_part(0, 1, [i64::MIN, i64::MAX])), "an index of any number")?;
        a.reflect_finish(w)?;
        expect(!refused(&mut || _ = a.row_part(0, pitch, own)), "all of it is there again")?;
        // Gaps between what a node owns are its shadow.
        let round = w.nodes([w.size()])?.template([12]).distribute([CyclicOf(2)])?.shadow([Full]);
        let mut b = round.full(7u64, w)?;
        b.reflect_start(Halo::ALL, w)?;
        let mine = 2 * w.me();
        for index in 0..12i64 {
            for len in 1..4 {
                let is_own = (0..len).all(|by| (index + by) % 6 / 2 * 2 == mine) && index % 2 + len <= 2;
                let is_refused = refused(&mut || _ = b.row_part(index as usize, len as usize, [index]));
                expect(is_refused != is_own, "an element of a gap")?;
            }
        }
        b.reflect_finish(w)
    });
    assert_eq!(done, Ok(()));
}

thread_local! {
    /// The line of the last panic of this thread, in which file.
    static PLACE: Cell<Option<(bool, u32)>> = const { Cell::new(None) };
}

/// Uses of what is not here. Each in a line of its own.
type Use = fn(&mut Array<'_, u64, 2>, &Spmd<'_>);

const USES: [Use; 10] = [
    |a, _| _ = a.local().len(),
    |a, _| a.local_mut().fill(0),
    |a, _| _ = a.row(99).len(),
    |a, _| a.row_mut(99).fill(0),
    |a, _| a[[99, 0]] = 1,
    |a, _| _ = a.section(s![0..100, ..]),
    |a, _| _ = a.section_mut(s![0..100, ..]),
    |a, _| _ = a.desc().shape().on([0..100, 0..1]),
    |a, _| _ = a.desc().shape().align([on(7)]),
    |_, w| _ = w.own([-1]),
];

#[test]
fn a_fault_of_a_program_names_its_own_line() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PLACE.set(info.location().map(|at| (at.file().ends_with("rows.rs"), at.line())));
        before(info);
    }));
    let done = run(&world(1), |w| {
        let mut a = w.nodes([1])?.template([8, 100]).distribute([Block, Whole])?.zeros::<u64>(w)?;
        let mut lines = Vec::new();
        for (nth, fails) in USES.into_iter().enumerate() {
            PLACE.set(None);
            expect(catch_unwind(AssertUnwindSafe(|| fails(&mut a, w))).is_err(), "nothing is refused")?;
            match PLACE.get() {
                Some((true, line)) => lines.push(line),
                _ => return Err(Fault::msg(&format!("use {nth} is refused in the library"))),
            }
        }
        expect(lines.windows(2).all(|pair| pair[1] == pair[0] + 1), "another line")
    });
    assert_eq!(done, Ok(()));
}
