//! Names of arrays that earlier programs have kept.

use super::{run_once, world};
use hamr::World;
use hamr_comm::Fault;
use hamr_comm::migrate::{Decoder, Encoder};
use hamr_xacc::prelude::*;
use std::sync::{Arc, Mutex};

/// Whether nothing is opened by this name any more.
fn is_gone(opened: Result<(), String>) {
    let why = opened.expect_err("it is not kept any more");
    assert!(why.contains("not kept here"), "{why}");
}

#[test]
fn a_kept_array_that_was_freed_is_no_other_one() {
    let world = world(2);
    let kept = Arc::new(Mutex::new(Vec::new()));
    for value in [1.0f32, 2.0] {
        let to = kept.clone();
        run_once(&world, move |w| {
            let shape = w.nodes([w.size()])?.template([100]).distribute([Block])?;
            let a = shape.full(value, w)?.keep(w)?;
            if w.me() == 0 {
                to.lock().expect("no panic").push(a);
            }
            Ok(())
        })
        .expect("kept");
        if value == 1.0 {
            run_once(&world, |w| w.free_kept()).expect("freed");
        }
    }
    let first = kept.lock().expect("no panic")[0];
    let opened = run_once(&world, move |w| {
        let shape = w.nodes([w.size()])?.template([100]).distribute([Block])?;
        let a = first.open(&shape, w)?;
        let sum = each!([i] in a.here() => sum { a[[i]] });
        Err(Fault::msg(&format!("opened: it has {sum}")))
    });
    is_gone(opened);
}

#[test]
fn a_kept_array_has_the_type_that_it_was_kept_with() {
    let world = world(1);
    let (floats, ints) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
    let to = floats.clone();
    run_once(&world, move |w| {
        *to.lock().expect("no panic") = Some(w.own([64]).full(1.0f32, w)?.keep(w)?);
        Ok(())
    })
    .expect("kept");
    run_once(&world, |w| w.free_kept()).expect("freed");
    let to = ints.clone();
    run_once(&world, move |w| {
        *to.lock().expect("no panic") = Some(w.own([64]).full(7u32, w)?.keep(w)?);
        Ok(())
    })
    .expect("kept");
    let old = floats.lock().expect("no panic").expect("kept");
    let opened = run_once(&world, move |w| {
        let shape = w.own([64]);
        let a = old.open(&shape, w)?;
        Err(Fault::msg(&format!("opened: its first element is {}", a[[0]])))
    });
    is_gone(opened);
}

#[test]
fn the_name_of_a_kept_array_may_be_any_bytes() {
    let world = world(1);
    let kept = Arc::new(Mutex::new(None));
    let to = kept.clone();
    run_once(&world, move |w| {
        *to.lock().expect("no panic") = Some(w.own([1 << 14]).full(1.0f32, w)?.keep(w)?);
        Ok(())
    })
    .expect("kept");
    let mut bytes = [0; 16];
    kept.lock().expect("no panic").expect("kept").encode(&mut Encoder::new(&mut bytes));
    bytes[..8].copy_from_slice(&(u64::MAX - 63).to_le_bytes());
    let Ok(other) = Kept::<f32, 1>::decode(&mut Decoder::new(&bytes)) else { panic!("bytes are one") };
    let opened = run_once(&world, move |w| other.open(&w.own([1 << 14]), w).map(drop));
    is_gone(opened);
}

/// Keeps an array of 64 elements with this value on all nodes, with this name on each.
fn keep_on_all(world: &World, value: f32) -> Vec<Kept<f32, 1>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let to = kept.clone();
    run_once(world, move |w| {
        let name = w.own([64]).full(value, w)?.keep(w)?;
        to.lock().expect("no panic").push(name);
        Ok(())
    })
    .expect("kept");
    let kept = kept.lock().expect("no panic");
    kept.clone()
}

/// The first element of a kept array on node 0. The world goes on where nothing is opened.
fn open(world: &World, kept: Kept<f32, 1>) -> Result<f32, String> {
    let opened = Arc::new(Mutex::new(None));
    let to = opened.clone();
    run_once(world, move |w| {
        let first = kept.open(&w.own([64]), w).map(|a| a[[0]]).map_err(|why| why.text.to_string());
        if w.me() == 0 {
            *to.lock().expect("no panic") = Some(first);
        }
        Ok(())
    })?;
    opened.lock().expect("no panic").take().expect("node 0 came there")
}

#[test]
fn nodes_that_have_freed_what_they_kept_apart_keep_again() {
    for frees in [[1, 0], [0, 3]] {
        let world = world(2);
        let before = keep_on_all(&world, 1.0)[0];
        run_once(&world, move |w| (0..frees[w.me() as usize]).try_for_each(|_| w.free_kept())).expect("freed");
        for value in [2.0, 3.0] {
            let kept = keep_on_all(&world, value);
            assert_eq!(kept[0], kept[1], "the name is that of all nodes");
            assert_eq!(open(&world, kept[0]), Ok(value));
            is_gone(open(&world, before).map(drop));
        }
        run_once(&world, |w| w.free_kept()).expect("freed");
        let kept = keep_on_all(&world, 4.0)[0];
        assert_eq!(open(&world, kept), Ok(4.0));
    }
}

#[test]
fn a_kept_array_is_one_of_its_world() {
    let worlds = [world(2), world(2)];
    let [one, other] = worlds.each_ref().map(|world| keep_on_all(world, 1.0)[0]);
    assert_ne!(one, other);
    is_gone(open(&worlds[0], other).map(drop));
    assert_eq!(open(&worlds[0], one), Ok(1.0));
}
