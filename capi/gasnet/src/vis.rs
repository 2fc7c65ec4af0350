//! Copies of lists and of strided runs, which are complete when they return.

#![expect(unsafe_code)]
// UNSAFETY: memory of C, and of segments, is copied.

use crate::die::die;
use crate::handlers::NOTE_ARGS;
use crate::job;
use crate::messages::{Payload, bytes, request};
use crate::segments::mapped;
use crate::team::Team;
use crate::teams::Memvec;
use hamr_gas::Pieces;
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::null_mut;

/// `GEX_VIS_MAX_PEERCOMPLETION`.
const MAX_NOTE: usize = 1024;

std::thread_local! {
    /// What the next put tells its target. It has no destructor: functions of `atexit` put, too.
    static NOTE: RefCell<Note> = const { RefCell::new(Note { handler: 0, len: 0, data: [0; MAX_NOTE] }) };
}

/// A handler, 0 for none, and its data.
struct Note {
    handler: u8,
    len: usize,
    data: [u8; MAX_NOTE],
}

/// The handler and data that were set, if any, which are used once.
fn take_note() -> Option<(u8, Vec<u8>)> {
    NOTE.with_borrow_mut(|note| match std::mem::take(&mut note.handler) {
        0 => None,
        handler => Some((handler, note.data.get(..note.len).unwrap_or_default().to_vec())),
    })
}

/// One side of a transfer is in a rank's segment.
struct Transfer<'a> {
    function: &'static str,
    tm: &'a Team,
    rank: u32,
    is_put: bool,
}

impl Transfer<'_> {
    /// Where bytes of the segment are here.
    fn remote(&self, address: usize, len: usize) -> *mut u8 {
        let of = mapped(self.tm.jobrank(self.function, self.rank));
        match of.offset(address, len) {
            Some(off) => of.local().wrapping_add(off as usize),
            None => die(&format!(
                "{}: expected bytes in the segment of rank {}, {:#x} to {:#x}, got {len} at {address:#x}",
                self.function,
                self.rank,
                of.owner(),
                of.owner() + of.size()
            )),
        }
    }

    /// Copies from `source` to `target`, of which one is the rank's.
    fn copy(&self, target: *mut u8, source: *mut u8, len: usize) {
        if len == 0 {
            return;
        }
        let (target, source) = match self.is_put {
            true => (self.remote(target.addr(), len), source),
            false => (target, self.remote(source.addr(), len)),
        };
        // SAFETY: the rank's side is in its segment, which was checked, and which stays mapped; the other is the
        // program's (contract of C). They may overlap.
        unsafe { std::ptr::copy(source, target, len) };
    }

    /// The target runs the handler that the program has set.
    fn end(self) {
        if !self.is_put {
            return;
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        // Without bytes nothing else has looked at the rank, which may be none.
        if let Some((handler, data)) = take_note().filter(|_| self.rank < self.tm.size()) {
            request(self.function, self.tm, self.rank, handler, Payload::Medium(&data), 0, &NOTE_ARGS);
        }
    }
}

/// Copies between two lists of pieces, by their numbers. False: one has more bytes.
fn pair(
    target: impl Fn(usize) -> Option<(*mut u8, usize)>,
    source: impl Fn(usize) -> Option<(*mut u8, usize)>,
    transfer: &Transfer<'_>,
) -> bool {
    let mut pieces = Pieces::new((0..).map_while(&target).map(|(_, len)| len as u64));
    for (from, all) in (0..).map_while(source) {
        let mut done = 0;
        while done < all {
            let Some((nth, at, len)) = pieces.take((all - done) as u64) else { return false };
            let to = target(nth).map_or(null_mut(), |(to, _)| to);
            transfer.copy(to.wrapping_add(at as usize), from.wrapping_add(done), len as usize);
            done += len as usize;
        }
    }
    pieces.take(1).is_none()
}

/// Copies between lists of pieces.
///
/// # Safety
/// A team, and lists of memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn hamr_gex_vis_vector(
    tm: *const Team,
    rank: u32,
    is_put: i32,
    target_count: usize,
    targets: *const Memvec,
    source_count: usize,
    sources: *const Memvec,
) {
    let function = if is_put != 0 { "gex_VIS_VectorPut" } else { "gex_VIS_VectorGet" };
    job::check(function);
    // SAFETY: the caller's promise.
    let tm = unsafe { Team::of(tm) };
    let transfer = Transfer { function, tm, rank, is_put: is_put != 0 };
    // SAFETY: the caller's promise.
    let targets = unsafe { list(targets, target_count) };
    // SAFETY: the caller's promise.
    let sources = unsafe { list(sources, source_count) };
    let piece = |list: &[Memvec], nth: usize| list.get(nth).map(|piece| (piece.addr.cast(), piece.len));
    if !pair(|nth| piece(targets, nth), |nth| piece(sources, nth), &transfer) {
        die(&format!("{function}: expected lists of equally many bytes"));
    }
    transfer.end();
}

/// Copies between lists of pieces of one length.
///
/// # Safety
/// A team, and lists of memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn hamr_gex_vis_indexed(
    tm: *const Team,
    rank: u32,
    is_put: i32,
    target_count: usize,
    targets: *const *mut c_void,
    target_len: usize,
    source_count: usize,
    sources: *const *mut c_void,
    source_len: usize,
) {
    let function = if is_put != 0 { "gex_VIS_IndexedPut" } else { "gex_VIS_IndexedGet" };
    job::check(function);
    // SAFETY: the caller's promise.
    let tm = unsafe { Team::of(tm) };
    let transfer = Transfer { function, tm, rank, is_put: is_put != 0 };
    // SAFETY: the caller's promise.
    let targets = unsafe { list(targets, target_count) };
    // SAFETY: the caller's promise.
    let sources = unsafe { list(sources, source_count) };
    let piece = |list: &[*mut c_void], len, nth: usize| list.get(nth).map(|at| (at.cast(), len));
    if !pair(|nth| piece(targets, target_len, nth), |nth| piece(sources, source_len, nth), &transfer) {
        die(&format!("{function}: expected lists of equally many bytes"));
    }
    transfer.end();
}

/// Copies runs of bytes at distances.
///
/// # Safety
/// A team; `levels` distances and counts; memory where they lead.
#[unsafe(no_mangle)]
unsafe extern "C" fn hamr_gex_vis_strided(
    tm: *const Team,
    rank: u32,
    is_put: i32,
    target: *mut c_void,
    target_strides: *const isize,
    source: *mut c_void,
    source_strides: *const isize,
    element: usize,
    counts: *const usize,
    levels: usize,
) {
    let function = if is_put != 0 { "gex_VIS_StridedPut" } else { "gex_VIS_StridedGet" };
    job::check(function);
    // SAFETY: the caller's promise: without bytes in an element all lists are ignored.
    let counts = unsafe { list(counts, if element == 0 { 0 } else { levels }) };
    if element == 0 || counts.contains(&0) {
        // The team and the rank may be none, too; one that is a rank is told.
        // SAFETY: a team, or NULL.
        match unsafe { tm.as_ref() } {
            Some(tm) => Transfer { function, tm, rank, is_put: is_put != 0 }.end(),
            None if is_put != 0 => drop(take_note()),
            None => {}
        }
        return;
    }
    // SAFETY: the caller's promise.
    let tm = unsafe { Team::of(tm) };
    let transfer = Transfer { function, tm, rank, is_put: is_put != 0 };
    // SAFETY: the caller's promise.
    let target_strides = unsafe { list(target_strides, levels) };
    // SAFETY: the caller's promise.
    let source_strides = unsafe { list(source_strides, levels) };
    let (target, source) = (target.cast::<u8>(), source.cast::<u8>());
    let mut at = vec![0; levels];
    loop {
        let offset = |strides: &[isize]| {
            let steps = at.iter().zip(strides).map(|(i, stride)| stride.wrapping_mul(*i as isize));
            steps.fold(0isize, isize::wrapping_add)
        };
        let (to, from) = (offset(target_strides), offset(source_strides));
        transfer.copy(target.wrapping_offset(to), source.wrapping_offset(from), element);
        // The next element: the first level is the fastest.
        let mut is_last = true;
        for (i, count) in at.iter_mut().zip(counts) {
            *i += 1;
            if *i < *count {
                is_last = false;
                break;
            }
            *i = 0;
        }
        if is_last {
            break;
        }
    }
    transfer.end();
}

/// A list of the program, for the time of the call.
///
/// # Safety
/// `count` values at `at`.
unsafe fn list<T>(at: *const T, count: usize) -> &'static [T] {
    match count {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(at, count) },
    }
}

/// The target of the next put runs a handler behind it; 0: it does not.
///
/// # Safety
/// `len` bytes at `source`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_VIS_SetPeerCompletionHandler(handler: u8, source: *const c_void, len: usize, _flags: u32) {
    if len > MAX_NOTE {
        die(&format!("gex_VIS_SetPeerCompletionHandler: expected at most {MAX_NOTE} bytes, got {len}"));
    }
    // SAFETY: the caller's promise.
    let data = unsafe { bytes(source, len) };
    NOTE.with_borrow_mut(|note| {
        note.handler = handler;
        // Without a handler there may be no data.
        if let Some(to) = note.data.get_mut(..len).filter(|_| handler != 0) {
            note.len = len;
            to.copy_from_slice(data);
        }
    });
}
