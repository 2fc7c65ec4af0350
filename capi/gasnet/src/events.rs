//! Tests and waits. Puts, gets and messages are complete when their calls return, so only collectives
//! have events, and the header answers for the others.

#![expect(unsafe_code)]
// UNSAFETY: events are pointers in C, and lists of them.

use crate::die::die;
use crate::operations::{self, Operation};
use crate::{job, progress};
use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::null_mut;

/// `gex_Event_t`.
type Event = *mut Operation;

std::thread_local! {
    /// In an access region.
    static REGION: Cell<bool> = const { Cell::new(false) };
}

/// Has it happened? Then it is gone.
///
/// # Safety
/// An event that was not synchronised.
unsafe fn test(function: &str, event: Event) -> bool {
    match event.addr() {
        0 => true,
        1 => die(&format!("{function}: expected an event, got GEX_EVENT_NO_OP")),
        // SAFETY: the caller's promise.
        _ => unsafe { operations::take_ended(event).is_some() },
    }
}

/// A handler may ask for what has happened, and wait for it: then nothing is waited for.
fn look(function: &str) {
    if !job::is_handler() {
        job::check(function);
        operations::step();
    }
}

fn wait(function: &str, mut ready: impl FnMut() -> bool) {
    if !job::is_handler() {
        job::check(function);
    }
    while !ready() {
        progress::poll_idle(function);
    }
}

/// 0 if the event has happened.
///
/// # Safety
/// An event that was not synchronised.
#[unsafe(no_mangle)]
unsafe extern "C" fn hamr_gex_event_test(event: Event) -> c_int {
    look("gex_Event_Test");
    // SAFETY: the caller's promise.
    let happened = unsafe { test("gex_Event_Test", event) };
    (!happened).into()
}

/// Returns when the event has happened.
///
/// # Safety
/// An event that was not synchronised.
#[unsafe(no_mangle)]
unsafe extern "C" fn hamr_gex_event_wait(event: Event) {
    // SAFETY: the caller's promise.
    wait("gex_Event_Wait", || unsafe { test("gex_Event_Wait", event) });
}

/// A list of the program.
///
/// # Safety
/// `count` events at `events`.
unsafe fn list<'a>(events: *mut Event, count: usize) -> &'a mut [Event] {
    match count {
        0 => &mut [],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts_mut(events, count) },
    }
}

/// Clears those that have happened. Returns how many have, and how many have not.
fn sweep(function: &str, events: &mut [Event]) -> (usize, usize) {
    let (mut happened, mut left) = (0, 0);
    for event in events.iter_mut().filter(|event| !event.is_null()) {
        // SAFETY: an event of the program's list (contract of C); it is cleared when it is gone.
        if unsafe { test(function, *event) } {
            *event = null_mut();
            happened += 1;
        } else {
            left += 1;
        }
    }
    (happened, left)
}

/// 0 if one has happened, or there are none.
///
/// # Safety
/// `count` events at `events`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_Event_TestSome(events: *mut Event, count: usize, _flags: u32) -> c_int {
    look("gex_Event_TestSome");
    // SAFETY: the caller's promise.
    let (happened, left) = sweep("gex_Event_TestSome", unsafe { list(events, count) });
    (happened == 0 && left != 0).into()
}

/// Returns when one has happened, or there are none.
///
/// # Safety
/// `count` events at `events`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_Event_WaitSome(events: *mut Event, count: usize, _flags: u32) {
    // SAFETY: the caller's promise.
    let events = unsafe { list(events, count) };
    wait("gex_Event_WaitSome", || {
        let (happened, left) = sweep("gex_Event_WaitSome", events);
        happened != 0 || left == 0
    });
}

/// 0 if all have happened.
///
/// # Safety
/// `count` events at `events`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_Event_TestAll(events: *mut Event, count: usize, _flags: u32) -> c_int {
    look("gex_Event_TestAll");
    // SAFETY: the caller's promise.
    let (_, left) = sweep("gex_Event_TestAll", unsafe { list(events, count) });
    (left != 0).into()
}

/// Returns when all have happened.
///
/// # Safety
/// `count` events at `events`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_Event_WaitAll(events: *mut Event, count: usize, _flags: u32) {
    // SAFETY: the caller's promise.
    let events = unsafe { list(events, count) };
    wait("gex_Event_WaitAll", || sweep("gex_Event_WaitAll", events).1 == 0);
}

#[unsafe(no_mangle)]
extern "C" fn gex_Event_QueryLeaf(_root: Event, _category: u32) -> Event {
    // Only puts have leaves, and they have happened.
    null_mut()
}
#[unsafe(no_mangle)]
extern "C" fn hamr_gex_nbi_test() -> c_int {
    look("gex_NBI_Test");
    0
}
#[unsafe(no_mangle)]
extern "C" fn gex_NBI_Wait(_mask: u32, _flags: u32) {
    if !job::is_handler() {
        progress::poll("gex_NBI_Wait");
    }
}
#[unsafe(no_mangle)]
extern "C" fn gex_NBI_BeginAccessRegion(_flags: u32) {
    job::check("gex_NBI_BeginAccessRegion");
    if REGION.replace(true) {
        die("gex_NBI_BeginAccessRegion: there is an access region already");
    }
}
#[unsafe(no_mangle)]
extern "C" fn gex_NBI_EndAccessRegion(_flags: u32) -> Event {
    job::check("gex_NBI_EndAccessRegion");
    if !REGION.replace(false) {
        die("gex_NBI_EndAccessRegion: there is no access region");
    }
    null_mut()
}
