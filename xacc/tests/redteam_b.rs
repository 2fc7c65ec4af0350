//! Red team, round 2, part B: what programs over arrays promise, and what was found to break it.
//! Each test fails on eabe526c.

use hamr::{Runtime, World};
use hamr_comm::Fault;
use hamr_xacc::prelude::*;
use hamr_xacc::program;
use hamr_xacc::section::Region;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn world(ranks: u32) -> World {
    Runtime::new().expect("a runtime").world_of_threads(ranks as usize).expect("a world")
}

fn run(world: &World, f: impl Fn(&mut Spmd<'_>) -> Result<(), Fault> + Send + Sync + 'static) -> Result<(), String> {
    let result = world.run_program(move |task| program(task, &f).map(|()| 0));
    result.map(|_| ()).map_err(|e| e.to_string())
}

/// Indices that a selection of 0..12 names.
fn named(sel: Sel) -> Vec<i64> {
    let region = Region::new([sel], [0..12]).expect("within");
    (0..region.dims[0].len).map(|at| region.dims[0].at(at)).collect()
}

#[test]
fn x1_a_step_of_a_step_selects_of_what_was_selected() {
    assert_eq!(named((2..10).step(2)), [2, 4, 6, 8]);
    assert_eq!(named((2..10).step(2).step(-1)), [8, 6, 4, 2], "backwards from the last one of these");
}

#[test]
fn x1_the_reverse_of_the_reverse_is_what_it_was() {
    let once = named((2..10).step(-3));
    assert_eq!(once, [9, 6, 3]);
    assert_eq!(named((2..10).step(-3).step(-1)), [3, 6, 9]);
}

#[test]
fn x1_a_triplet_goes_backwards_too() {
    assert_eq!(named(triplet(2, 4, 2)), [2, 4, 6, 8]);
    assert_eq!(named(triplet(2, 4, 2).step(-1)), [8, 6, 4, 2]);
}

#[test]
fn x1_step_0_of_a_triplet_is_refused() {
    assert!(Region::new([triplet(2, 4, 2).step(0)], [0..12]).is_err());
}

#[test]
fn x1_steps_that_overflow_are_refused() {
    let sel = std::panic::catch_unwind(|| (..).step(i64::MAX).step(2));
    assert!(sel.is_ok_and(|sel| Region::new([sel], [0..12]).is_ok_and(|region| region.dims[0].len == 1)));
}

/// The place of the first of the greatest elements of a loop, on so many nodes.
fn first_max(ranks: u32) -> (u32, i64) {
    let world = world(ranks);
    let found = Arc::new(Mutex::new(None));
    let to = found.clone();
    run(&world, move |w| {
        let line = w.nodes([w.size()])?.template([20]).distribute([Block])?;
        let a = line.zeros::<u32>(w)?;
        let here = each!([i] in line.on([7..12]) => firstmax { (a[[i]], i) });
        *to.lock().expect("no panic") = Some(w.reduce(FirstMax, here)?);
        Ok(())
    })
    .expect("it runs");
    let found = *found.lock().expect("no panic");
    found.expect("a place")
}

#[test]
fn x2_the_place_of_a_maximum_is_the_same_on_any_number_of_nodes() {
    assert_eq!(first_max(1), (0, 7));
    assert_eq!(first_max(4), (0, 7), "nodes without iterations have no place");
}

/// The bits of the greatest element, on so many nodes.
fn max(ranks: u32) -> u64 {
    let world = world(ranks);
    let found = Arc::new(Mutex::new(0));
    let to = found.clone();
    run(&world, move |w| {
        let line = w.nodes([w.size()])?.template([16]).distribute([Block])?;
        let mut a = line.full(-1.0f64, w)?;
        each!([i] in line.on([1..2]) => a[[i]] = 0.0);
        each!([i] in line.on([8..9]) => a[[i]] = -0.0);
        let here = each!([i] in line.all() => max { a[[i]] });
        *to.lock().expect("no panic") = w.reduce(Max, here)?.to_bits();
        Ok(())
    })
    .expect("it runs");
    let found = *found.lock().expect("no panic");
    found
}

#[test]
fn x2_a_maximum_has_the_same_bits_on_any_number_of_nodes() {
    assert_eq!(max(1), max(2), "0.0 and -0.0 are equal, and one of them is first");
}

#[test]
fn x3_a_broadcast_is_of_any_value() {
    let world = world(3);
    let ran = run(&world, |w| {
        let mut value = (w.me() == 1).then_some(5.5f64);
        w.bcast(1, &mut value)?;
        if value == Some(5.5) { Ok(()) } else { Err(Fault::msg("another value")) }
    });
    assert_eq!(ran, Ok(()));
}

#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
enum Next {
    Stop,
    Refine { by: f64, times: u32 },
}

#[test]
fn x3_a_broadcast_is_of_any_enum() {
    let world = world(2);
    let ran = run(&world, |w| {
        let mut step = if w.me() == 0 { Next::Refine { by: 0.5, times: 3 } } else { Next::Stop };
        w.bcast(0, &mut step)?;
        if step == (Next::Refine { by: 0.5, times: 3 }) { Ok(()) } else { Err(Fault::msg("another value")) }
    });
    assert_eq!(ran, Ok(()));
}

#[test]
fn x4_a_kept_array_that_was_freed_is_no_other_one() {
    let world = world(2);
    let kept = Arc::new(Mutex::new(Vec::new()));
    for value in [1.0f32, 2.0] {
        let to = kept.clone();
        run(&world, move |w| {
            let shape = w.nodes([w.size()])?.template([100]).distribute([Block])?;
            let a = shape.full(value, w)?.keep(w)?;
            if w.me() == 0 {
                to.lock().expect("no panic").push(a);
            }
            Ok(())
        })
        .expect("kept");
        if value == 1.0 {
            run(&world, |w| w.free_kept()).expect("freed");
        }
    }
    let first = kept.lock().expect("no panic")[0];
    let opened = run(&world, move |w| {
        let shape = w.nodes([w.size()])?.template([100]).distribute([Block])?;
        let a = first.open(&shape, w)?;
        let sum = each!([i] in a.here() => sum { a[[i]] });
        Err(Fault::msg(&format!("opened: it has {sum}")))
    });
    let why = opened.expect_err("it is not kept any more");
    assert!(why.contains("not kept here"), "{why}");
}

#[test]
fn x4_a_kept_array_has_the_type_that_it_was_kept_with() {
    let world = world(1);
    let (floats, ints) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
    let to = floats.clone();
    run(&world, move |w| {
        *to.lock().expect("no panic") = Some(w.own([64]).full(1.0f32, w)?.keep(w)?);
        Ok(())
    })
    .expect("kept");
    run(&world, |w| w.free_kept()).expect("freed");
    let to = ints.clone();
    run(&world, move |w| {
        *to.lock().expect("no panic") = Some(w.own([64]).full(7u32, w)?.keep(w)?);
        Ok(())
    })
    .expect("kept");
    let old = floats.lock().expect("no panic").expect("kept");
    let opened = run(&world, move |w| {
        let shape = w.own([64]);
        let a = old.open(&shape, w)?;
        Err(Fault::msg(&format!("opened: its first element is {}", a[[0]])))
    });
    let why = opened.expect_err("it is not kept any more");
    assert!(why.contains("not kept here"), "{why}");
}

#[test]
fn x5_nodes_whose_arrays_differ_in_shape_are_named() {
    let world = world(2);
    let wrong = Arc::new(Mutex::new(None));
    let to = wrong.clone();
    let ran = run(&world, move |w| {
        // As of a size that each node has read for itself.
        let n = if w.me() == 0 { 10 } else { 11 };
        let line = w.nodes([w.size()])?.template([n]).distribute([Block])?.shadow([1]);
        let mut a = line.zeros::<f64>(w)?;
        each!([i] in line.all() => a[[i]] = i as f64);
        a.reflect(w)?;
        if w.me() == 0 {
            *to.lock().expect("no panic") = Some(a[[5]]);
        }
        w.barrier()
    });
    assert!(ran.is_err(), "no error, and on node 0 element 5 is {:?}", wrong.lock().expect("no panic"));
}

#[test]
fn x5_nodes_whose_arrays_differ_in_distribution_are_named() {
    let world = world(2);
    let wrong = Arc::new(Mutex::new(None));
    let to = wrong.clone();
    let ran = run(&world, move |w| {
        let by = if w.me() == 0 { Block } else { Cyclic };
        let a = {
            let line = w.nodes([w.size()])?.template([8]).distribute([by])?;
            let mut a = line.zeros::<f64>(w)?;
            each!([i] in line.all() => a[[i]] = i as f64);
            a
        };
        let mut all = [-1.0; 8];
        a.gather(&mut all, w)?;
        if w.me() == 0 {
            *to.lock().expect("no panic") = Some(all);
        }
        Ok(())
    });
    assert!(ran.is_err(), "no error, and node 0 has gathered {:?}", wrong.lock().expect("no panic"));
}

/// In at most this time; a thread that goes on is left behind.
fn within<T: Send + 'static>(limit: Duration, f: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (to, from) = std::sync::mpsc::channel();
    std::thread::spawn(move || drop(to.send(f())));
    from.recv_timeout(limit).ok()
}

#[test]
fn x5_a_shape_of_another_node_is_refused() {
    let world = world(2);
    let wrong = Arc::new(Mutex::new(None));
    let to = wrong.clone();
    let ran = run(&world, move |w| {
        // Public, and a shape of a static of threads is the same.
        let nodes = Nodes::new(w.set(), 1 - w.me(), [2])?;
        let mut a = nodes.template([4]).distribute([Block])?.zeros::<u64>(w)?;
        each!([i] in a.here() => a[[i]] = i as u64);
        let mut all = [9; 4];
        a.gather(&mut all, w)?;
        *to.lock().expect("no panic") = Some(all);
        Ok(())
    });
    assert!(ran.is_err(), "no error, and a node has gathered {:?}", wrong.lock().expect("no panic"));
}

#[test]
fn x5_a_mismatch_says_in_what_they_differ() {
    let world = world(2);
    let ran = run(&world, |w| {
        let mut values = vec![1u64; if w.me() == 0 { 25 } else { 26 }];
        w.reduce_slice(Sum, &mut values)
    });
    let why = ran.expect_err("slices of 25 and 26 elements");
    let (first, second) = why.split_once(", node 1 in ").expect("both nodes");
    assert!(!first.ends_with(second), "both are in the same: {why}");
}

#[test]
fn x6_a_coarray_for_which_there_is_no_room_is_refused_at_once() {
    let refused = within(Duration::from_secs(5), || {
        let world = world(2);
        run(&world, |w| w.own([1 << 36, 1]).coarray::<u8>(w).map(drop))
    });
    let why = refused.expect("an answer within five seconds").expect_err("64 GiB");
    assert!(why.contains("no room"), "{why}");
}

#[test]
fn x7_a_slice_of_an_array_does_not_change_while_it_is_borrowed() {
    let world = world(2);
    let ran = run(&world, |w| {
        let line = w.nodes([w.size()])?.template([8]).distribute([Block])?;
        let (mut shared, mut a) = (line.shared::<u64>(w)?, line.zeros::<u64>(w)?);
        if w.me() == 0 {
            // Safe code: now `a` is what others write.
            core::mem::swap(shared.view_mut(w), &mut a);
        }
        w.barrier()?;
        let slice: &[u64] = a.local();
        let before = slice[0];
        w.barrier()?;
        if w.me() == 1 {
            shared.write(s![0..4], &[7; 4], w)?;
        }
        w.barrier()?;
        let after = std::hint::black_box(slice)[0];
        if before == after { Ok(()) } else { Err(Fault::msg(&format!("&[u64] was {before} and is {after}"))) }
    });
    assert_eq!(ran, Ok(()));
}

#[test]
fn x9_a_distribution_that_no_number_counts_is_refused() {
    let made = std::panic::catch_unwind(|| {
        let nodes = Nodes::new(NodeSet::of_world(64), 3, [64]).expect("64");
        let shape = nodes.template([-(1 << 56) + 1..(1 << 56) - 1]).distribute([CyclicOf(u64::MAX)]);
        shape.map(|shape| shape.align([on(0).range(0..10)]).share_of(0).len())
    });
    assert!(made.is_ok(), "it panics");
}

#[test]
fn x7_a_slice_does_not_change_behind_an_assignment_that_has_failed() {
    let world = world(4);
    let seen = Arc::new(Mutex::new(None));
    let to = seen.clone();
    let ran = run(&world, move |w| {
        let line = w.nodes([w.size()])?.template([16]).distribute([Block])?;
        let round = w.nodes([w.size()])?.template([16]).distribute([Cyclic])?;
        let (mut a, b) = (line.zeros::<u64>(w)?, round.full(7u64, w)?);
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
                a.gmove(&b, w)?;
            }
            2 => a.gmove(&b, w)?,
            _ => {
                let failed = a.gmove(&b, w);
                // What a program that reports its failure does.
                let slice: &[u64] = a.local();
                let before = slice.to_vec();
                wait(w, 1.0);
                let after = std::hint::black_box(slice).to_vec();
                *to.lock().expect("no panic") = Some((failed.is_err(), before, after));
                failed?;
            }
        }
        Ok(())
    });
    assert!(ran.is_err(), "they are in different collectives");
    let (has_failed, before, after) = seen.lock().expect("no panic").take().expect("node 0 came there");
    assert!(has_failed);
    assert_eq!(before, after, "a &[u64], before and after");
}

#[test]
fn x10_the_name_of_a_kept_array_may_be_any_bytes() {
    use hamr_comm::migrate::{Decoder, Encoder};
    let world = world(1);
    let kept = Arc::new(Mutex::new(None));
    let to = kept.clone();
    run(&world, move |w| {
        *to.lock().expect("no panic") = Some(w.own([1 << 14]).full(1.0f32, w)?.keep(w)?);
        Ok(())
    })
    .expect("kept");
    let mut bytes = [0; 16];
    kept.lock().expect("no panic").expect("kept").encode(&mut Encoder::new(&mut bytes));
    bytes[..8].copy_from_slice(&(u64::MAX - 63).to_le_bytes());
    let other = Kept::<f32, 1>::decode(&mut Decoder::new(&bytes)).ok().expect("bytes are one");
    let opened = run(&world, move |w| other.open(&w.own([1 << 14]), w).map(drop));
    let why = opened.expect_err("it is not there");
    assert!(why.contains("not kept here"), "{why}");
}
