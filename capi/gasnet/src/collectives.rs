//! Collectives, as programs begin them.

#![expect(unsafe_code)]
// UNSAFETY: operations read and write memory of C programs.

use crate::die::die;
use crate::memory::Bytes;
use crate::operations::{Operation, What, barrier, begin, take_ended};
use crate::progress::poll_idle;
use crate::reduce::{Function, Join, Reduce, USER, USER_NC, is_defined};
use crate::team::Team;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Waits for the end of an operation.
pub(crate) fn finish(function: &str, event: *mut Operation) -> What {
    loop {
        // SAFETY: it was begun for this call.
        if let Some(what) = unsafe { take_ended(event) } {
            return what;
        }
        poll_idle(function);
    }
}

/// Waits for all members of a team.
pub(crate) fn meet_in(function: &'static str, team: &'static Team) {
    finish(function, begin(function, team, barrier()));
}

/// A barrier of a team.
///
/// # Safety
/// A team.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_Coll_BarrierNB(tm: *const Team, _flags: u32) -> *mut Operation {
    // SAFETY: the caller's promise.
    let team = unsafe { Team::of(tm) };
    begin("gex_Coll_BarrierNB", team, barrier())
}

/// Copies from one member to all.
///
/// # Safety
/// A team; `len` bytes at `target` and, at the root, at `source`, until the event has happened.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_Coll_BroadcastNB(
    tm: *const Team,
    root: u32,
    target: *mut c_void,
    source: *const c_void,
    len: usize,
    _flags: u32,
) -> *mut Operation {
    const FUNCTION: &str = "gex_Coll_BroadcastNB";
    // SAFETY: the caller's promise.
    let team = unsafe { Team::of(tm) };
    team.jobrank(FUNCTION, root);
    let source = (root == team.rank()).then_some(Bytes { at: source.cast_mut().cast(), len });
    if len == 0 {
        return null_mut();
    }
    let target = Bytes { at: target.cast(), len };
    if target.at.is_null() || source.is_some_and(|source| source.at.is_null()) {
        die(&format!("{FUNCTION}: expected memory, got NULL"));
    }
    begin(FUNCTION, team, What::Broadcast { root, source, target })
}

/// What both calls have in common.
struct Arguments {
    function: &'static str,
    root: Option<u32>,
    target: Option<*mut c_void>,
    source: *const c_void,
    data_type: u32,
    element: usize,
    count: usize,
    op: u32,
    user: Option<Function>,
    cdata: *const c_void,
}

fn reduce(team: &'static Team, arguments: Arguments) -> *mut Operation {
    let Arguments { function, root, target, source, data_type, element, count, op, user, cdata } = arguments;
    let join = match (op, user) {
        (USER | USER_NC, Some(function)) => Join::User { function, cdata },
        (USER | USER_NC, None) => die(&format!("{function}: expected an operation of the program, got NULL")),
        _ if is_defined(data_type, op) => Join::BuiltIn { data_type, op },
        _ => die(&format!("{function}: operation {op:#x} of data type {data_type:#x} is not defined")),
    };
    let size = match data_type {
        0x01 | 0x02 | 0x10 => 4,
        0x04 | 0x08 | 0x20 => 8,
        0x40 => element,
        _ => die(&format!("{function}: expected a data type, got {data_type:#x}")),
    };
    let len = element.checked_mul(count).filter(|len| *len > 0 && size == element);
    let Some(len) = len else {
        die(&format!("{function}: expected some elements of {size} bytes, got {count} of {element}"))
    };
    if source.is_null() || target.is_some_and(|target| target.is_null()) {
        die(&format!("{function}: expected memory, got NULL"));
    }
    let source = Bytes { at: source.cast_mut().cast(), len };
    let target = target.map(|at| Bytes { at: at.cast(), len });
    let reduce = Reduce { join, data_type, op, element, root, source, target, parts: Vec::new() };
    begin(function, team, What::Reduce(Box::new(reduce)))
}

/// Joins the operands of all members at one.
///
/// # Safety
/// A team; `count` elements at `source` and, at the root, at `target`, until the event has happened.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_Coll_ReduceToOneNB(
    tm: *const Team,
    root: u32,
    target: *mut c_void,
    source: *const c_void,
    data_type: u32,
    element: usize,
    count: usize,
    op: u32,
    user: Option<Function>,
    cdata: *const c_void,
    _flags: u32,
) -> *mut Operation {
    let function = "gex_Coll_ReduceToOneNB";
    // SAFETY: the caller's promise.
    let team = unsafe { Team::of(tm) };
    team.jobrank(function, root);
    let (root, target) = (Some(root), (root == team.rank()).then_some(target));
    reduce(team, Arguments { function, root, target, source, data_type, element, count, op, user, cdata })
}

/// The same at all.
///
/// # Safety
/// As [`gex_Coll_ReduceToOneNB`], with memory at `target` everywhere.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_Coll_ReduceToAllNB(
    tm: *const Team,
    target: *mut c_void,
    source: *const c_void,
    data_type: u32,
    element: usize,
    count: usize,
    op: u32,
    user: Option<Function>,
    cdata: *const c_void,
    _flags: u32,
) -> *mut Operation {
    let function = "gex_Coll_ReduceToAllNB";
    // SAFETY: the caller's promise.
    let team = unsafe { Team::of(tm) };
    let (root, target) = (None, Some(target));
    reduce(team, Arguments { function, root, target, source, data_type, element, count, op, user, cdata })
}
