//! What collectives do with values of any kind and length, on any number of nodes.

#![allow(clippy::single_range_in_vec_init, reason = "the range of one dimension")]

use super::{run_once, world};
use hamr_comm::Fault;
use hamr_xacc::prelude::*;
use std::sync::{Arc, Mutex};

/// The place of the first of the greatest elements of a loop, on so many nodes.
fn first_max(ranks: u32) -> Option<(u32, i64)> {
    let world = world(ranks);
    let found = Arc::new(Mutex::new(None));
    let to = found.clone();
    run_once(&world, move |w| {
        let line = w.nodes([w.size()])?.template([20]).distribute([Block])?;
        let a = line.zeros::<u32>(w)?;
        let here = each!([i] in line.on([7..12]) => firstmax { (a[[i]], i) });
        *to.lock().expect("no panic") = w.reduce(FirstMax, here)?;
        Ok(())
    })
    .expect("it runs");
    *found.lock().expect("no panic")
}

#[test]
fn the_place_of_a_maximum_is_the_same_on_any_number_of_nodes() {
    assert_eq!(first_max(1), Some((0, 7)));
    assert_eq!(first_max(4), Some((0, 7)), "nodes without iterations have no place");
}

/// The bits of the greatest element, on so many nodes.
fn max(ranks: u32) -> u64 {
    let world = world(ranks);
    let found = Arc::new(Mutex::new(0));
    let to = found.clone();
    run_once(&world, move |w| {
        let line = w.nodes([w.size()])?.template([16]).distribute([Block])?;
        let mut a = line.full(-1.0f64, w)?;
        each!([i] in line.on([1..2]) => a[[i]] = 0.0);
        each!([i] in line.on([8..9]) => a[[i]] = -0.0);
        let here = each!([i] in line.all() => max { a[[i]] });
        *to.lock().expect("no panic") = w.reduce(Max, here)?.to_bits();
        Ok(())
    })
    .expect("it runs");
    *found.lock().expect("no panic")
}

#[test]
fn a_maximum_has_the_same_bits_on_any_number_of_nodes() {
    assert_eq!(max(1), max(2), "0.0 and -0.0 are equal, and one of them is first");
}

#[test]
fn a_broadcast_is_of_any_value() {
    let world = world(3);
    let ran = run_once(&world, |w| {
        let mut value = (w.me() == 1).then_some(5.5f64);
        w.bcast(1, &mut value)?;
        if value == Some(5.5) { Ok(()) } else { Err(Fault::msg("another value")) }
    });
    assert_eq!(ran, Ok(()));
}

#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
enum Next {
    Stop,
    Refine { by: f64, times: i64 },
}

#[test]
fn a_broadcast_is_of_any_enum() {
    let world = world(2);
    let ran = run_once(&world, |w| {
        let mut step = if w.me() == 0 { Next::Refine { by: 0.5, times: 3 } } else { Next::Stop };
        w.bcast(0, &mut step)?;
        if step == (Next::Refine { by: 0.5, times: 3 }) { Ok(()) } else { Err(Fault::msg("another value")) }
    });
    assert_eq!(ran, Ok(()));
}

/// What each of some nodes gets, who have no value but for one.
fn all_get<V: PartialEq>(w: &mut Spmd<'_>, got: V, expected: V) -> Result<(), Fault> {
    let is_it = w.reduce(All, got == expected)?;
    if is_it { Ok(()) } else { Err(Fault::msg("another value")) }
}

#[test]
fn values_of_no_fixed_length_are_combined_and_sent() {
    let ran = run_once(&world(3), |w| {
        let me = w.me();
        // Each node has another length.
        let places = (me > 0).then_some(((me % 2) as f64, me));
        let got = w.reduce(FirstMax, places)?;
        all_get(w, got, Some((1.0, 1)))?;
        let got = w.reduce(LastMin, places)?;
        all_get(w, got, Some((0.0, 2)))?;
        let got = w.reduce(FirstMin, None::<(f64, i64)>)?;
        all_get(w, got, None)?;
        // Behind a longer one, of which bytes are left.
        for root in 0..3 {
            let mut nested = if me == root { Some(Some([7u64; 20])) } else { None };
            w.bcast(root, &mut nested)?;
            all_get(w, nested, Some(Some([7; 20])))?;
            let mut none = if me == root { None } else { Some([9u64; 24]) };
            w.bcast(root, &mut none)?;
            all_get(w, none, None)?;
            let mut pair = (me == root).then_some((Next::Refine { by: 0.25, times: me }, true));
            w.bcast(root, &mut pair)?;
            all_get(w, pair, Some((Next::Refine { by: 0.25, times: root }, true)))?;
        }
        Ok(())
    });
    assert_eq!(ran, Ok(()));
}

#[test]
fn nan_is_no_extreme_on_any_number_of_nodes() {
    for ranks in [1, 3] {
        let ran = run_once(&world(ranks), move |w| {
            let line = w.nodes([w.size()])?.template([9]).distribute([Block])?;
            let mut a = line.full(f64::NAN, w)?;
            let here = each!([i] in line.all() => lastmin { (a[[i]], i) });
            let none = w.reduce(LastMin, here)?;
            all_get(w, none.is_none(), true)?;
            each!([i] in line.on([7..8]) => a[[i]] = -2.0);
            let here = each!([i] in line.all() => lastmin { (a[[i]], i) });
            let found = w.reduce(LastMin, here)?;
            all_get(w, found, Some((-2.0, 7)))?;
            let pair = w.reduce(FirstMax, if w.me() == w.size() - 1 { (1.0, 1) } else { (f64::NAN, 0) })?;
            all_get(w, pair, (1.0, 1))
        });
        assert_eq!(ran, Ok(()), "{ranks} nodes");
    }
}

#[test]
fn zeros_have_an_order() {
    let ran = run_once(&world(2), |w| {
        for (mine, others) in [(0.0f32, -0.0), (-0.0, 0.0)] {
            let value = if w.me() == 0 { mine } else { others };
            let (most, least) = (w.reduce(Max, value)?, w.reduce(Min, f64::from(value))?);
            all_get(w, (most.to_bits(), least.to_bits()), (0.0f32.to_bits(), (-0.0f64).to_bits()))?;
        }
        Ok(())
    });
    assert_eq!(ran, Ok(()));
}
