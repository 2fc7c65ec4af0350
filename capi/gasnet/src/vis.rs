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
use std::cell::RefCell;
use std::ffi::c_void;

/// `GEX_VIS_MAX_PEERCOMPLETION`.
const MAX_NOTE: usize = 1024;

std::thread_local! {
    /// What the next put tells its target: a handler, and data.
    static NOTE: RefCell<Option<(u8, Vec<u8>)>> = const { RefCell::new(None) };
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
        if let Some((handler, data)) = NOTE.take() {
            request(self.function, self.tm, self.rank, handler, Payload::Medium(&data), 0, &NOTE_ARGS);
        }
    }
}

/// Pieces of equal length of two lists, as long as both last.
fn pair(
    target: impl Iterator<Item = (*mut u8, usize)>,
    source: impl Iterator<Item = (*mut u8, usize)>,
    mut copy: impl FnMut(*mut u8, *mut u8, usize),
) -> bool {
    let (mut target, mut source) = (target.filter(|(_, len)| *len > 0), source.filter(|(_, len)| *len > 0));
    let (mut to, mut from) = (target.next(), source.next());
    while let (Some((to_at, to_len)), Some((from_at, from_len))) = (to, from) {
        let len = to_len.min(from_len);
        copy(to_at, from_at, len);
        let rest = |at: *mut u8, all| (all > len).then(|| (at.wrapping_add(len), all - len));
        to = rest(to_at, to_len).or_else(|| target.next());
        from = rest(from_at, from_len).or_else(|| source.next());
    }
    to.is_none() && from.is_none()
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
    let pieces = |list: &'static [Memvec]| list.iter().map(|piece| (piece.addr.cast(), piece.len));
    if !pair(pieces(targets), pieces(sources), |to, from, len| transfer.copy(to, from, len)) {
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
    let pieces = |list: &'static [*mut c_void], len| list.iter().map(move |at| (at.cast(), len));
    let copy = |to, from, len| transfer.copy(to, from, len);
    if !pair(pieces(targets, target_len), pieces(sources, source_len), copy) {
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
    if element == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    let counts = unsafe { list(counts, levels) };
    if counts.contains(&0) {
        return;
    }
    // SAFETY: the caller's promise.
    let target_strides = unsafe { list(target_strides, levels) };
    // SAFETY: the caller's promise.
    let source_strides = unsafe { list(source_strides, levels) };
    // SAFETY: the caller's promise.
    let tm = unsafe { Team::of(tm) };
    let transfer = Transfer { function, tm, rank, is_put: is_put != 0 };
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
    NOTE.set((handler != 0).then(|| (handler, data.to_vec())));
}
