//! Collectives in which one thing differs on one node: every node names both, and in what they differ.

use super::{run_once, world};
use hamr_comm::Fault;
use hamr_xacc::dist::Extent;
use hamr_xacc::prelude::*;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Case = (&'static str, fn(&mut Spmd<'_>, differs: bool) -> Result<(), Fault>);

/// Of 8 elements in blocks.
fn line(w: &Spmd<'_>) -> Result<Shape<'static, 1>, Fault> {
    Ok(w.nodes([w.size()])?.template([8]).distribute([Block])?)
}

const CASES: [Case; 42] = [
    ("extent, of equal bytes", |w, differs| {
        // As of a size that each node has read for itself.
        let n = if differs { 11 } else { 10 };
        w.nodes([w.size()])?.template([n]).distribute([Block])?.zeros::<f64>(w).map(drop)
    }),
    ("first index", |w, differs| {
        let lo = i64::from(differs);
        let range = Extent::from(lo..lo + 8);
        w.nodes([w.size()])?.template([range]).distribute([Block])?.zeros::<f64>(w).map(drop)
    }),
    ("distribution", |w, differs| {
        let by = if differs { Cyclic } else { Block };
        w.nodes([w.size()])?.template([8]).distribute([by])?.zeros::<f64>(w).map(drop)
    }),
    ("length of blocks", |w, differs| {
        let by = CyclicOf(if differs { 2 } else { 3 });
        w.nodes([w.size()])?.template([8]).distribute([by])?.zeros::<f64>(w).map(drop)
    }),
    ("sizes of blocks", |w, differs| {
        let sizes = if differs { [5, 3] } else { [3, 5] };
        w.nodes([w.size()])?.template([8]).distribute([GBlock(&sizes)])?.zeros::<f64>(w).map(drop)
    }),
    ("nodes", |w, differs| {
        let shape = if differs { [1, 2] } else { [2, 1] };
        w.nodes(shape)?.template([8, 8]).distribute([Block, Block])?.zeros::<f64>(w).map(drop)
    }),
    ("alignment", |w, differs| {
        let at = on(0).offset(i64::from(differs)).range(0..4);
        line(w)?.align([at]).zeros::<f64>(w).map(drop)
    }),
    ("replication", |w, differs| {
        let shape = if differs { w.own([8]) } else { line(w)? };
        shape.zeros::<[u64; 8]>(w).map(drop)
    }),
    ("shadow", |w, differs| line(w)?.shadow([(1, u32::from(differs))]).zeros::<f64>(w).map(drop)),
    ("dimensions", |w, differs| {
        if differs { w.own([8]).zeros::<u64>(w).map(drop) } else { w.own([8, 1]).zeros::<u64>(w).map(drop) }
    }),
    (
        "element type",
        |w, differs| {
            if differs { line(w)?.zeros::<i64>(w).map(drop) } else { line(w)?.zeros::<f64>(w).map(drop) }
        },
    ),
    ("element type of a long name", |w, differs| {
        let own = w.own([8]);
        if differs { own.zeros::<[[i64; 2]; 2]>(w).map(drop) } else { own.zeros::<[[u64; 2]; 2]>(w).map(drop) }
    }),
    ("element type of an own array", |w, differs| {
        let own = w.own([8]);
        if differs { own.zeros::<i64>(w).map(drop) } else { own.zeros::<f64>(w).map(drop) }
    }),
    ("shadow of an own array", |w, differs| w.own([8]).shadow([u32::from(differs)]).zeros::<f64>(w).map(drop)),
    ("rows of an own array", |w, differs| {
        let own = w.own([2, 8]);
        if differs { own.unpadded().zeros::<f64>(w).map(drop) } else { own.zeros::<f64>(w).map(drop) }
    }),
    ("extent of an own array that is reduced", |w, differs| {
        w.own([8 + i64::from(differs)]).zeros::<u64>(w)?.reduce(Sum, w)
    }),
    ("extent of an own array that is summed", |w, differs| {
        let [mut to, from] = w.own([8 + i64::from(differs)]).fulls([1u64; 2], w)?;
        to.gmove_sum(&from, w)
    }),
    ("extent of an own array that is kept", |w, differs| {
        w.own([8 + i64::from(differs)]).zeros::<u64>(w)?.keep(w).map(drop)
    }),
    ("extent of a shared array", |w, differs| w.own([8 + i64::from(differs)]).shared::<u8>(w).map(drop)),
    ("extents of a shared array, of equal elements", |w, differs| {
        w.own(if differs { [8, 1] } else { [1, 8] }).shared::<u8>(w).map(drop)
    }),
    ("extent of a coarray", |w, differs| w.own([8 + i64::from(differs)]).coarray::<u8>(w).map(drop)),
    ("element type of a coarray", |w, differs| {
        if differs { w.own([8]).coarray::<i8>(w).map(drop) } else { w.own([8]).coarray::<u8>(w).map(drop) }
    }),
    ("number of locks", |w, differs| w.locks(1 + u32::from(differs)).map(drop)),
    ("halo", |w, differs| {
        let mut a = line(w)?.shadow([2]).zeros::<f64>(w)?;
        a.reflect_with(Halo::new([1 + u32::from(differs)]), w)
    }),
    ("halo of a start", |w, differs| {
        let mut a = line(w)?.shadow([2]).zeros::<f64>(w)?;
        a.reflect_start(Halo::ALL.periodic([differs]), w)
    }),
    ("halo of reduce_shadow", |w, differs| {
        let mut a = line(w)?.shadow([2]).zeros::<f64>(w)?;
        a.reduce_shadow_with(Halo::new([1 + u32::from(differs)]), w)
    }),
    ("array of a reflect", |w, differs| {
        let [mut a, mut b] = line(w)?.shadow([1]).fulls([0.0; 2], w)?;
        if differs { a.reflect(w) } else { b.reflect(w) }
    }),
    ("way of a reflect", |w, differs| {
        let mut a = line(w)?.shadow([1]).zeros::<f64>(w)?;
        if differs { a.reflect_start(Halo::ALL, w) } else { a.reflect(w) }
    }),
    ("source of a gmove", |w, differs| {
        let by = w.nodes([w.size()])?.template([8]).distribute([Cyclic])?;
        let (mut to, [a, b]) = (line(w)?.zeros(w)?, by.fulls([0.0; 2], w)?);
        to.gmove(if differs { &a } else { &b }, w)
    }),
    ("destination of a gmove", |w, differs| {
        let from = w.nodes([w.size()])?.template([8]).distribute([Cyclic])?.zeros(w)?;
        let [mut a, mut b] = line(w)?.fulls([0.0; 2], w)?;
        if differs { a.gmove(&from, w) } else { b.gmove(&from, w) }
    }),
    ("section of a gmove", |w, differs| {
        let from = w.nodes([w.size()])?.template([8]).distribute([Cyclic])?.zeros(w)?;
        let (mut a, by) = (line(w)?.full(0.0, w)?, i64::from(differs));
        a.section_mut(s![by..by + 7]).gmove(from.section(s![0..7]), w)
    }),
    ("section of a gather", |w, differs| {
        let (a, by) = (line(w)?.full(0.0, w)?, i64::from(differs));
        a.section(s![by..by + 7]).gather(&mut [0.0; 7], w)
    }),
    ("array of a gmove_sum", |w, differs| {
        let mut a = line(w)?.zeros::<u64>(w)?;
        let [b, c] = w.own([8]).fulls([1; 2], w)?;
        a.gmove_sum(if differs { &b } else { &c }, w)
    }),
    ("operation on an array", |w, differs| {
        let mut a = w.own([8]).zeros::<u64>(w)?;
        if differs { a.reduce(Sum, w) } else { a.reduce(Max, w) }
    }),
    ("array of a reduce", |w, differs| {
        let [mut a, mut b] = w.own([8]).fulls([1u64; 2], w)?;
        if differs { a.reduce(Sum, w) } else { b.reduce(Sum, w) }
    }),
    ("operation", |w, differs| if differs { w.reduce(Sum, 1u64).map(drop) } else { w.reduce(Prod, 1u64).map(drop) }),
    ("type", |w, differs| if differs { w.reduce(Sum, 1u64).map(drop) } else { w.reduce(Sum, 1i64).map(drop) }),
    ("type of a long name", |w, differs| {
        let (a, b) = ([([1u64; 2], [1u64; 2]); 2], [([1i64; 2], [1u64; 2]); 2]);
        let longest = |w: &mut Spmd<'_>| w.reduce(First, a).map(drop);
        if differs { longest(w) } else { w.reduce(First, b).map(drop) }
    }),
    ("length of a slice", |w, differs| w.reduce_slice(Sum, &mut vec![1u64; 25 + usize::from(differs)])),
    (
        "a slice and a value",
        |w, differs| {
            if differs { w.reduce_slice(Sum, &mut [1u64]) } else { w.reduce(Sum, 1u64).map(drop) }
        },
    ),
    ("root", |w, differs| w.bcast(u32::from(differs), &mut 1u64)),
    ("type of a broadcast", |w, differs| if differs { w.bcast(0, &mut 1u64) } else { w.bcast(0, &mut 1i64) }),
];

/// An operation on values of any type.
struct First;

impl<V> hamr_xacc::collective::Op<V> for First {
    const NAME: &'static str = "First";
    fn combine(a: V, _: V) -> V {
        a
    }
}

#[test]
fn nodes_that_differ_in_one_thing_are_named_on_each() {
    for (case, collective) in CASES {
        for first in [true, false] {
            let world = world(2);
            let said = Arc::new(Mutex::new([const { None::<String> }; 2]));
            let to = said.clone();
            let ran = run_once(&world, move |w| {
                let done = collective(w, (w.me() == 0) == first);
                let why = done.as_ref().err().map_or_else(String::new, |why| why.text.to_string());
                to.lock().expect("no panic")[w.me() as usize] = Some(why);
                // A node that has failed ends the run of the other.
                let begin = Instant::now();
                while to.lock().expect("no panic").contains(&None) && begin.elapsed() < Duration::from_secs(10) {
                    std::thread::yield_now();
                }
                done
            });
            assert!(ran.is_err(), "{case}: no error");
            let said = said.lock().expect("no panic").clone();
            let [Some(one), Some(other)] = said else { panic!("{case}: a node has said nothing") };
            assert_eq!(one, other, "{case}");
            let (here, there) = one.split_once(", node 1 in ").unwrap_or_else(|| panic!("{case}: {one}"));
            let here = here.strip_prefix("node 0 is in ").unwrap_or_else(|| panic!("{case}: {one}"));
            // Without the places in the source, if there was room for them.
            let what = |text: &str| text.split(" (mismatches.rs:").next().unwrap_or_default().to_owned();
            assert_ne!(what(here), what(there), "{case}: both are in the same");
        }
    }
}

#[test]
fn a_shape_of_another_node_is_refused() {
    let ran = run_once(&world(2), |w| {
        // A shape of a static of threads is the same.
        let nodes = Nodes::new(w.set(), 1 - w.me() as u32, [2])?;
        let shape = nodes.template([4]).distribute([Block])?;
        let why = shape.zeros::<u64>(w).map(drop).expect_err("it says what the other node has");
        if why.text.contains("this shape is that of rank") { Err(why) } else { Ok(()) }
    });
    assert!(ran.is_err_and(|why| why.contains("this node is rank")), "it was refused");
}
