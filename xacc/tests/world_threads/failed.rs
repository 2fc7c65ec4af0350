//! Arrays behind an exchange that has failed: others may still write them, so nothing of them is here any more.

#![allow(clippy::single_range_in_vec_init, reason = "the range of one dimension")]

use super::{run_once, world};
use hamr_comm::Fault;
use hamr_xacc::each::Rows;
use hamr_xacc::prelude::*;
use hamr_xacc::program;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

const FAILED: &str = "an exchange of it has failed";

type Line<'c> = Array<'c, u64, 1>;

/// The arrays of a test: one with a shadow, another distribution of it, and one that all nodes have.
struct Arrays<'c> {
    a: Line<'c>,
    from: Line<'c>,
    same: Line<'c>,
}

fn arrays<'c>(w: &mut Spmd<'c>) -> Result<Arrays<'c>, Fault> {
    let line = w.nodes([w.size()])?.template([16]).distribute([Block])?.shadow([1]);
    let round = w.nodes([w.size()])?.template([16]).distribute([Cyclic])?;
    Ok(Arrays { a: line.zeros(w)?, from: round.full(7, w)?, same: w.own([16]).zeros(w)? })
}

/// Exchanges in which others write an array; `true`: that is `same`.
type Exchange = (&'static str, bool, fn(&mut Arrays<'_>, &mut Spmd<'_>) -> Result<(), Fault>);

const EXCHANGES: [Exchange; 5] = [
    ("gmove", false, |arrays, w| arrays.a.gmove(&arrays.from, w)),
    ("gmove to a section", false, |arrays, w| arrays.a.section_mut(s![1..15]).gmove(arrays.from.section(s![1..15]), w)),
    ("gmove_start", false, |arrays, w| {
        arrays.a.gmove_start(&arrays.from, w)?;
        arrays.a.gmove_finish(w)
    }),
    ("reflect_start", false, |arrays, w| {
        arrays.a.reflect_start(Halo::ALL, w)?;
        arrays.a.reflect_finish(w)
    }),
    ("reduce", true, |arrays, w| arrays.same.reduce(Sum, w)),
];

/// Ways to elements of an array, each of which would make a reference or a copy.
type Way = fn(&mut Line<'_>, &mut Line<'_>, &mut Spmd<'_>) -> Result<(), Fault>;

/// One that returns nothing.
macro_rules! way {
    ($a:ident => $reach:expr) => {
        |$a, _, _| {
            $reach;
            Ok(())
        }
    };
}

const WAYS: [(&str, Way); 16] = [
    ("local", way!(a => std::hint::black_box(a.local()))),
    ("local_mut", way!(a => a.local_mut().fill(1))),
    ("row", way!(a => std::hint::black_box(a.row(())))),
    ("row_mut", way!(a => a.row_mut(()).fill(1))),
    ("an element", way!(a => std::hint::black_box(a[[0]]))),
    ("an element to be written", way!(a => a[[0]] = 1)),
    ("a loop", |a, _, w| {
        let own = w.nodes([w.size()])?.template([16]).distribute([Block])?.on([0..1]);
        each!([i] in own => a[[i]] = 1);
        Ok(())
    }),
    ("what a loop reads", way!(a => std::hint::black_box(a.row_part(0, 1, [0])))),
    ("what a loop writes", way!(a => a.row_part_mut(0, 1, [0]).fill(1))),
    ("nothing of it in a loop", way!(a => std::hint::black_box(a.row_part(0, 0, [0])))),
    ("put of a section", |a, _, w| {
        let me = NodeSet::one(w.me());
        let put = |w: &mut Spmd<'_>| w.own([1]).coarray(w)?.put(0, s![..], a.section(s![0..1]), w);
        w.task(me, put)?.unwrap_or(Ok(()))
    }),
    ("fill of a section", |a, _, _| a.section_mut(s![..]).fill(1)),
    ("gmove", |a, other, w| a.gmove(&*other, w)),
    ("gmove as the source", |a, other, w| other.gmove(&*a, w)),
    ("gather", |a, _, w| a.gather(&mut [0; 16], w)),
    ("reflect", |a, _, w| a.reflect(w)),
];

#[test]
fn an_array_whose_exchange_has_failed_is_not_there() {
    for (exchange, is_same, make) in EXCHANGES {
        let world = world(4);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let to = seen.clone();
        let ran = run_once(&world, move |w| {
            let mut arrays = arrays(w)?;
            w.barrier()?;
            if w.me() == 1 {
                // Another collective: node 0 is told so at once.
                return w.barrier();
            }
            let failed = make(&mut arrays, w);
            if w.me() == 0 {
                assert!(failed.is_err());
                let Arrays { a, from, same } = &mut arrays;
                let array = if is_same { same } else { a };
                for (way, reach) in WAYS {
                    let reached = catch_unwind(AssertUnwindSafe(|| reach(array, from, w)));
                    let why = match reached {
                        Ok(Ok(())) => "it is there".to_string(),
                        Ok(Err(why)) => why.text.to_string(),
                        Err(panic) => match panic.downcast_ref::<String>() {
                            Some(text) => text.clone(),
                            None => panic.downcast_ref::<&str>().copied().unwrap_or_default().to_string(),
                        },
                    };
                    to.lock().expect("no panic").push((way, why));
                }
            }
            failed
        });
        assert!(ran.is_err(), "{exchange}: they are in different collectives");
        let seen = seen.lock().expect("no panic");
        assert_eq!(seen.len(), WAYS.len(), "{exchange}");
        for (way, why) in &*seen {
            // A loop says what is here: nothing.
            let nothing = *way == "a loop" && why.contains("here are 0..0");
            assert!(nothing || why.contains(FAILED), "{exchange}, {way}: {why}");
        }
    }
}

#[test]
fn a_slice_does_not_change_behind_an_assignment_that_has_failed() {
    let world = world(4);
    let seen = Arc::new(Mutex::new(None));
    let to = seen.clone();
    let ran = world.run_program(move |task| {
        program(task, |w| {
            let Arrays { mut a, from, .. } = arrays(w)?;
            w.barrier()?;
            let wait = |w: &Spmd<'_>, seconds: f64| {
                let until = w.seconds() + seconds;
                while w.seconds() < until {
                    std::thread::yield_now();
                }
            };
            match w.me() {
                // Another collective: node 0 is told so at once.
                1 => w.barrier()?,
                // Node 2 waits for this one before it puts to node 0.
                3 => {
                    wait(w, 0.5);
                    a.gmove(&from, w)?;
                }
                2 => a.gmove(&from, w)?,
                _ => {
                    let failed = a.gmove(&from, w);
                    // What a program that reports its failure does.
                    let changed = catch_unwind(AssertUnwindSafe(|| {
                        let slice: &[u64] = a.local();
                        let before = slice.to_vec();
                        wait(w, 1.0);
                        before != std::hint::black_box(slice)
                    }));
                    *to.lock().expect("no panic") = Some((failed.is_err(), changed.unwrap_or(false)));
                    failed?;
                }
            }
            Ok(0)
        })
    });
    assert!(ran.is_err(), "they are in different collectives");
    let seen = seen.lock().expect("no panic").take().expect("node 0 came there");
    assert_eq!(seen, (true, false), "it has failed; a &[u64] has changed");
}

#[test]
fn an_exchange_for_which_there_is_no_room_leaves_the_array_as_it_is() {
    let ran = run_once(&world(2), |w| {
        let line = w.nodes([w.size()])?.template([8]).distribute([Block])?.shadow([1]);
        let from = line.full(7u64, w)?;
        let mut started: [Line<'_>; 8] = line.fulls([1; 8], w)?;
        let mut left = line.full(5u64, w)?;
        for array in &mut started {
            array.gmove_start(&from, w)?;
        }
        let (moved, filled) = (left.gmove_start(&from, w), left.reflect_start(Halo::ALL, w));
        for refused in [moved, filled] {
            assert!(refused.is_err_and(|why| why.text.contains("too many")));
        }
        assert!(each!([i] in line.all() => all { left[[i]] == 5 }));
        for array in &mut started {
            array.gmove_finish(w)?;
        }
        left.gmove(&from, w)?;
        assert!(each!([i] in line.all() => all { left[[i]] == 7 }));
        Ok(())
    });
    assert_eq!(ran, Ok(()));
}

type Fails = fn(&mut Spmd<'_>) -> Result<(), Fault>;

/// Scopes that do not end as they should.
const SCOPES: [(&str, Fails); 3] = [
    ("an error", |w| w.scope(|_| Err(Fault::msg("it fails")))),
    ("an error in a scope in it", |w| {
        w.scope(|w| {
            assert!(w.scope(|_| -> Result<(), Fault> { Err(Fault::msg("it fails")) }).is_err());
            Ok(())
        })
    }),
    ("a panic", |w| {
        let panicked = catch_unwind(AssertUnwindSafe(|| w.scope(|_| -> Result<(), Fault> { panic!("it panics") })));
        panicked.unwrap_or_else(|_| Err(Fault::msg("it panics")))
    }),
];

/// Others may still write what was an array of the scope: a later array, or memory of this node, must not be there.
#[test]
fn memory_of_a_scope_that_has_failed_is_not_taken_again() {
    for (case, fails) in SCOPES {
        let ran = run_once(&world(2), move |w| {
            assert!(fails(w).is_err());
            let me = NodeSet::one(w.me());
            let refused = [
                w.local::<u64>(1).map(drop),
                w.scope(|_| Ok(())),
                w.task(me, |w| w.own([1]).zeros::<u64>(w).map(drop))?.unwrap_or(Ok(())),
                w.own([1]).coarray::<u64>(w).map(drop),
            ];
            for refused in refused {
                assert!(refused.is_err_and(|why| why.text.contains("a scope of this program has failed")));
            }
            w.barrier()
        });
        assert_eq!(ran, Ok(()), "{case}");
    }
}
